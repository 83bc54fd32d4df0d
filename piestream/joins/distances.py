"""Distances of a pair: which are certain now, which partners they leave, when the others will be.

An end that is not known is later than now, by how much is unknown: a difference to which it is added
grows beyond every limit, and one from which it is subtracted falls. So a distance of which one end is
missing can become certain as time goes on, when the other endpoint lies far enough back; all others
are decided by the end. Until then a pair whose relations are decided is *pending*, in a list of either
interval, and is looked at again when one of them ends, and when time comes to where a distance may
have become certain: the partners for which it has lie in a range of their endpoints.
"""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.records import Carried, Record, kernel, method
from piestream.intervals.ticks import lasts, minus, plus
from piestream.joins.boxes import box_of_times
from piestream.joins.listed import add_pair, discard, is_held, lists_of, pair_at
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint, Distance
from piestream.joins.rings import Ring
from piestream.joins.state_records import NO_MATCH, BridgedSlot, Slot

#: How far ends of a closed input lie behind where they are shown, at most.
_CLOSING = 2


class Judged(IntEnum):
    """What is known of a distance."""

    IMPOSSIBLE = 0
    UNCERTAIN = 1
    CERTAIN = 2


_UNCERTAIN = int(Judged.UNCERTAIN)
_CERTAIN = int(Judged.CERTAIN)


@kernel
def _reaches(since: int, time: int, length: int, strictly: bool) -> bool:
    """Whether one time is at least so much later than another one."""
    if time < since:
        return False
    if not lasts(since, time, length):
        return False
    return not strictly or time - since != length


@kernel
def _judge_one(distance: Distance, end: int, other: int, now: int, has_equal_times: bool) -> int:
    """What is known of ``end - other``, either of which may be OPEN: later than now.

    Where events ``has_equal_times``, it may be at the same time. It is too if the input ends now
    and is closed: so a distance is impossible only if it is at that time as well.
    """
    length = distance.length
    is_upper = distance.is_upper != 0
    strictly = distance.is_strict != is_upper
    if end == OPEN and other == OPEN:
        return Judged.UNCERTAIN
    if end == OPEN:
        if not _reaches(other, now, length, strictly and (is_upper or has_equal_times)):
            return Judged.UNCERTAIN
        return Judged.IMPOSSIBLE if is_upper else Judged.CERTAIN
    if other == OPEN:
        if _reaches(now, end, length, strictly or (is_upper and not has_equal_times)):
            return Judged.UNCERTAIN
        return Judged.CERTAIN if is_upper else Judged.IMPOSSIBLE
    holds = _reaches(other, end, length, strictly) != is_upper
    return Judged.CERTAIN if holds else Judged.IMPOSSIBLE


@kernel
def _ceased(partition: Partition, s: int, slot: Slot) -> int:
    """The end of an interrupted interval if no run follows in time; OPEN if it is not interrupted."""
    if slot.end == OPEN and partition.program.bridged >> s & 1:
        return BridgedSlot(slot).since
    return OPEN


@kernel
def judge(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, other: Slot, now: int
) -> int:
    """What is known of the distances of an interval on one side and one on the other."""
    if partition.progress().closed != NO_MATCH:
        now -= 1  # as it is shown
    s = constraint.symbols[side]
    s_other = constraint.symbols[1 - side]
    end = partition.shown_end(s, slot)
    other_end = partition.shown_end(s_other, other)
    judged = _judge_ends(partition, constraint, side, slot, end, other, other_end, now)
    if not constraint.uncertain:
        return judged
    ceased = _ceased(partition, s, slot)
    other_ceased = _ceased(partition, s_other, other)
    for which in range(1, 4):
        if (which & 1 and ceased == OPEN) or (which & 2 and other_ceased == OPEN):
            continue
        this = ceased if which & 1 else end
        that = other_ceased if which & 2 else other_end
        outlook = _judge_ends(partition, constraint, side, slot, this, other, that, now)
        if outlook != judged:
            judged = _UNCERTAIN
    return judged


@kernel
def _judge_ends(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, end: int, other: Slot,
    other_end: int, now: int,
) -> int:  # fmt: skip
    """What is known of the distances of two intervals that have these ends."""
    judged = _CERTAIN
    has_equal_times = partition.may_be_joined()
    for number in range(constraint.distance, constraint.distance_end):
        distance = partition.program.distances[number]
        mine = 0 if distance.side == side else 1
        this = end if distance.ends[mine] else slot.start
        that = other_end if distance.ends[1 - mine] else other.start
        if mine:
            this, that = that, this
        judged = min(judged, _judge_one(distance, this, that, now, has_equal_times))
    return judged


@kernel
def judge_pair(partition: Partition, constraint: Constraint, pair_id: int, now: int) -> int:
    """What is known of the distances of a pair."""
    pair = pair_at(partition, constraint, pair_id)
    x_slot = partition.ring(constraint.symbols[0]).slot(pair.ids[0])
    y_slot = partition.ring(constraint.symbols[1]).slot(pair.ids[1])
    return judge(partition, constraint, 0, x_slot, y_slot, now)


class Cut(Record):
    """The range of partners of an interval that distances allow. (It has no words of its own.)"""

    first_start: Carried[int]
    last_start: Carried[int]
    first_end: Carried[int]
    last_end: Carried[int]

    @method
    def first_run(self, ring: Ring) -> int:
        """The first live run in the range."""
        first = ring.first_starting_from(self.first_start)
        return max(first, ring.first_ending_from(self.first_end))

    @method
    def last_run(self, ring: Ring) -> int:
        """The last run in the range."""
        last = ring.tail - 1
        if self.last_start != INT64_MAX:
            last = min(last, ring.first_starting_from(self.last_start + 1) - 1)
        if self.last_end != OPEN:
            last = min(last, ring.first_ending_from(self.last_end + 1) - 1)
        return last


@kernel
def cut_of(partition: Partition, constraint: Constraint, side: int, slot: Slot, now: int) -> Cut:
    """The range of partners that the distances to an interval on one side allow: a superset."""
    first_start = INT64_MIN
    last_start = INT64_MAX
    first_end = INT64_MIN
    last_end = OPEN
    widened = 0
    if constraint.distance < constraint.distance_end and partition.progress().closed != NO_MATCH:
        widened = _CLOSING
    for number in range(constraint.distance, constraint.distance_end):
        distance = partition.program.distances[number]
        mine = 0 if distance.side == side else 1
        length = distance.length
        at = slot.end if distance.ends[mine] else slot.start
        of_ends = distance.ends[1 - mine] != 0
        # the partner's endpoint lies so far behind at least, or so far before at most
        if (mine == 1) != (distance.is_upper != 0):
            earliest = minus(now if at == OPEN else at, widened)
            lowest = plus(earliest, length) if mine else minus(earliest, length)
            if of_ends:
                first_end = max(first_end, lowest)
            else:
                first_start = max(first_start, lowest)
        elif at != OPEN:
            latest = plus(at, widened)
            highest = plus(latest, length) if mine else minus(latest, length)
            if not of_ends:
                last_start = min(last_start, highest)
            elif highest < now:  # else an end that is not known yet may be one of them
                last_end = min(last_end, highest)
    return Cut(slot, first_start, last_start, first_end, last_end)


@kernel
def judge_again(
    partition: Partition, constraint: Constraint, side: int, slot_id: int, now: int, floor: int
) -> int:
    """Look at the pending pairs of an interval: those that are decided now are added anew.

    There must be room for them. Gives how many it looked at.
    """
    at = lists_of(partition, constraint, side, slot_id).pending
    header = partition.rings[constraint.listed]
    looked = 0
    # there is room, unless a stored state has a pair twice
    while at != NONE and header.tail - header.head < header.capacity:
        looked += 1
        pair_id = at
        pair = pair_at(partition, constraint, pair_id)
        at = pair.next[side]
        other = pair.ids[1 - side]
        if not is_held(partition, constraint.symbols[1 - side], other, floor):
            discard(partition, constraint, pair_id, floor)
            continue
        judged = judge_pair(partition, constraint, pair_id, now)
        if judged == Judged.UNCERTAIN:
            continue
        discard(partition, constraint, pair_id, floor)
        if judged == Judged.CERTAIN:
            add_pair(partition, constraint, side, slot_id, other)
    return looked


# -- as time goes on -------------------------------------------------------------------------------
@kernel
def _is_waited_for(partition: Partition, constraint: Constraint, distance: Distance) -> int:
    """The side of which an unknown end makes a distance certain as time goes on; NONE if none does.

    The partners are those on the other side.
    """
    of_end = 1 if distance.is_upper else 0  # which endpoint it is
    if not distance.ends[of_end]:
        return NONE
    side = distance.side if of_end == 0 else 1 - distance.side
    s = constraint.symbols[side]
    s_other = constraint.symbols[1 - side]
    of_rows = partition.program.rows
    is_later = distance.ends[0] and of_rows >> s_other & 1
    is_now = partition.program.is_sequenced & distance.is_strict  # and may not be at its time
    if distance.is_upper and not is_later and not is_now:
        return NONE  # the other endpoint is never later than now
    if not of_rows >> s & 1 and not partition.mask >> s & 1:
        return NONE  # nothing of it is open
    return side


@kernel
def _reached(distance: Distance, time: int, has_equal_times: int) -> int:
    """The last endpoint of a partner for which a distance is certain at a time.

    Where events ``has_equal_times``, an unknown end may be at that time itself.
    """
    time -= has_equal_times & distance.is_strict
    if distance.is_upper:
        return plus(time, distance.length)
    return minus(time, distance.length)


@kernel
def next_reached(
    partition: Partition, constraint: Constraint, distance: Distance, slot_id: int, now: int
) -> tuple[int, int]:
    """The next partner for which a distance has become certain since it was last looked at.

    After ``slot_id``, or the first after NONE; NONE after the last. Gives its side too.
    """
    side = _is_waited_for(partition, constraint, distance)
    if side == NONE:
        return NONE, 0
    s_other = constraint.symbols[1 - side]
    of_ends = distance.ends[0 if distance.is_upper else 1] != 0
    before = _reached(distance, partition.progress().seen, partition.program.is_sequenced)
    last = _reached(distance, now, partition.may_be_joined())
    if partition.progress().seen == NO_MATCH:
        before = INT64_MIN
    if before == INT64_MAX or before >= last:
        return NONE, 0
    if partition.program.rows >> s_other & 1:
        order = partition.order(s_other, BY_END if of_ends else BY_START)
        box = box_of_times(order, before + 1, last)
        return box.following(slot_id)[0], 1 - side
    ring = partition.ring(s_other)
    run_id = slot_id + 1
    if slot_id == NONE:
        run_id = (
            ring.first_ending_from(before + 1) if of_ends else ring.first_starting_from(before + 1)
        )
    if run_id >= ring.tail:
        return NONE, 0
    slot = ring.slot(run_id)
    at = slot.end if of_ends else slot.start
    return (run_id, 1 - side) if at <= last else (NONE, 0)


@kernel
def _due(partition: Partition, constraint: Constraint, distance: Distance, now: int) -> int:
    """When a distance becomes certain for the next partner, as far as is known."""
    side = _is_waited_for(partition, constraint, distance)
    last = _reached(distance, now, partition.may_be_joined())
    if side == NONE or last == INT64_MAX:
        return INT64_MAX
    s_other = constraint.symbols[1 - side]
    of_ends = distance.ends[0 if distance.is_upper else 1] != 0
    at = OPEN
    if partition.program.rows >> s_other & 1:
        order = partition.order(s_other, BY_END if of_ends else BY_START)
        box = box_of_times(order, last + 1, INT64_MAX)
        slot_id = box.following(NONE)[0]
        if slot_id != NONE:
            slot = partition.ring(s_other).slot(slot_id)
            at = slot.end if of_ends else slot.start
    else:
        ring = partition.ring(s_other)
        run_id = ring.first_ending_from(last + 1) if of_ends else ring.first_starting_from(last + 1)
        if run_id < ring.tail:
            slot = ring.slot(run_id)
            at = slot.end if of_ends else slot.start
    if at == OPEN:
        return INT64_MAX
    if partition.program.is_sequenced & distance.is_strict:
        at = plus(at, 1)
    return minus(at, distance.length) if distance.is_upper else plus(at, distance.length)


@kernel
def next_due(partition: Partition, now: int) -> int:
    """The earliest time from which some distance is certain that is not yet."""
    program = partition.program
    due = INT64_MAX
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        for number in range(constraint.distance, constraint.distance_end):
            due = min(due, _due(partition, constraint, program.distances[number], now))
    return due
