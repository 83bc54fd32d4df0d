"""The semijoin reduction: which intervals can still be part of a match, as partners come.

The insert-only form of Yannakakis' algorithm. Intervals of a match must begin within their windows, so
for each interval and each constraint of its symbol is kept a *bound*: the highest floor at which a
match can be reported that takes its partner there, and all that is bound behind it (with one window of
all symbols: the latest time at which it can begin). The lowest bound of an interval is its
`match_bound`: below the floor, no match can be completed with it. Bounds only increase, and only up to
what the interval's own start gives (`Symbol.own_bound`), so a bound propagates at most once per increase:
of the many partners inside a long interval the first raises its bound, and no other does.

The partners in a range (before, after) are not stored one by one, but their bounds count as if they
were. The range of whoever began later holds that of all before it: so among those that ended the
bound falls, and among those that began it rises, in the order of their slots, and propagation goes
from the nearest on only as far as it raises a bound. For an interval that will begin, the partition
keeps the best bound of all that ended. A side of a symbol has a bound only where some match is
completed from another side of it.

Where intervals come as rows, ranges have orders of their own to go by (range_bounds.py). Of a cycle, a
spanning tree is reduced. In all other patterns `extend` enters nothing that cannot be completed.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.records import kernel
from piestream.joins.given import is_spent
from piestream.joins.listed import is_held, note_bound, pair_at
from piestream.joins.pairs import first_live_partner, relations_of
from piestream.joins.partition import Partition
from piestream.joins.range_bounds import (
    next_beginning_later,
    next_ended_before,
    note_given,
    raise_by_later,
)
from piestream.joins.records import Constraint, Program, ScanMode, Side, Symbol
from piestream.joins.scratch import ScanRange
from piestream.joins.state_records import NO_MATCH, UNBOUNDED, PairLists, Partners, Slot


@kernel
def bound_excluding(symbol: Symbol, slot: Slot, excluded: int) -> int:
    """The bound of an interval without its bound in word ``excluded``: what it gives to partners."""
    bound = symbol.own_bound(slot)
    for word in range(symbol.bound, symbol.bound_end):
        if word != excluded:
            bound = min(bound, slot[word])
    return bound


@kernel
def _two_lowest(symbol: Symbol, slot: Slot) -> tuple[int, int, int]:
    """The lowest and the second lowest bound of an interval's sides, and the word of the lowest."""
    lowest = UNBOUNDED
    second = UNBOUNDED
    lowest_word = NONE
    for word in range(symbol.bound, symbol.bound_end):
        bound = slot[word]
        if bound < lowest:
            second = lowest
            lowest = bound
            lowest_word = word
        elif bound < second:
            second = bound
    return lowest, second, lowest_word


@kernel
def _may_be_pair(program: Program, slot: Slot, side: Side, other: Slot) -> bool:
    """Whether an interval that lies among the partners is one, as far as that has to be checked."""
    if side.scan < ScanMode.ALL_CHECKED:
        return True
    possible = relations_of(program, slot, other)
    return possible & side.allowed == possible


@kernel
def next_partner(scan: int, partners: Partners, slot_id: int) -> int:
    """The partner after this one, which may be one; behind the highest, there is none."""
    following = slot_id + 1
    if scan == ScanMode.ENDS:
        following = max(following, partners.hi)
    elif scan == ScanMode.ENDS_CHECKED and slot_id > partners.lo:
        following = max(following, partners.hi - 1)
    return following


@kernel
def _next_raised_listed(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, scan_range: int,
    before: int, given: int,
) -> tuple[int, int]:  # fmt: skip
    """As `_next_raised`, of a symbol with intervals that come as rows."""
    theirs = constraint.sides[1 - side]
    s_other = constraint.symbols[1 - side]
    others = partition.ring(s_other)
    is_earlier = scan_range == ScanRange.EARLIER
    word = theirs.bound_by_later if is_earlier else theirs.bound_by_earlier
    if word == NONE or (not is_earlier and slot.end == OPEN):
        return NONE, 0
    visits = 0
    other_id = before
    while True:
        if is_earlier:
            other_id = next_ended_before(partition, constraint, side, slot, other_id, given)
        else:
            other_id = next_beginning_later(partition, constraint, side, slot, other_id, given)
        visits += 1
        if other_id == NONE:
            return NONE, visits
        other = others.slot(other_id)
        best = other[theirs.bound]
        bound = min(given, partition.program.symbols[s_other].own_bound(other))
        if is_earlier:
            raise_by_later(partition, constraint, 1 - side, other_id, bound)
        else:
            other[word] = bound
        if bound > best:
            other[theirs.bound] = bound
            return other_id, visits


@kernel
def _next_raised(
    partition: Partition, constraint: Constraint, side: int, slot: Slot, scan_range: int,
    before: int, given: int,
) -> tuple[int, int]:  # fmt: skip
    """The next partner in a range whose bound this interval, on ``side``, raises; its bound is.

    The one after ``before``, which is NONE at first; NONE behind the last. And how many were looked at.
    """
    if constraint.listed != NONE:
        return _next_raised_listed(partition, constraint, side, slot, scan_range, before, given)
    mine = constraint.sides[side]
    theirs = constraint.sides[1 - side]
    s_other = constraint.symbols[1 - side]
    others = partition.ring(s_other)
    other_symbol = partition.program.symbols[s_other]
    other_id = before
    if scan_range == ScanRange.EARLIER:  # from the last, whose bound is the lowest
        word = theirs.bound_by_later
        onward = -1
        if word == NONE:
            return NONE, 0
        if before == NONE:
            other_id = slot[mine.last_ended_before] + 1
    else:  # from the first, whose bound is the lowest
        word = theirs.bound_by_earlier
        onward = 1
        if word == NONE or slot[mine.first_starting_after] == NONE:
            return NONE, 0
        if before == NONE:
            ended = theirs.bound_by_ended
            partition[ended] = max(partition[ended], given)
            other_id = others.first_after(partition.program, slot, mine.first_starting_after) - 1
    visits = 0
    other_id += onward
    while others.head <= other_id < others.tail:
        visits += 1
        other = others.slot(other_id)
        bound = min(given, other_symbol.own_bound(other))
        best = other[theirs.bound]
        if other[word] >= bound:
            break
        other[word] = bound
        if bound > best:
            other[theirs.bound] = bound
            return other_id, visits
        other_id += onward
    return NONE, visits


@kernel
def _note_bound(partition: Partition, symbol: Symbol, s: int, slot_id: int, floor: int) -> int:
    """How many partners were looked at to note the bound of an interval; NONE if it is not valid."""
    if symbol.has_lists != 0:
        return note_bound(partition, s, slot_id, floor)
    return 0 if partition.is_valid(s, slot_id) else NONE


@kernel
def _raise_bound(symbol: Symbol, slot: Slot, word: int, given: int) -> bool:
    """Raise a bound of an interval to what a partner gives; whether it was lower."""
    bound = min(given, symbol.own_bound(slot))
    if bound <= slot[word]:
        return False
    slot[word] = bound
    return True


@kernel
def propagate_bound(partition: Partition, floor: int, s: int, slot_id: int, via: int) -> int:
    """Raise the bounds of partners, as a bound of this interval has increased or it became valid.

    ``via`` is the constraint by which the increase came, or NONE. The pattern's tree bounds the
    recursion. Gives how many partners were looked at.
    """
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    slot = ring.slot(slot_id)
    if symbol.expiry(slot) < floor:  # then its lists are no longer kept
        return 0
    lowest, second, lowest_word = _two_lowest(symbol, slot)
    slot.match_bound = lowest
    if program.given_once >> s & 1 and is_spent(partition, slot):
        slot.match_bound = NO_MATCH
        return 0
    visits = _note_bound(partition, symbol, s, slot_id, floor)
    if visits == NONE:
        return 0
    if lowest >= floor:
        ring.set_candidate(slot_id)
    if second < floor:
        return visits
    is_ranged = program.in_ranges >> s & 1
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        if incident.constraint == via:
            continue
        constraint = program.constraints[incident.constraint]
        mine = constraint.sides[incident.side]
        theirs = constraint.sides[1 - incident.side]
        if theirs.bound == NONE:
            continue
        partners = slot.partners(mine.partners)
        if constraint.listed == NONE and not is_ranged and partners.lo == NONE:
            continue
        given = min(symbol.own_bound(slot), second if mine.bound == lowest_word else lowest)
        if given < floor:
            continue
        s_other = constraint.symbols[1 - incident.side]
        others = partition.ring(s_other)
        other_symbol = program.symbols[s_other]
        if constraint.listed != NONE:
            lists = PairLists(slot.partners(mine.partners))
            for which in range(2):
                at = lists.completing if which == 0 else lists.others
                while at != NONE:
                    visits += 1
                    pair = pair_at(partition, constraint, at)
                    at = pair.next[incident.side]
                    other_id = pair.ids[1 - incident.side]
                    if not is_held(partition, s_other, other_id, floor):
                        continue
                    other = others.slot(other_id)
                    if _raise_bound(other_symbol, other, theirs.bound, given):
                        visits += propagate_bound(
                            partition, floor, s_other, other_id, incident.constraint
                        )
            note_given(partition, constraint, incident.side, slot_id, given)
        else:
            if partners.lo != NONE:
                other_id = first_live_partner(mine.scan, partners, others.head)
                while other_id <= partners.hi:
                    visits += 1
                    other = others.slot(other_id)
                    bound = min(given, other_symbol.own_bound(other))
                    if bound > other[theirs.bound] and _may_be_pair(program, slot, mine, other):
                        other[theirs.bound] = bound
                        visits += propagate_bound(
                            partition, floor, s_other, other_id, incident.constraint
                        )
                    other_id = next_partner(mine.scan, partners, other_id)
            if not is_ranged:
                continue
        for scan_range in range(ScanRange.EARLIER, ScanRange.LATER + 1):
            other_id = NONE
            while True:
                other_id, looked_at = _next_raised(
                    partition, constraint, incident.side, slot, scan_range, other_id, given
                )
                visits += looked_at
                if other_id == NONE:
                    break
                visits += propagate_bound(partition, floor, s_other, other_id, incident.constraint)
    return visits
