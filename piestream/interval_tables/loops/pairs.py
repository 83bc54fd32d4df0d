"""The interval join: for each interval of x its partners in y, box by box.

A box with one bound or none on an endpoint is read from the index by the other endpoint: what lies in
the range of places there costs no more than what is given, because blocks without any are passed over.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Times, WordRows, Words, kernel
from piestream.interval_tables.loops.records import (
    ANYWHERE,
    EARLIER,
    END,
    FIRST_END,
    FIRST_START,
    LAST_END,
    LAST_START,
    LATER,
    SIDES,
    START,
    Box,
    Boxes,
    Index,
)
from piestream.interval_tables.loops.search import first_at, first_behind, next_within
from piestream.interval_tables.loops.sort import sort_ranks

HINTS = 8


@kernel
def _narrow(limits: Words, side: int, time: int, offset: int) -> None:
    """Narrow one side of a box. No interval has the first or the last of all times."""
    bound = time + offset
    is_first = side == FIRST_START or side == FIRST_END
    if offset > 0 and bound < time:
        bound = INT64_MAX
    elif offset < 0 and bound > time:
        bound = INT64_MIN
    if is_first:
        limits[side] = max(limits[side], bound)
    else:
        limits[side] = min(limits[side], bound)


@kernel
def _set_limits(box: Box, times: Words, stride: int, limits: Words) -> bool:
    """The sides of a box for one interval of x; gives whether anything can lie in it."""
    limits[FIRST_START] = INT64_MIN
    limits[LAST_START] = INT64_MAX
    limits[FIRST_END] = INT64_MIN
    limits[LAST_END] = INT64_MAX
    for number in range(box.n_bounds):
        bound = box.bounds[number]
        _narrow(limits, bound.side, times[bound.time * stride], bound.ticks)
    return limits[FIRST_START] <= limits[LAST_START] and limits[FIRST_END] <= limits[LAST_END]


@kernel
def _take(index: Index, place: int, end: int, first: int, last: int, most: int, out: Words) -> int:
    """The ranks of the first ``most`` intervals in ``[place, end)`` whose other endpoint fits."""
    found = 0
    if first == INT64_MIN and last == INT64_MAX:
        end = min(end, place + most) if end - place > most else end
        for here in range(place, end):
            out[found] = index.rank[here]
            found += 1
        return found
    while found < most:
        place = next_within(index, place, end, first, last)
        if place >= end:
            break
        out[found] = index.rank[place]
        found += 1
        place += 1
    return found


@kernel
def _take_latest(
    index: Index, place: int, end: int, first: int, last: int, most: int, out: Words
) -> int:
    """The same for the last of them: of those that end together, the first by rank."""
    found = 0
    while end > place and found < most:
        time = index.times[end - 1]
        together = first_at(index.times, place, end, end - 1, time)
        found += _take(index, together, end, first, last, most - found, at_word(out, found))
        end = together
    return found


@kernel
def _range(index: Index, low: int, high: int, first: int, last: int, hints: Words) -> int:
    """The first place of those whose time is in ``[first, last]``; ``hints[1]`` is the end of them."""
    begin = first_at(index.times, low, high, hints[0], first)
    hints[0] = begin
    hints[1] = first_behind(index.times, begin, high, hints[1], last)
    return begin


@kernel
def _exact(index: Index, place: int, end: int, first: int, last: int, hints: Words) -> int:
    """The same among places of one time, where the other endpoints are in order too."""
    begin = first_at(index.others, place, end, place, first)
    hints[0] = begin
    hints[1] = first_behind(index.others, begin, end, begin, last)
    return begin


@kernel
def _first_alive(index: Index, place: int, end: int, first: int, hints: Words) -> int:
    """The first place in ``[place, end)`` whose other endpoint is ``first`` or later.

    ``hints`` has the last such place and what was asked for: intervals before it need not be looked
    at again, as long as what is asked for does not become earlier.
    """
    if hints[1] <= first:
        place = min(max(place, hints[0]), end)
    place = next_within(index, place, end, first, INT64_MAX)
    hints[0] = place
    hints[1] = first
    return place


@kernel
def _take_box(
    where: int, by_start: Index, by_end: Index, limits: Words, low: int, high: int,
    hints: Words, most: int, out: Words,
) -> int:  # fmt: skip
    """The ranks of the intervals of a group that lie in a box."""
    start = 0
    end = 0
    ends_bounded = limits[FIRST_END] != INT64_MIN and limits[LAST_END] != INT64_MAX
    starts_bounded = limits[FIRST_START] != INT64_MIN and limits[LAST_START] != INT64_MAX
    by_ends = where == EARLIER or (ends_bounded and where != LATER)
    if not by_ends or (starts_bounded and where != EARLIER):
        start = _range(by_start, low, high, limits[FIRST_START], limits[LAST_START], hints)
        end = hints[1]
    if by_ends:
        other = at_word(hints, 2)
        from_end = _range(by_end, low, high, limits[FIRST_END], limits[LAST_END], other)
        fewer = not starts_bounded or other[1] - from_end < end - start
        if where == EARLIER or fewer:
            start = from_end
            end = other[1]
            first = limits[FIRST_START]
            last = limits[LAST_START]
            if limits[FIRST_END] == limits[LAST_END]:
                scratch = at_word(hints, 4)
                start = _exact(by_end, start, end, first, last, scratch)
                end = scratch[1]
                first = INT64_MIN
                last = INT64_MAX
            if where == EARLIER:
                return _take_latest(by_end, start, end, first, last, most, out)
            return _take(by_end, start, end, first, last, end - start, out)
    first = limits[FIRST_END]
    last = limits[LAST_END]
    if limits[FIRST_START] == INT64_MIN and first != INT64_MIN:
        start = _first_alive(by_start, start, end, first, at_word(hints, 6))
    if limits[FIRST_START] == limits[LAST_START]:
        scratch = at_word(hints, 4)
        start = _exact(by_start, start, end, first, last, scratch)
        end = scratch[1]
        first = INT64_MIN
        last = INT64_MAX
    return _take(by_start, start, end, first, last, min(most, end - start), out)


@kernel
def _nearer(by_start: Index, ends: Words, times: Words, stride: int, late: int, early: int) -> bool:
    """Whether the later partner is nearer than the earlier one; of equals, the first by rank."""
    to_late = np.uint64(by_start.times[late]) - np.uint64(times[END * stride])
    to_early = np.uint64(times[START * stride]) - np.uint64(ends[early])
    return bool(to_late < to_early)


@kernel
def _keep_nearest(
    by_start: Index, times: Words, stride: int, parts: Words, most: int, out: Words
) -> int:
    """Of what touches, what is later and what is earlier, in this order, keep the nearest.

    ``parts`` has the number of each; those that are later, and those that are earlier, begin with
    the nearest.
    """
    touching = parts[ANYWHERE]
    later = touching
    earlier = touching + parts[LATER]
    last_later = earlier
    last_earlier = earlier + parts[EARLIER]
    scratch_array = np.empty(max(most, 1), np.int64)
    scratch = pointer(scratch_array)
    found = 0
    while found + touching < most and (later < last_later or earlier < last_earlier):
        if earlier >= last_earlier or (
            later < last_later
            and _nearer(by_start, by_start.others, times, stride, out[later], out[earlier])
        ):
            scratch[found] = out[later]
            later += 1
        else:
            scratch[found] = out[earlier]
            earlier += 1
        found += 1
    for number in range(found):
        out[touching + number] = scratch[number]
    keep_alive(scratch_array)
    return min(touching + found, most)


@kernel
def find_pairs(
    groups_array: Times, times_array: WordRows, offsets_array: Times, boxes_array: Array,
    index_header: Array, by_start_array: WordRows, start_blocks: WordRows,
    by_end_array: WordRows, end_blocks: WordRows, most: int, expected: int, budget: int,
) -> tuple[Array, Array]:  # fmt: skip
    """How many partners each interval of x has, and their places by start, one after the other.

    ``times_array`` has a row for each time of x that a box can depend on. Intervals of one group are
    together, and best in order of start. The group 0 has no partners. ``most`` is how many
    partners an interval keeps, the nearest ones, INT64_MAX for all. There is room for the ``expected``
    number of pairs; more is made by copying. With more pairs than the ``budget`` the rest of x is left.
    """
    n: int = groups_array.size
    groups = pointer(groups_array)
    offsets = pointer(offsets_array)
    boxes = Boxes(pointer(boxes_array))
    header = pointer(index_header)
    by_start = Index(
        header, pointer(by_start_array[0]), pointer(by_start_array[1]),
        pointer(start_blocks[0]), pointer(start_blocks[1]), pointer(by_start_array[2]),
    )  # fmt: skip
    by_end = Index(
        header, pointer(by_end_array[0]), pointer(by_end_array[1]),
        pointer(end_blocks[0]), pointer(end_blocks[1]), pointer(by_end_array[2]),
    )  # fmt: skip
    counts_array = np.zeros(n, np.int64)
    counts = pointer(counts_array)
    partners_array = np.empty(expected, np.int64)
    partners = pointer(partners_array)
    scratch_array = np.empty(64, np.int64)
    # for each box the last places found by start and by end, room for one more search, and the
    # first interval that has not ended
    hints_array = np.zeros(HINTS * boxes.count, np.int64)
    limits_array = np.empty(SIDES, np.int64)
    limits = pointer(limits_array)
    parts_array = np.empty(3, np.int64)
    parts = pointer(parts_array)
    found = 0
    done = n
    for x in range(n):
        if found > budget:
            done = x
            break
        low = offsets[groups[x]]
        high = offsets[groups[x] + 1]
        if groups[x] == 0 or low == high:
            continue
        times = at_word(pointer(times_array), x)
        before = found
        parts[ANYWHERE] = parts[LATER] = parts[EARLIER] = 0
        for number in range(boxes.count):
            box = boxes.of[number]
            if not _set_limits(box, times, n, limits):
                continue
            partners_array = ensure_capacity(partners_array, found, high - low)
            partners = pointer(partners_array)
            added = _take_box(
                box.where, by_start, by_end, limits, low, high,
                at_word(pointer(hints_array), HINTS * number), most, at_word(partners, found),
            )  # fmt: skip
            parts[box.where] += added
            found += added
            if box.where == ANYWHERE and most != INT64_MAX:
                scratch_array = sort_ranks(at_word(partners, before), found - before, scratch_array)
                found = min(found, before + most)
                parts[ANYWHERE] = found - before
        if most != INT64_MAX:
            here = at_word(partners, before)
            found = before + _keep_nearest(by_start, times, n, parts, most, here)
        scratch_array = sort_ranks(at_word(partners, before), found - before, scratch_array)
        counts[x] = found - before
    keep_alive(hints_array)
    keep_alive(limits_array)
    keep_alive(parts_array)
    return counts_array[:done], partners_array[:found]
