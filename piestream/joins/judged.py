"""A match whose absences are judged, and what can be said of them without a system of bounds.

That is so where all endpoints are known, and of an interval to come where those of the match are: most are
of these kinds, and a comparison or two decides them.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.records import Carried, Record, Words, kernel, method
from piestream.intervals.ticks import minus, plus
from piestream.joins.futures import Endpoints, Future, until_of
from piestream.joins.partition import Partition
from piestream.joins.partners import relations_now
from piestream.joins.records import Absence, AbsentPair, Distance
from piestream.joins.state_records import BridgedSlot, RowSlot, Slot
from piestream.relations import Relation

__all__ = [
    "CERTAIN",
    "IMPOSSIBLE",
    "Judged",
    "all_known",
    "fits",
    "may_always_come",
    "to_come_behind_all",
    "widened",
]

_AFTER = int(Relation.AFTER)
_FOLLOWS = int(Relation.FOLLOWS)
_FOLLOWED_BY = int(Relation.FOLLOWED_BY)
_BEFORE = int(Relation.BEFORE)

#: What is known of an interval: it does not satisfy a group; it may, or may not; it does.
IMPOSSIBLE, MAY_BE, CERTAIN = range(3)


class Judged(Record):
    """A match whose absences are judged. (What it is lies nowhere.)"""

    partition: Carried[Partition]
    ids: Carried[Words]
    future: Carried[Words]  # room for its bounds
    now: Carried[int]  # the time up to which everything is known
    passed: Carried[int]  # the last one that is over: others of the time that is now may come
    instant: Carried[int]  # up to which everything is known; the time, where instants are times
    told: Carried[int]  # the time of the last event of the partition
    told_instant: Carried[int]  # its instant
    closes: Carried[bool]
    ended: Carried[int]  # symbols (as bits) whose intervals have ended if they are interrupted

    @method
    def slot(self, s: int) -> Slot:
        """The interval of a symbol."""
        return self.partition.ring(s).slot(self.ids[s])

    @method
    def pair(self, absence: Absence, number: int) -> AbsentPair:
        """What a group says of one of its intervals of the match."""
        return self.partition.program.absent_pairs[absence.pair + number]

    @method
    def interrupted_since(self, s: int, slot: Slot) -> int:
        """Since when an interval may have ended (BRIDGING); OPEN if it has, or its predicate holds."""
        if slot.end == OPEN and self.partition.program.bridged >> s & 1:
            return BridgedSlot(slot).since
        return OPEN

    @method
    def end_of(self, s: int, slot: Slot) -> int:
        """Where an interval ends in this outlook, or OPEN."""
        if self.ended >> s & 1:
            return min(slot.end, self.interrupted_since(s, slot))
        return slot.end

    @method
    def end_instant_of(self, s: int, slot: Slot) -> int:
        """The instant of that, or OPEN."""
        end = slot[self.partition.program.end_instant]
        if self.ended >> s & 1 and self.interrupted_since(s, slot) != OPEN:
            return BridgedSlot(slot).since_instant
        return end

    @method
    def endpoints_of(self, s: int, slot: Slot) -> Endpoints:
        """Where an interval begins, and ends in this outlook."""
        start_instant = slot[self.partition.program.start_instant]
        end_instant = self.end_instant_of(s, slot)
        return Endpoints(slot, slot.start, self.end_of(s, slot), start_instant, end_instant)

    @method
    def open_run(self, s: int) -> Slot:
        """The run of a symbol that has not ended: there must be one."""
        return self.partition.ring(s).latest()

    @method
    def interrupted_of(self, absence: Absence) -> int:
        """The symbols (as bits) of a group whose intervals of the match are interrupted."""
        symbols = 0
        if self.partition.program.bridged:
            for number in range(absence.pair_end - absence.pair):
                s = self.pair(absence, number).symbol
                if self.interrupted_since(s, self.slot(s)) != OPEN:
                    symbols |= 1 << s
        return symbols

    @method
    def is_quiet_since(self, absence: Absence, pair: AbsentPair) -> bool:
        """Whether none of two symbols has an interval that ended behind one of the match, or has not.

        So one of the absent symbol that begins may follow that one immediately. One that is interrupted may have
        ended: if it goes on, that is known before another one begins.
        """
        end = self.end_instant_of(pair.symbol, self.slot(pair.symbol))
        if end == OPEN:
            return True
        return self.may_end_by(absence.symbol, end) and self.may_end_by(pair.symbol, end)

    @method
    def may_end_by(self, s: int, end: int) -> bool:
        """Whether all intervals of a symbol that have begun have ended by an instant, or may have."""
        latest = self.partition.latest_end_before(s, OPEN)
        return latest <= end or (latest == OPEN and end > self.instant)

    @method
    def allowed_to_come(self, absence: Absence, number: int) -> int:
        """The relations of a pair that an interval of the absent symbol may have that begins later than now."""
        pair = self.pair(absence, number)
        allowed = pair.allowed
        if allowed & _FOLLOWS and not self.is_quiet_since(absence, pair):
            allowed &= ~_FOLLOWS
        return allowed

    @method
    def allowed_of(self, absence: Absence, number: int, slot: Slot) -> int:
        """Those that one may have that has begun: not a precise form, if an interval touches the gap."""
        pair = self.pair(absence, number)
        allowed = pair.allowed
        other = self.slot(pair.symbol)
        if allowed & _FOLLOWS:
            end = self.end_instant_of(pair.symbol, other)
            if slot[pair.followed] != end:
                allowed &= ~_FOLLOWS
        if allowed & _FOLLOWED_BY:
            end = self.end_instant_of(absence.symbol, slot)
            if other[pair.followed_by_other] != end:
                allowed &= ~_FOLLOWED_BY
        return allowed

    @method
    def is_shown(self, end: int) -> bool:
        """Whether an end is shown where it lies: not what ends because the input does."""
        return not self.closes or end <= self.partition.last_time

    @method
    def is_said(self, s: int, slot: Slot) -> bool:
        """Whether a row has said where an interval ends, so that the end of the input does not."""
        return self.partition.program.rows >> s & 1 != 0 and RowSlot(slot).announced != 0

    @method
    def future_with(self, absence: Absence, at: Endpoints, is_said: bool, is_late: bool) -> Future:
        """The bounds for an interval of the absent symbol, of which an endpoint may be OPEN.

        Or its end ``is_said`` by a row. If it ``is_late``, one of which nothing is known may have been, and
        becomes known later than it ends.
        """
        program = self.partition.program
        is_sequenced = program.is_sequenced != 0
        is_over = is_sequenced and self.passed == self.now
        n_others = absence.pair_end - absence.pair
        future = Future(
            self.future, n_others, self.now, is_sequenced, is_over, self.instant,
            absence.begins_known != 0, absence.late if is_late else NONE,
            absence.late_since_end != 0, int(self.closes),
        )  # fmt: skip
        start_is_shown = is_late or self.is_shown(at.start)
        future.place_absent(at, start_is_shown, is_late or is_said or self.is_shown(at.end))
        for number in range(n_others):
            s = self.pair(absence, number).symbol
            slot = self.slot(s)
            others = self.endpoints_of(s, slot)
            is_shown = self.is_said(s, slot) or self.is_shown(others.end)
            future.place_other(number, others, is_shown)
        return future


@kernel
def widened(relations: int) -> int:
    """The same set, with the wide forms of the precise ones beside them."""
    if relations & _FOLLOWED_BY:
        relations |= _BEFORE
    if relations & _FOLLOWS:
        relations |= _AFTER
    return relations


@kernel
def all_known(judged: Judged, absence: Absence) -> bool:
    """Whether all ends of the match are known that a group speaks of, and shown where they lie."""
    if judged.closes:
        return False
    for number in range(absence.pair_end - absence.pair):
        if judged.slot(judged.pair(absence, number).symbol).end == OPEN:
            return False
    return True


@kernel
def _distance_known(distance: Distance, slot: Slot, other: Slot) -> int:
    """What is known of a distance between two intervals."""
    absent = 0 if distance.side == 0 else 1
    mine = slot.end if distance.ends[absent] else slot.start
    theirs = other.end if distance.ends[1 - absent] else other.start
    if mine == OPEN or theirs == OPEN:
        return MAY_BE
    until = mine if absent == 0 else theirs
    bound = plus(theirs if absent == 0 else mine, distance.length)
    if until == bound:
        return IMPOSSIBLE if distance.is_strict else CERTAIN
    return CERTAIN if (until < bound) == (distance.is_upper != 0) else IMPOSSIBLE


@kernel
def fits(judged: Judged, absence: Absence, slot: Slot) -> int:
    """Whether an interval satisfies a group, by each of its parts alone, as far as ends are known."""
    if judged.closes:
        return MAY_BE
    program = judged.partition.program
    starts = program.start_instant
    ends = program.end_instant
    found = CERTAIN
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        other = judged.slot(pair.symbol)
        possible = relations_now(
            slot[starts], slot[ends], other[starts], other[ends], judged.instant
        )
        allowed = widened(judged.allowed_of(absence, number, slot))
        if not possible & allowed:
            return IMPOSSIBLE
        if possible & ~allowed:
            found = MAY_BE
        for number_of_distance in range(pair.distance, pair.distance_end):
            distance = program.distances[number_of_distance]
            known = _distance_known(distance, slot, other)
            if known == IMPOSSIBLE:
                return IMPOSSIBLE
            found = min(found, known)
    return found


@kernel
def to_come_behind_all(judged: Judged, absence: Absence) -> tuple[bool, int]:
    """How long an interval to come may satisfy a group, if its start alone says that.

    So it is where all intervals of the match have ended, and no distance is to the end of the one to come.
    Gives whether it is, and as `verdicts.judge` has it how long.
    """
    latest = INT64_MAX
    earliest = INT64_MIN
    for number in range(absence.pair_end - absence.pair):
        pair = judged.pair(absence, number)
        other = judged.slot(pair.symbol)
        if other.end > judged.now:
            return False, INT64_MIN
        if not judged.allowed_to_come(absence, number) & (_AFTER | _FOLLOWS):
            return True, INT64_MIN
        for distance_number in range(pair.distance, pair.distance_end):
            distance = judged.partition.program.distances[distance_number]
            absent = 0 if distance.side == 0 else 1
            if distance.ends[absent] or distance.is_strict:
                return False, INT64_MIN
            at = other.end if distance.ends[1 - absent] else other.start
            length = distance.length
            bound = plus(at, length) if absent == 0 else minus(at, length)
            if (absent == 0) == (distance.is_upper != 0):
                latest = min(latest, bound)
            else:
                earliest = max(earliest, bound)
    if latest <= judged.passed or earliest > latest:
        return True, INT64_MIN
    return True, until_of(latest, judged.now, judged.partition.program.is_sequenced != 0)


@kernel
def may_always_come(judged: Judged, absence: Absence) -> bool:
    """Whether an interval to come may satisfy a group for as long as one of the match is open, by its start alone.

    So it is where all that is said is that it begins behind the end of that one, and how soon at most.
    """
    pair = judged.pair(absence, 0)
    if absence.pair_end - absence.pair > 1 or not pair.allowed & (_AFTER | _FOLLOWS):
        return False
    if judged.slot(pair.symbol).end != OPEN:
        return False
    for number in range(pair.distance, pair.distance_end):
        distance = judged.partition.program.distances[number]
        between = distance.side == 0 and distance.ends[0] == 0 and distance.ends[1] == 1
        if not between or not distance.is_upper or not distance.length:
            return False
    return True
