"""The words of all partitions of a row pattern, as a table: a row a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import with_room
from piestream.copies import copied_but
from piestream.row_patterns.loops.records import Partition, Program

__all__ = ["THREAD_FIELDS", "RowPartitionTable", "forget_threads"]

Words = NDArray[np.int64]
_LAST_TIME = Partition.offset("last_time")
#: What says where threads with memory are, which are no part of a stored state.
THREAD_FIELDS = (
    "is_followed", "followed_until", "best_node", "best_end", "block", "block_words", "n_nodes",
    "n_kept_nodes", "n_following",
)  # fmt: skip


def forget_threads(rows: Words) -> None:
    """Let threads with memory be followed again from the heads of partitions, a row each."""
    for field in THREAD_FIELDS:
        Partition.column_of(rows, field)[:] = 0


class RowPartitionTable:
    """The words of partitions with dense numbers. There may be room for more of them in ``words``."""

    def __init__(self, program: Words) -> None:
        header = Program.over(program)
        self.count = 0
        #: Behind the threads: what orders the last event in its time, where a column does.
        self._sequence = Partition.offset("threads") + header.n_states
        self.width = self._sequence + header.is_sequenced
        self._blank = np.zeros(self.width, np.int64)
        Partition.over(self._blank, program=header).reset()
        self.words = np.zeros(0, np.int64)
        self._view = memoryview(self.words)  # type: ignore[arg-type]  # as Python integers

    def __deepcopy__(self, memo: dict[int, Any]) -> RowPartitionTable:
        words = with_room(self.words, self.count * self.width)
        view = memoryview(words)  # type: ignore[arg-type]
        return copied_but(self, memo, words=words, _view=view)

    def add(self, count: int) -> Words:
        """The numbers of so many new partitions, without any event yet."""
        first = self.count
        self.count += count
        if self.count * self.width > self.words.size:
            larger = np.zeros(2 * self.count * self.width, np.int64)
            larger[: self.words.size] = self.words
            self.words = larger
            self._view = memoryview(larger)  # type: ignore[arg-type]
        self.rows[first:] = self._blank
        return np.arange(first, self.count)

    @property
    def rows(self) -> Words:
        """The words, a row a partition: a view."""
        rows: Words = self.words[: self.count * self.width].reshape(-1, self.width)
        return rows

    def column(self, field: str) -> Words:
        """A field of all partitions: a view."""
        return Partition.column_of(self.rows, field)

    @property
    def last_sequences(self) -> Words:
        """What orders the last event of each partition in its time, where a column does: a view."""
        return self.rows[:, self._sequence]

    def last_time(self, number: int) -> int:
        """The time of the last event of a partition."""
        return self._view[number * self.width + _LAST_TIME]

    def last_sequence(self, number: int) -> int:
        """What orders the last event of a partition in its time."""
        return self._view[number * self.width + self._sequence]

    def note_sequence(self, number: int, sequence: int) -> None:
        """What orders the event that comes next, which is the last one then."""
        self._view[number * self.width + self._sequence] = sequence
