"""The pair index: decided pairs, found from the interval on either side.

Partners of an interval are decided in the order of their starts, and between the lowest and the
highest every interval of the other symbol is contained in this one. So two ids a side are the
whole index of a constraint (layout.WALK_*), whatever the number of pairs.
"""

from __future__ import annotations

from piestream.compiled.layout import NOWHERE, OPEN, WALK_ALL, WALK_ENDS
from piestream.compiled.loops import INT, compiled
from piestream.compiled.records import kernel
from piestream.joins.records import Constraint, Slot
from piestream.relations import Relation

_FOLLOWED_BY = int(Relation.FOLLOWED_BY)
_MEETS = int(Relation.MEETS)
_OVERLAPS = int(Relation.OVERLAPS)
_FINISHED_BY = int(Relation.FINISHED_BY)
_CONTAINS = int(Relation.CONTAINS)
_STARTS = int(Relation.STARTS)
_EQUALS = int(Relation.EQUALS)
_STARTED_BY = int(Relation.STARTED_BY)
_DURING = int(Relation.DURING)
_FINISHES = int(Relation.FINISHES)
_OVERLAPPED_BY = int(Relation.OVERLAPPED_BY)
_MET_BY = int(Relation.MET_BY)
_FOLLOWS = int(Relation.FOLLOWS)
_STARTS_FIRST = _OVERLAPS | _FINISHED_BY | _CONTAINS
_STARTS_TOGETHER = _STARTS | _EQUALS | _STARTED_BY
_STARTS_LAST = _DURING | _FINISHES | _OVERLAPPED_BY


@compiled(INT, INT, INT, INT, INT)
def possible_relations(xs, xe, ys, ye):
    """The relations that two touching intervals, perhaps still open, may turn out to have.

    What lies apart is taken for immediate succession: nothing else comes into the pair index.
    """
    if xe < ys:
        return _FOLLOWED_BY
    if ye < xs:
        return _FOLLOWS
    if xe == ys:
        return _MEETS
    if ye == xs:
        return _MET_BY
    if xs < ys:
        if xe == OPEN and ye == OPEN:
            return _STARTS_FIRST
        return _OVERLAPS if xe < ye else (_CONTAINS if ye < xe else _FINISHED_BY)
    if xs > ys:
        if xe == OPEN and ye == OPEN:
            return _STARTS_LAST
        return _DURING if xe < ye else (_OVERLAPPED_BY if ye < xe else _FINISHES)
    if xe == OPEN and ye == OPEN:
        return _STARTS_TOGETHER
    return _STARTS if xe < ye else (_STARTED_BY if ye < xe else _EQUALS)


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
