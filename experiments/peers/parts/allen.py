"""Relations of intervals by their endpoints, as compiled functions that the baselines share.

Relations are positions in :class:`piestream.relations.Relation`. Its order puts the relations
that share their first two endpoints (TPStream's prefix groups G3, G2 and G3') next to each other:
3-5 begin ``x.ts < y.ts < x.te``, 6-8 begin ``x.ts = y.ts``, 9-11 begin ``y.ts < x.ts < y.te``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from experiments.peers.pattern import Ints

#: The end of an interval that is still open.
OPEN = np.iinfo(np.int64).max

BEFORE, MEETS, OVERLAPS, FINISHED_BY, CONTAINS = 0, 2, 3, 4, 5
STARTS, EQUALS, STARTED_BY = 6, 7, 8
DURING, FINISHES, OVERLAPPED_BY, MET_BY, AFTER = 9, 10, 11, 12, 14

#: The relations that become certain when x ends.
ON_END = sum(
    1 << position for position in (OVERLAPS, FINISHED_BY, STARTS, EQUALS, DURING, FINISHES)
)
#: The relations that become certain when x starts.
ON_START = 1 << MET_BY | 1 << AFTER


@njit(cache=True, nogil=True)
def relation_of(xs: int, xe: int, ys: int, ye: int) -> int:
    """The position of the relation of [xs, xe) to [ys, ye)."""
    if xe <= ys:
        return BEFORE if xe < ys else MEETS
    if ye <= xs:
        return AFTER if ye < xs else MET_BY
    if xs < ys:
        first = OVERLAPS
    elif xs == ys:
        first = STARTS
    else:
        if xe < ye:
            return DURING
        return FINISHES if xe == ye else OVERLAPPED_BY
    if xe < ye:
        return first
    return first + 1 if xe == ye else first + 2


@njit(cache=True, nogil=True)
def group_complete(allowed: int, position: int) -> bool:
    """Whether all relations of this one's prefix group are allowed (G2, G3, G3')."""
    if position < OVERLAPS or position > OVERLAPPED_BY:
        return False
    return (allowed >> (position - position % 3)) & 7 == 7


@njit(cache=True, nogil=True)
def decided(allowed: int, xs: int, xe: int, ys: int, ye: int) -> bool:
    """Whether the relation of two intervals, ends OPEN where unknown, is certainly allowed."""
    position = relation_of(xs, xe, ys, ye)
    if not (allowed >> position) & 1:
        return False
    if xe == OPEN and ye == OPEN:
        return group_complete(allowed, position)
    return True


@njit(cache=True, nogil=True)
def first_not_below(keys: Ints, low: int, high: int, wrap: int, value: int) -> int:
    """The first logical index in [low, high) of a sorted ring whose key is value or more."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle & wrap] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def partners(
    position: int, s: int, e: int, ts: Ints, te: Ints, low: int, high: int, wrap: int
) -> tuple[int, int]:
    """The range of finished intervals b in a ring for which [s, e) is in one relation to b.

    Two range conditions, one on the starts and one on the ends (TPStream 5.2): up to four
    binary searches. Both keys are sorted, so the result is one contiguous range.
    """
    if e == OPEN:
        # Nothing that has ended can end after, or with, an interval that has not.
        if position < CONTAINS or position in (STARTS, EQUALS):
            return 0, 0
        if position in (DURING, FINISHES):
            return 0, 0
    # Starts.
    if position == BEFORE:
        low = first_not_below(ts, low, high, wrap, e + 1)
    elif position == MEETS:
        low = first_not_below(ts, low, high, wrap, e)
        high = first_not_below(ts, low, high, wrap, e + 1)
    elif position in (OVERLAPS, FINISHED_BY):
        low = first_not_below(ts, low, high, wrap, s + 1)
        high = first_not_below(ts, low, high, wrap, e)
    elif position == CONTAINS:
        low = first_not_below(ts, low, high, wrap, s + 1)
    elif position >= STARTS and position <= STARTED_BY:
        low = first_not_below(ts, low, high, wrap, s)
        high = first_not_below(ts, low, high, wrap, s + 1)
    elif position >= DURING and position <= OVERLAPPED_BY:
        high = first_not_below(ts, low, high, wrap, s)
    # Ends.
    if position in (OVERLAPS, STARTS, DURING):
        low = first_not_below(te, low, high, wrap, e + 1)
    elif position in (FINISHED_BY, EQUALS, FINISHES):
        low = first_not_below(te, low, high, wrap, e)
        high = first_not_below(te, low, high, wrap, e + 1)
    elif position in (CONTAINS, STARTED_BY):
        high = first_not_below(te, low, high, wrap, e)
    elif position == OVERLAPPED_BY:
        low = first_not_below(te, low, high, wrap, s + 1)
        high = first_not_below(te, low, high, wrap, e)
    elif position == MET_BY:
        low = first_not_below(te, low, high, wrap, s)
        high = first_not_below(te, low, high, wrap, s + 1)
    elif position == AFTER:
        high = first_not_below(te, low, high, wrap, s)
    return low, high
