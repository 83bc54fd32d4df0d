"""The pair index: decided pairs, found from the interval on either side.

Partners of an interval are decided in the order of their starts, and between the lowest and the
highest every interval of the other symbol is contained in this one. So two ids a side are the
whole index of a constraint (layout.WALK_*), whatever the number of pairs.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from piestream.compiled.layout import NOWHERE, OPEN, WALK_ALL, WALK_ENDS
from piestream.compiled.loops import INT, compiled
from piestream.compiled.records import kernel
from piestream.joins.records import Constraint, Slot
from piestream.relations import (
    PRECISE_FORM,
    RELATIONS_BY_ORDER,
    Relation,
    relations_ordered,
)


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


@compiled(INT, INT, INT, INT, INT)
def possible_relations(xs, xe, ys, ye):
    """The relations that two touching intervals, perhaps still open, may turn out to have.

    What lies apart is taken for immediate succession: nothing else comes into the pair index.
    """
    order = 9 * ((xs > ys) - (xs < ys)) + 3 * ((xs > ye) - (xs < ye)) + (xe > ys) - (xe < ys) + 13
    if xe == OPEN and ye == OPEN:
        return _OPEN[order]
    return _ENDED[3 * order + (xe > ye) - (xe < ye) + 1]


@kernel
def add_partner(slot: Slot, lo: int, partner: int) -> None:
    """Note a partner in the two words of a slot from ``lo`` on."""
    if slot[lo] == NOWHERE:
        slot[lo] = partner
        slot[lo + 1] = partner
    else:
        slot[lo] = min(slot[lo], partner)
        slot[lo + 1] = max(slot[lo + 1], partner)


@kernel
def drop_partner(slot: Slot, lo: int, walk: int, partner: int) -> None:
    """Forget the latest partner, whose run turned out not to be there."""
    if slot[lo + 1] != partner:
        return
    if slot[lo] == partner:
        slot[lo] = NOWHERE
        slot[lo + 1] = NOWHERE
    elif walk == WALK_ENDS:
        slot[lo + 1] = slot[lo]
    else:
        slot[lo + 1] = partner - 1


@kernel
def is_pair(
    constraint: Constraint, side: int, slot: Slot, slot_id: int, other: Slot, other_id: int
) -> bool:
    """Whether the interval on ``side`` and the other one are a decided pair of the constraint."""
    mine = constraint.sides[side]
    lo = slot[mine.lo]
    hi = slot[mine.lo + 1]
    if lo != NOWHERE and lo <= other_id <= hi:
        if mine.walk == WALK_ALL:
            return True
        if mine.walk == WALK_ENDS:
            if other_id == lo or other_id == hi:
                return True
        else:
            possible = possible_relations(slot.start, slot.end, other.start, other.end)
            if possible & mine.allowed == possible:
                return True
    if mine.later != NOWHERE and slot[mine.later] >= other_id:
        return True
    if mine.earlier != NOWHERE:
        return other[constraint.sides[1 - side].later] >= slot_id
    return False
