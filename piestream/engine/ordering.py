"""Rows by partition and time: grouping, sorting, and what is wrong with an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.records import Array, Times, kernel
from piestream.engine.columns import taken
from piestream.engine.plain_values import plain_values
from piestream.engine.projection import SEQUENCE, TIME

Words = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: So few rows are put together by Python: a query of Polars costs more than that.
_FEW_ROWS = 256


@dataclass(frozen=True, slots=True)
class Instants:
    """Times, and what orders events of one time, where a column does."""

    times: Words
    sequences: Words | None = None

    def __getitem__(self, rows: Words | Flags | slice) -> Instants:
        sequences = None if self.sequences is None else self.sequences[rows]
        return Instants(self.times[rows], sequences)

    def compared(self, others: Instants) -> Words:
        """-1, 0 or 1 as each comes before, with or after the other one."""
        order = _compared(self.times, others.times)
        if self.sequences is None or others.sequences is None:
            return order
        return np.where(order == 0, _compared(self.sequences, others.sequences), order)


def _compared(values: Words, others: Words) -> Words:
    return (values > others).astype(np.int64) - (values < others)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows of several partitions, those of one together and in the order they came."""

    rows: pl.DataFrame
    keys: pl.DataFrame  # of each partition, in order of first appearance
    offsets: Words  # where each partition's rows begin
    order: Words | None  # of the rows that came, None if they came so
    instants: Instants

    @property
    def times(self) -> Words:
        """The time of each row."""
        return self.instants.times

    def in_time_order(self) -> Grouped:
        """Each partition's rows sorted by instant; those of one instant keep their order."""
        group = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        sequences = self.instants.sequences
        least = () if sequences is None else (sequences,)
        by_time = np.lexsort((*least, self.times, group))
        order = by_time if self.order is None else self.order[by_time]
        return Grouped(self.rows, self.keys, self.offsets, order, self.instants[by_time])

    def sorted_rows(self) -> pl.DataFrame:
        """The rows in order."""
        return self.rows if self.order is None else self.rows[self.order]

    def since_before(self, processed: Instants) -> Words:
        """Whether each row comes before the one before it in its partition (-1), with it, or after it.

        The first one of a partition is compared with the last event that was processed.
        """
        if not len(self.times):
            return self.times
        some = self.offsets[:-1] < self.offsets[1:]
        firsts = self.offsets[:-1][some]
        found = np.ones(len(self.times), np.int64)
        found[1:] = self.instants[1:].compared(self.instants[:-1])
        found[firsts] = self.instants[firsts].compared(processed[some])
        return found


def group(rows: pl.DataFrame, keys: list[str]) -> Grouped:
    """Put the rows of each partition together."""
    sequences = rows[SEQUENCE].to_numpy() if SEQUENCE in rows.columns else None
    instants = Instants(rows[TIME].to_numpy(), sequences)
    if not keys:
        return Grouped(rows, pl.DataFrame({"only": [0]}), np.array([0, len(rows)]), None, instants)
    grouped = _few_groups if len(rows) <= _FEW_ROWS else _groups
    counts, order, distinct = grouped(rows, keys)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    if len(counts) <= 1:
        return Grouped(rows, distinct, offsets, None, instants)
    return Grouped(rows, distinct, offsets, order, instants[order])


def _groups(rows: pl.DataFrame, keys: list[str]) -> tuple[Words, Words, pl.DataFrame]:
    """How many rows each partition has, the rows by partition, and the partitions' keys."""
    groups = (
        rows.select(keys)
        .with_row_index("row")
        .group_by(keys, maintain_order=True)
        .agg(pl.col("row"))
    )
    counts = groups["row"].list.len().to_numpy()
    order = groups["row"].explode().to_numpy().astype(np.int64)
    return counts, order, groups.select(keys)


def _few_groups(rows: pl.DataFrame, keys: list[str]) -> tuple[Words, Words, pl.DataFrame]:
    """The same of a few rows, in a tenth of the time."""
    if len(rows) == 1:
        return np.ones(1, np.int64), np.zeros(1, np.int64), rows[keys]
    places: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(*(plain_values(rows[name]) for name in keys), strict=True)):
        places.setdefault(key, []).append(row)
    counts = np.array([len(some) for some in places.values()], np.int64)
    order = np.array([row for some in places.values() for row in some], np.int64)
    firsts = np.array([some[0] for some in places.values()], np.int64)
    return counts, order, taken(rows[keys], firsts)


#: What can be wrong with an order; BACKWARDS is before the last event processed.
UNSORTED, TIED, BACKWARDS = 1, 2, 4


def faults_of(grouped: Grouped, processed: Instants) -> int:
    """Which faults the order of rows has; ``processed`` are the instants of the last events."""
    if grouped.instants.sequences is None:
        return order_faults(grouped.times, grouped.offsets, processed.times)
    order = grouped.since_before(processed)
    faults = TIED if (order == 0).any() else 0
    backwards = np.flatnonzero(order < 0)
    firsts = np.isin(backwards, grouped.offsets)
    if firsts.any():
        faults |= BACKWARDS
    return faults if firsts.all() else faults | UNSORTED


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


def first_backwards(grouped: Grouped, processed: Instants) -> int:
    """The first row of a partition that is before the last event processed."""
    backwards = np.flatnonzero(grouped.since_before(processed) < 0)
    return int(backwards[np.isin(backwards, grouped.offsets)][0])


def untied(grouped: Grouped, processed: Instants, keep_last: bool) -> Flags:
    """Which of the sorted rows stay when one of each instant does; those processed came first."""
    again = grouped.since_before(processed) == 0
    if not keep_last:
        return np.asarray(~again)
    of_group = np.repeat(np.arange(len(grouped.offsets) - 1), np.diff(grouped.offsets))
    keep = grouped.instants.compared(processed[of_group]) != 0
    again[grouped.offsets[:-1][grouped.offsets[:-1] < len(again)]] = False
    keep[:-1] &= ~again[1:]
    return np.asarray(keep)


def kept_offsets(keep: Flags, offsets: Words) -> Words:
    """Where partitions begin once only the kept rows remain."""
    return np.concatenate(([0], np.cumsum(keep)))[offsets].astype(np.int64)
