"""Values of columns as hashable Python values: those by which rows are told apart."""

from __future__ import annotations

from typing import Any

import polars as pl

__all__ = ["from_plain_values", "plain_values"]


def plain_values(column: pl.Series) -> list[Any]:
    """The values of a column as hashable ones, equal where the column's own are; of times all digits.

    >>> plain_values(pl.Series([[1], [2]]))
    [(1,), (2,)]
    """
    column = column.alias("")  # Polars takes some names of series for patterns
    dtype = column.dtype
    if dtype.is_float():
        return column.fill_nan(None).to_list()
    if dtype.is_temporal():
        return column.to_physical().to_list()
    if dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String).to_list()
    if dtype.is_nested():
        return [_frozen(value) for value in column.to_list()]
    return column.to_list()


def _frozen(value: Any) -> Any:
    """A nested value made of tuples."""
    if isinstance(value, dict):
        return tuple(_frozen(part) for part in value.values())
    if isinstance(value, list | pl.Series):
        return tuple(_frozen(part) for part in value)
    if isinstance(value, float) and value != value:
        return None  # a NaN is a missing value, also inside
    return value


def from_plain_values(values: list[Any], dtype: pl.DataType) -> pl.Series:
    """A column of a type, of what `plain_values` gave.

    >>> from_plain_values([1001], pl.Duration("ns")).to_physical().to_list()
    [1001]
    """
    if dtype.is_temporal():
        physical = pl.Int32 if dtype == pl.Date else pl.Int64
        return pl.Series(values, dtype=physical).cast(dtype)
    if dtype in (pl.Categorical, pl.Enum):
        return pl.Series(values, dtype=pl.String).cast(dtype)
    if isinstance(dtype, pl.Struct):
        named = [
            None if v is None else dict(zip((f.name for f in dtype.fields), v, strict=True))
            for v in values
        ]
        return pl.Series(named, dtype=dtype)
    return pl.Series(values, dtype=dtype)
