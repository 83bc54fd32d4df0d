"""Sorting the partners of one interval, which nearly always lie in order already."""

from __future__ import annotations

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, Words, kernel


@kernel
def _end_of_run(ranks: Words, first: int, count: int) -> int:
    """Where the ascending run that begins at ``first`` ends."""
    end = first + 1
    while end < count and ranks[end - 1] <= ranks[end]:
        end += 1
    return end


@kernel
def _merge_runs(ranks: Words, first: int, middle: int, end: int, scratch: Words) -> None:
    """Merge two ascending runs that lie one behind the other."""
    for left in range(middle - first):
        scratch[left] = ranks[first + left]
    left = 0
    right = middle
    to = first
    while left < middle - first:
        if right < end and ranks[right] < scratch[left]:
            ranks[to] = ranks[right]
            right += 1
        else:
            ranks[to] = scratch[left]
            left += 1
        to += 1


@kernel
def sort_ranks(ranks: Words, count: int, scratch: Array) -> Array:
    """Sort ranks where they lie, by merging the runs that ascend; gives room for the next sort."""
    if count < 2 or _end_of_run(ranks, 0, count) == count:
        return scratch
    scratch = ensure_capacity(scratch, 0, count)
    runs = 2
    while runs > 1:
        runs = 0
        first = 0
        while first < count:
            middle = _end_of_run(ranks, first, count)
            end = middle
            if middle < count:
                end = _end_of_run(ranks, middle, count)
                _merge_runs(ranks, first, middle, end, pointer(scratch))
            first = end
            runs += 1
    return scratch
