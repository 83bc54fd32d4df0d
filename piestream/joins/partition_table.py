"""What is read of partitions outside the loops: of many as columns, of one where single events come."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import NONE
from piestream.compiled.partition_words import PartitionWords
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import Awaited, Bridges, Given, RingHeader, Sequence

Words = NDArray[np.int64]

_LAST_TIME, _MASK, _DUE, _RINGS = (
    Partition.offset(field) for field in ("last_time", "mask", "due", "rings")
)
_INTERRUPTED = Bridges.offset("interrupted")
_AWAITED_DUE = Awaited.offset("due")


class PartitionTable(PartitionWords):
    """The words of the partitions of a pattern: what the loops know of each."""

    def __init__(self, program: Words) -> None:
        header, self._program = Program.over(program), program
        last = header.sequence_at + Sequence.offset("last")
        super().__init__(Partition, header.partition_words, last)
        self._rings = header.n_symbols * RingHeader.size
        self._bridges = header.bridges_at
        self._awaited = header.absences_at
        self._given = header.given_at

    def _reset(self, blank: Words) -> None:
        Partition.over(blank, program=Program.over(self._program)).reset()

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
