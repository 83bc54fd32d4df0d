"""The outermost loop: a batch of rows of many partitions, or time alone, into result rows."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.arrays import ensure_capacity, ensure_column_capacity
from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, within
from piestream.compiled.records import (
    Array,
    Carried,
    FlagRows,
    Record,
    Rows,
    Times,
    WordRows,
    Words,
    kernel,
)
from piestream.intervals.aggregates import Columns
from piestream.intervals.runs import first_row_at
from piestream.intervals.ticks import minus, plus
from piestream.joins.absences import is_due, n_awaited, room_to_await, settle
from piestream.joins.arrivals import apply_rows
from piestream.joins.bridges import apply_bridged, held_before, lasting, latest_ceased
from piestream.joins.closing import any_open_row_before, keep_before_end, runs_of_last_event
from piestream.joins.counters import add_counts, first_row_of_due_count
from piestream.joins.event import apply_event, drain_queue
from piestream.joins.extend import DONE
from piestream.joins.given import earliest_given, is_barred, room_to_give
from piestream.joins.matches import Matches
from piestream.joins.output import ResultColumns, complete, report
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.result_rows import Closing, ResultRow
from piestream.joins.scratch import (
    IS_OVER,
    Bound,
    Item,
    KnownRow,
    Paused,
    Place,
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


class _Stage(IntEnum):
    """Where the next event of a partition is looked for."""

    SILENCE = 0  # a silence before the next change that exceeds MAX GAP
    CHANGE = 1  # the change
    DUE = 2  # until the change after it, events at which an interval reaches a minimum
    NOW = 3  # behind the rows: what time brings up to now
    PAST = 4  # the same, once the rows are finished


class _EventCursor(Record):
    """The event of a partition that is worked on, and where the next one is looked for."""

    stage: int  # _Stage
    row: int  # the event's, or the first behind it
    row_begin: int
    row_end: int
    change: int  # the next one
    change_end: int
    time: int
    mask: int  # which predicates hold
    is_row: int  # 0: it is the end of a silence, 1: a row
    interrupted: int  # symbols (as bits) whose intervals may go on though they do not hold


class _IntervalRows(Record):
    """The rows of intervals of a batch."""

    rows: Rows[KnownRow]


class _BatchRows(Record):
    """The rows of a batch: their times, and at which of them a mask changes."""

    times: Words

    change_rows: Carried[Words]
    change_masks: Carried[Words]


_BOUND_WORDS, _CURSOR_WORDS, _ITEM_WORDS, _SCRATCH_WORDS, _EVENT_WORDS = (
    record.size for record in (Bound, ScanCursor, Item, Scratch, _EventCursor)
)
_CURSORS, _AGGREGATED, _TAILS, _ITEMS, _EVENT = (
    Scratch.offset(name) for name in ("cursors", "aggregated", "tails", "items", "event")
)
_OUTPUTS = ResultRow.offset("outputs")
_POOL_WORDS = PoolHeader.size
_AT_SILENCE, _BETWEEN, _AT_EVENT = map(int, (Place.SILENCE, Place.BETWEEN, Place.EVENT))
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
def _pass_silence(cursor: _EventCursor, rows: _BatchRows, partition: Partition) -> bool:
    """Go to the next change; True if a silence before it is over, which is an event of its own."""
    if cursor.change == cursor.change_end:
        cursor.stage = _Stage.NOW
        return False
    cursor.stage = _Stage.CHANGE
    row = rows.change_rows[cursor.change]
    cursor.row = row
    gap = partition.program.gap
    if gap == NONE or not partition.mask & ~cursor.interrupted:
        return False
    last = rows.times[row - 1] if row > cursor.row_begin else partition.last_time
    if np.uint64(rows.times[row]) - np.uint64(last) <= np.uint64(gap):
        return False
    cursor.time = last + gap
    cursor.mask = 0
    cursor.is_row = 0
    return True


@kernel
def _take_change(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Take the change; True if it is an event that does something."""
    cursor.stage = _Stage.DUE
    cursor.time = rows.times[cursor.row]
    cursor.mask = rows.change_masks[cursor.change]
    cursor.is_row = 1
    cursor.change += 1
    if cursor.mask != partition.mask & ~cursor.interrupted or partition.due <= cursor.time:
        return True
    if partition.due_event <= scratch.event_origin + cursor.row:
        row = cursor.row
        if first_row_of_due_count(partition, columns, row, row + 1) == row:
            return True
    return partition.program.rows != 0  # a change of no predicate is a row of an interval


@kernel
def _find_due(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next row before the next change at which a minimum is reached."""
    following = cursor.row_end
    if cursor.change < cursor.change_end:
        following = rows.change_rows[cursor.change]
    row = following
    if partition.due <= rows.times[following - 1]:
        row = first_row_at(rows.times, cursor.row + cursor.is_row, following, partition.due)
    if partition.due_event < scratch.event_origin + row:
        first = max(cursor.row + cursor.is_row, partition.due_event - scratch.event_origin)
        row = first_row_of_due_count(partition, columns, first, row)
    cursor.row = row
    if row == following:
        cursor.stage = _Stage.SILENCE
        return False
    cursor.time = rows.times[row]
    cursor.is_row = 1
    return True


@kernel
def _next_event(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next event among the rows that does something; False behind the last."""
    while cursor.stage < _Stage.NOW:
        if cursor.stage == _Stage.SILENCE:
            found = _pass_silence(cursor, rows, partition)
        elif cursor.stage == _Stage.CHANGE:
            found = _take_change(cursor, rows, partition, columns, scratch)
        else:
            found = _find_due(cursor, rows, partition, columns, scratch)
        if found:
            return True
    return False


@kernel
def _comes_first(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, row: int, due: int
) -> bool:
    """Whether an event comes before a deadline that is not before it, or is the event at which that passes."""
    if not partition.program.is_sequenced or cursor.time < due or not cursor.is_row:
        return True
    if partition.next_is_late():  # then it passes behind all events of its time
        return True
    return first_row_at(rows.times, row, cursor.row, due) == cursor.row


@kernel
def _next_instant(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next event among the rows, or to a deadline that comes before it.

    That of a bridge, or of an absence.
    """
    if partition.program.bridged:
        cursor.interrupted = partition.bridges().interrupted
    scratch.waits = 0
    due = partition.next_instant()
    if due == INT64_MAX:
        return _next_event(cursor, rows, partition, columns, scratch)
    stage = cursor.stage
    row = cursor.row
    change = cursor.change
    found = _next_event(cursor, rows, partition, columns, scratch)
    end = cursor.row_end
    if found and cursor.time <= due and _comes_first(cursor, rows, partition, row, due):
        return True
    # where several events have one time, it may be over with the last of them
    first = plus(due, partition.next_is_late())
    if not found and (cursor.row_begin == end or rows.times[end - 1] < first):
        return False
    cursor.stage = stage
    cursor.row = row
    cursor.change = change
    at = first_row_at(rows.times, row, end, first)
    cursor.row = at
    cursor.time = due
    cursor.mask = held_before(partition)
    cursor.is_row = int(at < end and rows.times[at] == due)
    scratch.waits = 1 - cursor.is_row
    return True


@kernel
def _finish_rows(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> None:
    """Note the time of the last row, and add all rows to the aggregates of what is open."""
    if cursor.row_end > cursor.row_begin:
        partition.last_time = rows.times[cursor.row_end - 1]
        if partition.program.shifted_at != NONE and not scratch.closing:
            shift = _shift_at(partition, columns, cursor.row_end - 1)
            partition.shifted().last = 2 * partition.last_time + shift
            partition.shifted().behind = shift + (shift & 1)
        if partition.program.counts_events:
            partition.events = scratch.event_origin + cursor.row_end
            if not scratch.closing:  # then they have been added
                add_counts(partition, columns, cursor.row_end - 1)
        if partition.program.has_cells:
            update_aggregates(partition, columns, partition.mask, cursor.row_end, scratch)


@kernel
def _pass_time(cursor: _EventCursor, partition: Partition, scratch: Scratch, now: int) -> bool:
    """Go to what time brings behind the last row; False if it is not before ``now``.

    A silence ends, it is known that no run follows another one in time, or an absence is decided.
    """
    if scratch.closing:  # nothing is waited for behind the end of the input
        return False
    gap = partition.program.gap
    holds = held_before(partition)
    ends = INT64_MAX
    if gap != NONE and holds:
        ends = plus(partition.last_time, gap)
    due = partition.next_instant()
    if min(ends, due) >= now:
        return False
    scratch.waits = int(due < ends)
    cursor.time = min(ends, due)
    cursor.mask = holds if scratch.waits else 0
    cursor.is_row = 0
    cursor.row = cursor.row_end
    return True


@kernel
def _close_intervals(cursor: _EventCursor, partition: Partition, scratch: Scratch) -> bool:
    """Go to where intervals end because the input does; False if none is open.

    One that began before the last event ends at the time of that, and one that began with it a
    tick later.
    """
    last = partition.last_time
    scratch.waits = 0
    if not partition.mask and not any_open_row_before(partition, OPEN):
        return False
    began = runs_of_last_event(partition)
    scratch.closing = Closing.LAST_EVENT
    cursor.time = latest_ceased(partition)
    cursor.mask = began
    before = partition.last_instant() if partition.program.is_sequenced else last
    if began == partition.mask and not any_open_row_before(partition, before):
        scratch.closing = Closing.TICK_LATER
        cursor.time = last + 1
        cursor.mask = 0
    cursor.is_row = 0
    cursor.row = cursor.row_end
    return True


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
def _start_partition(
    cursor: _EventCursor, scratch: Scratch, partition: Partition, row_offsets: Words,
    change_offsets: Words, g: int,
) -> None:  # fmt: skip
    """Put the cursor before the rows of the g-th partition."""
    cursor.stage = _Stage.SILENCE
    cursor.is_row = 0
    cursor.interrupted = 0
    scratch.waits = 0
    scratch.ended_earlier = 0
    scratch.resumed = 0
    cursor.row = row_offsets[g]
    cursor.row_begin = row_offsets[g]
    cursor.row_end = row_offsets[g + 1]
    cursor.change = change_offsets[g]
    cursor.change_end = change_offsets[g + 1]
    scratch.closing = Closing.NO
    scratch.before = NONE
    scratch.event_origin = partition.events - cursor.row_begin
    program = partition.program
    if program.has_cells:
        for s in range(program.n_symbols):
            scratch.aggregated[s] = cursor.row_begin


@kernel
def _floor_of_lists(partition: Partition, cursor: _EventCursor, scratch: Scratch, time: int) -> int:
    """The floor at which lists of pairs, and matches that are awaited, are kept.

    Behind the rows that is the one of the last of them: how far time has passed since then is said by no
    state, except where runs are bridged and not only an absence is decided.
    """
    if cursor.stage == _Stage.PAST:
        bridged = partition.program.bridged
        if not bridged or (scratch.waits and partition.bridges().due > time):
            time = min(time, partition.last_time)
    return partition.floor_at(time)


@kernel
def _shift_at(partition: Partition, columns: Columns, row: int) -> int:
    """How much more than twice its time the number of an instant is."""
    shift = at_word(columns, partition.program.shift_column * columns.n_rows)[row]
    return shift & ~IS_OVER


@kernel
def _note_told(
    cursor: _EventCursor, rows: _BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> None:
    """Note the last event that there was, where only time passes."""
    row = cursor.row - 1
    program = partition.program
    has_row = row >= cursor.row_begin
    scratch.told = rows.times[row] if has_row else partition.last_time
    scratch.told_instant = scratch.told
    if program.is_sequenced:
        if not has_row:
            scratch.told_instant = partition.last_instant()
        elif program.shifted_at != NONE:
            scratch.told_instant = 2 * scratch.told + _shift_at(partition, columns, row)
        else:
            scratch.told_instant = partition.instant_of(scratch.event_origin + row, Place.EVENT)


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


@kernel
def _may_be_joined(partition: Partition, columns: Columns, cursor: _EventCursor) -> int:
    """1 if others of the time that is worked on may still come, where several events have one."""
    program = partition.program
    if program.shifted_at == NONE or not cursor.is_row:
        return cursor.is_row
    shift = at_word(columns, program.shift_column * columns.n_rows)[cursor.row]
    return 1 - int(shift & IS_OVER != 0)


@kernel
def _instant_of_time(partition: Partition, columns: Columns, cursor: _EventCursor) -> int:
    """The number of the instant that is worked on, where it is made of its time."""
    if cursor.is_row:
        return 2 * cursor.time + _shift_at(partition, columns, cursor.row)
    if cursor.row == cursor.row_end:
        return 2 * cursor.time + partition.shifted().behind + 1
    return 2 * cursor.time + (_shift_at(partition, columns, cursor.row) | 1)


@kernel
def _instant_now(
    partition: Partition, scratch: Scratch, columns: Columns, cursor: _EventCursor
) -> int:
    """The number of the instant that is worked on, where events of one time are told apart."""
    if partition.program.shifted_at != NONE:
        return _instant_of_time(partition, columns, cursor)
    at = _AT_EVENT if cursor.is_row else _AT_SILENCE
    if scratch.closing or scratch.waits:
        at = _BETWEEN
    instant = partition.instant_of(scratch.event_origin + cursor.row, at)
    return instant + (scratch.closing == Closing.TICK_LATER)


@kernel
def _keep_before_end(
    growing: list[Array], cursor: _EventCursor, partition: Partition, columns: Columns,
    scratch: Scratch, now: int,
) -> None:  # fmt: skip
    """Keep a partition as it is before its input ends, where something is open, at the time that has passed."""
    if not partition.mask and not any_open_row_before(partition, OPEN):
        return
    last = partition.last_time
    is_sequenced = partition.program.is_sequenced
    cursor.time = max(last, minus(now, 1))
    cursor.is_row = 0
    cursor.row = cursor.row_end
    scratch.waits = 1
    scratch.before_time = cursor.time
    scratch.before_passed = cursor.time - (is_sequenced & int(now <= last))
    scratch.before_instant = cursor.time
    if is_sequenced:
        scratch.before_instant = _instant_now(partition, scratch, columns, cursor)
    growing[_POOL] = keep_before_end(scratch.keep_before_end_at, partition, growing[_POOL], scratch)


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
    bridged = program.bridged
    awaits = program.absences_at != NONE
    n_columns = _OUTPUTS + program.n_outputs
    rows = _BatchRows(pointer(times), pointer(change_rows), pointer(change_masks))
    columns = Columns(pointer(column_words), pointer(known), column_words.shape[1])
    scratch = Scratch(pointer(scratch_array))
    # An array of its own, which no other can overlap: the compiler keeps its words at hand.
    cursor_array = np.zeros(_EVENT_WORDS, np.int64)
    cursor = _EventCursor(pointer(cursor_array))
    intervals = at_word(pointer(change_offsets), numbers.size + 1)
    interval_rows = _IntervalRows(at_word(intervals, numbers.size + 2)).rows
    has_rows = change_offsets.size > numbers.size + 1
    paused_cursor = at_word(scratch, scratch.event)
    # What may have to grow. As variables, their references would be counted at every event.
    growing = [pool_array, waiting_array, matches_array, results_array]
    pool = pointer(growing[_POOL])
    waiting = WaitingStore(pointer(growing[_WAITING]), program)
    matches = Matches(pointer(growing[_MATCHES]), matches_array.size // n, n)
    results = ResultColumns(pointer(results_array), results_array.size // n_columns)
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
        partition = Partition(place, program, pool)
        if not resumes:
            if fresh:
                partition.reset()
                waiting.clear()
                PoolHeader(pool).used = _POOL_WORDS
                scratch.before_words = 0
            _start_partition(
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
                if bridged or awaits:
                    found = _next_instant(cursor, rows, partition, columns, scratch)
                else:
                    found = _next_event(cursor, rows, partition, columns, scratch)
                if not found:
                    if cursor.stage == _Stage.NOW:
                        _finish_rows(cursor, rows, partition, columns, scratch)
                        cursor.stage = _Stage.PAST
                    ends = _pass_time(cursor, partition, scratch, now)
                    if not ends and closes:
                        if awaits and not scratch.closing:
                            _keep_before_end(growing, cursor, partition, columns, scratch, now)
                            pool = pointer(growing[_POOL])
                            partition = Partition(place, program, pool)
                        ends = _close_intervals(cursor, partition, scratch)
                    if not ends:
                        break
                time = cursor.time
                mask = cursor.mask
                holds = mask
                if program.is_sequenced:
                    scratch.is_event = _may_be_joined(partition, columns, cursor)
                    partition.sequence().is_over = 1 - scratch.is_event
                if bridged:
                    mask = lasting(partition, holds, time, scratch.is_event, scratch.closing != 0)
                started = mask & ~partition.mask
                if awaits:
                    scratch.absent_changed = mask ^ partition.mask
                    scratch.exceeded = 0
                    scratch.events = scratch.event_origin + cursor.row + cursor.is_row
                if started and any_ring_full(partition, started, minus(time, program.shortest)):
                    growing[_POOL] = grow_full_rings(partition, growing[_POOL], started)
                    pool = pointer(growing[_POOL])
                    partition = Partition(place, program, pool)
                scratch.instant = time
                if program.is_sequenced:
                    scratch.instant = _instant_now(partition, scratch, columns, cursor)
                scratch.floor = _floor_of_lists(partition, cursor, scratch, time)
                if bridged:
                    ended = apply_bridged(
                        partition, scratch, columns, time, mask, cursor.row, holds
                    )
                    scratch.absent_changed |= scratch.resumed
                elif awaits and scratch.waits:
                    ended = 0
                    scratch.n_items = 0
                else:
                    ended = apply_event(
                        partition, scratch, columns, time, mask, cursor.row, mask, 0
                    )
                if awaits:
                    scratch.absent_changed |= scratch.exceeded
                if scratch.closing:
                    delay_ends(partition, ended & ~scratch.ended_earlier)
                if program.has_lists:
                    scratch.time = time
                    if scratch.closing:
                        scratch.time += 1  # where the instant lies: see `Closing`
                    scratch.now = scratch.instant if program.is_sequenced else scratch.time
                    growing[_POOL] = apply_rows(
                        scratch.apply_rows_at, place, program, growing[_POOL], scratch, columns,
                        interval_rows, started, ended,
                    )  # fmt: skip
                    pool = pointer(growing[_POOL])
                    partition = Partition(place, program, pool)
                    ended |= scratch.passed
                    scratch.absent_changed |= scratch.passed
                scratch.n_matches = 0
            else:
                resumes = Paused.NO
                time = cursor.time
                ended = scratch.ended
            if scratch.n_items:
                if begins:
                    scratch.item = 0
                    scratch.depth = DONE
                floor = partition.floor_at(time) if bridged else minus(time, program.shortest)
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
                        _note_told(cursor, rows, partition, columns, scratch)
                    _decide_absences(growing, place, program, scratch, time)
                    pool = pointer(growing[_POOL])
                    partition = Partition(place, program, pool)
                    matches = Matches(pointer(growing[_MATCHES]), growing[_MATCHES].size // n, n)
                    floor = partition.floor_at(time)
            n_rows = scratch.n_matches
            if program.emit_both and (ended or (scratch.n_matches and (program.rows or awaits))):
                n_rows += partition.waiting + scratch.n_matches
            if not n_rows:
                continue
            if program.has_cells and (cursor.is_row or scratch.waits) and scratch.n_matches:
                behind = cursor.row + cursor.is_row
                update_aggregates(partition, columns, partition.mask, behind, scratch)
            if program.emit_both or scratch.n_rows + n_rows > results.length:
                _room_for_results(growing, partition, scratch, n_rows)
                waiting = WaitingStore(pointer(growing[_WAITING]), program)
                results = ResultColumns(
                    pointer(growing[_RESULTS]), growing[_RESULTS].size // n_columns
                )
            if scratch.n_matches:
                if program.judges and program.n_once:
                    growing[_POOL] = room_to_give(
                        place, program, growing[_POOL], scratch.n_matches, floor
                    )
                    pool = pointer(growing[_POOL])
                    partition = Partition(place, program, pool)
                report(partition, number, waiting, matches, results, scratch, time, ended)
            if program.emit_both and (ended or scratch.complete) and partition.waiting:
                complete(
                    scratch.complete_at, partition, number, waiting, results, scratch, time, ended
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
