"""The pair index: decided pairs, found from the interval on either side.

Partners of an interval are decided in the order of their starts, and between the lowest and the
highest every interval of the other symbol is contained in this one. So two ids a side are the
whole index of a constraint (`ScanMode`), whatever the number of pairs.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.records import kernel
from piestream.joins.records import Constraint, Program, ScanMode
from piestream.joins.state_records import Partners, Slot
from piestream.relations import PRECISE_FORM, RELATIONS_BY_ORDER, Relation, relations_ordered


def _in_the_pair_index(relations: Relation) -> int:
    """A set of Allen's relations; two intervals that lie apart are in it as successors only."""
    for wide, precise in PRECISE_FORM.items():
        if relations & wide:
            relations = relations & ~wide | precise
    return int(relations)


#: The relations of every order of the endpoints (`EndpointOrder.number`).
_ENDED = np.array([_in_the_pair_index(relations) for relations in RELATIONS_BY_ORDER])
#: The same where both are open, so that their ends cannot be compared yet.
_OPEN = np.array(
    [_in_the_pair_index(relations_ordered(*signs)) for signs in product((-1, 0, 1), repeat=3)]
)


@kernel
def compare_times(a: int, b: int) -> int:
    """-1, 0 or 1 as ``a`` is less than, equal to or greater than ``b``."""
    return int(a > b) - int(a < b)


@kernel
def possible_relations(xs: int, xe: int, ys: int, ye: int) -> int:
    """The relations that two touching intervals, perhaps still open, may turn out to have.

    What lies apart is taken for immediate succession: nothing else comes into the pair index.
    """
    order = 9 * compare_times(xs, ys) + 3 * compare_times(xs, ye) + compare_times(xe, ys) + 13
    if xe == OPEN and ye == OPEN:
        return int(_OPEN[order])
    return int(_ENDED[3 * order + compare_times(xe, ye) + 1])


@kernel
def relations_of(program: Program, x: Slot, y: Slot) -> int:
    """The relations that two touching intervals may turn out to have, as they are now."""
    return possible_relations(
        x[program.start_instant],
        x[program.end_instant],
        y[program.start_instant],
        y[program.end_instant],
    )


@kernel
def add_partner(partners: Partners, slot_id: int) -> None:
    """Note a partner."""
    if partners.lo == NONE:
        partners.lo = slot_id
        partners.hi = slot_id
    else:
        partners.lo = min(partners.lo, slot_id)
        partners.hi = max(partners.hi, slot_id)


@kernel
def first_live_partner(scan: int, partners: Partners, head: int) -> int:
    """The lowest partner that is still held, where there are partners; behind the highest, none is."""
    first = max(partners.lo, head)
    if first > partners.lo and scan == ScanMode.ENDS:
        first = max(first, partners.hi)
    elif first > partners.lo + 1 and scan == ScanMode.ENDS_CHECKED:
        first = max(first, partners.hi - 1)
    return first


@kernel
def drop_partner(partners: Partners, scan: int, slot_id: int) -> None:
    """Drop the latest partner: its run turned out to be invalid."""
    if partners.hi != slot_id:
        return
    if partners.lo == slot_id:
        partners.lo = NONE
        partners.hi = NONE
    elif scan == ScanMode.ENDS:
        partners.hi = partners.lo
    else:
        partners.hi = slot_id - 1


@kernel
def is_pair(
    program: Program, constraint: Constraint, side: int, slot: Slot, slot_id: int, other: Slot,
    other_id: int,
) -> bool:  # fmt: skip
    """Whether the interval on ``side`` and the other one are a decided pair of the constraint."""
    mine = constraint.sides[side]
    partners = slot.partners(mine.partners)
    lo = partners.lo
    hi = partners.hi
    if lo != NONE and lo <= other_id <= hi:
        if mine.scan == ScanMode.ALL:
            return True
        if mine.scan == ScanMode.ENDS:
            if other_id == lo or other_id == hi:
                return True
        else:
            possible = relations_of(program, slot, other)
            if possible & mine.allowed == possible:
                return True
    if mine.last_ended_before != NONE and slot[mine.last_ended_before] >= other_id:
        return True
    if mine.first_starting_after != NONE:
        return other[constraint.sides[1 - side].last_ended_before] >= slot_id
    return False
