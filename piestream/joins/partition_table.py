"""The words of all partitions, as a table: a row a partition, a column a field."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.arrays import with_room
from piestream.compiled.constants import NONE
from piestream.copies import copied_but
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import Awaited, Bridges, Given, RingHeader, Sequence

Words = NDArray[np.int64]

_LAST_TIME, _MASK, _DUE, _RINGS = (
    Partition.offset(field) for field in ("last_time", "mask", "due", "rings")
)
_INTERRUPTED = Bridges.offset("interrupted")
_AWAITED_DUE = Awaited.offset("due")


class PartitionTable:
    """The words of partitions with dense numbers, which are given away again after their release.

    ``words`` is the array that the loops work on; there may be room for more partitions in it.
    """

    def __init__(self, program: Words) -> None:
        header = Program.over(program)
        self.count = 0
        self.width = header.partition_words
        self._sequence = header.sequence_at + Sequence.offset("last")
        self._rings = header.n_symbols * RingHeader.size
        self._bridges = header.bridges_at
        self._awaited = header.absences_at
        self._given = header.given_at
        self._blank = np.zeros(self.width, np.int64)
        Partition.over(self._blank, program=header).reset()
        self._free: list[int] = []
        self.words = np.zeros(0, np.int64)
        self._view = memoryview(self.words)  # type: ignore[arg-type]  # as Python integers

    def __deepcopy__(self, memo: dict[int, Any]) -> PartitionTable:
        words = with_room(self.words, self.count * self.width)
        view = memoryview(words)  # type: ignore[arg-type]
        return copied_but(self, memo, words=words, _view=view)

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
        return Partition.column_of(self.rows, field)

    @property
    def last_sequences(self) -> Words:
        """What orders the last event of each partition in its time, where a column does: a view."""
        return self.rows[:, self._sequence]

    def ring_column(self, field: str) -> Words:
        """A field of the rings of all partitions, by partition and symbol: a view."""
        rings = self.rows[:, _RINGS : _RINGS + self._rings]
        return rings[:, RingHeader.offset(field) :: RingHeader.size]

    @property
    def has_deadlines(self) -> bool:
        """Whether time alone brings something to partitions, besides the end of a silence."""
        return self._bridges != NONE or self._awaited != NONE

    def deadlines(self, numbers: Words) -> Words:
        """When time brings something to these partitions, if there are such deadlines."""
        deadlines = (
            (self._bridges, Bridges.offset("due")),
            (self._awaited, Awaited.offset("due")),
        )
        due = [self.rows[numbers, at + word] for at, word in deadlines if at != NONE]
        earliest: Words = due[0] if len(due) == 1 else np.minimum(*due)
        return earliest

    def given_latest(self, numbers: Words) -> Words:
        """When the last match was given of each of these partitions, where not all matches are."""
        latest: Words = self.rows[numbers, self._given + Given.offset("latest")]
        return latest

    def held_before(self, numbers: Words) -> Words:
        """The symbols of these partitions (as bits) whose predicates held at the last event."""
        held = self.column("mask")[numbers]
        if self._bridges != NONE:
            held = held & ~self.rows[numbers, self._bridges + Bridges.offset("interrupted")]
        return held

    # -- one partition, for single events ---------------------------------------------------------

    def last_time(self, number: int) -> int:
        """The time of the last event of a partition."""
        return self._view[number * self.width + _LAST_TIME]

    def last_sequence(self, number: int) -> int:
        """What orders the last event of a partition in its time."""
        return self._view[number * self.width + self._sequence]

    def note_sequence(self, number: int, sequence: int) -> None:
        """What orders the event that comes next, which is the last one then."""
        self._view[number * self.width + self._sequence] = sequence

    def pass_over(self, number: int, time: int, mask: int) -> bool:
        """Note an event that changes no predicate, nor reaches a minimum length; False: it does."""
        view = self._view
        first = number * self.width
        if view[first + _MASK] != mask or view[first + _DUE] <= time:
            return False
        if self._bridges != NONE and view[first + self._bridges + _INTERRUPTED]:
            return False
        if self._awaited != NONE and view[first + self._awaited + _AWAITED_DUE] <= time:
            return False
        view[first + _LAST_TIME] = time
        return True
