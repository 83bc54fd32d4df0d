"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.intervals.runs import first_row_at
from piestream.joins.event import (
    ITEM_WORDS,
    bring_up_to_date,
    complete_matches,
    minus,
    plus,
    take_in,
    with_room_for,
)
from piestream.joins.extend import DONE
from piestream.joins.layout import (
    DUE,
    EMIT_BOTH,
    GAP,
    HAS_CELLS,
    INT64_MAX,
    LAST_TIME,
    MASK,
    N_OUTPUTS,
    N_READERS,
    N_SYMBOLS,
    NOWHERE,
    PARTITION_WORDS,
    ROW_OUTPUTS,
    SCRATCH_BOUND,
    SCRATCH_DEPTH,
    SCRATCH_FOUND,
    SCRATCH_ITEM,
    SCRATCH_ROWS,
    USED,
    WAITING,
    WAITING_USED,
    WAITING_WORDS,
    WALK_WORDS,
    WINDOW,
)
from piestream.joins.report import complete, report, with_space
from piestream.loops import TIMES, borrowed

# what is looked at next: a silence before a change of mask, the change, until the next change the
# events at which an interval reaches its minimum length, and at last the silence up to now
_SILENCE, _CHANGE, _DUE, _NOW = range(4)


@njit("int64[::1](int64[::1])", cache=True, nogil=True)
def new_scratch(code):
    """Room for what is kept while one call works, and for all that one event can make known."""
    n = code[N_SYMBOLS]
    items = ITEM_WORDS * (8 * code[N_READERS] + 2 * n)
    return np.zeros(SCRATCH_BOUND + (3 + WALK_WORDS) * n + items, np.int64)


@njit(
    types.Tuple((*[types.int64[::1]] * 3, types.int64))(
        *[types.int64[::1]] * 6, TIMES, *[types.int64[::1]] * 3, types.int64[:, ::1],
        types.uint8[:, ::1], types.int64,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def detect(
    code, parts, own_pool, own_waiting, partitions, row_offsets, times, change_rows, change_masks,
    change_offsets, columns, known, now,
):
    """Work through a batch sorted by partition and time, and end what is silent by ``now``.

    ``partitions[g]`` is the partition of the rows ``row_offsets[g]`` to ``row_offsets[g + 1]``.
    Of them only the changes, and the events at which a minimum length is reached, are looked at.
    Gives the pool, the waiting matches, the result rows and their number.
    """
    code = borrowed(code)
    parts = borrowed(parts)
    times = borrowed(times)
    columns = borrowed(columns)
    known = borrowed(known)
    pool = borrowed(own_pool)
    waiting = borrowed(own_waiting)
    n = code[N_SYMBOLS]
    own_scratch = new_scratch(code)
    scratch = borrowed(own_scratch)
    added = SCRATCH_BOUND + (2 + WALK_WORDS) * n
    own_found = np.empty(64 * n, np.int64)
    found = borrowed(own_found)
    own_rows = np.empty(1024, np.int64)
    rows = borrowed(own_rows)
    row_words = ROW_OUTPUTS + code[N_OUTPUTS]
    record_words = 1 + 2 * n + code[N_OUTPUTS]
    words = code[PARTITION_WORDS]
    gap = code[GAP]
    for g in range(partitions.size):
        partition = partitions[g]
        part = parts[partition * words : (partition + 1) * words]
        row = row_offsets[g]
        row_end = row_offsets[g + 1]
        change = change_offsets[g]
        change_end = change_offsets[g + 1]
        mask = part[MASK]
        if code[HAS_CELLS]:
            scratch[added : added + n] = row
        step = _SILENCE
        while True:
            is_row = False
            if step == _SILENCE:
                if change == change_end:
                    step = _NOW
                    continue
                step = _CHANGE
                row = change_rows[change]
                if gap == NOWHERE or not part[MASK]:
                    continue
                last = times[row - 1] if row > row_offsets[g] else part[LAST_TIME]
                if np.uint64(times[row]) - np.uint64(last) <= np.uint64(gap):
                    continue
                time = last + gap
                mask = 0
            elif step == _CHANGE:
                step = _DUE
                is_row = True
                time = times[row]
                mask = change_masks[change]
                change += 1
                if mask == part[MASK] and part[DUE] > time:
                    continue
            elif step == _DUE:
                following = change_rows[change] if change < change_end else row_end
                if part[DUE] <= times[following - 1]:
                    row = first_row_at(times, row + 1, following, part[DUE])
                else:
                    row = following
                if row == following:
                    step = _SILENCE
                    continue
                is_row = True
                time = times[row]
            else:
                if row_end > row_offsets[g]:
                    part[LAST_TIME] = times[row_end - 1]
                    if code[HAS_CELLS]:
                        rest = part[MASK]
                        while rest:
                            s = trailing_zeros(rest)
                            rest &= rest - 1
                            bring_up_to_date(code, part, pool, columns, known, s, row_end, scratch)
                if gap == NOWHERE or not part[MASK] or plus(part[LAST_TIME], gap) >= now:
                    break
                time = part[LAST_TIME] + gap
                mask = 0
                row = row_end

            # the event at ``time``
            floor = minus(time, code[WINDOW])
            started = mask & ~part[MASK]
            if started:
                larger = with_room_for(code, part, pool, started, floor)
                if larger.size != pool.size:
                    own_pool = larger
                    pool = borrowed(own_pool)
            n_items, ended = take_in(code, part, pool, scratch, columns, known, time, mask, row)
            count = 0
            if n_items:
                scratch[SCRATCH_FOUND] = 0
                scratch[SCRATCH_ITEM] = 0
                scratch[SCRATCH_DEPTH] = DONE
                while not complete_matches(code, part, pool, found, scratch, n_items, floor):
                    count = scratch[SCRATCH_FOUND]
                    own_found = with_space(own_found, count * n, count * n + n)
                    found = borrowed(own_found)
                count = scratch[SCRATCH_FOUND]
            if count:
                if code[HAS_CELLS] and is_row:
                    rest = mask
                    while rest:
                        s = trailing_zeros(rest)
                        rest &= rest - 1
                        bring_up_to_date(code, part, pool, columns, known, s, row + 1, scratch)
                if (scratch[SCRATCH_ROWS] + count) * row_words > rows.size:
                    used = scratch[SCRATCH_ROWS] * row_words
                    own_rows = with_space(own_rows, used, count * row_words)
                    rows = borrowed(own_rows)
                if code[EMIT_BOTH]:
                    used = WAITING_WORDS + waiting[WAITING_USED] * record_words
                    own_waiting = with_space(own_waiting, used, count * record_words)
                    waiting = borrowed(own_waiting)
                report(code, part, partition, pool, waiting, found, rows, scratch, time)
            if code[EMIT_BOTH] and ended and part[WAITING]:
                used = scratch[SCRATCH_ROWS] * row_words
                own_rows = with_space(own_rows, used, part[WAITING] * row_words)
                rows = borrowed(own_rows)
                complete(code, part, partition, pool, waiting, rows, scratch, time, ended)
    return own_pool, own_waiting, own_rows, own_scratch[SCRATCH_ROWS]


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
