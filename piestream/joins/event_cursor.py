"""Where a loop over the rows of a partition stands: the next event, silence or deadline that does something."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.primitives import at_word
from piestream.compiled.records import Carried, Record, Words, inline_kernel, kernel
from piestream.intervals.aggregates import Columns
from piestream.intervals.runs import first_row_at
from piestream.intervals.ticks import minus, plus
from piestream.joins.bridges import held_before
from piestream.joins.closing import (
    any_open_row_before,
    any_possible_silence,
    last_end,
    runs_of_last_event,
)
from piestream.joins.counters import add_counts, first_row_of_due_count
from piestream.joins.partition import Partition
from piestream.joins.result_rows import Closing
from piestream.joins.scratch import IS_OVER, Place, Scratch
from piestream.joins.slots import update_aggregates
from piestream.joins.state_records import MOST_EVENTS

_AT_SILENCE, _BETWEEN, _AT_EVENT = map(int, (Place.SILENCE, Place.BETWEEN, Place.EVENT))


class Stage(IntEnum):
    """Where the next event of a partition is looked for."""

    SILENCE = 0  # a silence before the next change that exceeds MAX GAP
    CHANGE = 1  # the change
    DUE = 2  # until the change after it, events at which an interval reaches a minimum
    NOW = 3  # behind the rows: what time brings up to now
    PAST = 4  # the same, once the rows are finished


class EventCursor(Record):
    """The event of a partition that is worked on, and where the next one is looked for."""

    stage: int  # Stage
    row: int  # the event's, or the first behind it
    row_begin: int
    row_end: int
    change: int  # the next one
    change_end: int
    time: int
    mask: int  # which predicates hold
    is_row: int  # 0: it is the end of a silence, 1: a row
    interrupted: int  # symbols (as bits) whose intervals may go on though they do not hold


class BatchRows(Record):
    """The rows of a batch: their times, and at which of them a mask changes."""

    times: Words

    change_rows: Carried[Words]
    change_masks: Carried[Words]


@inline_kernel
def _pass_silence(cursor: EventCursor, rows: BatchRows, partition: Partition) -> bool:
    """Go to the next change; True if a silence before it is over, which is an event of its own."""
    if cursor.change == cursor.change_end:
        cursor.stage = Stage.NOW
        return False
    cursor.stage = Stage.CHANGE
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


@inline_kernel
def _take_change(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Take the change; True if it is an event that does something."""
    cursor.stage = Stage.DUE
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


@inline_kernel
def _find_due(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next row before the next change at which a minimum is reached."""
    following = cursor.row_end
    if cursor.change < cursor.change_end:
        following = rows.change_rows[cursor.change]
    if partition.due == INT64_MAX and partition.due_event == MOST_EVENTS:
        cursor.row = following
        cursor.stage = Stage.SILENCE
        return False
    row = following
    if partition.due <= rows.times[following - 1]:
        row = first_row_at(rows.times, cursor.row + cursor.is_row, following, partition.due)
    if partition.due_event < scratch.event_origin + row:
        first = max(cursor.row + cursor.is_row, partition.due_event - scratch.event_origin)
        row = first_row_of_due_count(partition, columns, first, row)
    cursor.row = row
    if row == following:
        cursor.stage = Stage.SILENCE
        return False
    cursor.time = rows.times[row]
    cursor.is_row = 1
    return True


@kernel
def next_event(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next event among the rows that does something; False behind the last."""
    while cursor.stage < Stage.NOW:
        if cursor.stage == Stage.SILENCE:
            found = _pass_silence(cursor, rows, partition)
        elif cursor.stage == Stage.CHANGE:
            found = _take_change(cursor, rows, partition, columns, scratch)
        else:
            found = _find_due(cursor, rows, partition, columns, scratch)
        if found:
            return True
    return False


@kernel
def _comes_first(
    cursor: EventCursor, rows: BatchRows, partition: Partition, row: int, due: int
) -> bool:
    """Whether an event comes before a deadline that is not before it, or is the event at which that passes."""
    if not partition.program.is_sequenced or cursor.time < due or not cursor.is_row:
        return True
    if partition.next_is_late():  # then it passes behind all events of its time
        return True
    return first_row_at(rows.times, row, cursor.row, due) == cursor.row


@kernel
def next_instant(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
) -> bool:
    """Go to the next event among the rows, or to a deadline that comes before it.

    That of a bridge, or of an absence.
    """
    if partition.program.bridged:
        cursor.interrupted = partition.bridges().interrupted
    scratch.waits = 0
    due = partition.next_instant()
    if due == INT64_MAX:
        return next_event(cursor, rows, partition, columns, scratch)
    stage = cursor.stage
    row = cursor.row
    change = cursor.change
    found = next_event(cursor, rows, partition, columns, scratch)
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
def finish_rows(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
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
def pass_time(cursor: EventCursor, partition: Partition, scratch: Scratch, now: int) -> bool:
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
def close_intervals(cursor: EventCursor, partition: Partition, scratch: Scratch) -> bool:
    """Go to where intervals end because the input does; False if none is open.

    One that began before the last event ends at the time of that, and one that began with it a
    tick later. What may only become a silence is none, whenever it began: that is known with the last event.
    """
    last = partition.last_time
    scratch.waits = 0
    if not partition.mask and not any_open_row_before(partition, OPEN):
        return False
    began = runs_of_last_event(partition)
    may_be_silent = any_possible_silence(partition, scratch.reached)
    scratch.closing = Closing.LAST_EVENT
    cursor.time = last_end(partition)
    cursor.mask = began
    before = partition.last_instant() if partition.program.is_sequenced else last
    is_later = began == partition.mask and not any_open_row_before(partition, before)
    if is_later and not may_be_silent:
        scratch.closing = Closing.TICK_LATER
        cursor.time = last + 1
        cursor.mask = 0
    cursor.is_row = 0
    cursor.row = cursor.row_end
    return True


@kernel
def start_partition(
    cursor: EventCursor, scratch: Scratch, partition: Partition, row_offsets: Words,
    change_offsets: Words, g: int,
) -> None:  # fmt: skip
    """Put the cursor before the rows of the g-th partition."""
    cursor.stage = Stage.SILENCE
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
def floor_of_lists(partition: Partition, cursor: EventCursor, scratch: Scratch, time: int) -> int:
    """The floor at which lists of pairs, and matches that are awaited, are kept.

    Behind the rows that is the one of the last of them: how far time has passed since then is said by no
    state, except where runs are bridged and not only an absence is decided.
    """
    if cursor.stage == Stage.PAST:
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
def note_told(
    cursor: EventCursor, rows: BatchRows, partition: Partition, columns: Columns, scratch: Scratch
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
def may_be_joined(partition: Partition, columns: Columns, cursor: EventCursor) -> int:
    """1 if others of the time that is worked on may still come, where several events have one."""
    program = partition.program
    if program.shifted_at == NONE or not cursor.is_row:
        return cursor.is_row
    shift = at_word(columns, program.shift_column * columns.n_rows)[cursor.row]
    return 1 - int(shift & IS_OVER != 0)


@kernel
def _instant_of_time(
    partition: Partition, scratch: Scratch, columns: Columns, cursor: EventCursor
) -> int:
    """The number of the instant that is worked on, where it is made of its time."""
    if cursor.is_row:
        return 2 * cursor.time + _shift_at(partition, columns, cursor.row)
    if cursor.row == cursor.row_end:
        # a tick later is the first instant of that time
        is_behind = scratch.closing != Closing.TICK_LATER
        return 2 * cursor.time + partition.shifted().behind + is_behind
    return 2 * cursor.time + (_shift_at(partition, columns, cursor.row) | 1)


@kernel
def instant_now(
    partition: Partition, scratch: Scratch, columns: Columns, cursor: EventCursor
) -> int:
    """The number of the instant that is worked on, where events of one time are told apart."""
    if partition.program.shifted_at != NONE:
        return _instant_of_time(partition, scratch, columns, cursor)
    at = _AT_EVENT if cursor.is_row else _AT_SILENCE
    if scratch.closing or scratch.waits:
        at = _BETWEEN
    instant = partition.instant_of(scratch.event_origin + cursor.row, at)
    return instant + (scratch.closing == Closing.TICK_LATER)


@kernel
def note_time_before_end(
    cursor: EventCursor, partition: Partition, columns: Columns, scratch: Scratch, now: int
) -> bool:
    """Note the instant up to which time has passed, before the input ends; False if nothing is open."""
    scratch.reached = now
    if not partition.mask and not any_open_row_before(partition, OPEN):
        return False
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
        scratch.before_instant = instant_now(partition, scratch, columns, cursor)
    return True
