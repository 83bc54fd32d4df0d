"""The slots of a symbol's intervals: opening one, dropping one, keeping its aggregates."""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import Array, inline_kernel, kernel
from piestream.intervals.aggregates import Columns, add_rows, clear_cell
from piestream.joins.keys import drop_keys, index_keys
from piestream.joins.listed import drop_pairs
from piestream.joins.pairs import drop_partner
from piestream.joins.partition import Partition
from piestream.joins.records import Validity
from piestream.joins.rings import grow_ring
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, UNBOUNDED, BridgedSlot, Slot


@kernel
def drop_interval(partition: Partition, s: int, floor: int) -> None:
    """Take back an interval that is known now to have ended, and whose duration is not allowed.

    Its pairs go with it, as far as lists are kept at the floor.
    """
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    slot_id = ring.tail - 1
    slot = ring.slot(slot_id)
    if symbol.has_lists and slot.start < symbol.first_start(floor):
        # No match can hold it as it is, and its lists are no longer kept: its id must not be reused.
        partition.valid |= 1 << s
        return
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        constraint = program.constraints[incident.constraint]
        if constraint.naming or constraint.listed != NONE:
            continue
        mine = slot.partners(constraint.sides[incident.side].partners)
        theirs = constraint.sides[1 - incident.side]
        others = partition.ring(constraint.symbols[1 - incident.side])
        if mine.lo == NONE:
            continue
        for other in range(max(mine.lo, others.head), mine.hi + 1):
            drop_partner(others.slot(other).partners(theirs.partners), theirs.scan, slot_id)
    if symbol.key != symbol.key_end:
        drop_keys(partition, s, slot_id)
    if symbol.has_lists:
        drop_pairs(partition, s, slot_id, floor)
    if symbol.gone_until != NONE:
        partition[symbol.gone_until] = slot[program.end_instant]
    ring.tail = slot_id
    ring.head = min(ring.head, slot_id)
    partition.dropped |= 1 << s
    partition.valid |= 1 << s


@inline_kernel
def any_ring_full(partition: Partition, started: int, floor: int) -> bool:
    """Whether the ring of a symbol that starts an interval is full of live ones."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        ring = partition.ring(s)
        if ring.tail - ring.head < ring.capacity:
            continue
        if not ring.capacity:
            return True
        symbol = partition.program.symbols[s]
        if ring.tail - ring.expire(floor, symbol.kept_from, symbol.kept) == ring.capacity:
            return True
    return False


@kernel
def grow_full_rings(partition: Partition, pool_array: Array, started: int) -> Array:
    """The pool with a free slot in the ring of every symbol that starts an interval."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        header = partition.rings[s]
        if header.tail - header.head == header.capacity:
            pool_array = grow_ring(header, pool_array, partition.program.symbols[s].width)
            index_keys(Partition(partition, partition.program, pointer(pool_array)), s)
            keep_alive(pool_array)
    return pool_array


@kernel
def delay_ends(partition: Partition, symbols: int) -> None:
    """Let the latest intervals of symbols (as bits) end a tick later: see `Closing`."""
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        partition.ring(s).latest().end += 1


@kernel
def _keep_start(partition: Partition, s: int, slot: Slot, instant: int, event: int) -> None:
    """Keep of an interval that opens what only some symbols need: instants, gaps, events, aggregates."""
    program = partition.program
    symbol = program.symbols[s]
    slot[program.start_instant] = instant
    slot[program.end_instant] = OPEN
    if symbol.bridging != NONE:
        bridged = BridgedSlot(slot)
        bridged.since = OPEN
        bridged.ceased = OPEN
        bridged.since_instant = OPEN
        bridged.ceased_instant = OPEN
    if symbol.ended_before != NONE:
        slot[symbol.ended_before] = partition.latest_end_before(s, instant)
    partition.note_gaps(s, slot, instant)
    if symbol.first_event != NONE:
        if symbol.counter != NONE:
            event = partition[program.counters[symbol.counter].before]
        slot[symbol.first_event] = event
    for number in range(symbol.cell, symbol.cell_end):
        cell = program.cells[number]
        clear_cell(cell, at_word(slot, cell.word))


@inline_kernel
def open_interval(partition: Partition, s: int, time: int, instant: int, event: int) -> None:
    """Open an interval of a symbol, whose first event has this number."""
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    slot_id = ring.tail
    slot = ring.slot(slot_id)
    for word in range(symbol.buckets):
        slot[word] = NONE
    slot.start = time
    slot.end = OPEN
    if not symbol.is_plain:
        _keep_start(partition, s, slot, instant, event)
    for word in range(symbol.bound, symbol.range_bound_end):
        slot[word] = NO_MATCH
    if symbol.bound < symbol.bound_end:
        slot.match_bound = NO_MATCH
        ring.clear_candidate(slot_id)
    else:
        slot.match_bound = UNBOUNDED
        ring.set_candidate(slot_id)
    ring.tail = slot_id + 1
    bit = 1 << s
    dropped = partition.dropped & bit
    partition.previous_dropped = (partition.previous_dropped & ~bit) | dropped
    partition.dropped &= ~bit
    if symbol.validity == Validity.AT_START:
        partition.valid |= bit
    else:
        partition.valid &= ~bit


@kernel
def update_aggregates(
    partition: Partition, columns: Columns, symbols: int, row_end: int, scratch: Scratch
) -> None:
    """Add the rows up to ``row_end`` to the aggregates of the open intervals of symbols (as bits)."""
    program = partition.program
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        row = scratch.aggregated[s]
        symbol = program.symbols[s]
        if row >= row_end or symbol.cell == symbol.cell_end:
            continue
        slot = partition.ring(s).latest()
        first = symbol.cell
        end = symbol.bridge_cell
        if end != symbol.cell_end and partition.bridges().interrupted >> s & 1:
            first = end
            end = symbol.cell_end
        for number in range(first, end):
            cell = program.cells[number]
            add_rows(cell, at_word(slot, cell.word), columns, row, row_end)
        scratch.aggregated[s] = row_end
