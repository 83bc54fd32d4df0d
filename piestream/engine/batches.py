"""Rows on their way into the detector, as integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int64]
#: The partitions, where the rows of each begin, the times, the attributes and which are known.
BatchArrays = tuple[Words, Words, Words, Words, NDArray[np.uint8]]
#: The rows at which a predicate changes, the symbols' masks there, and where each partition's begin.
Changes = tuple[Words, Words, Words]


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
