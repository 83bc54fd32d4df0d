"""The words of all partitions, as a table: a row a partition, a column a field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import with_room
from piestream.compiled.records import Record
from piestream.copies import copied_but

__all__ = ["PartitionWords"]

Words = NDArray[np.int64]


class PartitionWords(ABC):
    """The words of partitions with dense numbers, which are given away again after their release.

    ``words`` is the array that the loops work on; there may be room for more partitions in it. Each
    row begins with a ``record``, which has the ``last_time`` of its partition. At the place ``sequence``
    is what orders the last event in its time, where a column does.
    """

    def __init__(self, record: type[Record], width: int, sequence: int) -> None:
        self.count = 0
        self.width = width
        self.words = np.zeros(0, np.int64)
        self._record = record
        self._last_time = record.offset("last_time")
        self._sequence = sequence
        self._free: list[int] = []
        self._view = memoryview(self.words)  # type: ignore[arg-type]  # as Python integers

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        words = with_room(self.words, self.count * self.width)
        view = memoryview(words)  # type: ignore[arg-type]
        return copied_but(self, memo, words=words, _view=view)

    @abstractmethod
    def _reset(self, blank: Words) -> None:
        """Make words those of a partition before its first event."""

    @cached_property
    def _blank(self) -> Words:
        """A partition before its first event; an input that comes whole needs none."""
        blank = np.zeros(self.width, np.int64)
        self._reset(blank)
        return blank

    def add(self, count: int) -> Words:
        """The numbers of so many new partitions, without any event yet."""
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        first = self.count
        self.count += count - len(reused)
        if self.count * self.width > self.words.size:
            larger = np.zeros(2 * self.count * self.width, np.int64)
            larger[: self.words.size] = self.words
            self.words = larger
            self._view = memoryview(larger)  # type: ignore[arg-type]
        numbers = np.array([*reused, *range(first, self.count)], np.int64)
        self.rows[numbers] = self._blank
        return numbers

    def release(self, numbers: Words) -> None:
        """Give back partitions that hold nothing."""
        self.column("used")[numbers] = 0
        self._free.extend(int(number) for number in numbers)

    @property
    def rows(self) -> Words:
        """The words, a row a partition: a view."""
        rows: Words = self.words[: self.count * self.width].reshape(-1, self.width)
        return rows

    def column(self, field: str) -> Words:
        """A field of all partitions: a view."""
        return self._record.column_of(self.rows, field)

    @property
    def last_sequences(self) -> Words:
        """What orders the last event of each partition in its time: a view."""
        return self.rows[:, self._sequence]

    # -- one partition, for single events ---------------------------------------------------------

    def last_time(self, number: int) -> int:
        """The time of the last event of a partition."""
        return self._view[number * self.width + self._last_time]

    def last_sequence(self, number: int) -> int:
        """What orders the last event of a partition in its time."""
        return self._view[number * self.width + self._sequence]

    def note_sequence(self, number: int, sequence: int) -> None:
        """What orders the event that comes next, which is the last one then."""
        self._view[number * self.width + self._sequence] = sequence
