"""Unions of intervals that overlap or lie near, and how many intervals there are at each time."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, Times, kernel


@kernel
def find_unions(
    groups_array: Times, starts_array: Times, ends_array: Times, gap: int
) -> tuple[Array, Array]:
    """The place of the first interval of each union, and the union's end.

    Intervals are sorted by group and start. One belongs to the union before it if it begins no more
    than ``gap`` after its end.
    """
    n: int = groups_array.size
    groups = pointer(groups_array)
    starts = pointer(starts_array)
    ends = pointer(ends_array)
    first_array = np.empty(n, np.int64)
    last_array = np.empty(n, np.int64)
    first_of = pointer(first_array)
    end_of = pointer(last_array)
    found = -1
    for place in range(n):
        goes_on = False
        if place and groups[place] == groups[place - 1]:
            end = end_of[found]
            goes_on = starts[place] <= end or bool(
                np.uint64(starts[place]) - np.uint64(end) <= np.uint64(gap)
            )
        if goes_on:
            end_of[found] = max(end_of[found], ends[place])
        else:
            found += 1
            first_of[found] = place
            end_of[found] = ends[place]
    keep_alive(first_array)
    keep_alive(last_array)
    return first_array[: found + 1], last_array[: found + 1]


@kernel
def find_depths(
    offsets_array: Times, starts_array: Times, ends_array: Times
) -> tuple[Array, Array, Array, Array]:
    """Group, start, end and number of intervals of each longest stretch with equally many, if any.

    Starts, and ends by themselves, are sorted by group and time; ``offsets_array`` says where groups begin.
    """
    n_groups: int = offsets_array.size - 1
    offsets = pointer(offsets_array)
    starts = pointer(starts_array)
    ends = pointer(ends_array)
    most = 2 * starts_array.size
    group_array = np.empty(most, np.int64)
    from_array = np.empty(most, np.int64)
    until_array = np.empty(most, np.int64)
    count_array = np.empty(most, np.int64)
    found = 0
    for group in range(n_groups):
        high = offsets[group + 1]
        begun = offsets[group]
        ended = begun
        since = 0
        while ended < high:
            time = min(ends[ended], starts[begun] if begun < high else INT64_MAX)
            before = begun - ended
            while begun < high and starts[begun] == time:
                begun += 1
            while ended < high and ends[ended] == time:
                ended += 1
            if begun - ended != before:
                if before:
                    group_array[found] = group
                    from_array[found] = since
                    until_array[found] = time
                    count_array[found] = before
                    found += 1
                since = time
    return group_array[:found], from_array[:found], until_array[:found], count_array[:found]
