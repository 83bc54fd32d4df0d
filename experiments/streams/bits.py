"""From a frame of booleans to what the baselines read: times and masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from experiments.baselines.pattern import MOST_SYMBOLS, Ints, one_partition

__all__ = ["bits"]


def bits(
    frame: pl.DataFrame, columns: Sequence[str] | None = None, time: str = "ts"
) -> tuple[Ints, Ints]:
    """Times, and masks whose bit i is the truth of the i-th column (by default all but time).

    >>> frame = pl.DataFrame({"ts": [1, 2], "a": [True, False], "b": [True, True]})
    >>> bits(frame)
    (array([1, 2]), array([3, 2]))
    """
    if columns is None:
        columns = [column for column in frame.columns if column != time]
    if len(columns) > MOST_SYMBOLS:
        raise ValueError(f"{len(columns)} columns; a mask holds {MOST_SYMBOLS}")
    masks = np.zeros(frame.height, dtype=np.int64)
    for bit, column in enumerate(columns):
        # Null is false, as a predicate that is NULL is.
        masks |= frame[column].cast(pl.Int64).fill_null(0).to_numpy() << bit
    # Dates and datetimes become their counts of ticks.
    times = frame[time].to_physical().cast(pl.Int64).to_numpy()
    return one_partition(times, masks)
