"""Which pairs of listed constraints an endpoint decides, from what is known of their intervals.

Of an interval is known its start, and its end or that this is later than now. Two ends can be
compared unless one of them is unknown and the other is later than now. So there are two instants
at which a pair can be decided: when the later of its intervals becomes known, and when the first of
their ends passes; from then on its relation is certain. Before, only the order of the starts is, and
the pair is decided if all three relations of that order are allowed.

Partners are found as boxes of the other symbol's orders: a relation is a range of starts and one of
ends, of which at most three sides count.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.records import Carried, Record, kernel, method
from piestream.joins.boxes import box_in, least_start
from piestream.joins.distances import Cut, Judged, cut_of, judge
from piestream.joins.listed import add_pair, is_held
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.pairs import compare_times
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, RowSlot, Slot
from piestream.relations import (
    ALLEN,
    ENDPOINT_ORDER,
    RELATIONS_BY_ORDER,
    Relation,
    relations_ordered,
)

_TOUCHING = [r for r in ALLEN if r not in (Relation.BEFORE, Relation.AFTER)]
_N_TOUCHING = len(_TOUCHING)
#: Relations of an interval to its partner that shares an instant or meets it, and how its start and
#: its end compare with those of the partner: -1 earlier, 0 at the same time, 1 later.
_RELATIONS = np.array([int(r) for r in _TOUCHING])
_TS_TS, _TS_TE, _TE_TS, _TE_TE = (
    np.array([getattr(ENDPOINT_ORDER[r], field) for r in _TOUCHING])
    for field in ("ts_ts", "ts_te", "te_ts", "te_te")
)
#: The relations that two intervals of which neither has ended may turn out to have, by the order of
#: their starts (-1, 0, 1), and the same for each of the relations that touch.
_OF_STARTS = np.array([int(relations_ordered(order, -1, 1)) for order in (-1, 0, 1)])
_OF_SAME_STARTS = np.array([int(_OF_STARTS[order + 1]) for order in _TS_TS.tolist()])
#: The relation of every order of the endpoints (`EndpointOrder.number`).
_OF_ORDER = np.array([int(r) for r in RELATIONS_BY_ORDER])
_FOLLOWS = int(Relation.FOLLOWS)
_CONTAINS = int(Relation.CONTAINS)
_BEFORE = int(Relation.BEFORE)
_AFTER = int(Relation.AFTER)
_DISJOINT = int(Relation.BEFORE | Relation.AFTER)


@kernel
def relations_now(xs: int, xe: int, ys: int, ye: int, now: int) -> int:
    """Allen's relations that two intervals may turn out to have, as far as is known ``now``."""
    starts = compare_times(xs, ys)
    if (xe == OPEN and ye > now) or (ye == OPEN and xe > now):
        return int(_OF_STARTS[starts + 1])
    order = (
        27 * starts
        + 9 * compare_times(xs, ye)
        + 3 * compare_times(xe, ys)
        + compare_times(xe, ye)
        + 40
    )
    return int(_OF_ORDER[order])


class Finder(Record):
    """An interval whose partners in one constraint are searched. (It has no words of its own.)"""

    partition: Carried[Partition]
    constraint: Carried[Constraint]
    side: Carried[int]
    slot_id: Carried[int]
    # instants: times, unless these do not tell events apart
    start: Carried[int]
    end: Carried[int]
    now: Carried[int]
    # times
    time: Carried[int]
    floor: Carried[int]
    first_start: Carried[int]  # of partners
    least_start: Carried[int]  # the same as an instant
    cut: Carried[Cut]

    @method
    def add(self, other: int) -> None:
        """Note a partner that was found, unless it is too near or too far."""
        partition = self.partition
        constraint = self.constraint
        if constraint.distance < constraint.distance_end:
            slot = partition.ring(constraint.symbols[self.side]).slot(self.slot_id)
            partner = partition.ring(constraint.symbols[1 - self.side]).slot(other)
            judged = judge(partition, constraint, self.side, slot, partner, self.time)
            if judged == Judged.IMPOSSIBLE:
                return
        add_pair(partition, constraint, self.side, self.slot_id, other)

    @method
    def add_all(self, by: int, first: int, last: int, low: int, high: int) -> int:
        """Note all partners in a box; gives how many nodes were looked at."""
        cut = self.cut
        if self.partition.program.is_sequenced:
            pass  # the cut is one of times: `add` looks at each
        elif by == BY_START:
            first, last = max(first, cut.first_start), min(last, cut.last_start)
            low, high = max(low, cut.first_end), min(high, cut.last_end)
        else:
            first, last = max(first, cut.first_end), min(last, cut.last_end)
            low, high = max(low, cut.first_start), min(high, cut.last_start)
        if first > last or low > high:
            return 0
        partition = self.partition
        constraint = self.constraint
        s_other = constraint.symbols[1 - self.side]
        order = partition.order(s_other, by)
        box = box_in(order, first, last, low, high, NO_MATCH)
        s = constraint.symbols[self.side]
        number = NONE
        if partition.program.rows >> s & 1:
            number = RowSlot(partition.ring(s).slot(self.slot_id)).number
        other, looked = box.following(NONE)
        while other != NONE:
            slot = box.slot(other)
            if slot.start >= self.first_start and (slot.number != number or number == NONE):
                self.add(other)
            other, more = box.following(other)
            looked += more
        return looked

    @method
    def add_related(self, r: int, low_end: int, high_end: int) -> int:
        """Note all partners in a relation, by its number, whose ends lie in a range."""
        first_start, last_start = self.least_start, INT64_MAX
        if _TS_TS[r] == 0:
            first_start, last_start = self.start, self.start
        elif _TS_TS[r] < 0:
            first_start = self.start + 1
        else:
            last_start = self.start - 1
        if _TE_TS[r] == 0:
            first_start, last_start = self.end, self.end
        elif _TE_TS[r] > 0 and self.end != OPEN:
            last_start = min(last_start, self.end - 1)
        if _TS_TE[r] == 0:
            low_end, high_end = self.start, self.start
        else:
            low_end = max(low_end, self.start + 1)
        if _TE_TE[r] == 0:
            low_end, high_end = max(low_end, self.end), min(high_end, self.end)
        elif _TE_TE[r] < 0:
            low_end = max(low_end, self.end + 1)
        elif self.end != OPEN:
            high_end = min(high_end, self.end - 1)
        if first_start > last_start or low_end > high_end:
            return 0
        same_start = first_start == last_start
        ends_later = _TE_TE[r] < 0 and high_end == OPEN
        if same_start or ends_later:
            return self.add_all(BY_START, first_start, last_start, low_end, high_end)
        return self.add_all(BY_END, low_end, high_end, first_start, last_start)

    @method
    def add_open(self, order: int, low_end: int) -> int:
        """Note all partners whose starts compare so with this one, and whose ends are not earlier."""
        if order == 0:
            return self.add_all(BY_START, self.start, self.start, low_end, OPEN)
        if order > 0:
            return self.add_all(BY_START, self.least_start, self.start - 1, low_end, OPEN)
        return self.add_all(BY_START, self.start + 1, INT64_MAX, low_end, OPEN)

    @method
    def arrive_among_rows(self, allowed: int) -> int:
        """Find the partners of an interval that becomes known, among intervals that came as rows."""
        looked = 0
        ended = self.end <= self.now
        # of a known end that is still to come: not those whose ends are not known
        high_end = OPEN if ended else OPEN - 1
        for r in range(_N_TOUCHING):
            if not allowed & _RELATIONS[r]:
                continue
            if self.end != OPEN or _TS_TE[r] == 0:
                looked += self.add_related(r, INT64_MIN, high_end)
            elif _TE_TE[r] > 0 and self.start < self.now:  # it is known late: others have ended
                looked += self.add_related(r, INT64_MIN, self.now)
        if not ended:
            low_end = self.now + 1 if self.end == OPEN else OPEN
            earliest = -1 if self.start < self.now else 0  # else none has begun later
            for order in range(earliest, 2):
                possible = _OF_STARTS[order + 1]
                if allowed & possible == possible:
                    looked += self.add_open(order, low_end)
        return looked

    @method
    def pass_among_rows(self, allowed: int, announced: bool) -> int:
        """Find the partners of an interval whose end passes now, among intervals that came as rows.

        Only pairs of which no end had passed, and of which not both were known.
        """
        looked = 0
        for r in range(_N_TOUCHING):
            possible = _OF_SAME_STARTS[r]
            if not allowed & _RELATIONS[r] or not possible & _RELATIONS[r]:
                continue
            if allowed & possible == possible:  # decided when the later one became known
                continue
            if _TE_TE[r] < 0:
                looked += self.add_related(r, OPEN if announced else self.now + 1, OPEN)
            elif _TE_TE[r] == 0 and not announced:
                looked += self.add_ending_together(r)
        return looked

    @method
    def add_ending_together(self, r: int) -> int:
        """Note the partners in a relation whose ends pass too: each pair is found from one side."""
        partition = self.partition
        ring = partition.pairs(self.constraint)
        found = ring.tail
        looked = self.add_related(r, self.now, self.now)
        if self.side == 0:
            return looked
        s_other = self.constraint.symbols[0]
        others = partition.ring(s_other)
        kept = found
        for pair_id in range(found, ring.tail):
            other = _pair_ids(ring.slot(pair_id), 0)
            if RowSlot(others.slot(other)).announced:
                kept += 1
                if kept - 1 != pair_id:
                    _move_pair(ring.slot(pair_id), ring.slot(kept - 1))
        ring.tail = kept
        return looked

    @method
    def arrive_among_runs(self, allowed: int) -> int:
        """Find the partners of an interval that becomes known, among runs."""
        partition = self.partition
        s_other = self.constraint.symbols[1 - self.side]
        ring = partition.ring(s_other)
        starts = partition.program.start_instant
        ends = partition.program.end_instant
        first = max(ring.first_from(ends, self.start), self.cut.first_run(ring))
        last = self.cut.last_run(ring)
        if self.end < self.now:  # it is known late: runs may have begun since
            last = min(last, ring.first_from(starts, self.end + 1) - 1)
        looked = 0
        contains = allowed & _CONTAINS != 0
        of_runs = not partition.program.rows >> self.constraint.symbols[self.side] & 1
        if of_runs and self.side and last >= first and ring.slot(last)[starts] == self.now:
            last -= 1  # found from the other side
        run_id = first
        while run_id <= last:
            looked += 1
            run = ring.slot(run_id)
            possible = relations_now(self.start, self.end, run[starts], run[ends], self.now)
            decided = allowed & possible == possible and not possible & _DISJOINT
            if decided and is_held(partition, s_other, run_id, self.floor):
                self.add(run_id)
            run_id += 1
            if not contains and first < run_id < last:  # all between are contained
                run_id = last
        return looked

    @method
    def arrive_among_apart(self, allowed: int) -> int:
        """Find the partners that ended before an interval that becomes known, or begin after it."""
        partition = self.partition
        s_other = self.constraint.symbols[1 - self.side]
        looked = 0
        if partition.program.rows >> s_other & 1:
            if allowed & _AFTER:
                looked += self.add_all(
                    BY_END, INT64_MIN, self.start - 1, self.least_start, INT64_MAX
                )
            if allowed & _BEFORE and self.end < self.now:
                looked += self.add_all(BY_START, self.end + 1, INT64_MAX, INT64_MIN, OPEN)
            return looked
        ring = partition.ring(s_other)
        starts = partition.program.start_instant
        ends = partition.program.end_instant
        first = max(self.cut.first_run(ring), ring.first_starting_from(self.first_start))
        last = self.cut.last_run(ring)
        if allowed & _AFTER:
            for run_id in range(first, min(last + 1, ring.first_from(ends, self.start))):
                looked += 1
                self.add(run_id)
        if allowed & _BEFORE and self.end < self.now:
            for run_id in range(max(first, ring.first_from(starts, self.end + 1)), last + 1):
                looked += 1
                self.add(run_id)
        return looked

    @method
    def pass_among_runs(self, allowed: int, announced: bool) -> int:
        """Find the partner of an interval whose end passes now, among runs."""
        partition = self.partition
        s_other = self.constraint.symbols[1 - self.side]
        ring = partition.ring(s_other)
        run_id = ring.tail - 1
        if run_id < ring.head:
            return 0
        run = ring.slot(run_id)
        run_start = run[partition.program.start_instant]
        run_end = run[partition.program.end_instant]
        if run_start >= self.now or run_end < self.now:
            return 1
        if run_end == self.now and (announced or self.side):
            return 1  # found when the run ends
        possible = int(_OF_STARTS[compare_times(self.start, run_start) + 1])
        relation = relations_now(self.start, self.end, run_start, run_end, self.now)
        decided = allowed & possible != possible and allowed & relation == relation
        if decided and is_held(partition, s_other, run_id, self.floor):
            self.add(run_id)
        return 1

    @method
    def followed_end(self) -> int:
        """Where the interval ended that this one may follow: the last that either symbol has seen.

        NO_MATCH if one of them reaches this one's start.
        """
        partition = self.partition
        latest = NO_MATCH
        for side in range(2):
            s = self.constraint.symbols[side]
            latest = max(latest, partition.latest_end_before(s, self.start))
        return latest if latest < self.start else NO_MATCH

    @method
    def add_followed(self) -> int:
        """Note the partners that this interval, which becomes known, follows immediately."""
        end = self.followed_end()
        if end == NO_MATCH:
            return 1
        partition = self.partition
        s_other = self.constraint.symbols[1 - self.side]
        if partition.program.rows >> s_other & 1:
            return 1 + self.add_all(BY_END, end, end, self.least_start, end)
        ring = partition.ring(s_other)
        ends = partition.program.end_instant
        run_id = ring.first_from(ends, end)
        ends_there = run_id < ring.tail and ring.slot(run_id)[ends] == end
        if ends_there and is_held(partition, s_other, run_id, self.floor):
            self.add(run_id)
        return 1


@kernel
def _pair_ids(pair: Slot, side: int) -> int:
    """The id on one side of a pair."""
    return pair[side]


@kernel
def _move_pair(source: Slot, target: Slot) -> None:
    """Move a pair that was found and not inserted yet."""
    target[0] = source[0]
    target[1] = source[1]


@kernel
def finder_of(
    partition: Partition, scratch: Scratch, constraint: Constraint, side: int, slot_id: int
) -> Finder:
    """The search for the partners of an interval in a constraint."""
    program = partition.program
    slot = partition.ring(constraint.symbols[side]).slot(slot_id)
    cut = cut_of(partition, constraint, side, slot, scratch.time)
    first_start = program.symbols[constraint.symbols[1 - side]].first_start(scratch.floor)
    return Finder(
        slot,
        partition,
        constraint,
        side,
        slot_id,
        slot[program.start_instant],
        slot[program.end_instant],
        scratch.now,
        scratch.time,
        scratch.floor,
        first_start,
        least_start(program, first_start),
        cut,
    )


@kernel
def find_arrived(
    partition: Partition, scratch: Scratch, constraint: Constraint, side: int, slot_id: int
) -> int:
    """Find the pairs that are decided as an interval becomes known; gives the work it took."""
    finder = finder_of(partition, scratch, constraint, side, slot_id)
    allowed = constraint.sides[side].allowed
    looked = 0
    if partition.program.rows >> constraint.symbols[1 - side] & 1:
        looked += finder.arrive_among_rows(allowed)
    else:
        looked += finder.arrive_among_runs(allowed)
    if allowed & _FOLLOWS:
        looked += finder.add_followed()
    if allowed & _DISJOINT:
        looked += finder.arrive_among_apart(allowed)
    return looked


@kernel
def find_passed(
    partition: Partition, scratch: Scratch, constraint: Constraint, side: int, slot_id: int
) -> int:
    """Find the pairs that are decided as the end of an interval passes; gives the work it took."""
    s = constraint.symbols[side]
    finder = finder_of(partition, scratch, constraint, side, slot_id)
    announced = False
    if partition.program.rows >> s & 1:
        announced = RowSlot(partition.ring(s).slot(slot_id)).announced != 0
    allowed = constraint.sides[side].allowed
    if partition.program.rows >> constraint.symbols[1 - side] & 1:
        return finder.pass_among_rows(allowed, announced)
    return finder.pass_among_runs(allowed, announced)


@kernel
def followed_end(
    partition: Partition, scratch: Scratch, constraint: Constraint, side: int, slot_id: int
) -> int:
    """Where the intervals ended that one which becomes known follows immediately, or NO_MATCH."""
    return finder_of(partition, scratch, constraint, side, slot_id).followed_end()
