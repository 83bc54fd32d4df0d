"""Bounds through before and after, where intervals of a symbol come as rows.

Who began later was not there when an interval ended, so of the partners that ended before an
interval began none is missing when it becomes known, and it takes their best bound at once: of rows
from the order by end, whose subtrees know the best that they give; of runs from the last of them,
which knows the best of all before it. As the bound of one of them increases later, it goes to the
intervals that began after it ended, in order of their starts; the first whose bound is not lower ends
that, because those behind it have the same partners and more.

Of those that begin after an interval ended, each raises the bounds of all that ended before it, when
it becomes valid and as its bound increases. Rows overlap, so that their starts, over which no bound
increases, are in no order; the order by end knows the lowest bound in a subtree that can increase.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.records import kernel
from piestream.joins.boxes import box_in
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint
from piestream.joins.state_records import NO_MATCH, Held, RowSlot, Slot


@kernel
def bound_by_ended(partition: Partition, constraint: Constraint, side: int, start: int) -> int:
    """The best bound that partners give which ended before an interval on ``side`` began.

    That is an instant.
    """
    word = constraint.sides[1 - side].given
    s_other = constraint.symbols[1 - side]
    if partition.program.rows >> s_other & 1:
        return partition.order(s_other, BY_END).best_given_before(start, word)
    ring = partition.ring(s_other)
    last = ring.first_from(partition.program.end_instant, start) - 1
    if last < ring.head:
        return NO_MATCH
    return ring.slot(last)[word]


@kernel
def take_bounds(partition: Partition, s: int, slot_id: int) -> None:
    """Give an interval that becomes known by a row the bounds of all partners that ended before."""
    program = partition.program
    symbol = program.symbols[s]
    slot = partition.ring(s).slot(slot_id)
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        constraint = program.constraints[incident.constraint]
        mine = constraint.sides[incident.side]
        if mine.bound_by_earlier != NONE:
            start = slot[program.start_instant]
            bound = bound_by_ended(partition, constraint, incident.side, start)
            slot[mine.bound_by_earlier] = bound
            slot[mine.bound] = max(slot[mine.bound], bound)


@kernel
def begin_given(partition: Partition, s: int) -> None:
    """Initialise the best bound given, of a run that starts, by that of the runs before it."""
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    slot_id = ring.tail - 1
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        word = program.constraints[incident.constraint].sides[incident.side].given
        if word != NONE:
            bound = NO_MATCH
            if slot_id > ring.head:
                bound = ring.slot(slot_id - 1)[word]
            ring.slot(slot_id)[word] = bound


@kernel
def note_given(
    partition: Partition, constraint: Constraint, side: int, slot_id: int, given: int
) -> None:
    """Propagate the better bound that a run gives to it and to the runs after it."""
    s = constraint.symbols[side]
    word = constraint.sides[side].given
    if word == NONE or partition.program.rows >> s & 1:
        return
    ring = partition.ring(s)
    while slot_id < ring.tail and ring.slot(slot_id)[word] < given:
        ring.slot(slot_id)[word] = given
        slot_id += 1


@kernel
def next_beginning_later(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, before: int, given: int
) -> int:
    """The next partner that began after an interval on ``side`` ended and whose bound is lower.

    The first one after ``before``, or NONE.
    """
    word = constraint.sides[1 - side].bound_by_earlier
    s_other = constraint.symbols[1 - side]
    ring = partition.ring(s_other)
    first = slot[partition.program.end_instant] + 1
    if not partition.program.rows >> s_other & 1:
        other_id = before + 1
        if before == NONE:
            other_id = ring.first_from(partition.program.start_instant, first)
        if other_id >= ring.tail or ring.slot(other_id)[word] >= given:
            return NONE
        return other_id
    order = partition.order(s_other, BY_START)
    box = box_in(order, first, INT64_MAX, INT64_MIN, INT64_MAX, NO_MATCH)
    other_id = box.following(before)[0]
    while other_id != NONE and RowSlot(ring.slot(other_id)).held > Held.VALID:
        other_id = box.following(other_id)[0]
    if other_id == NONE or ring.slot(other_id)[word] >= given:
        return NONE
    return other_id


@kernel
def next_ended_before(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, before: int, given: int
) -> int:
    """The next partner that ended before an interval on ``side`` began and whose bound can increase.

    Of runs the last one before ``before``, which is NONE at first; of rows any that is left. NONE if
    there is none.
    """
    word = constraint.sides[1 - side].bound_by_later
    s_other = constraint.symbols[1 - side]
    ring = partition.ring(s_other)
    start = slot[partition.program.start_instant]
    if partition.program.rows >> s_other & 1:
        other = partition.program.symbols[s_other]
        lowest = other.lowest + word - other.by_later
        return partition.order(s_other, BY_END).first_raisable(start, lowest, given)
    other_id = before - 1
    if before == NONE:
        other_id = ring.first_from(partition.program.end_instant, start) - 1
    if other_id < ring.head:
        return NONE
    other_slot = ring.slot(other_id)
    own_bound = partition.program.symbols[s_other].own_bound(other_slot)
    return NONE if other_slot[word] >= min(given, own_bound) else other_id


@kernel
def raise_by_later(
    partition: Partition, constraint: Constraint, side: int, slot_id: int, given: int
) -> None:
    """Raise what partners give that begin after the interval on ``side`` ended."""
    s = constraint.symbols[side]
    slot = partition.ring(s).slot(slot_id)
    own_bound = partition.program.symbols[s].own_bound(slot)
    slot[constraint.sides[side].bound_by_later] = min(given, own_bound)
    if partition.program.rows >> s & 1:
        partition.order(s, BY_END).refresh(slot_id)
