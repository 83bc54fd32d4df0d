"""The pair index: decided pairs, found from the interval on either side.

Partners of an interval are decided in the order of their starts, and between the lowest and the
highest every interval of the other symbol is contained in this one. So two ids a side are the
whole index of a constraint (`ScanMode`), whatever the number of pairs.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.records import kernel
from piestream.joins.records import Constraint, Partners, ScanMode, Slot
from piestream.relations import Relation

_FOLLOWED_BY = int(Relation.FOLLOWED_BY)
_MEETS = int(Relation.MEETS)
_OVERLAPS = int(Relation.OVERLAPS)
_MET_BY = int(Relation.MET_BY)
_FOLLOWS = int(Relation.FOLLOWS)


@kernel
def possible_relations(xs: int, xe: int, ys: int, ye: int) -> int:
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
    # nine relations in the order of `Relation`: by the order of the starts, then of the ends
    starts = int(xs >= ys) + int(xs > ys)
    if xe == OPEN and ye == OPEN:
        return _OVERLAPS * 7 << 3 * starts
    ends = int(xe >= ye) + int(xe > ye)
    return _OVERLAPS << 3 * starts + ends


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
def drop_partner(partners: Partners, scan: int, slot_id: int) -> None:
    """Forget the latest partner, whose run turned out not to be there."""
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
    constraint: Constraint, side: int, slot: Slot, slot_id: int, other: Slot, other_id: int
) -> bool:
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
            possible = possible_relations(slot.start, slot.end, other.start, other.end)
            if possible & mine.allowed == possible:
                return True
    if mine.last_ended_before != NONE and slot[mine.last_ended_before] >= other_id:
        return True
    if mine.first_starting_after != NONE:
        return other[constraint.sides[1 - side].last_ended_before] >= slot_id
    return False
