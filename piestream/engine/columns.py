"""Columns and rows of frames, taken without a query of Polars where that is not needed.

Such a query costs more than all that loops do with a few rows, so that a pushed event is dear if it
takes several. Rows that come in order, one after another, need none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["flags", "joined", "kept", "nulls", "repeated", "taken", "values_at"]

#: A frame of more pieces is put together: each look at a column would have to do it.
_MOST_PIECES = 16


def taken(rows: pl.DataFrame, places: NDArray[np.int64]) -> pl.DataFrame:
    """The rows at these places.

    >>> taken(pl.DataFrame({"t": [1, 2]}), np.array([1, 0]))["t"].to_list()
    [2, 1]
    """
    if not len(places):
        return rows.clear()
    first, count = int(places[0]), len(places)
    if (places == np.arange(first, first + count)).all():
        return rows if count == len(rows) else rows.slice(first, count)
    return rows[places]


def kept(rows: pl.DataFrame, keep: NDArray[np.bool_]) -> pl.DataFrame:
    """The rows that stay.

    >>> kept(pl.DataFrame({"t": [1, 2]}), np.array([False, True]))["t"].to_list()
    [2]
    """
    if keep.all():
        return rows
    first, count = int(keep.argmax()), int(keep.sum())
    if keep[first : first + count].all():
        return rows.slice(first, count)
    return rows.filter(pl.Series(keep))


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of several frames, whose columns are the same, one after the other.

    >>> joined([pl.DataFrame({"t": [1]}), pl.DataFrame({"t": [2]})])["t"].to_list()
    [1, 2]
    """
    some = [frame for frame in frames if len(frame)] or frames[:1]
    found = some[0]
    for frame in some[1:]:
        found = found.vstack(frame)
    return found.rechunk() if found.n_chunks() > _MOST_PIECES else found


def values_at(column: pl.Series, places: NDArray[np.int64]) -> pl.Series:
    """The values at these places.

    >>> values_at(pl.Series([1, 2]), np.array([1, 1])).to_list()
    [2, 2]
    """
    if not len(places):
        return column.clear()
    first, count = int(places[0]), len(places)
    if (places == np.arange(first, first + count)).all():
        return column if count == len(column) else column.slice(first, count)
    return column[places]


def nulls(dtype: pl.DataType, count: int) -> pl.Series:
    """A column of NULL.

    >>> nulls(pl.Int64(), 2).to_list()
    [None, None]
    """
    return repeated(None, dtype, count)


def repeated(value: int | None, dtype: pl.DataType, count: int) -> pl.Series:
    """A column of one value.

    >>> repeated(7, pl.Int64(), 2).to_list()
    [7, 7]
    """
    return _single(value, dtype).new_from_index(0, count)


@lru_cache(maxsize=256)
def _single(value: int | None, dtype: pl.DataType) -> pl.Series:
    return pl.Series([value], dtype=dtype)


def flags(column: pl.Series) -> NDArray[np.bool_]:
    """Where a column of Booleans is true.

    >>> flags(pl.Series([True, None, False]))
    array([ True, False, False])
    """
    return (column.fill_null(False) if column.null_count() else column).to_numpy()
