"""Rows of intervals at one event: they begin intervals, end them, or give whole ones, and decide pairs.

First the intervals that began before the window are dropped. Then the rows that end an interval are
applied. Then pairs are found: for the ends that pass, for the runs that start, and for each interval
that becomes known, which is inserted into its symbol's orders after that. So each pair is found from
one side only. Found pairs lie in the ring of their constraint, and are inserted into the index one by
one as the queue is drained.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, trailing_zeros
from piestream.compiled.records import Array, Rows, Words, kernel, separate_kernel
from piestream.intervals.aggregates import Columns
from piestream.intervals.ticks import lasts, plus
from piestream.joins.boxes import box_in, least_start
from piestream.joins.distances import judge_again, next_due, next_reached
from piestream.joins.keys import drop_keys
from piestream.joins.listed import is_held, lists_of
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.partners import find_arrived, find_passed
from piestream.joins.range_bounds import begin_given, take_bounds
from piestream.joins.records import Program, Validity
from piestream.joins.row_expiry import expire_rows, with_room_for_pairs, with_room_for_rows
from piestream.joins.row_intervals import (
    begin_row,
    close_rows,
    duration_is_allowed,
    end_row,
    name_followed,
)
from piestream.joins.scratch import ItemKind, KnownRow, Scratch
from piestream.joins.state_records import NO_MATCH, Held, RowSlot
from piestream.joins.uncertain import find_uncertain


@kernel
def _find(
    place: Words, program: Program, pool_array: Array, scratch: Scratch, s: int, slot_id: int,
    passed: bool,
) -> Array:  # fmt: skip
    """Find the pairs that are decided by an endpoint of an interval; returns the pool."""
    symbol = program.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        c = incident.constraint
        constraint = program.constraints[c]
        if constraint.listed == NONE:
            continue
        other = constraint.symbols[1 - incident.side]
        pool_array = with_room_for_pairs(place, program, pool_array, scratch, c, other)
        partition = Partition(place, program, pointer(pool_array))
        if passed and constraint.distance < constraint.distance_end:
            scratch.visits += judge_again(
                partition, constraint, incident.side, slot_id, scratch.time, scratch.floor
            )
            pool_array = with_room_for_pairs(place, program, pool_array, scratch, c, other)
            partition = Partition(place, program, pointer(pool_array))
        if constraint.uncertain:
            scratch.visits += find_uncertain(
                partition, scratch, constraint, incident.side, slot_id, passed
            )
        elif passed:
            scratch.visits += find_passed(partition, scratch, constraint, incident.side, slot_id)
        else:
            scratch.visits += find_arrived(partition, scratch, constraint, incident.side, slot_id)
    return pool_array


@kernel
def _find_of_passing(place: Words, program: Program, pool_array: Array, scratch: Scratch) -> Array:
    """Find the pairs that are decided by ends, given by rows, that pass now."""
    rest = scratch.passed
    now = scratch.now
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if not program.symbols[s].has_lists:
            continue
        slot_id = NONE
        while True:
            partition = Partition(place, program, pointer(pool_array))
            order = partition.order(s, BY_END)
            first_start = program.symbols[s].first_start(scratch.floor)
            least = least_start(program, first_start)
            passing = box_in(order, now, now, least, OPEN, NO_MATCH)
            slot_id = passing.following(slot_id)[0]
            if slot_id == NONE:
                break
            if order.slot(slot_id).start >= first_start:
                pool_array = _find(place, program, pool_array, scratch, s, slot_id, True)
    return pool_array


@kernel
def _find_of_runs(
    place: Words, program: Program, pool_array: Array, scratch: Scratch, symbols: int, passed: bool
) -> Array:
    """Find the listed pairs of runs that end, start or go on now; the symbols are bits."""
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        partition = Partition(place, program, pointer(pool_array))
        slot_id = partition.rings[s].tail - 1
        if not passed:
            name_followed(partition, scratch, s, slot_id)
            begin_given(partition, s)
        symbol = program.symbols[s]
        slot = partition.ring(s).slot(slot_id)
        if symbol.has_lists and symbol.expiry(slot) >= scratch.floor:
            pool_array = _find(place, program, pool_array, scratch, s, slot_id, passed)
    return pool_array


@kernel
def _find_reached(place: Words, program: Program, pool_array: Array, scratch: Scratch) -> Array:
    """Judge the pending pairs of which a distance has become certain because time passed."""
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        for number in range(constraint.distance, constraint.distance_end):
            distance = program.distances[number]
            slot_id = NONE
            while True:
                partition = Partition(place, program, pointer(pool_array))
                slot_id, side = next_reached(partition, constraint, distance, slot_id, scratch.time)
                if slot_id == NONE:
                    break
                if not is_held(partition, constraint.symbols[side], slot_id, scratch.floor):
                    continue
                if lists_of(partition, constraint, side, slot_id).pending == NONE:
                    continue
                other = constraint.symbols[1 - side]
                pool_array = with_room_for_pairs(place, program, pool_array, scratch, c, other)
                partition = Partition(place, program, pointer(pool_array))
                scratch.visits += judge_again(
                    partition, constraint, side, slot_id, scratch.time, scratch.floor
                )
    return pool_array


@kernel
def _arrive(
    place: Words, program: Program, pool_array: Array, scratch: Scratch, columns: Columns,
    number: int, s: int, row: KnownRow,
) -> Array:  # fmt: skip
    """Insert the interval of the row with this number, and find the pairs that it decides."""
    symbol = program.symbols[s]
    pool_array = with_room_for_rows(place, program, pool_array, s)
    partition = Partition(place, program, pointer(pool_array))
    slot_id = begin_row(partition, columns, scratch.first_column + number, s, row)
    slot = RowSlot(partition.ring(s).slot(slot_id))
    if slot.end != OPEN and not duration_is_allowed(symbol, slot):
        if symbol.gone_until == NONE:
            drop_keys(partition, s, slot_id)
            partition.rings[s].tail = slot_id
            return pool_array
        slot.held = Held.REFUSED
    else:
        take_bounds(partition, s, slot_id)
        name_followed(partition, scratch, s, slot_id)
        pool_array = _find(place, program, pool_array, scratch, s, slot_id, False)
        partition = Partition(place, program, pointer(pool_array))
        if slot_in(partition, s, slot_id).end != OPEN:
            partition.order(s, BY_END).insert(slot_id)
    partition.order(s, BY_START).insert(slot_id)
    if slot_in(partition, s, slot_id)[program.end_instant] <= scratch.now:
        scratch.passed |= 1 << s
    return pool_array


@kernel
def slot_in(partition: Partition, s: int, slot_id: int) -> RowSlot:
    """An interval that came as a row."""
    return RowSlot(partition.ring(s).slot(slot_id))


@kernel
def _reach_lengths(partition: Partition, scratch: Scratch, time: int) -> None:
    """Queue the symbols of which open intervals reach their minimum length; note the next time."""
    program = partition.program
    rest = program.valid_at_length & program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        header = partition.rows_of(s)
        ring = partition.ring(s)
        at_least = program.symbols[s].at_least
        pending = max(header.pending, ring.head)
        reached = False
        while pending < ring.tail:
            slot = slot_in(partition, s, pending)
            if slot.end == OPEN and slot.held == Held.PENDING:
                if not lasts(slot.start, time, at_least):
                    partition.due = min(partition.due, plus(slot.start, at_least))
                    break
                if not reached:
                    reached = True
                    header.pending = pending
                    item = scratch.enqueue(ItemKind.REACHED)
                    item.symbol = s
            pending += 1
        if not reached:
            header.pending = pending


@kernel
def _enqueue_many(partition: Partition, scratch: Scratch) -> None:
    """Queue the intervals that rows changed, and the pairs: first arrivals, then ends, then pairs."""
    program = partition.program
    tails = scratch.tails
    rest = program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        ring = partition.rings[s]
        first = max(tails[s], ring.head)  # others may have made room more than once
        if first < ring.tail:
            scratch.absent_changed |= 1 << s
            item = scratch.enqueue(ItemKind.ARRIVALS)
            item.symbol = s
            item.ids[0] = first
            item.last = ring.tail - 1
    rest = scratch.passed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if program.symbols[s].validity != Validity.AT_START:
            item = scratch.enqueue(ItemKind.PASSED)
            item.symbol = s
            item.last = 0  # there may be more
            item.ids[0] = NONE
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        if constraint.listed != NONE:
            header = partition.rings[constraint.listed]
            if tails[constraint.listed] < header.tail:
                item = scratch.enqueue(ItemKind.LISTED)
                item.constraint = c
                item.ids[0] = tails[constraint.listed]
                item.last = header.tail - 1


@separate_kernel
def apply_rows(
    place: Words, program: Program, pool_array: Array, scratch: Scratch, columns: Columns,
    rows: Rows[KnownRow], started: int, kept: int,
) -> Array:  # fmt: skip
    """Apply the rows of intervals at an event, whose runs have ended and started, and list pairs.

    Gives the pool. ``kept`` are the symbols (as bits) whose runs have ended with an allowed duration.
    """
    partition = Partition(place, program, pointer(pool_array))
    time = scratch.time
    scratch.passed = 0
    rest = program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        expire_rows(partition, s, scratch.floor, time)
    for number in range(program.n_rings):
        scratch.tails[number] = partition.rings[number].tail
    first = scratch.known
    end = first
    while end < scratch.known_end and rows[end].instant == scratch.now:
        end += 1
    scratch.known = end
    for at in range(first, end):
        row = rows[at]
        if row.end_instant == scratch.now:
            taken = row.symbols
            while taken:
                s = trailing_zeros(taken)
                taken &= taken - 1
                if end_row(partition, scratch, s, row):
                    row.symbols &= ~(1 << s)
    if scratch.closing:
        close_rows(partition, scratch)
        if program.progress_at != NONE:
            partition.progress().closed = partition.last_time
    scratch.changed = kept | scratch.resumed
    scratch.begun = started
    if program.progress_at != NONE and not scratch.waits:
        pool_array = _find_reached(place, program, pool_array, scratch)
    pool_array = _find_of_passing(place, program, pool_array, scratch)
    runs = ~program.rows
    pool_array = _find_of_runs(place, program, pool_array, scratch, scratch.changed & runs, True)
    pool_array = _find_of_runs(place, program, pool_array, scratch, started & runs, False)
    for at in range(first, end):
        row = rows[at]
        taken = row.symbols
        while taken:
            s = trailing_zeros(taken)
            taken &= taken - 1
            symbol = program.symbols[s]
            since = row.end if symbol.kept_from else row.start
            if plus(since, symbol.kept) >= scratch.floor:
                pool_array = _arrive(place, program, pool_array, scratch, columns, at, s, row)
            elif symbol.gone_until != NONE:
                gone_until = at_word(place, symbol.gone_until)
                gone_until[0] = max(gone_until[0], row.end_instant)
    partition = Partition(place, program, pointer(pool_array))
    _enqueue_many(partition, scratch)
    # what is open at the end of the input ends before it has another length
    if not scratch.closing and not scratch.waits:
        _reach_lengths(partition, scratch, time)
        if program.progress_at != NONE:
            partition.progress().seen = time
            partition.due = min(partition.due, next_due(partition, time))
    keep_alive(pool_array)
    return pool_array
