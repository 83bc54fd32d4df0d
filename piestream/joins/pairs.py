"""The pair index: decided pairs, found from the interval on either side.

Partners of an interval are decided in the order of their starts, and between the lowest and the
highest every interval of the other symbol is contained in this one. So two ids a side are the
whole index of a constraint (layout.WALK_*), whatever the number of pairs.
"""

from __future__ import annotations

from piestream.joins.layout import (
    CON_SIDES,
    CON_WORDS,
    CON_X,
    CON_Y,
    CONSTRAINTS_AT,
    END,
    NOWHERE,
    OPEN,
    RING_HEAD,
    SIDE_ALLOWED,
    SIDE_EARLIER,
    SIDE_LATER,
    SIDE_LO,
    SIDE_WALK,
    SIDE_WORDS,
    START,
    WALK_ALL,
    WALK_ENDS,
)
from piestream.joins.rings import slot_of
from piestream.loops import BOOL, INT, NOTHING, WORDS, compiled
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


@compiled(NOTHING, WORDS, INT, INT)
def add_partner(pool, lo, partner):
    """Note a partner in the two words at ``lo``."""
    if pool[lo] == NOWHERE:
        pool[lo] = partner
        pool[lo + 1] = partner
    else:
        pool[lo] = min(pool[lo], partner)
        pool[lo + 1] = max(pool[lo + 1], partner)


@compiled(NOTHING, WORDS, INT, INT, INT)
def drop_partner(pool, lo, walk, partner):
    """Forget the latest partner, whose run turned out not to be there."""
    if pool[lo + 1] != partner:
        return
    if pool[lo] == partner:
        pool[lo] = NOWHERE
        pool[lo + 1] = NOWHERE
    elif walk == WALK_ENDS:
        pool[lo + 1] = pool[lo]
    else:
        pool[lo + 1] = partner - 1


@compiled(BOOL, WORDS, WORDS, INT, INT, INT, INT, INT, INT)
def is_pair(code, pool, constraint, side, slot, slot_id, other, other_id):
    """Whether the interval on ``side`` and the other one are a decided pair of the constraint."""
    con = code[CONSTRAINTS_AT] + constraint * CON_WORDS
    block = con + CON_SIDES + side * SIDE_WORDS
    lo = pool[slot + code[block + SIDE_LO]]
    hi = pool[slot + code[block + SIDE_LO] + 1]
    if lo != NOWHERE and lo <= other_id <= hi:
        walk = code[block + SIDE_WALK]
        if walk == WALK_ALL:
            return True
        if walk == WALK_ENDS:
            if other_id == lo or other_id == hi:
                return True
        else:
            allowed = code[block + SIDE_ALLOWED]
            possible = possible_relations(
                pool[slot + START], pool[slot + END], pool[other + START], pool[other + END]
            )
            if possible & allowed == possible:
                return True
    later = code[block + SIDE_LATER]
    if later != NOWHERE and pool[slot + later] >= other_id:
        return True
    if code[block + SIDE_EARLIER] != NOWHERE:
        later = code[con + CON_SIDES + (1 - side) * SIDE_WORDS + SIDE_LATER]
        return pool[other + later] >= slot_id
    return False


@compiled(INT, WORDS, WORDS, INT, INT, INT, INT)
def first_after(part, pool, ring, width, slot, word):
    """The first live interval of a ring that began after the one at ``slot`` ended.

    ``word`` of the slot says which had not begun when it ended.
    """
    first = pool[slot + word]
    if first > part[ring + RING_HEAD]:
        before = slot_of(part, ring, width, first - 1)
        if pool[before + START] > pool[slot + END]:
            first -= 1  # the slot that was open then was dropped and given to a later interval
    return max(first, part[ring + RING_HEAD])


@compiled(INT, WORDS, INT, INT)
def symbol_on(code, con, side):
    """The symbol on one side of a constraint."""
    return code[con + CON_Y] if side == 1 else code[con + CON_X]
