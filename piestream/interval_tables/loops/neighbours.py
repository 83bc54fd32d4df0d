"""What an interval is immediately followed by, and what it immediately follows."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Array, Times, WordRows, kernel
from piestream.interval_tables.loops.search import first_at, first_behind


@kernel
def running_latest(groups_array: Times, ends_array: Times) -> Array:
    """The latest end so far in a group, of intervals sorted by group."""
    n: int = groups_array.size
    groups = pointer(groups_array)
    ends = pointer(ends_array)
    latest_array = np.empty(n, np.int64)
    latest = pointer(latest_array)
    for place in range(n):
        latest[place] = ends[place]
        if place and groups[place - 1] == groups[place]:
            latest[place] = max(latest[place], latest[place - 1])
    return latest_array


@kernel
def find_neighbours(
    groups_array: Times, times_array: WordRows, all_offsets: Times, all_times: WordRows
) -> WordRows:
    """For each interval of x, the start of what follows it at once, and the end of what it follows.

    ``all_times`` has the starts of the intervals of both tables, sorted by group and start, and
    the latest end so far of each. Where anything touches the gap, nothing follows: INT64_MAX, and
    nothing is followed: INT64_MIN.
    """
    n: int = groups_array.size
    groups = pointer(groups_array)
    offsets = pointer(all_offsets)
    starts = pointer(times_array[0])
    ends = pointer(times_array[1])
    all_starts = pointer(all_times[0])
    latest = pointer(all_times[1])
    found = np.empty((2, n), np.int64)
    next_start = pointer(found[0])
    previous_end = pointer(found[1])
    behind = 0
    before = 0
    for x in range(n):
        low = offsets[groups[x]]
        high = offsets[groups[x] + 1]
        behind = first_behind(all_starts, low, high, behind, ends[x])
        blocked = behind > low and latest[behind - 1] > ends[x]
        next_start[x] = INT64_MAX if blocked or behind == high else all_starts[behind]
        before = first_at(all_starts, low, high, before, starts[x])
        blocked = before == low or latest[before - 1] >= starts[x]
        previous_end[x] = INT64_MIN if blocked else latest[before - 1]
    keep_alive(found)
    return found
