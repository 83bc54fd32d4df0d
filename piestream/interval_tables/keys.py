"""Keys: rows of one table or of two that have equal values in some columns are a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

import numpy as np
import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.records import Array
from piestream.errors import SchemaError
from piestream.interval_tables.tables import Table, column_of

__all__ = ["GroupKeys", "Keys", "group_keys", "key_names", "key_rows"]

#: The keys of a join: a column of both frames, several, or the name in y by that in x.
Keys = Union[str, Sequence[str], Mapping[str, str], None]
#: The keys of one frame: a column or several.
GroupKeys = Union[str, Sequence[str], None]


def key_names(on: Keys) -> tuple[list[str], list[str]]:
    """The key columns of x, and those of y."""
    if on is None:
        return [], []
    if isinstance(on, str):
        return [on], [on]
    if isinstance(on, Mapping):
        return list(on.keys()), list(on.values())
    return list(on), list(on)


def key_rows(on: GroupKeys) -> list[str]:
    """The key columns of one frame."""
    return [] if on is None else [on] if isinstance(on, str) else list(on)


def group_keys(
    tables: Sequence[Table], names: Sequence[Sequence[str]], *, null_is_key: bool = False
) -> tuple[list[Array], int]:
    """The number of each row's group of equal keys, frame by frame, and how many numbers there are.

    Groups are numbered from 1. Rows in which a key is NULL or NaN have 0, unless that is a key like
    others; then groups are numbered in order of first appearance.
    """
    if not names[0]:
        return [np.ones(len(table.frame), np.int64) for table in tables], 2
    both = pl.DataFrame(
        pl.concat(_comparable(columns, names)).alias(str(place))
        for place, names in enumerate(zip(*names, strict=True))
        for columns in [
            [column_of(t.frame, key, t.name, "on") for t, key in zip(tables, names, strict=True)]
        ]
    )
    numbers = _group_numbers(both, null_is_key)
    cuts = np.cumsum([len(table.frame) for table in tables])
    parts: list[Array] = np.split(numbers, cuts[:-1])
    return parts, int(numbers.max(initial=0)) + 1


def _comparable(columns: list[pl.Series], names: tuple[str, ...]) -> list[pl.Series]:
    """Columns of keys with one type, and with what is missing as NULL."""
    columns = [
        column.cast(pl.String) if column.dtype in (pl.Categorical, pl.Enum) else column
        for column in columns
    ]
    dtypes = [column.dtype for column in columns]
    if any(dtype != dtypes[0] for dtype in dtypes):
        if all(dtype.is_integer() for dtype in dtypes):
            columns = [column.cast(pl.Int128) for column in columns]
        elif all(dtype.is_float() for dtype in dtypes):
            columns = [column.cast(pl.Float64) for column in columns]
        else:
            types = " and ".join(f"{d} ({n})" for n, d in zip(names, dtypes, strict=True))
            raise SchemaError(f"keys of types {types} cannot be compared: cast one of them")
    return [column.fill_nan(None) if column.dtype.is_float() else column for column in columns]


def _group_numbers(keys: pl.DataFrame, null_is_key: bool) -> Array:
    """The number of each row's group."""
    if not null_is_key and keys.width == 1 and keys.dtypes[0].is_integer():
        key = keys.to_series()
        lowest, highest = key.min(), key.max()
        if isinstance(lowest, int) and isinstance(highest, int) and _are_near(lowest, highest, key):
            numbers: Array = (key.cast(pl.Int64) - lowest + 1).fill_null(0).to_numpy()
            return numbers
    groups = keys.unique(maintain_order=True).with_row_index("number", offset=1)
    if len(groups) == 1 and (
        null_is_key or not any(groups.row(0)[i] is None for i in range(1, groups.width))
    ):
        return np.ones(len(keys), np.int64)
    if not null_is_key:
        groups = groups.drop_nulls()
    found = keys.join(groups, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    numbers = found["number"].fill_null(0).cast(pl.Int64).to_numpy()
    return numbers


def _are_near(lowest: int, highest: int, key: pl.Series) -> bool:
    """Whether 64-bit keys can number their groups themselves."""
    return highest - lowest < len(key) and lowest >= INT64_MIN and highest <= INT64_MAX
