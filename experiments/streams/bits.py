"""From a raw frame to a mask for every event, for methods that look at all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numba import njit

from experiments.peers.parts.derivers import apart_of, masks_of, ticks_of, truths_of
from experiments.peers.pattern import Ints, one_partition

__all__ = ["bits", "derived", "one_after_another"]


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
    return one_partition(*derived(frame, [pl.col(column) for column in columns], time))


def derived(
    frame: pl.DataFrame,
    predicates: Sequence[pl.Expr],
    time: str = "ts",
    *,
    tick: int = 1,
    key: str | None = None,
    window: int = 0,
) -> tuple[Ints, Ints]:
    """Times in ticks, and masks whose bit i is the truth of the i-th predicate.

    ``tick``: how many units of the time column are a tick. With a ``key``, the rows of each
    partition must be in order of time, and the partitions come one after another.

    >>> frame = pl.DataFrame({"ts": [1, 2], "v": [5, 9]})
    >>> derived(frame, [pl.col("v") > 4, pl.col("v") > 8])
    (array([1, 2]), array([1, 3]))
    """
    masks = masks_of(truths_of(frame, predicates), frame.height).astype(np.int64)
    times = ticks_of(frame[time], tick)
    if key is None:
        return times, masks
    return one_after_another(frame[key].cast(pl.Int64).to_numpy(), times, masks, window)


def one_after_another(keys: Ints, times: Ints, masks: Ints, window: int) -> tuple[Ints, Ints]:
    """The streams of many partitions as one stream, for methods that know no partitions.

    Each partition's stream, whose rows are in order of time, is moved behind the one before it by
    more than the window, and ends with a row of silence beyond its own window: no match spans two
    of them, and none is added. Keys are whole numbers from a small range.

    >>> one_after_another(np.array([1, 2, 1]), np.array([0, 0, 1]), np.array([1, 1, 2]), window=5)
    (array([ 0,  1,  7, 13, 19]), array([1, 2, 0, 1, 0]))
    """
    if not len(keys):
        return times, masks
    begin, apart = apart_of(times, 1, window)
    keys = keys - keys.min()
    found: tuple[Ints, Ints] = _grouped(keys, times, masks, apart, window, begin)
    return found


@njit(cache=True, nogil=True)
def _grouped(
    keys: Ints, times: Ints, masks: Ints, apart: int, window: int, begin: int
) -> tuple[Ints, Ints]:
    """Counting sort by key, with a row of silence behind each partition."""
    place = np.zeros(keys.max() + 1, dtype=np.int64)
    for key in keys:
        place[key] += 1
    shift = np.zeros(len(place), dtype=np.int64)
    rows = partitions = 0
    for key in range(len(place)):
        count = place[key]
        place[key] = rows
        shift[key] = partitions * apart - begin
        if count:
            rows += count + 1
            partitions += 1
    out_times = np.empty(rows, dtype=np.int64)
    out_masks = np.zeros(rows, dtype=np.int64)
    for row in range(len(keys)):
        key = keys[row]
        at = place[key]
        out_times[at] = times[row] + shift[key]
        out_masks[at] = masks[row]
        out_times[at + 1] = out_times[at] + window + 1  # until the next row of the partition comes
        place[key] += 1
    return out_times, out_masks
