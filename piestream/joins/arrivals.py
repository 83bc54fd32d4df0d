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
from piestream.compiled.records import Array, Rows, Words, kernel
from piestream.intervals.aggregates import Columns, add_rows, clear_cell
from piestream.intervals.ticks import lasts, minus, plus
from piestream.joins.boxes import ahead, box_in, box_of_times, least_start
from piestream.joins.closing import open_row_before
from piestream.joins.distances import judge_again, next_due, next_reached
from piestream.joins.keys import drop_keys, index_interval, index_keys
from piestream.joins.listed import chain_again, drop_pairs, expire_pairs, is_held, lists_of
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.partners import find_arrived, find_passed, followed_end
from piestream.joins.range_bounds import begin_given, take_bounds
from piestream.joins.records import Program, Symbol, Validity
from piestream.joins.result_rows import Closing
from piestream.joins.rings import grow_ring
from piestream.joins.scratch import ItemKind, KnownRow, Scratch
from piestream.joins.state_records import NO_MATCH, UNBOUNDED, Held, Pair, RowSlot
from piestream.joins.uncertain import find_uncertain

_PAIR_WORDS = Pair.size


# -- forgetting ------------------------------------------------------------------------------------
@kernel
def _forget(partition: Partition, s: int, slot_id: int) -> None:
    """Remove an interval from its symbol's orders."""
    symbol = partition.program.symbols[s]
    by_start = partition.order(s, BY_START)
    slot = by_start.slot(slot_id)
    by_start.remove(slot_id)
    partition.order(s, BY_END).remove(slot_id)
    slot.held = Held.FORGOTTEN
    if symbol.gone_until != NONE:
        end = slot[partition.program.end_instant]
        partition[symbol.gone_until] = max(partition[symbol.gone_until], end)


@kernel
def _is_waited_for(symbol: Symbol, slot: RowSlot, now: int) -> bool:
    """Whether the end of an interval is still needed although no later match can hold the interval."""
    if slot.end < now:
        return False
    if symbol.gone_until != NONE:
        return True
    return symbol.waiting_list != NONE and slot[symbol.waiting_list] != NONE


@kernel
def expire_rows(partition: Partition, s: int, floor: int, now: int) -> int:
    """Forget a symbol's intervals that are not kept at a floor; gives how many are.

    Those whose end is still waited for retire: they are left in the order by start.
    """
    symbol = partition.program.symbols[s]
    header = partition.rows_of(s)
    ring = partition.ring(s)
    by_start = partition.order(s, BY_START)
    floor = minus(floor, symbol.kept)
    latest_end = now - 1
    if symbol.kept_from:  # then all that is not kept has ended
        latest_end = minus(floor, 1)
        header.floor = max(header.floor, floor)
    elif header.floor < floor:
        began = box_of_times(by_start, header.floor, floor - 1)
        slot_id = began.following(NONE)[0]
        while slot_id != NONE:
            following = began.following(slot_id)[0]
            slot = by_start.slot(slot_id)
            if _is_waited_for(symbol, slot, now):
                partition.order(s, BY_END).remove(slot_id)
                slot.held = Held.RETIRED
                by_start.refresh(slot_id)
            else:
                _forget(partition, s, slot_id)
            slot_id = following
        header.floor = floor
    slot_id = NONE
    ended = box_in(by_start, NO_MATCH, minus(floor, 1), NO_MATCH, latest_end, NO_MATCH)
    if partition.program.is_sequenced:
        ended = box_of_times(by_start, NO_MATCH, minus(floor, 1))
    if floor > NO_MATCH:
        slot_id = ended.following(NONE)[0]
    while slot_id != NONE:
        following = ended.following(slot_id)[0]
        if by_start.slot(slot_id).end <= latest_end:
            _forget(partition, s, slot_id)
        slot_id = following
    head = ring.head
    while head < ring.tail and by_start.slot(head).held == Held.FORGOTTEN:
        head += 1
    ring.head = head
    return ring.tail - head


@kernel
def _make_room(partition: Partition, s: int) -> None:
    """Reuse the oldest slots of a full ring if their intervals are retired or dropped."""
    ring = partition.ring(s)
    by_start = partition.order(s, BY_START)
    moved = 0
    while ring.tail - ring.head == ring.capacity and moved < ring.capacity:
        slot = by_start.slot(ring.head)
        if slot.held == Held.RETIRED:  # the place of the id behind the last one is the same
            by_start.rename(ring.head, ring.tail)
            partition.order(s, BY_END).rename(ring.head, ring.tail)
            ring.tail += 1
            moved += 1
        elif slot.held != Held.FORGOTTEN:
            return
        ring.head += 1


@kernel
def _with_room_for_rows(place: Words, program: Program, pool_array: Array, s: int) -> Array:
    """The pool with a free slot for an interval of a symbol."""
    partition = Partition(place, program, pointer(pool_array))
    header = partition.rings[s]
    if header.capacity and header.tail - header.head == header.capacity:
        _make_room(partition, s)
    if header.tail - header.head == header.capacity:
        pool_array = grow_ring(header, pool_array, program.symbols[s].width)
        index_keys(Partition(place, program, pointer(pool_array)), s)
    return pool_array


@kernel
def _with_room_for_pairs(
    place: Words, program: Program, pool_array: Array, scratch: Scratch, c: int, s: int
) -> Array:
    """The pool with room for pairs of one interval with all those of symbol ``s``."""
    partition = Partition(place, program, pointer(pool_array))
    constraint = program.constraints[c]
    others = partition.rings[s]
    header = partition.rings[constraint.listed]
    most = others.tail - others.head
    if header.tail - header.head + most <= header.capacity:
        return pool_array
    inserted = scratch.tails[constraint.listed]
    expire_pairs(partition, constraint, inserted, scratch.floor)
    if header.tail - header.head + most <= header.capacity:
        return pool_array
    while header.tail - header.head + most > header.capacity:
        pool_array = grow_ring(header, pool_array, _PAIR_WORDS)
    if constraint.checked:
        chain_again(Partition(place, program, pointer(pool_array)), constraint, inserted)
    return pool_array


# -- intervals -------------------------------------------------------------------------------------
@kernel
def _duration_is_allowed(symbol: Symbol, slot: RowSlot) -> bool:
    """Whether an interval whose end is known fulfils its duration constraint."""
    if symbol.at_least != NONE and not lasts(slot.start, slot.end, symbol.at_least):
        return False
    at_most = symbol.at_most
    if at_most == NONE or not lasts(slot.start, slot.end, at_most):
        return True
    return slot.end - slot.start == at_most


@kernel
def _refuse(partition: Partition, s: int, slot_id: int) -> None:
    """Mark an interval as invalid because of its duration; for followed-by it still lies between others."""
    if partition.program.symbols[s].gone_until == NONE:
        _forget(partition, s, slot_id)
        return
    partition.order(s, BY_END).remove(slot_id)
    by_start = partition.order(s, BY_START)
    by_start.slot(slot_id).held = Held.REFUSED
    by_start.refresh(slot_id)


@kernel
def _end_open_row(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
    """End an interval now of which only the start was known."""
    by_start = partition.order(s, BY_START)
    slot = by_start.slot(slot_id)
    by_start.remove(slot_id)
    slot.end = scratch.time - (scratch.closing != Closing.NO)  # as it is shown
    is_allowed = _duration_is_allowed(partition.program.symbols[s], slot)
    slot.end = scratch.time
    slot[partition.program.end_instant] = scratch.now
    by_start.insert(slot_id)
    scratch.passed |= 1 << s
    if slot.held != Held.RETIRED and not is_allowed:
        drop_pairs(partition, s, slot_id, scratch.floor)
        _refuse(partition, s, slot_id)
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
def _end_row(partition: Partition, scratch: Scratch, s: int, row: KnownRow) -> bool:
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
def _close_rows(partition: Partition, scratch: Scratch) -> None:
    """End the open intervals because the input ends: those that began before the time that is shown."""
    limit = scratch.time - 1
    if partition.program.is_sequenced:
        limit = partition.last_instant() if scratch.closing == Closing.LAST_EVENT else OPEN
    rest = partition.program.rows
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        while True:
            slot_id = open_row_before(partition, s, limit)
            if slot_id == NONE:
                break
            _end_open_row(partition, scratch, s, slot_id)


@kernel
def _begin_row(
    partition: Partition, columns: Columns, column_row: int, s: int, row: KnownRow
) -> int:
    """Put the interval of a row into a slot; there must be one."""
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
        slot[symbol.known] = row.time
    for order in range(2):
        slot.orders[order].count = 0
    for word in range(symbol.bound, symbol.range_bound_end):
        slot[word] = NO_MATCH
    slot.match_bound = NO_MATCH if symbol.bound < symbol.bound_end else UNBOUNDED
    ring.clear_candidate(slot_id)
    for number in range(symbol.cell, symbol.cell_end):
        cell = program.cells[number]
        words = at_word(slot, cell.word)
        clear_cell(cell, words)
        add_rows(cell, words, columns, column_row, column_row + 1)
    index_interval(partition, s, slot_id)
    return slot_id


@kernel
def _name_followed(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
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
        pool_array = _with_room_for_pairs(place, program, pool_array, scratch, c, other)
        partition = Partition(place, program, pointer(pool_array))
        if passed and constraint.distance < constraint.distance_end:
            scratch.visits += judge_again(
                partition, constraint, incident.side, slot_id, scratch.time, scratch.floor
            )
            pool_array = _with_room_for_pairs(place, program, pool_array, scratch, c, other)
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
            _name_followed(partition, scratch, s, slot_id)
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
                pool_array = _with_room_for_pairs(place, program, pool_array, scratch, c, other)
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
    pool_array = _with_room_for_rows(place, program, pool_array, s)
    partition = Partition(place, program, pointer(pool_array))
    slot_id = _begin_row(partition, columns, scratch.first_column + number, s, row)
    slot = RowSlot(partition.ring(s).slot(slot_id))
    if slot.end != OPEN and not _duration_is_allowed(symbol, slot):
        if symbol.gone_until == NONE:
            drop_keys(partition, s, slot_id)
            partition.rings[s].tail = slot_id
            return pool_array
        slot.held = Held.REFUSED
    else:
        take_bounds(partition, s, slot_id)
        _name_followed(partition, scratch, s, slot_id)
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


# -- one event -------------------------------------------------------------------------------------
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


@kernel
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
                if _end_row(partition, scratch, s, row):
                    row.symbols &= ~(1 << s)
    if scratch.closing:
        _close_rows(partition, scratch)
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
