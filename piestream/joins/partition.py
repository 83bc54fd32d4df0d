"""A partition: its words, with the program and the pool that they refer to."""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.records import Carried, Record, Rows, Words, method
from piestream.joins.records import MOST_EVENTS, NO_MATCH, Program, RingHeader
from piestream.joins.rings import Ring


class Partition(Record):
    """A partition. Behind its rings lie the states of its automata and the ended bounds."""

    last_time: int  # time of the last event
    mask: int  # which predicates held at it
    valid: int  # bit s: the latest interval of symbol s is valid (SPEC 4)
    dropped: int  # bit s: the latest run of s violated its duration and is not there
    previous_dropped: int  # bit s: the same of the run before it
    due: int  # earliest time at which an open interval reaches its minimum duration
    events: int  # how many there were, where the program counts them
    due_event: int  # the first of them at which an open interval has its minimum of events
    used: int  # 1 while the words belong to a partition
    waiting: int  # matches that have triggered and not completed
    rings: Rows[RingHeader]  # one a symbol

    program: Carried[Program]
    pool: Carried[Words]

    @method
    def ring(self, s: int) -> Ring:
        """The live intervals of a symbol."""
        return Ring(self.rings[s], self.pool, self.program.symbols[s].width)

    @method
    def is_valid(self, s: int, slot_id: int) -> bool:
        """Whether an interval is valid; only the latest one of a symbol may not be."""
        return slot_id < self.rings[s].tail - 1 or self.valid >> s & 1 != 0

    @method
    def reset(self) -> None:
        """Make these words a partition without any event."""
        for word in range(self.program.ended_bounds_at):
            self[word] = 0
        for word in range(self.program.ended_bounds_at, self.program.partition_words):
            self[word] = NO_MATCH
        self.used = 1
        self.due = INT64_MAX
        self.due_event = MOST_EVENTS
        self.last_time = INT64_MIN
