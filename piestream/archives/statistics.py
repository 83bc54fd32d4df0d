"""What is kept of each page: Parquet's own statistics leave out what decides a predicate.

A page is a row group of a data file. Of each there is a row with the place and the number of its
rows, and of each column:

* ``min:x`` and ``max:x``, as predicates see the values: a NaN is missing, floats are of 64 bits, texts
  of any kind are texts. Long texts are cut off, the maximum upwards, so that both remain bounds.
* ``missing:x``: how many are NULL or NaN.
* ``sum:x``: of floats the exact sum as parts that do not overlap (`piestream.intervals.exact_sums`),
  of whole numbers two words, ``high * 2^32 + low``. NULL where it is not known.
* ``keys:x`` of the first key column: its values, where these are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from piestream.expressions.columns import column_named
from piestream.intervals.exact_sums import piece_sums

__all__ = [
    "FIRST", "HIGHEST", "KEYS", "LOWEST", "MISSING", "MOST_TEXT", "ROWS", "SUM", "as_seen",
    "has_exact_bounds", "has_sum", "page_statistics", "statistics_of_nothing", "sum_of",
    "whole_sum",
]  # fmt: skip

FIRST, ROWS = "first", "rows"
LOWEST, HIGHEST, MISSING, SUM, KEYS = "min:", "max:", "missing:", "sum:", "keys:"

#: Texts of so many characters are cut off there.
MOST_TEXT = 64
#: More values of a key in a page are not listed.
_MOST_KEYS = 1024
_HALF = 32
#: A series is named like this where Polars would take the name of a column for a pattern.
_ANY_NAME = "values"


def as_seen(name: str, dtype: pl.DataType) -> pl.Expr | None:
    """A column as predicates see its values; None where they cannot use it."""
    column = column_named(name)
    if dtype.is_float() or isinstance(dtype, pl.Decimal):
        return column.cast(pl.Float64).fill_nan(None)
    if dtype in (pl.Int128, pl.UInt128):
        return None
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    if dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Date):
        return column
    return column if isinstance(dtype, pl.Datetime) else None


def has_sum(dtype: pl.DataType) -> bool:
    """Whether the sum of a page's values is kept."""
    return dtype.is_float() or (dtype.is_integer() and dtype not in _WIDE)


_WIDE = (pl.Int128, pl.UInt128, pl.UInt64)


def has_exact_bounds(dtype: pl.DataType) -> bool:
    """Whether the least and the largest value of a page are values of the column, if not cut off."""
    return not isinstance(dtype, pl.Decimal | pl.Categorical | pl.Enum)


def page_statistics(frame: pl.DataFrame, page_rows: int, key: str | None) -> pl.DataFrame:
    """The statistics of the pages of a file, a row each. Its rows are in order of their keys."""
    pages = pl.int_range(pl.len(), dtype=pl.UInt32) // page_rows
    names = frame.columns
    numbered = frame.rename({name: f"c{i}" for i, name in enumerate(names)})
    wanted = [pl.len().cast(pl.Int64).alias(ROWS)]
    for i, name in enumerate(names):
        seen = as_seen(f"c{i}", frame.schema[name])
        shown = pl.col(f"c{i}") if seen is None else seen
        wanted.append(shown.null_count().cast(pl.Int64).alias(MISSING + name))
        if seen is not None:
            wanted += [seen.min().alias(LOWEST + name), seen.max().alias(HIGHEST + name)]
        if seen is not None and name == key:
            wanted.append(seen.unique(maintain_order=True).alias(KEYS + name))
    found = numbered.group_by(pages.alias("page"), maintain_order=True).agg(wanted).drop("page")
    first = pl.Series(FIRST, np.arange(len(found)) * page_rows, dtype=pl.Int64)
    starts = np.minimum(np.arange(len(found) + 1) * page_rows, len(frame))
    sums = [
        sum_of(frame[name], starts).alias(SUM + name)
        for name in names
        if has_sum(frame.schema[name])
    ]
    found = found.insert_column(0, first).hstack(sums)
    return _shortened(found, frame.schema, key)


def _shortened(
    found: pl.DataFrame, schema: Mapping[str, pl.DataType], key: str | None
) -> pl.DataFrame:
    """With long texts cut off, and without long lists of keys."""
    changed = []
    for name in schema:
        low = found.schema.get(LOWEST + name)
        if low == pl.String:
            changed.append(pl.col(LOWEST + name).str.slice(0, MOST_TEXT))
            most = [_above(text) for text in found[HIGHEST + name]]
            changed.append(pl.lit(pl.Series(HIGHEST + name, most, dtype=pl.String)))
    if key is not None and KEYS + key in found.columns:
        listed = pl.col(KEYS + key)
        changed.append(pl.when(listed.list.len() <= _MOST_KEYS).then(listed))
    return found.with_columns(changed)


def _above(text: str | None) -> str | None:
    """A text of bounded length that is not below this one; None where there is none."""
    if text is None or len(text) < MOST_TEXT:
        return text
    kept = text[:MOST_TEXT]
    if text == kept:
        return text
    following = ord(kept[-1]) + 1
    following = 0xE000 if 0xD800 <= following < 0xE000 else following
    return None if following > 0x10FFFF else kept[:-1] + chr(following)


def sum_of(column: pl.Series, starts: np.ndarray) -> pl.Series:
    """The exact sums of the parts of a column that lie between these places, as words or parts."""
    column = column.alias(_ANY_NAME)
    if column.dtype.is_float():
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        return pl.Series(piece_sums(values, starts), dtype=pl.List(pl.Float64))
    values = column.cast(pl.Int64).fill_null(0).to_numpy()
    if not len(values):
        return pl.Series([[0, 0]] * (len(starts) - 1), dtype=pl.List(pl.Int64))
    high = np.add.reduceat(values >> _HALF, starts[:-1])
    low = np.add.reduceat(values & ((1 << _HALF) - 1), starts[:-1])
    return pl.Series(np.column_stack((high, low)).tolist(), dtype=pl.List(pl.Int64))


def whole_sum(words: Sequence[int]) -> int:
    """The sum that `sum_of` gave for whole numbers, or several such sums one behind another."""
    return (sum(words[::2]) << _HALF) + sum(words[1::2])


def statistics_of_nothing(schema: pl.Schema, key: str | None) -> pl.DataFrame:
    """The statistics of no pages."""
    return page_statistics(pl.DataFrame(schema=schema), 1, key)
