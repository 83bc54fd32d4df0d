"""A partition: its words, with the program and the pool that they refer to."""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word
from piestream.compiled.records import Carried, Record, Rows, Words, method
from piestream.intervals.ticks import minus
from piestream.joins.orders import BY_START, Order
from piestream.joins.records import Constraint, Program
from piestream.joins.rings import Ring
from piestream.joins.scratch import EVENT_PLACES, Place
from piestream.joins.state_records import (
    MOST_EVENTS,
    NO_MATCH,
    Awaited,
    BridgedSlot,
    Bridges,
    Given,
    Held,
    Pair,
    Progress,
    RingHeader,
    RowsHeader,
    RowSlot,
    Sequence,
    Shifted,
    Slot,
)

_PAIR_WORDS = Pair.size
_ROOT_BY_START, _ROOT_BY_END, _PENDING = (
    RowsHeader.offset(field) for field in ("by_start", "by_end", "pending")
)

_GIVEN = Given.offset("count")
_AWAITED_DUE, _AWAITED_LATE, _AWAITED_CREDIT, _AWAITED_EXPIRED, _AWAITED_FIRST = (
    Awaited.offset(field) for field in ("due", "is_late", "credit", "has_expired", "first")
)
_INTERRUPTED, _BRIDGES_DUE, _PASSED = (
    Bridges.offset(field) for field in ("interrupted", "due", "passed")
)


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
    rings: Rows[
        RingHeader
    ]  # one a symbol, one a listed constraint, those of matches given and awaited

    program: Carried[Program]
    pool: Carried[Words]

    @method
    def ring(self, s: int) -> Ring:
        """The live intervals of a symbol."""
        return Ring(self.rings[s], self.pool, self.program.symbols[s].width)

    @method
    def is_valid(self, s: int, slot_id: int) -> bool:
        """Whether a run is valid; only the latest one of a symbol may not be."""
        return slot_id < self.rings[s].tail - 1 or self.valid >> s & 1 != 0

    @method
    def is_valid_of_any(self, s: int, slot_id: int) -> bool:
        """Whether an interval is valid that may have come as a row."""
        if self.program.rows >> s & 1:
            return RowSlot(self.ring(s).slot(slot_id)).held == Held.VALID
        return self.is_valid(s, slot_id)

    @method
    def pairs(self, constraint: Constraint) -> Ring:
        """The pairs of a listed constraint."""
        return Ring(self.rings[constraint.listed], self.pool, _PAIR_WORDS)

    @method
    def rows_of(self, s: int) -> RowsHeader:
        """The header of a symbol whose intervals come as rows."""
        return RowsHeader(at_word(self, self.program.symbols[s].rows))

    @method
    def order(self, s: int, by: int) -> Order:
        """The intervals of such a symbol in one of their orders."""
        symbol = self.program.symbols[s]
        root = at_word(self, symbol.rows + by)
        keeps_best = self.program.in_ranges >> s & 1 != 0
        return Order(root, self.ring(s), by, self.program.start_instant, keeps_best, symbol)

    @method
    def row_number(self, s: int, slot_id: int) -> int:
        """The number of an interval's row; 0 if it is a run."""
        if self.program.rows >> s & 1:
            return RowSlot(self.ring(s).slot(slot_id)).number
        return 0

    @method
    def progress(self) -> Progress:
        """Up to which time pending distances have been judged."""
        return Progress(at_word(self, self.program.progress_at))

    @method
    def shown_end(self, s: int, slot: Slot) -> int:
        """The end of an interval as results show it: of what is closed, before where it lies."""
        closed = self.progress().closed
        if closed == NO_MATCH or slot.end == OPEN or slot.end <= closed:
            return slot.end
        if self.program.rows >> s & 1 and RowSlot(slot).announced:
            return slot.end
        return slot.end - 1

    @method
    def instant_of(self, event: int, place: int) -> int:
        """The instant of the event of this number, or of what comes before it (`Place`).

        So where instants are numbers (`Program.is_sequenced`), and no intervals come as rows.
        """
        return EVENT_PLACES * event + place

    @method
    def sequence(self) -> Sequence:
        """What is kept where instants are numbers."""
        return Sequence(at_word(self, self.program.sequence_at))

    @method
    def may_be_joined(self) -> bool:
        """Whether others of the time that is worked on may still come, where several events have one."""
        return self.program.is_sequenced != 0 and not self.sequence().is_over

    @method
    def shifted(self) -> Shifted:
        """What is kept where instants are numbered by their times."""
        return Shifted(at_word(self, self.program.shifted_at))

    @method
    def last_instant(self) -> int:
        """The instant of the last event, where instants are numbers."""
        if self.program.shifted_at != NONE:
            return self.shifted().last
        return self.instant_of(self.events - 1, Place.EVENT)

    @method
    def given(self) -> Given:
        """What is known of the matches given, where not all are."""
        return Given(at_word(self, self.program.given_at))

    @method
    def given_matches(self) -> Ring:
        """The matches given, as ONCE PER tells them apart."""
        return Ring(self.rings[self.program.given_ring], self.pool, self.program.given_width)

    @method
    def awaited(self) -> Awaited:
        """What is known of matches of which an absence is not decided, where there are any."""
        return Awaited(at_word(self, self.program.absences_at))

    @method
    def awaited_matches(self) -> Ring:
        """The matches of which an absence is not decided yet (awaited.py)."""
        ring = self.rings[self.program.awaited_ring]
        return Ring(ring, self.pool, self.program.awaited_width)

    @method
    def awaited_heap(self) -> Ring:
        """The numbers of these matches, the first due on top."""
        return Ring(self.rings[self.program.awaited_ring + 1], self.pool, 1)

    @method
    def next_instant(self) -> int:
        """When time alone brings something, besides the end of a silence."""
        due = INT64_MAX
        if self.program.bridged:
            due = self.bridges().due
        if self.program.absences_at != NONE:
            due = min(due, self.awaited().due)
        return due

    @method
    def next_is_late(self) -> int:
        """1 if it does so when all events of that time are over, where several have one."""
        program = self.program
        if not program.is_sequenced:
            return 0
        if program.absences_at == NONE:
            return 1
        if program.bridged and self.bridges().due < self.awaited().due:
            return 1
        return self.awaited().is_late

    @method
    def bridges(self) -> Bridges:
        """What is known of symbols with BRIDGING, where there are any."""
        return Bridges(at_word(self, self.program.bridges_at))

    @method
    def floor_at(self, time: int) -> int:
        """The floor of what is reported at a time: see `Symbol.expiry`.

        What is closed is reported with the last event, though time may have passed since.
        """
        if self.program.bridged:
            time = max(time, self.bridges().passed)
        return minus(time, self.program.shortest)

    @method
    def end_so_far(self, s: int, slot_id: int) -> int:
        """Where a run ends if no other is bridged to it; OPEN if its predicate holds."""
        slot = self.ring(s).slot(slot_id)
        if slot.end == OPEN and self.program.bridged >> s & 1:
            return BridgedSlot(slot).since_instant
        return slot[self.program.end_instant]

    @method
    def latest_end_before(self, s: int, start: int) -> int:
        """The last end of the symbol's intervals that began before; OPEN if one has not ended.

        Both are instants.
        """
        symbol = self.program.symbols[s]
        latest = self[symbol.gone_until]
        if self.program.rows >> s & 1:
            return max(latest, self.order(s, BY_START).highest_before(start))
        ring = self.ring(s)
        slot_id = ring.tail - 1
        while slot_id >= max(0, ring.tail - ring.capacity):
            slot = ring.slot(slot_id)
            if slot[self.program.start_instant] == slot[self.program.end_instant]:
                return latest  # what was there has been forgotten, with the whole ring
            if slot[self.program.start_instant] < start:
                return max(latest, self.end_so_far(s, slot_id))
            if symbol.ended_before != NONE:  # others may be forgotten, or have been since
                latest = slot[symbol.ended_before]
            slot_id -= 1
        return latest

    @method
    def note_gaps(self, s: int, slot: Slot, start: int) -> None:
        """Note in an interval of a symbol where the gaps before it begin, which a NOT group asks for."""
        symbol = self.program.symbols[s]
        for number in range(symbol.gap, symbol.gap_end):
            gap = self.program.gaps[number]
            latest = self.latest_end_before(gap.other, start)
            slot[gap.word] = max(latest, self.latest_end_before(s, start))

    @method
    def await_nothing(self) -> None:
        """Let no match be awaited: the lists of those are empty."""
        self[self.program.absences_at + _AWAITED_DUE] = INT64_MAX
        self[self.program.absences_at + _AWAITED_LATE] = 0
        self[self.program.absences_at + _AWAITED_CREDIT] = 0
        self[self.program.absences_at + _AWAITED_EXPIRED] = 0
        n_lists = self.program.n_symbols * (2 if self.program.begin_deciding else 1)
        for which in range(n_lists):
            self[self.program.absences_at + _AWAITED_FIRST + which] = NONE

    @method
    def reset(self) -> None:
        """Make these words a partition without any event."""
        for word in range(self.program.ended_bounds_at):
            self[word] = 0
        for word in range(self.program.ended_bounds_at, self.program.partition_words):
            self[word] = NO_MATCH
        for s in range(self.program.n_symbols):
            rows = self.program.symbols[s].rows
            if rows != NONE:
                self[rows + _ROOT_BY_START] = NONE
                self[rows + _ROOT_BY_END] = NONE
                self[rows + _PENDING] = 0
        if self.program.given_at != NONE:
            self[self.program.given_at + _GIVEN] = 0
        if self.program.bridges_at != NONE:
            self[self.program.bridges_at + _INTERRUPTED] = 0
            self[self.program.bridges_at + _BRIDGES_DUE] = INT64_MAX
            self[self.program.bridges_at + _PASSED] = INT64_MIN
        if self.program.absences_at != NONE:
            self.await_nothing()
        self.used = 1
        self.due = INT64_MAX
        self.due_event = MOST_EVENTS
        for number in range(self.program.n_counters):
            self[self.program.counters[number].due] = MOST_EVENTS
        self.last_time = INT64_MIN
