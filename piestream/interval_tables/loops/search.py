"""Looking for places in sorted intervals: by the endpoint that sorts them, and by the other."""

from __future__ import annotations

from piestream.compiled.records import Words, kernel
from piestream.interval_tables.loops.records import BLOCK_BITS, Index

_BLOCK = 1 << BLOCK_BITS


@kernel
def first_at(times: Words, low: int, high: int, hint: int, time: int) -> int:
    """The first of the places ``[low, high)`` whose time is at least ``time``, else ``high``.

    Gallops from ``hint``, because the place is nearly always close by.
    """
    step = 1
    left = low
    right = high
    hint = min(max(hint, low), high)
    if hint < high and times[hint] < time:
        left = hint + 1
        ahead = left
        while ahead < high and times[ahead] < time:
            left = ahead + 1
            ahead += step
            step <<= 1
        right = min(ahead, high)
    else:
        right = hint
        behind = hint - 1
        while behind >= low and times[behind] >= time:
            right = behind
            behind -= step
            step <<= 1
        left = max(behind + 1, low)
    while left < right:
        middle = (left + right) >> 1
        if times[middle] < time:
            left = middle + 1
        else:
            right = middle
    return left


@kernel
def first_behind(times: Words, low: int, high: int, hint: int, time: int) -> int:
    """The first of the places ``[low, high)`` whose time is later than ``time``, else ``high``."""
    if time == (1 << 63) - 1:
        return high
    return first_at(times, low, high, hint, time + 1)


@kernel
def next_within(index: Index, place: int, end: int, first: int, last: int) -> int:
    """The first place in ``[place, end)`` whose other endpoint is in ``[first, last]``, else ``end``.

    Blocks in which there can be none are passed over, and blocks of them: a heap over the other
    endpoint, of 16 children a node.
    """
    others = index.others
    while place < end and place & (_BLOCK - 1):
        if first <= others[place] <= last:
            return place
        place += 1
    level = 0
    while place < end:
        block = index.levels[level] + (place >> ((level + 1) * BLOCK_BITS))
        if index.highest[block] >= first and index.lowest[block] <= last:
            if level:
                level -= 1
                continue
            until = min(place + _BLOCK, end)
            while place < until:
                if first <= others[place] <= last:
                    return place
                place += 1
        else:
            place += 1 << ((level + 1) * BLOCK_BITS)
        while level + 1 < index.n_levels and not place >> ((level + 1) * BLOCK_BITS) & (_BLOCK - 1):
            level += 1
    return end
