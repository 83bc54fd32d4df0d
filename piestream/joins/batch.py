"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity, ensure_column_capacity
from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer, within
from piestream.compiled.records import (
    Array,
    FlagRows,
    Record,
    Rows,
    Times,
    WordRows,
    Words,
    inline_kernel,
    kernel,
)
from piestream.intervals.aggregates import Columns
from piestream.intervals.ticks import minus
from piestream.joins.absences import is_due, n_awaited, room_to_await, settle
from piestream.joins.arrivals import apply_rows
from piestream.joins.bridges import apply_bridged, lasting
from piestream.joins.closing import keep_before_end
from piestream.joins.event import apply_event, drain_queue
from piestream.joins.event_cursor import (
    BatchRows,
    EventCursor,
    Stage,
    close_intervals,
    finish_rows,
    floor_of_lists,
    instant_now,
    may_be_joined,
    next_event,
    next_instant,
    note_time_before_end,
    note_told,
    pass_time,
    start_partition,
)
from piestream.joins.extend import DONE
from piestream.joins.given import earliest_given, is_barred, room_to_give
from piestream.joins.matches import Matches
from piestream.joins.output import ResultColumns, complete, report
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.result_rows import ResultRow
from piestream.joins.scratch import (
    Bound,
    Item,
    KnownRow,
    Paused,
    ScanCursor,
    Scratch,
)
from piestream.joins.slots import any_ring_full, delay_ends, grow_full_rings, update_aggregates
from piestream.joins.state_records import PoolHeader
from piestream.joins.waiting import WaitingStore

#: The arrays that a detector keeps: the words of its partitions, the pool, the waiting matches.
State = tuple[Array, Array, Array]
#: Partition g has the rows from ``row_offsets[g]`` to ``row_offsets[g + 1]``: the numbers of the
#: partitions, ``row_offsets``, the rows' times, the columns that RETURN aggregates, and which of
#: their values are known.
BatchArrays = tuple[Array, Array, Times, WordRows, FlagRows]
#: What `find_changes` gives. Where intervals come as rows, these lie behind the last of it, sorted by
#: partition and time: how many come before them in the columns, which lie behind those of the
#: events; where the rows of each partition begin and end; and the rows themselves (`KnownRow`), on
#: which the loops note what they have done. (An array more would cost every call a hundredth.)
Changes = tuple[Array, Array, Array]
#: What a call works with: its scratch and its cursor, the matches of an event, the result rows.
Room = tuple[Array, Array, Array]
#: The pool, the waiting matches, the matches of an event, the result rows (column by column) and their
#: number; the work done so far: steps of extension, and visits of the semijoin reduction; and whether
#: the call has paused.
Detected = tuple[Array, Array, Array, Array, int, int, int, int]


class _IntervalRows(Record):
    """The rows of intervals of a batch."""

    rows: Rows[KnownRow]


_BOUND_WORDS, _CURSOR_WORDS, _ITEM_WORDS, _SCRATCH_WORDS, _EVENT_WORDS = (
    record.size for record in (Bound, ScanCursor, Item, Scratch, EventCursor)
)
_CURSORS, _AGGREGATED, _TAILS, _ITEMS, _EVENT = (
    Scratch.offset(name) for name in ("cursors", "aggregated", "tails", "items", "event")
)
_OUTPUTS = ResultRow.offset("outputs")
_POOL_WORDS = PoolHeader.size
# the arrays that may have to grow, in the list that holds them
_POOL, _WAITING, _MATCHES, _RESULTS = range(4)


@kernel
def new_scratch(program_array: Array) -> Array:
    """Room for what is kept while one call works, and for all that one event can make known."""
    program = Program(pointer(program_array))
    n = program.n_symbols
    cursors = _SCRATCH_WORDS + n * _BOUND_WORDS
    aggregated = cursors + n * _CURSOR_WORDS
    tails = aggregated + n
    items = tails + program.n_rings
    n_items = 8 * program.n_automata + 2 * n
    if program.has_lists:
        n_items += 3 * n + program.n_constraints
    event = items + n_items * _ITEM_WORDS
    scratch_array = np.zeros(event + _EVENT_WORDS, np.int64)
    scratch_array[_EVENT] = event
    scratch_array[_CURSORS] = cursors
    scratch_array[_AGGREGATED] = aggregated
    scratch_array[_TAILS] = tails
    scratch_array[_ITEMS] = items
    keep_alive(program_array)
    return scratch_array


@kernel
def _room_for_results(
    growing: list[Array], partition: Partition, scratch: Scratch, n_rows: int
) -> None:
    """Make room for so many result rows, and for as many matches that wait as were found."""
    program = partition.program
    n_columns = _OUTPUTS + program.n_outputs
    growing[_RESULTS] = ensure_column_capacity(growing[_RESULTS], n_columns, scratch.n_rows, n_rows)
    if program.emit_both:
        waiting = WaitingStore(pointer(growing[_WAITING]), program)
        more = scratch.n_matches * waiting.match_words()
        growing[_WAITING] = ensure_capacity(growing[_WAITING], waiting.words(), more)


@kernel
def _decide_absences(
    growing: list[Array], place: Words, program: Program, scratch: Scratch, time: int
) -> None:
    """Leave, of the matches found and of those awaited, those whose absences are decided."""
    n = program.n_symbols
    growing[_POOL] = room_to_await(place, program, growing[_POOL], scratch.n_matches)
    partition = Partition(place, program, pointer(growing[_POOL]))
    used = scratch.n_matches * n
    growing[_MATCHES] = ensure_capacity(growing[_MATCHES], used, n_awaited(partition) * n)
    matches = Matches(pointer(growing[_MATCHES]), growing[_MATCHES].size // n, n)
    settle(scratch.settle_at, partition, scratch, matches, time, partition.floor_at(time))


@inline_kernel
def _go_on(
    growing: list[Array],
    place: Words,
    cursor: EventCursor,
    rows: BatchRows,
    partition: Partition,
    columns: Columns,
    scratch: Scratch,
    now: int,
    closes: bool,
) -> bool:
    """Go to the next event of a partition, to what time brings behind it, and to its end; False behind these."""
    program = partition.program
    awaits = program.absences_at != NONE
    if program.bridged or awaits:
        found = next_instant(cursor, rows, partition, columns, scratch)
    else:
        found = next_event(cursor, rows, partition, columns, scratch)
    if found:
        return True
    if cursor.stage == Stage.NOW:
        finish_rows(cursor, rows, partition, columns, scratch)
        cursor.stage = Stage.PAST
    if pass_time(cursor, partition, scratch, now):
        return True
    if not closes:
        return False
    is_first = awaits and not scratch.closing
    if is_first and note_time_before_end(cursor, partition, columns, scratch, now):
        growing[_POOL] = keep_before_end(
            scratch.keep_before_end_at, partition, growing[_POOL], scratch
        )
        partition = Partition(place, program, pointer(growing[_POOL]))
    return close_intervals(cursor, partition, scratch)


@inline_kernel
def _mask_now(cursor: EventCursor, partition: Partition, columns: Columns, scratch: Scratch) -> int:
    """The symbols of which an interval is there at an event; notes of which absent ones that has changed."""
    program = partition.program
    mask = cursor.mask
    if program.is_sequenced:
        scratch.is_event = may_be_joined(partition, columns, cursor)
        partition.sequence().is_over = 1 - scratch.is_event
    if program.bridged:
        mask = lasting(partition, mask, cursor.time, scratch.is_event, scratch.closing != 0)
    if program.absences_at != NONE:
        scratch.absent_changed = mask ^ partition.mask
        scratch.exceeded = 0
        scratch.events = scratch.event_origin + cursor.row + cursor.is_row
    return mask


@inline_kernel
def _apply_runs(
    cursor: EventCursor, partition: Partition, columns: Columns, scratch: Scratch
) -> int:
    """Start and end runs as the predicates say; gives the symbols (as bits) of which one has ended."""
    mask = cursor.mask
    scratch.instant = cursor.time
    ended = apply_event(partition, scratch, columns, cursor.time, mask, cursor.row, mask, 0)
    if scratch.closing:
        delay_ends(partition, ended)
    return ended


@inline_kernel
def _apply_mask(
    cursor: EventCursor, partition: Partition, columns: Columns, scratch: Scratch, mask: int
) -> int:
    """Start and end intervals as the mask says; gives the symbols (as bits) of which one has ended."""
    program = partition.program
    awaits = program.absences_at != NONE
    time = cursor.time
    scratch.instant = time
    if program.is_sequenced:
        scratch.instant = instant_now(partition, scratch, columns, cursor)
    scratch.floor = floor_of_lists(partition, cursor, scratch, time)
    ended = 0
    if program.bridged:
        ended = apply_bridged(partition, scratch, columns, time, mask, cursor.row, cursor.mask)
        scratch.absent_changed |= scratch.resumed
    elif awaits and scratch.waits:
        scratch.n_items = 0
    else:
        ended = apply_event(partition, scratch, columns, time, mask, cursor.row, mask, 0)
    if awaits:
        scratch.absent_changed |= scratch.exceeded
    if scratch.closing:
        delay_ends(partition, ended & ~scratch.ended_earlier)
    return ended


@inline_kernel
def _apply_intervals(
    growing: list[Array],
    place: Words,
    program: Program,
    scratch: Scratch,
    columns: Columns,
    interval_rows: Rows[KnownRow],
    time: int,
    started: int,
    ended: int,
) -> int:
    """Start and end intervals that come as rows; gives the symbols (as bits) of which one has ended."""
    scratch.time = time
    if scratch.closing:
        scratch.time += 1  # where the instant lies: see `Closing`
    scratch.now = scratch.instant if program.is_sequenced else scratch.time
    growing[_POOL] = apply_rows(
        scratch.apply_rows_at, place, program, growing[_POOL], scratch, columns, interval_rows,
        started, ended,
    )  # fmt: skip
    scratch.absent_changed |= scratch.passed
    return scratch.passed


@inline_kernel
def _emit(
    growing: list[Array],
    place: Words,
    program: Program,
    cursor: EventCursor,
    columns: Columns,
    scratch: Scratch,
    matches: Matches,
    number: int,
    ended: int,
    floor: int,
) -> Partition:
    """Put the matches of an event, and those that are complete with it, among the result rows.

    Gives the partition, whose pool may have grown.
    """
    partition = Partition(place, program, pointer(growing[_POOL]))
    awaits = program.absences_at != NONE
    time = cursor.time
    n_rows = scratch.n_matches
    if program.emit_both and (ended or program.rows or awaits):
        n_rows += partition.waiting + scratch.n_matches
    if program.has_cells and (cursor.is_row or scratch.waits) and scratch.n_matches:
        behind = cursor.row + cursor.is_row
        update_aggregates(partition, columns, partition.mask, behind, scratch)
    n_columns = _OUTPUTS + program.n_outputs
    if program.emit_both or scratch.n_rows + n_rows > growing[_RESULTS].size // n_columns:
        _room_for_results(growing, partition, scratch, n_rows)
    waiting = WaitingStore(pointer(growing[_WAITING]), program)
    results = ResultColumns(pointer(growing[_RESULTS]), growing[_RESULTS].size // n_columns)
    if scratch.n_matches:
        if program.judges and program.n_once:
            growing[_POOL] = room_to_give(place, program, growing[_POOL], scratch.n_matches, floor)
            partition = Partition(place, program, pointer(growing[_POOL]))
        report(partition, number, waiting, matches, results, scratch, time, ended)
    if program.emit_both and (ended or scratch.complete) and partition.waiting:
        complete(scratch.complete_at, partition, number, waiting, results, scratch, time, ended)
    return partition


@kernel
def detect(
    program_array: Array,
    state: State,
    batch: BatchArrays,
    changes: Changes,
    now: int,
    room: Room,
    fresh: bool,
    closes: bool,
) -> Detected:
    """Work through a batch sorted by partition and time, and end what is silent by ``now``.

    Where it ``closes``, it ends besides what is open behind the rows of its partitions.

    Only the changes, and the events at which a minimum is reached, are looked at. Where
    ``fresh``, every partition is whole: it begins without state, all in the place of the first, and
    leaves none. The result rows are in the room's array for them or a larger one.

    A call pauses when its scratch says so. To go on, call it again with what it gave, and all else as
    it was: until then the state may be in the middle of an event.
    """
    partitions_array, pool_array, waiting_array = state
    numbers, row_offsets, times, column_words, known = batch
    change_rows, change_masks, change_offsets = changes
    scratch_array, matches_array, results_array = room
    program = Program(pointer(program_array))
    n = program.n_symbols
    is_plain = program.is_plain
    awaits = program.absences_at != NONE
    rows = BatchRows(pointer(times), pointer(change_rows), pointer(change_masks))
    columns = Columns(pointer(column_words), pointer(known), column_words.shape[1])
    scratch = Scratch(pointer(scratch_array))
    # An array of its own, which no other can overlap: the compiler keeps its words at hand.
    cursor_array = np.zeros(_EVENT_WORDS, np.int64)
    cursor = EventCursor(pointer(cursor_array))
    intervals = at_word(pointer(change_offsets), numbers.size + 1)
    interval_rows = _IntervalRows(at_word(intervals, numbers.size + 2)).rows
    has_rows = change_offsets.size > numbers.size + 1
    paused_cursor = at_word(scratch, scratch.event)
    # What may have to grow. As variables, their references would be counted at every event.
    growing = [pool_array, waiting_array, matches_array, results_array]
    matches = Matches(pointer(growing[_MATCHES]), matches_array.size // n, n)
    if scratch.paused:
        for word in range(_EVENT_WORDS):
            cursor[word] = paused_cursor[word]
    left = scratch.events_left
    resumes = scratch.paused
    scratch.paused = Paused.NO
    if not resumes:
        scratch.n_rows = 0
        scratch.steps = 0
        scratch.visits = 0
        scratch.before_words = 0
    for g in range(scratch.group if resumes else 0, numbers.size):
        number = numbers[g]
        words = program.partition_words
        place = within(pointer(partitions_array), 0 if fresh else number * words, words)
        partition = Partition(place, program, pointer(growing[_POOL]))
        if not resumes:
            if fresh:
                partition.reset()
                WaitingStore(pointer(growing[_WAITING]), program).clear()
                PoolHeader(pointer(growing[_POOL])).used = _POOL_WORDS
                scratch.before_words = 0
            start_partition(
                cursor, scratch, partition, pointer(row_offsets), pointer(change_offsets), g
            )
            scratch.known = 0
            scratch.known_end = 0
            if has_rows:
                scratch.known = intervals[1 + g]
                scratch.known_end = intervals[2 + g]
                scratch.first_column = times.size + intervals[0]
        while True:
            begins = resumes != Paused.INSIDE
            if begins:
                if left <= 0 and not resumes:
                    scratch.paused = Paused.BETWEEN
                    break
                left -= 1
                resumes = Paused.NO
                if not _go_on(
                    growing, place, cursor, rows, partition, columns, scratch, now, closes
                ):
                    break
                time = cursor.time
                mask = cursor.mask
                if not is_plain:
                    if scratch.closing:
                        partition = Partition(place, program, pointer(growing[_POOL]))
                    mask = _mask_now(cursor, partition, columns, scratch)
                started = mask & ~partition.mask
                if started and any_ring_full(partition, started, minus(time, program.shortest)):
                    growing[_POOL] = grow_full_rings(partition, growing[_POOL], started)
                    partition = Partition(place, program, pointer(growing[_POOL]))
                if is_plain:
                    ended = _apply_runs(cursor, partition, columns, scratch)
                else:
                    ended = _apply_mask(cursor, partition, columns, scratch, mask)
                    if program.has_lists:
                        ended |= _apply_intervals(
                            growing, place, program, scratch, columns, interval_rows, time,
                            started, ended,
                        )  # fmt: skip
                        partition = Partition(place, program, pointer(growing[_POOL]))
                scratch.n_matches = 0
            else:
                resumes = Paused.NO
                time = cursor.time
                ended = scratch.ended
            if scratch.n_items:
                if begins:
                    scratch.item = 0
                    scratch.depth = DONE
                floor = minus(time, program.shortest)
                if not is_plain:
                    floor = partition.floor_at(time)
                    if program.judges:
                        floor = earliest_given(partition, floor)
                        scratch.barred = not awaits and is_barred(partition, time)
                while not drain_queue(partition, scratch, matches, floor) and not scratch.paused:
                    used = matches.capacity * n
                    growing[_MATCHES] = ensure_capacity(growing[_MATCHES], used, used)
                    matches = Matches(pointer(growing[_MATCHES]), growing[_MATCHES].size // n, n)
                if scratch.paused:
                    scratch.ended = ended
                    break
                if scratch.steps + scratch.visits >= scratch.pause_at:
                    left = 0
            if awaits:
                scratch.absent_changed &= program.judged
                if is_due(partition, scratch, time):
                    if scratch.waits:
                        note_told(cursor, rows, partition, columns, scratch)
                    _decide_absences(growing, place, program, scratch, time)
                    partition = Partition(place, program, pointer(growing[_POOL]))
                    matches = Matches(pointer(growing[_MATCHES]), growing[_MATCHES].size // n, n)
                    floor = partition.floor_at(time)
            if scratch.n_matches or (program.emit_both and ended and partition.waiting):
                partition = _emit(
                    growing, place, program, cursor, columns, scratch, matches, number, ended, floor
                )
            if scratch.n_rows >= scratch.most_rows:
                left = 0
        if scratch.paused:
            scratch.group = g
            for word in range(_EVENT_WORDS):
                paused_cursor[word] = cursor[word]
            break
    n_rows, steps, visits, paused = scratch.n_rows, scratch.steps, scratch.visits, scratch.paused
    keep_alive(cursor_array)
    keep_alive(room)
    keep_alive(state)
    keep_alive(batch)
    keep_alive(changes)
    keep_alive(program_array)
    return (
        growing[_POOL], growing[_WAITING], growing[_MATCHES], growing[_RESULTS],
        n_rows, steps, visits, paused,
    )  # fmt: skip
