"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from piestream.intervals.runs import TIMES, first_row_at
from piestream.joins.event import bring_up_to_date, plus, work_on_event
from piestream.joins.layout import (
    DUE,
    GAP,
    HAS_CELLS,
    INT64_MAX,
    LAST_TIME,
    MASK,
    N_READERS,
    N_SYMBOLS,
    NOWHERE,
    PARTITION_WORDS,
    SCRATCH_BOUND,
    SCRATCH_ROWS,
    USED,
    WALK_WORDS,
)

_RESULT = types.Tuple((*[types.int64[::1]] * 3, types.int64))


@njit("int64[::1](int64[::1])", cache=True, nogil=True)
def new_scratch(code):
    """Room for what is kept while one call works."""
    return np.zeros(SCRATCH_BOUND + (3 + WALK_WORDS) * code[N_SYMBOLS], np.int64)


@njit("int64[::1](int64[::1])", cache=True, nogil=True)
def new_items(code):
    """Room for all that can become known at one event."""
    return np.empty(4 * (8 * code[N_READERS] + 2 * code[N_SYMBOLS]), np.int64)


@njit(
    _RESULT(
        *[types.int64[::1]] * 6, TIMES, *[types.int64[::1]] * 3, types.int64[:, ::1],
        types.uint8[:, ::1],
    ),  # fmt: skip
    cache=True,
    nogil=True,
)
def detect(
    code, parts, pool, waiting, partitions, row_offsets, times, change_rows, change_masks,
    change_offsets, columns, known,
):
    """Work through a batch sorted by partition and time.

    ``partitions[g]`` is the partition of the rows ``row_offsets[g]`` to ``row_offsets[g + 1]``.
    Of them only the changes, and the events at which a minimum length is reached, are looked at.
    Gives the pool, the waiting matches, the result rows and their number.
    """
    n = code[N_SYMBOLS]
    scratch = new_scratch(code)
    items = new_items(code)
    found = np.empty(64 * n, np.int64)
    rows = np.empty(256, np.int64)
    words = code[PARTITION_WORDS]
    gap = code[GAP]
    for g in range(partitions.size):
        partition = partitions[g]
        part = parts[partition * words : (partition + 1) * words]
        row_end = row_offsets[g + 1]
        change_end = change_offsets[g + 1]
        if code[HAS_CELLS]:
            for s in range(n):
                scratch[SCRATCH_BOUND + (2 + WALK_WORDS) * n + s] = row_offsets[g]
        for change in range(change_offsets[g], change_end):
            row = change_rows[change]
            time = times[row]
            mask = change_masks[change]
            if gap != NOWHERE and part[MASK]:
                last = times[row - 1] if row > row_offsets[g] else part[LAST_TIME]
                if np.uint64(time) - np.uint64(last) > np.uint64(gap):
                    pool, waiting, found, rows, items = work_on_event(
                        code, part, partition, pool, waiting, found, rows, items, scratch,
                        columns, known, last + gap, 0, row, False,
                    )  # fmt: skip
            if mask != part[MASK] or part[DUE] <= time:
                pool, waiting, found, rows, items = work_on_event(
                    code, part, partition, pool, waiting, found, rows, items, scratch,
                    columns, known, time, mask, row, True,
                )  # fmt: skip
            following = change_rows[change + 1] if change + 1 < change_end else row_end
            while part[DUE] <= times[following - 1]:
                row = first_row_at(times, row + 1, following, part[DUE])
                if row >= following:
                    break
                pool, waiting, found, rows, items = work_on_event(
                    code, part, partition, pool, waiting, found, rows, items, scratch,
                    columns, known, times[row], mask, row, True,
                )  # fmt: skip
        part[LAST_TIME] = times[row_end - 1]
        if code[HAS_CELLS]:
            mask = part[MASK]
            for s in range(n):
                if mask >> s & 1:
                    bring_up_to_date(code, part, pool, columns, known, s, row_end, scratch)
    return pool, waiting, rows, scratch[SCRATCH_ROWS]


@njit(
    _RESULT(*[types.int64[::1]] * 5, types.int64),
    cache=True,
    nogil=True,
)
def close_silences(code, parts, pool, waiting, partitions, now):
    """End what a silence longer than MAX GAP has ended by ``now`` in these partitions."""
    scratch = new_scratch(code)
    items = new_items(code)
    found = np.empty(64 * code[N_SYMBOLS], np.int64)
    rows = np.empty(256, np.int64)
    columns = np.empty((0, 0), np.int64)
    known = np.empty((0, 0), np.uint8)
    words = code[PARTITION_WORDS]
    for partition in partitions:
        part = parts[partition * words : (partition + 1) * words]
        if part[MASK] and plus(part[LAST_TIME], code[GAP]) < now:
            pool, waiting, found, rows, items = work_on_event(
                code, part, partition, pool, waiting, found, rows, items, scratch, columns, known,
                part[LAST_TIME] + code[GAP], 0, 0, False,
            )  # fmt: skip
    return pool, waiting, rows, scratch[SCRATCH_ROWS]


@njit("int64[::1](int64[::1], int64[::1], int64)", cache=True, nogil=True)
def next_silences(code, parts, n_partitions):
    """When the silence of each partition with open intervals will be too long."""
    words = code[PARTITION_WORDS]
    ends = np.empty(n_partitions, np.int64)
    for partition in range(n_partitions):
        at = partition * words
        ends[partition] = INT64_MAX
        if parts[at + USED] and parts[at + MASK]:
            ends[partition] = plus(parts[at + LAST_TIME], code[GAP])
    return ends
