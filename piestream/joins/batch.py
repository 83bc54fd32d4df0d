"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

import numpy as np
from numba import types

from piestream.compiled.layout import (
    INT64_MAX,
    INT64_MIN,
    NEVER,
    NOWHERE,
    POOL_USED,
    POOL_WORDS,
    ROW_OUTPUTS,
    WAITING_FREE,
    WAITING_USED,
    WAITING_WORDS,
)
from piestream.compiled.loops import (
    ARRAY,
    BOOL,
    INT,
    TIMES,
    at_word,
    compiled,
    pointer,
    trailing_zeros,
)
from piestream.intervals.runs import first_row_at
from piestream.intervals.ticks import minus, plus
from piestream.joins.event import complete_matches, take_in
from piestream.joins.extend import DONE
from piestream.joins.output import complete, report
from piestream.joins.partition import Columns, Partition
from piestream.joins.records import Bound, Item, Query, Scratch, Walk
from piestream.joins.rings import with_longer_columns, with_space
from piestream.joins.slots import bring_up_to_date, lacks_room, with_room_for

# what is looked at next: a silence before a change of mask, the change, until the next change the
# events at which an interval reaches its minimum length, and at last the silence up to now
_SILENCE, _CHANGE, _DUE, _NOW = range(4)

_POOL, _WAITING, _FOUND, _ROWS = range(4)

_BOUND_WORDS, _WALK_WORDS, _ITEM_WORDS, _SCRATCH_WORDS = (
    Bound.words, Walk.words, Item.words, Scratch.words
)  # fmt: skip

_WALKS, _ADDED, _ITEMS = (Scratch.fields[name][1] for name in ("walks", "added", "items"))


@compiled(ARRAY, ARRAY)
def new_scratch(own_code):
    """Room for what is kept while one call works, and for all that one event can make known."""
    query = Query(pointer(own_code))
    n = query.n_symbols
    walks = _SCRATCH_WORDS + n * _BOUND_WORDS
    added = walks + n * _WALK_WORDS
    items = added + n
    own_scratch = np.zeros(items + (8 * query.n_readers + 2 * n) * _ITEM_WORDS, np.int64)
    own_scratch[_WALKS] = walks
    own_scratch[_ADDED] = added
    own_scratch[_ITEMS] = items
    return own_scratch


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
    query = Query(code)
    columns = Columns(pointer(own_columns), pointer(own_known), own_columns.shape[1])
    pool = pointer(own_pool)
    waiting = pointer(own_waiting)
    n = query.n_symbols
    own_scratch = new_scratch(own_code)
    scratch = Scratch(pointer(own_scratch))
    room = 64
    row_words = ROW_OUTPUTS + query.n_outputs
    rows_room = own_rows.size // row_words
    # What may have to grow. As variables, their references would be counted at every event.
    held = [own_pool, own_waiting, np.empty(room * n, np.int64), own_rows]
    found = pointer(held[_FOUND])
    rows = pointer(held[_ROWS])
    record_words = 1 + 2 * n + query.n_outputs
    words = query.partition_words
    gap = query.gap
    for g in range(own_partitions.size):
        partition = partitions[g]
        part_words = at_word(parts, 0 if fresh else partition * words)
        part = Partition(part_words, query, pool)
        if fresh:
            for word in range(query.ended_at):
                part[word] = 0
            for word in range(query.ended_at, words):
                part[word] = NEVER
            part.used = 1
            part.due = INT64_MAX
            part.last_time = INT64_MIN
            pool[POOL_USED] = POOL_WORDS
            waiting[WAITING_USED] = 0
            waiting[WAITING_FREE] = NOWHERE
        row = row_offsets[g]
        row_end = row_offsets[g + 1]
        change = change_offsets[g]
        change_end = change_offsets[g + 1]
        mask = part.mask
        if query.has_cells:
            for s in range(n):
                scratch.added[s] = row
        step = _SILENCE
        while True:
            is_row = False
            if step == _SILENCE:
                if change == change_end:
                    step = _NOW
                    continue
                step = _CHANGE
                row = change_rows[change]
                if gap == NOWHERE or not part.mask:
                    continue
                last = times[row - 1] if row > row_offsets[g] else part.last_time
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
                if mask == part.mask and part.due > time:
                    continue
            elif step == _DUE:
                following = change_rows[change] if change < change_end else row_end
                if part.due <= times[following - 1]:
                    row = first_row_at(times, row + 1, following, part.due)
                else:
                    row = following
                if row == following:
                    step = _SILENCE
                    continue
                is_row = True
                time = times[row]
            else:
                if row_end > row_offsets[g]:
                    part.last_time = times[row_end - 1]
                    if query.has_cells:
                        rest = part.mask
                        while rest:
                            s = trailing_zeros(rest)
                            rest &= rest - 1
                            bring_up_to_date(part, columns, s, row_end, scratch)
                if gap == NOWHERE or not part.mask or plus(part.last_time, gap) >= now:
                    break
                time = part.last_time + gap
                mask = 0
                row = row_end

            # the event at ``time``
            floor = minus(time, query.window)
            started = mask & ~part.mask
            if started and lacks_room(part, started, floor):
                held[_POOL] = with_room_for(part, held[_POOL], started)
                pool = pointer(held[_POOL])
                part = Partition(part_words, query, pool)
            ended = take_in(part, scratch, columns, time, mask, row)
            count = 0
            if scratch.n_items:
                scratch.found = 0
                scratch.item = 0
                scratch.depth = DONE
                while not complete_matches(part, scratch, found, room, floor):
                    held[_FOUND] = with_space(held[_FOUND], room * n, room * n)
                    found = pointer(held[_FOUND])
                    room = held[_FOUND].size // n
                count = scratch.found
            if count:
                if query.has_cells and is_row:
                    rest = mask
                    while rest:
                        s = trailing_zeros(rest)
                        rest &= rest - 1
                        bring_up_to_date(part, columns, s, row + 1, scratch)
                if scratch.rows + count > rows_room:
                    used = scratch.rows
                    held[_ROWS] = with_longer_columns(held[_ROWS], row_words, used, count)
                    rows = pointer(held[_ROWS])
                    rows_room = held[_ROWS].size // row_words
                if query.emit_both:
                    used = WAITING_WORDS + waiting[WAITING_USED] * record_words
                    held[_WAITING] = with_space(held[_WAITING], used, count * record_words)
                    waiting = pointer(held[_WAITING])
                report(
                    code, part_words, partition, pool, waiting, found, rows, rows_room,
                    at_word(scratch, 0), time,
                )  # fmt: skip
            if query.emit_both and ended and part.waiting:
                used = scratch.rows
                held[_ROWS] = with_longer_columns(held[_ROWS], row_words, used, part.waiting)
                rows = pointer(held[_ROWS])
                rows_room = held[_ROWS].size // row_words
                complete(
                    code, part_words, partition, pool, waiting, rows, rows_room,
                    at_word(scratch, 0), time, ended,
                )  # fmt: skip
    n_rows, steps, visits = scratch.rows, scratch.steps, scratch.visits
    own_scratch[0] = 0  # the pointers needed it up to here
    return held[_POOL], held[_WAITING], held[_ROWS], n_rows, steps, visits
