"""What a row does to an interval: it begins one, ends one, or gives a whole one."""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, trailing_zeros
from piestream.compiled.records import kernel
from piestream.intervals.aggregates import Columns, add_rows, clear_cell
from piestream.intervals.ticks import lasts
from piestream.joins.boxes import ahead
from piestream.joins.closing import open_row_before, possible_silence
from piestream.joins.keys import index_interval
from piestream.joins.listed import drop_pairs
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.partners import followed_end
from piestream.joins.records import Symbol
from piestream.joins.result_rows import Closing
from piestream.joins.row_expiry import forget
from piestream.joins.scratch import KnownRow, Scratch
from piestream.joins.state_records import NO_MATCH, UNBOUNDED, Held, RowSlot, Slot


@kernel
def duration_is_allowed(symbol: Symbol, slot: RowSlot) -> bool:
    """Whether an interval whose end is known fulfils its duration constraint."""
    return fits_length(slot, symbol.at_least, symbol.at_most)


@kernel
def fits_length(slot: RowSlot, at_least: int, at_most: int) -> bool:
    """Whether it lasts so long at least and at most, where these are not NONE."""
    if at_least != NONE and not lasts(slot.start, slot.end, at_least):
        return False
    if at_most == NONE or not lasts(slot.start, slot.end, at_most):
        return True
    return slot.end - slot.start == at_most


@kernel
def refuse(partition: Partition, s: int, slot_id: int) -> None:
    """Mark an interval as invalid because of its duration; for followed-by it still lies between others."""
    if partition.program.symbols[s].gone_until == NONE:
        forget(partition, s, slot_id)
        return
    partition.order(s, BY_END).remove(slot_id)
    by_start = partition.order(s, BY_START)
    by_start.slot(slot_id).held = Held.REFUSED
    by_start.refresh(slot_id)


@kernel
def _is_silence(symbol: Symbol, slot: RowSlot, reached: int) -> bool:
    """Whether an interval that the end of the input ends is a silence of a symbol that may not be there.

    It is if its deadline has passed, however long it is shown to last; so that counts for nothing but what is said of
    its length besides.
    """
    if not lasts(slot.start, reached, symbol.silence + 1):
        return False
    at_least = NONE if symbol.is_longer else symbol.at_least
    return fits_length(slot, at_least, symbol.at_most)


@kernel
def _end_open_row(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
    """End an interval now of which only the start was known."""
    by_start = partition.order(s, BY_START)
    slot = by_start.slot(slot_id)
    by_start.remove(slot_id)
    slot.end = scratch.time - (scratch.closing != Closing.NO)  # as it is shown
    symbol = partition.program.symbols[s]
    if scratch.closing and symbol.silence != NONE:
        is_allowed = _is_silence(symbol, slot, scratch.reached)
    else:
        is_allowed = duration_is_allowed(symbol, slot)
    slot.end = scratch.time
    slot[partition.program.end_instant] = scratch.now
    by_start.insert(slot_id)
    scratch.passed |= 1 << s
    if slot.held != Held.RETIRED and not is_allowed:
        drop_pairs(partition, s, slot_id, scratch.floor)
        refuse(partition, s, slot_id)
    else:
        partition.order(s, BY_END).insert(slot_id)


@kernel
def _pass_known_end(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
    """Note that an end that was known in advance passes now: its instant is that of this event."""
    by_start, by_end = partition.order(s, BY_START), partition.order(s, BY_END)
    slot = by_start.slot(slot_id)
    is_in_end = slot.orders[BY_END].count != 0 or slot.held == Held.RETIRED
    if partition.program.is_sequenced:
        by_start.remove(slot_id)
        by_end.remove(slot_id)
        slot[partition.program.end_instant] = scratch.now
        by_start.insert(slot_id)
    if is_in_end and not slot.orders[BY_END].count:
        by_end.insert(slot_id)
    scratch.passed |= 1 << s


@kernel
def end_row(partition: Partition, scratch: Scratch, s: int, row: KnownRow) -> bool:
    """Apply a row to the interval that it ends, or whose known end passes; False if there is none."""
    by_start = partition.order(s, BY_START)
    slot_id = by_start.find(row.start_instant, OPEN, row.number)
    if slot_id != NONE:
        _end_open_row(partition, scratch, s, slot_id)
        return True
    end = ahead(row.end) if partition.program.is_sequenced else row.end
    slot_id = by_start.find(row.start_instant, end, row.number)
    if slot_id == NONE:
        return False
    _pass_known_end(partition, scratch, s, slot_id)
    return True


@kernel
def close_rows(partition: Partition, scratch: Scratch) -> None:
    """End the open intervals because the input ends: those that began before the time that is shown."""
    limit = scratch.time - 1
    if partition.program.is_sequenced:
        limit = partition.last_instant() if scratch.closing == Closing.LAST_EVENT else OPEN
    rest = partition.program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        possible = possible_silence(partition, s, scratch.reached)
        if possible != NONE:
            _end_open_row(partition, scratch, s, possible)
        while True:
            slot_id = open_row_before(partition, s, limit)
            if slot_id == NONE:
                break
            _end_open_row(partition, scratch, s, slot_id)


@kernel
def begin_row(
    partition: Partition, columns: Columns, column_row: int, s: int, row: KnownRow, is_over: int
) -> int:
    """Put the interval of a row into a slot; there must be one.

    ``is_over``: 1 if all events of its time are over where several have one.
    """
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    slot_id = ring.tail
    ring.tail += 1
    slot = RowSlot(ring.slot(slot_id))
    for word in range(symbol.buckets):
        slot[word] = NONE
    slot.start = row.start
    slot.end = row.end
    slot[program.start_instant] = row.start_instant
    slot[program.end_instant] = row.end_instant
    slot.number = row.number
    slot.held = Held.PENDING
    slot.announced = row.end != OPEN and row.end > row.time
    if symbol.known != NONE:
        slot[symbol.known] = row.time + is_over
    for order in range(2):
        slot.orders[order].count = 0
    for word in range(symbol.bound, symbol.range_bound_end):
        slot[word] = NO_MATCH
    slot.match_bound = NO_MATCH if symbol.bound < symbol.bound_end else UNBOUNDED
    ring.clear_candidate(slot_id)
    partition.note_gaps(s, Slot(slot), row.start_instant)
    for number in range(symbol.cell, symbol.cell_end):
        cell = program.cells[number]
        words = at_word(slot, cell.word)
        clear_cell(cell, words)
        add_rows(cell, words, columns, column_row, column_row + 1)
    index_interval(partition, s, slot_id)
    return slot_id


@kernel
def name_followed(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
    """Note which ends an interval that becomes known follows immediately, if a RELATION needs it."""
    program = partition.program
    symbol = program.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        constraint = program.constraints[incident.constraint]
        if constraint.naming and constraint.automaton == NONE:
            slot = partition.ring(s).slot(slot_id)
            end = followed_end(partition, scratch, constraint, incident.side, slot_id)
            slot[constraint.sides[incident.side].predecessor] = end
