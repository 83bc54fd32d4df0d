"""Rows by partition and time: grouping, sorting, and what is wrong with an order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.records import Array, Times, kernel
from piestream.engine.projection import TIME

Words = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of several partitions, those of one together and in the order they came."""

    rows: pl.DataFrame
    keys: pl.DataFrame  # of each partition, in order of first appearance
    offsets: Words  # where each partition's rows begin
    order: Words | None  # of the rows that came, None if they came so
    times: Words

    def in_time_order(self) -> Grouped:
        """Each partition's rows sorted by time; events of one time keep their order."""
        group = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        by_time = np.lexsort((self.times, group))
        order = by_time if self.order is None else self.order[by_time]
        return Grouped(self.rows, self.keys, self.offsets, order, self.times[by_time])

    def sorted_rows(self) -> pl.DataFrame:
        """The rows in order."""
        return self.rows if self.order is None else self.rows[self.order]


def group(rows: pl.DataFrame, keys: list[str]) -> Grouped:
    """Put the rows of each partition together."""
    times = rows[TIME].to_numpy()
    if not keys:
        return Grouped(rows, pl.DataFrame({"only": [0]}), np.array([0, len(rows)]), None, times)
    groups = (
        rows.select(keys)
        .with_row_index("row")
        .group_by(keys, maintain_order=True)
        .agg(pl.col("row"))
    )
    offsets = np.zeros(len(groups) + 1, np.int64)
    np.cumsum(groups["row"].list.len().to_numpy(), out=offsets[1:])
    if len(groups) <= 1:
        return Grouped(rows, groups.select(keys), offsets, None, times)
    order = groups["row"].explode().to_numpy().astype(np.int64)
    return Grouped(rows, groups.select(keys), offsets, order, times[order])


#: What can be wrong with an order; BACKWARDS is before the last event processed.
UNSORTED, TIED, BACKWARDS = 1, 2, 4


@kernel
def order_faults(times: Times, offsets: Array, processed: Array) -> int:
    """Which of UNSORTED, TIED and BACKWARDS occur; ``processed`` are the times of the last events."""
    faults = 0
    for g in range(offsets.size - 1):
        last = processed[g]
        for row in range(offsets[g], offsets[g + 1]):
            time = times[row]
            if time <= last:
                if time == last:
                    faults |= TIED
                else:
                    faults |= BACKWARDS if row == offsets[g] else UNSORTED
            last = time
    return faults


def first_backwards(times: Words, offsets: Words, processed: Words) -> int:
    """The first row of a partition that is before the last event processed."""
    firsts = offsets[:-1]
    return int(firsts[times[firsts] < processed][0])


def untied(times: Words, offsets: Words, processed: Words, keep_last: bool) -> Flags:
    """Which of the sorted rows stay when one of each time does; those processed came first."""
    again = np.zeros(len(times), np.bool_)
    again[1:] = times[1:] == times[:-1]
    again[offsets[:-1]] = False
    keep = ~again
    if keep_last:
        keep = np.ones(len(times), np.bool_)
        keep[:-1] = ~again[1:]
    return np.asarray(keep & (times != np.repeat(processed, np.diff(offsets))))


def kept_offsets(keep: Flags, offsets: Words) -> Words:
    """Where partitions begin once only the kept rows remain."""
    return np.concatenate(([0], np.cumsum(keep)))[offsets].astype(np.int64)
