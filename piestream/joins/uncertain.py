"""Which pairs are decided if an endpoint becomes known only after its time has passed.

An interval of a symbol with BRIDGING whose predicate ceases to hold has ended then, or goes on and
ends later than now: it has two *outlooks*, until a run follows or it is too late for one. A pair is
decided at the first instant at which it is allowed in all outlooks of its intervals. That can only be
one at which something becomes known of one of them: it begins, goes on, or has ended.

So a pair may be one of before and after though neither interval began when the other was known to
have ended. Such pairs are kept in the list of the constraint; the others lie in ranges (`is_apart`).
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.records import Carried, Record, kernel, method
from piestream.intervals.ticks import minus, plus
from piestream.joins.boxes import box_in, least_start
from piestream.joins.listed import add_pair, is_held
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.partners import finder_of, relations_now
from piestream.joins.records import Constraint
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, BridgedSlot, RowSlot, Slot
from piestream.relations import Relation

_BEFORE, _AFTER = int(Relation.BEFORE), int(Relation.AFTER)
_FOLLOWED_BY, _FOLLOWS = int(Relation.FOLLOWED_BY), int(Relation.FOLLOWS)


@kernel
def known_since(partition: Partition, s: int, slot: Slot) -> int:
    """From when on it is known that an interval began."""
    word = partition.program.symbols[s].known
    return slot.start if word == NONE else slot[word]


@kernel
def end_known_since(partition: Partition, s: int, slot: Slot) -> int:
    """From when on it is known where an interval ended; of rows, when that was."""
    bridging = partition.program.symbols[s].bridging
    return slot.end if bridging == NONE else plus(slot.end, bridging)


@kernel
def is_apart(partition: Partition, s: int, slot: Slot, later: int, later_slot: Slot) -> bool:
    """Whether an interval had ended, and was known to have, when one of another symbol began."""
    program = partition.program
    if slot[program.end_instant] >= later_slot[program.start_instant]:
        return False
    if not program.bridged:
        return True
    since = end_known_since(partition, s, slot)
    if program.symbols[s].bridging != NONE:  # with the last event of a time
        since = plus(since, program.is_sequenced)
    return since <= known_since(partition, later, later_slot)


@kernel
def last_run_apart(partition: Partition, s: int, later: int, later_slot: Slot) -> int:
    """The last run that lies apart from an interval of another symbol, before it."""
    program = partition.program
    ring = partition.ring(s)
    last = ring.first_from(program.end_instant, later_slot[program.start_instant]) - 1
    bridging = program.symbols[s].bridging
    if bridging == NONE:
        return last
    known = known_since(partition, later, later_slot) - program.is_sequenced
    return min(last, ring.first_ending_from(minus(known, bridging) + 1) - 1)


@kernel
def first_run_apart(partition: Partition, s: int, slot: Slot, later: int) -> int:
    """The first run of another symbol that lies apart from an interval that has ended, behind it."""
    program = partition.program
    ring = partition.ring(later)
    first = ring.first_from(program.start_instant, slot[program.end_instant] + 1)
    if program.symbols[s].bridging == NONE:
        return first
    known = plus(end_known_since(partition, s, slot), program.is_sequenced)
    return max(first, ring.first_starting_from(known))


class Outlook(Record):
    """The known endpoints of an interval at some instant. (It has no words of its own.)"""

    start: Carried[int]  # instants
    end: Carried[int]  # OPEN: later than that instant
    other_end: Carried[int]  # or it ended there; OPEN: it did not


class Candidate(Record):
    """Two intervals that may be a pair of an uncertain constraint. (They have no words of their own.)"""

    partition: Carried[Partition]
    scratch: Carried[Scratch]
    constraint: Carried[Constraint]
    side: Carried[int]

    @method
    def is_changed(self, s: int, slot_id: int) -> bool:
        """Whether a run ended now, or is known to go on since now, or that no other follows."""
        return self.scratch.changed >> s & 1 != 0 and slot_id == self.partition.rings[s].tail - 1

    @method
    def is_begun(self, s: int, slot_id: int) -> bool:
        """Whether a run began now."""
        return self.scratch.begun >> s & 1 != 0 and slot_id == self.partition.rings[s].tail - 1

    @method
    def now_known(self, s: int, slot_id: int) -> Outlook:
        """What is known of an interval."""
        program = self.partition.program
        slot = self.partition.ring(s).slot(slot_id)
        other_end = OPEN
        if slot.end == OPEN and program.bridged >> s & 1:
            other_end = BridgedSlot(slot).since_instant
        return Outlook(slot, slot[program.start_instant], slot[program.end_instant], other_end)

    @method
    def known_before(self, s: int, slot_id: int) -> Outlook:
        """What was known of an interval just before this event."""
        partition = self.partition
        slot = partition.ring(s).slot(slot_id)
        bit = 1 << s
        now = self.scratch.now
        end = slot[partition.program.end_instant]
        other_end = OPEN
        if partition.program.rows & bit:
            if end == now and not RowSlot(slot).announced:
                end = OPEN
        elif partition.program.bridged & bit:
            bridged = BridgedSlot(slot)
            latest = slot_id == partition.rings[s].tail - 1
            since_now = (self.scratch.resumed | self.scratch.ended_earlier) & self.scratch.changed
            if latest and since_now & bit:
                end = OPEN
                other_end = bridged.ceased_instant
            elif latest and end == now:
                end = OPEN
            elif end == OPEN and bridged.since_instant != now:
                other_end = bridged.since_instant
        elif end == now:
            end = OPEN
        return Outlook(slot, slot[partition.program.start_instant], end, other_end)

    @method
    def is_quiet(self, s: int, end: int, later: int, start: int, is_last: bool) -> bool:
        """Whether no interval of two symbols touches the gap between these two of theirs.

        What may have ended, or may have until now, ``is_last``: no other of its symbol has begun since.
        """
        partition = self.partition
        if partition.latest_end_before(later, start) > end:
            return False
        return is_last or partition.latest_end_before(s, start) == end

    @method
    def is_allowed(self, mine: Outlook, theirs: Outlook, now: int) -> bool:
        """Whether two intervals are a pair whatever comes, as far as is known of them."""
        s = self.constraint.symbols[self.side]
        s_other = self.constraint.symbols[1 - self.side]
        allowed = self.constraint.sides[self.side].allowed
        for which in range(4):
            end = mine.other_end if which & 1 else mine.end
            other_end = theirs.other_end if which & 2 else theirs.end
            if (which & 1 and end == OPEN) or (which & 2 and other_end == OPEN):
                continue
            possible = relations_now(mine.start, end, theirs.start, other_end, now)
            if possible == _BEFORE and allowed & _FOLLOWED_BY:
                if not self.is_quiet(s, end, s_other, theirs.start, which & 1 != 0):
                    return False
            elif possible == _AFTER and allowed & _FOLLOWS:
                if not self.is_quiet(s_other, other_end, s, mine.start, which & 2 != 0):
                    return False
            elif allowed & possible != possible:
                return False
        return True

    @method
    def is_decided_now(self, slot_id: int, other_id: int, passed: bool) -> bool:
        """Whether two intervals are a pair since this event; if not ``passed``, the first begins."""
        s = self.constraint.symbols[self.side]
        s_other = self.constraint.symbols[1 - self.side]
        now = self.scratch.now
        mine = self.now_known(s, slot_id)
        theirs = self.now_known(s_other, other_id)
        if self.constraint.same and mine.start == theirs.start:
            return False
        if not self.is_allowed(mine, theirs, now):
            return False
        if not passed:
            return True
        mine = self.known_before(s, slot_id)
        theirs = self.known_before(s_other, other_id)
        return not self.is_allowed(mine, theirs, now - 1)

    @method
    def add_if_decided(self, slot_id: int, other_id: int, passed: bool) -> None:
        """Note two intervals if they are a pair since this event."""
        partition = self.partition
        s_other = self.constraint.symbols[1 - self.side]
        if not is_held(partition, s_other, other_id, self.scratch.floor):
            return
        if not passed:
            s = self.constraint.symbols[self.side]
            slot = partition.ring(s).slot(slot_id)
            other = partition.ring(s_other).slot(other_id)
            if is_apart(partition, s, slot, s_other, other):
                return
            if is_apart(partition, s_other, other, s, slot):
                return
        if self.is_decided_now(slot_id, other_id, passed):
            add_pair(self.partition, self.constraint, self.side, slot_id, other_id)

    @method
    def find_among_runs(self, slot_id: int, first_end: int, passed: bool) -> int:
        """Find the partners of an interval among runs that have not ended before ``first_end``.

        Of two runs of which something became known at this event, each pair is found from one: from
        the one that begins, else from that of the lower symbol.
        """
        partition = self.partition
        s = self.constraint.symbols[self.side]
        s_other = self.constraint.symbols[1 - self.side]
        of_run = not partition.program.rows >> s & 1
        ring = partition.ring(s_other)
        other_id = ring.tail - 1
        looked = 0
        while other_id >= ring.head:
            looked += 1
            end = ring.slot(other_id)[partition.program.end_instant]
            is_changed = self.is_changed(s_other, other_id)
            if end < first_end and not (passed and is_changed):
                break
            skips = False
            if self.is_begun(s_other, other_id):
                skips = passed or (of_run and s_other < s)
            elif passed and of_run and is_changed:
                skips = s_other < s
            if not skips:
                self.add_if_decided(slot_id, other_id, passed)
            other_id -= 1
        return looked

    @method
    def find_among_rows(self, slot_id: int, first_end: int, passed: bool) -> int:
        """Find the partners of a run among intervals that came as rows, and end from ``first_end`` on.

        Those whose ends pass now have found it, unless it begins.
        """
        s_other = self.constraint.symbols[1 - self.side]
        program = self.partition.program
        first_start = program.symbols[s_other].first_start(self.scratch.floor)
        least = least_start(program, first_start)
        looked = 0
        for open_ones in range(2):
            order = self.partition.order(s_other, BY_START if open_ones else BY_END)
            box = box_in(order, first_end, OPEN, least, INT64_MAX, NO_MATCH)
            if open_ones:
                box = box_in(order, least, INT64_MAX, OPEN, OPEN, NO_MATCH)
            other_id, more = box.following(NONE)
            looked += more
            while other_id != NONE:
                slot = box.slot(other_id)
                has_passed = passed and slot[program.end_instant] == self.scratch.now
                if slot.start >= first_start and not has_passed:
                    self.add_if_decided(slot_id, other_id, passed)
                other_id, more = box.following(other_id)
                looked += more
        return looked


@kernel
def _add_followed(candidate: Candidate, slot_id: int) -> int:
    """Note the partner that an interval which begins follows immediately; gives the work it took."""
    partition = candidate.partition
    constraint = candidate.constraint
    s = constraint.symbols[candidate.side]
    s_other = constraint.symbols[1 - candidate.side]
    start = partition.ring(s).slot(slot_id)[partition.program.start_instant]
    end = max(partition.latest_end_before(s, start), partition.latest_end_before(s_other, start))
    if not NO_MATCH < end < start:
        return 1
    looked = 1
    if partition.program.rows >> s_other & 1:
        order = partition.order(s_other, BY_END)
        first_start = partition.program.symbols[s_other].first_start(candidate.scratch.floor)
        box = box_in(order, end, end, least_start(partition.program, first_start), end, NO_MATCH)
        other_id, looked = box.following(NONE)
        while other_id != NONE:
            if box.slot(other_id).start >= first_start:
                add_pair(partition, constraint, candidate.side, slot_id, other_id)
            other_id, more = box.following(other_id)
            looked += more
        return looked
    ring = partition.ring(s_other)
    ends = partition.program.end_instant
    other_id = ring.first_from(ends, end)
    ends_there = other_id < ring.tail and ring.slot(other_id)[ends] == end
    if ends_there and is_held(partition, s_other, other_id, candidate.scratch.floor):
        add_pair(partition, constraint, candidate.side, slot_id, other_id)
    return looked


@kernel
def find_uncertain(
    partition: Partition, scratch: Scratch, constraint: Constraint, side: int, slot_id: int,
    passed: bool,
) -> int:  # fmt: skip
    """Find the pairs of an uncertain constraint that are decided as something becomes known.

    That is of an interval that begins or, if it has ``passed``, of one that ends, that goes on, or of
    which it is known that it has ended. Gives the work it took.
    """
    s = constraint.symbols[side]
    candidate = Candidate(scratch, partition, scratch, constraint, side)
    slot = partition.ring(s).slot(slot_id)
    first_end = slot[partition.program.start_instant]
    if passed:
        first_end = slot[partition.program.end_instant]
        if slot.end == OPEN:  # it goes on
            first_end = BridgedSlot(slot).ceased_instant
    looked = 0
    if partition.program.rows >> constraint.symbols[1 - side] & 1:
        looked += candidate.find_among_rows(slot_id, first_end, passed)
    else:
        looked += candidate.find_among_runs(slot_id, first_end, passed)
    has_distances = constraint.distance < constraint.distance_end
    if not passed and has_distances and constraint.sides[side].allowed & (_BEFORE | _AFTER):
        finder = finder_of(partition, scratch, constraint, side, slot_id)
        looked += finder.arrive_among_apart(constraint.sides[side].allowed)
    if not passed and constraint.sides[side].allowed & _FOLLOWS:
        looked += _add_followed(candidate, slot_id)
    return looked
