"""How much of an interval is covered by a union of others, and how many of them share an instant."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Times, WordRows, Words, kernel
from piestream.interval_tables.loops.search import first_at, first_behind


@kernel
def _covered_until(unions: Words, n: int, low: int, high: int, time: int, hints: Words) -> int:
    """The time covered before an instant, by the unions ``[low, high)`` and those before them.

    ``unions`` has n starts, n ends, and for each the length of all before.
    """
    union = first_behind(at_word(unions, n), low, high, hints[0], time)
    hints[0] = union
    covered = unions[2 * n + union]
    if union < high and unions[union] < time:
        covered += time - unions[union]
    return covered


@kernel
def measure_cover(
    groups_array: Times, times: WordRows, offsets_array: Times, y_times: WordRows,
    union_offsets_array: Times, unions_array: WordRows,
) -> tuple[Array, Array]:  # fmt: skip
    """For each interval of x, the time that is covered, and how many of y share an instant with it.

    ``y_times`` has the starts of y, and in a second row the ends, each sorted by group. The last column of
    ``unions_array`` is none: it has the length of all unions.
    """
    n: int = groups_array.size
    n_unions: int = unions_array.shape[1]
    groups = pointer(groups_array)
    starts = pointer(times[0])
    ends = pointer(times[1])
    offsets = pointer(offsets_array)
    union_offsets = pointer(union_offsets_array)
    unions = pointer(unions_array)
    y_starts = pointer(y_times[0])
    y_ends = pointer(y_times[1])
    covered_array = np.zeros(n, np.int64)
    count_array = np.zeros(n, np.int64)
    hints_array = np.zeros(2, np.int64)
    hints = pointer(hints_array)
    begun = 0
    ended = 0
    for x in range(n):
        group = groups[x]
        if group == 0:
            continue
        low = union_offsets[group]
        high = union_offsets[group + 1]
        until = _covered_until(unions, n_unions, low, high, ends[x], at_word(hints, 1))
        before = _covered_until(unions, n_unions, low, high, starts[x], hints)
        covered_array[x] = until - before
        low = offsets[group]
        high = offsets[group + 1]
        begun = first_at(y_starts, low, high, begun, ends[x])
        ended = first_behind(y_ends, low, high, ended, starts[x])
        count_array[x] = begun - ended
    keep_alive(hints_array)
    return covered_array, count_array
