"""Rows on their way into the detector, as integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
#: The partitions, where the rows of each begin, the times, the attributes and which are known.
BatchArrays = tuple[Words, Words, Words, Words, NDArray[np.uint8]]
#: The rows at which a predicate changes, the symbols' masks there, and where each partition's begin.
Changes = tuple[Words, Words, Words]


@dataclass(frozen=True, slots=True)
class IntervalRows:
    """Rows by which intervals become known, those of a partition together and in order of time.

    ``offsets`` says where the rows of each partition of the batch begin, and ``instants`` when each
    row is known: a row whose end is OPEN, or still to come, at its start; all others at their end.
    Each is the time of an event of the partition, and all rows of one instant are in one batch. An
    interval that came at its start comes again at its end, with the same number; no other has it.
    ``symbols`` are those that take it, a bit each; ``columns`` and ``known`` are its attributes.
    """

    offsets: Words
    instants: Words
    starts: Words
    ends: Words
    symbols: Words
    numbers: Words
    columns: Words
    known: NDArray[np.uint8]
    events: Words | None = None  # that each row is known at, by number; found by time if None
    #: When they are known, start and end as the loops compare them: the times, unless these do not tell
    #: events apart.
    compared: tuple[Words, Words, Words] | None = None

    def packed(self, first: int = 0, end: int | None = None) -> Words:
        """What the loops take, of the partitions from one to another."""
        offsets = self.offsets[first : None if end is None else end + 1]
        begin, behind = int(offsets[0]), int(offsets[-1])
        times = self.instants, self.starts, self.ends
        fields = (*times, self.symbols, self.numbers, *(self.compared or times))
        rows = np.stack([field[begin:behind] for field in fields], axis=1)
        head = np.array([begin], np.int64)
        return np.concatenate([head, offsets - begin, rows.reshape(-1)])


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of several partitions, those of a partition together and in order of time.

    ``bits[p]`` are the bits of distinct predicate p, ``columns`` the attributes that RETURN
    aggregates, as words, and ``known`` where they have a value.
    """

    partitions: Words
    row_offsets: Words
    times: Words
    bits: NDArray[np.uint64]
    columns: Words
    known: NDArray[np.uint8]
    intervals: IntervalRows | None = None

    @classmethod
    def without_rows(cls, partitions: Words) -> Batch:
        """No rows of these partitions: only time goes on in them."""
        return cls(
            partitions,
            np.zeros(partitions.size + 1, np.int64),
            np.zeros(0, np.int64),
            np.zeros((0, 0), np.uint64),
            np.zeros((0, 0), np.int64),
            np.zeros((0, 0), np.uint8),
        )

    def arrays(self, first: int = 0, end: int | None = None) -> BatchArrays:
        """What the loops take, of the partitions from one to another."""
        end = len(self.partitions) if end is None else end
        return (
            self.partitions[first:end],
            self.row_offsets[first : end + 1],
            self.times,
            self.columns,
            self.known,
        )

    def changes_with_intervals(
        self, changes: Changes, first: int = 0, end: int | None = None
    ) -> Changes:
        """The changes of the partitions from one to another, and behind them their intervals."""
        rows, masks, offsets = changes
        offsets = offsets[first : None if end is None else end + 1]
        if self.intervals is not None:
            offsets = np.concatenate([offsets, self.intervals.packed(first, end)])
        return rows, masks, offsets

    def with_intervals(self) -> Batch:
        """The same, where the columns of events go on with those of intervals.

        And where two bits are added: one that never holds, that of symbols whose intervals come as
        rows; and one of no symbol, which changes at each event at which a row of them is known.
        """
        if self.intervals is None or not len(self.times):
            return self
        rows = self._rows_of_instants(self.intervals)
        flips = np.zeros(len(self.times), np.uint8)
        flips[rows] = 1
        turning = np.packbits(np.cumsum(flips) & 1 != 0, bitorder="little")
        words = np.zeros((2, (len(self.times) + 63) // 64), np.uint64)
        words[1].view(np.uint8)[: turning.size] = turning
        return replace(
            self,
            bits=np.concatenate([self.bits.reshape(-1, words.shape[1]), words]),
            columns=np.concatenate([self.columns, self.intervals.columns], axis=1),
            known=np.concatenate([self.known, self.intervals.known], axis=1),
        )

    def _rows_of_instants(self, intervals: IntervalRows) -> Words:
        """The events at whose times intervals become known."""
        if intervals.events is not None:
            found = intervals.events
            assert (self.times[found] == intervals.instants).all(), "an instant is that of no event"
            return found
        rows = []
        edges = zip(pairwise(self.row_offsets), pairwise(intervals.offsets), strict=True)
        for (first, end), (first_known, end_known) in edges:
            instants = intervals.instants[first_known:end_known]
            found = first + np.searchsorted(self.times[first:end], instants)
            assert (found < end).all(), "an instant is that of no event"
            assert (self.times[found] == instants).all(), "an instant is that of no event"
            rows.append(found)
        return np.concatenate(rows) if rows else np.zeros(0, np.int64)

    def shares(self, count: int) -> list[int]:
        """Where to cut the partitions into at most so many shares of about as many rows."""
        n_partitions = len(self.row_offsets) - 1
        rows_before = np.arange(1, count) * (int(self.row_offsets[-1]) // max(count, 1))
        cuts = np.searchsorted(self.row_offsets, rows_before)
        return sorted({0, n_partitions, *(int(cut) for cut in cuts if 0 < cut < n_partitions)})


class SingleEventBatch:
    """The arrays of a batch of one row, which are used for one event after another."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self._partitions = np.zeros(1, np.int64)
        self._times = np.zeros(1, np.int64)
        self._mask = np.zeros(1, np.int64)
        self._columns = np.zeros((n_columns, 1), np.int64)
        self._floats = self._columns.view(np.float64)
        self._known = np.zeros((n_columns, 1), np.uint8)
        offsets = np.array([0, 1], np.int64)
        self.arrays = (self._partitions, offsets, self._times, self._columns, self._known)
        self.changes: Changes = (np.zeros(1, np.int64), self._mask, offsets)

    def __deepcopy__(self, memo: object) -> SingleEventBatch:
        return SingleEventBatch(self.n_columns)  # between two events nothing is kept in it

    @property
    def partitions(self) -> Words:
        """The partition of the event."""
        return self._partitions

    def fill(
        self, partition: int, time: int, mask: int, values: Sequence[Any], is_float: Sequence[bool]
    ) -> None:
        """Put an event in. A value that is None or NaN is missing."""
        self._partitions[0] = partition
        self._times[0] = time
        self._mask[0] = mask
        for number, value in enumerate(values):
            known = value is not None and value == value
            self._known[number, 0] = known
            self._columns[number, 0] = 0
            if known:
                (self._floats if is_float[number] else self._columns)[number, 0] = value
