"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.intervals.runs import first_row_at
from piestream.intervals.ticks import minus, plus
from piestream.joins.event import ITEM_WORDS, complete_matches, take_in
from piestream.joins.extend import DONE
from piestream.joins.layout import (
    DUE,
    EMIT_BOTH,
    ENDED_AT,
    GAP,
    HAS_CELLS,
    INT64_MAX,
    INT64_MIN,
    LAST_TIME,
    MASK,
    N_OUTPUTS,
    N_READERS,
    N_SYMBOLS,
    NEVER,
    NOWHERE,
    PARTITION_WORDS,
    POOL_USED,
    POOL_WORDS,
    ROW_OUTPUTS,
    SCRATCH_BOUND,
    SCRATCH_DEPTH,
    SCRATCH_FOUND,
    SCRATCH_ITEM,
    SCRATCH_ROWS,
    SCRATCH_STEPS,
    SCRATCH_VISITS,
    USED,
    WAITING,
    WAITING_FREE,
    WAITING_USED,
    WAITING_WORDS,
    WALK_WORDS,
    WINDOW,
)
from piestream.joins.report import complete, report
from piestream.joins.rings import with_longer_columns, with_space
from piestream.joins.slots import bring_up_to_date, lacks_room, with_room_for
from piestream.loops import ARRAY, BOOL, INT, TIMES, at_word, compiled, pointer

# what is looked at next: a silence before a change of mask, the change, until the next change the
# events at which an interval reaches its minimum length, and at last the silence up to now
_SILENCE, _CHANGE, _DUE, _NOW = range(4)

_POOL, _WAITING, _FOUND, _ROWS = range(4)


@compiled(ARRAY, ARRAY)
def new_scratch(code):
    """Room for what is kept while one call works, and for all that one event can make known."""
    n = code[N_SYMBOLS]
    items = ITEM_WORDS * (8 * code[N_READERS] + 2 * n)
    return np.zeros(SCRATCH_BOUND + (3 + WALK_WORDS) * n + items, np.int64)


@compiled(
    types.Tuple((ARRAY, ARRAY, ARRAY, INT, INT, INT)),
    *[ARRAY] * 6, TIMES, *[ARRAY] * 3, types.int64[:, ::1], types.uint8[:, ::1], INT, ARRAY, BOOL,
)  # fmt: skip
def detect(
    own_code,
    own_parts,
    own_pool,
    own_waiting,
    own_partitions,
    own_row_offsets,
    own_times,
    own_change_rows,
    own_change_masks,
    own_change_offsets,
    own_columns,
    own_known,
    now,
    own_rows,
    fresh,
):
    """Work through a batch sorted by partition and time, and end what is silent by ``now``.

    ``partitions[g]`` is the partition of the rows ``row_offsets[g]`` to ``row_offsets[g + 1]``.
    Of them only the changes, and the events at which a minimum length is reached, are looked at.
    Where ``fresh``, every partition is whole: it begins without state, all in the place of the
    first, and leaves none. Gives the pool, the waiting matches, the result rows, column by column,
    in ``rows`` or a larger array, and their number, and the work done: steps of extension, and
    visits of reach.
    """
    code = pointer(own_code)
    parts = pointer(own_parts)
    partitions = pointer(own_partitions)
    row_offsets = pointer(own_row_offsets)
    times = pointer(own_times)
    change_rows = pointer(own_change_rows)
    change_masks = pointer(own_change_masks)
    change_offsets = pointer(own_change_offsets)
    columns = pointer(own_columns)
    known = pointer(own_known)
    pool = pointer(own_pool)
    waiting = pointer(own_waiting)
    n_rows = own_columns.shape[1]
    n = code[N_SYMBOLS]
    own_scratch = new_scratch(own_code)
    scratch = pointer(own_scratch)
    added = SCRATCH_BOUND + (2 + WALK_WORDS) * n
    room = 64
    row_words = ROW_OUTPUTS + code[N_OUTPUTS]
    rows_room = own_rows.size // row_words
    # What may have to grow. As variables, their references would be counted at every event.
    held = [own_pool, own_waiting, np.empty(room * n, np.int64), own_rows]
    found = pointer(held[_FOUND])
    rows = pointer(held[_ROWS])
    record_words = 1 + 2 * n + code[N_OUTPUTS]
    words = code[PARTITION_WORDS]
    gap = code[GAP]
    for g in range(own_partitions.size):
        partition = partitions[g]
        part = at_word(parts, 0 if fresh else partition * words)
        if fresh:
            for word in range(code[ENDED_AT]):
                part[word] = 0
            for word in range(code[ENDED_AT], words):
                part[word] = NEVER
            part[USED] = 1
            part[DUE] = INT64_MAX
            part[LAST_TIME] = INT64_MIN
            pool[POOL_USED] = POOL_WORDS
            waiting[WAITING_USED] = 0
            waiting[WAITING_FREE] = NOWHERE
        row = row_offsets[g]
        row_end = row_offsets[g + 1]
        change = change_offsets[g]
        change_end = change_offsets[g + 1]
        mask = part[MASK]
        if code[HAS_CELLS]:
            for s in range(n):
                scratch[added + s] = row
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
                            bring_up_to_date(
                                code, part, pool, columns, known, n_rows, s, row_end, scratch
                            )
                if gap == NOWHERE or not part[MASK] or plus(part[LAST_TIME], gap) >= now:
                    break
                time = part[LAST_TIME] + gap
                mask = 0
                row = row_end

            # the event at ``time``
            floor = minus(time, code[WINDOW])
            started = mask & ~part[MASK]
            if started and lacks_room(code, part, pool, started, floor):
                held[_POOL] = with_room_for(code, part, held[_POOL], started)
                pool = pointer(held[_POOL])
            n_items, ended = take_in(
                code, part, pool, scratch, columns, known, n_rows, time, mask, row
            )
            count = 0
            if n_items:
                scratch[SCRATCH_FOUND] = 0
                scratch[SCRATCH_ITEM] = 0
                scratch[SCRATCH_DEPTH] = DONE
                while not complete_matches(code, part, pool, found, room, scratch, n_items, floor):
                    held[_FOUND] = with_space(held[_FOUND], room * n, room * n)
                    found = pointer(held[_FOUND])
                    room = held[_FOUND].size // n
                count = scratch[SCRATCH_FOUND]
            if count:
                if code[HAS_CELLS] and is_row:
                    rest = mask
                    while rest:
                        s = trailing_zeros(rest)
                        rest &= rest - 1
                        bring_up_to_date(
                            code, part, pool, columns, known, n_rows, s, row + 1, scratch
                        )
                if scratch[SCRATCH_ROWS] + count > rows_room:
                    used = scratch[SCRATCH_ROWS]
                    held[_ROWS] = with_longer_columns(held[_ROWS], row_words, used, count)
                    rows = pointer(held[_ROWS])
                    rows_room = held[_ROWS].size // row_words
                if code[EMIT_BOTH]:
                    used = WAITING_WORDS + waiting[WAITING_USED] * record_words
                    held[_WAITING] = with_space(held[_WAITING], used, count * record_words)
                    waiting = pointer(held[_WAITING])
                report(code, part, partition, pool, waiting, found, rows, rows_room, scratch, time)
            if code[EMIT_BOTH] and ended and part[WAITING]:
                used = scratch[SCRATCH_ROWS]
                held[_ROWS] = with_longer_columns(held[_ROWS], row_words, used, part[WAITING])
                rows = pointer(held[_ROWS])
                rows_room = held[_ROWS].size // row_words
                complete(
                    code, part, partition, pool, waiting, rows, rows_room, scratch, time, ended
                )
    return (
        held[_POOL],
        held[_WAITING],
        held[_ROWS],
        own_scratch[SCRATCH_ROWS],
        own_scratch[SCRATCH_STEPS],
        own_scratch[SCRATCH_VISITS],
    )
