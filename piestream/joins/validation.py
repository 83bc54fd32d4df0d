"""Whether the words of a stored state are sound: every number that a loop follows is checked.

A state comes as bytes that anyone can have made. The loops trust what they find in it, so it is
gone through once before they do. A slot's address is ``id & (capacity - 1)``, so that the rings'
places are what memory depends on; the ranges of ids and the lists of waiting matches bound how long
a loop goes on, and the ranges of values are those that the result's columns can hold.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.constants import INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, within
from piestream.compiled.records import Array, Record, Table, Words, WordTable, kernel
from piestream.intervals.aggregates import UNKNOWN_YET, CellKind
from piestream.intervals.ticks import plus
from piestream.joins.awaited_validation import awaited_are_sound
from piestream.joins.partition import Partition
from piestream.joins.records import Program, Side
from piestream.joins.rings import SMALLEST, Ring, ring_words
from piestream.joins.row_validation import orders_are_sound, pairs_are_sound, row_is_sound
from piestream.joins.state_records import (
    MOST_EVENTS,
    BridgedSlot,
    Held,
    PoolHeader,
    RowSlot,
    Slot,
)
from piestream.joins.waiting import WaitingStore

#: Ids only grow, and no stream is that long; one more can be added to any of them.
_HIGHEST_ID = 1 << 62
_POOL_WORDS = PoolHeader.size
_WAITING_WORDS = WaitingStore.offset("matches")


class Damage(IntEnum):
    """What is wrong with a state."""

    NOTHING = 0
    POOL = 1  # the pool's header disagrees with its rings
    FLAGS = 2  # the fields of a partition
    AUTOMATON = 3
    RING = 4
    INTERVAL = 5
    PARTNERS = 6
    VALUE = 7
    WAITING = 8
    ROWS = 9  # the orders of intervals that came as rows
    PAIRS = 10  # the lists of pairs
    AWAITED = 11  # the matches of which an absence is not decided


class ValueRange(Record):
    """Which values a column of the result can hold."""

    lowest: int
    highest: int


class OutputRange(Record):
    """Which words a waiting match can hold as one output."""

    lowest: int
    highest: int
    known: int  # the output word that is 1 where there is a value; NONE: there always is


class Limits(Record):
    """Limits of the words of a state that do not follow from the program."""

    lowest_time: int
    highest_time: int
    n_states: WordTable  # of the automaton of each constraint; 1 where it has none
    attributes: Table[ValueRange]  # by column
    outputs: Table[OutputRange]


@kernel
def _flags_are_sound(partition: Partition) -> bool:
    """Whether a partition is in use, and its sets of symbols hold no others."""
    bits = partition.mask | partition.valid | partition.dropped | partition.previous_dropped
    n = partition.program.n_symbols
    if partition.mask & partition.program.rows:
        return False
    bridged = partition.program.bridged
    if bridged and partition.bridges().interrupted & ~(partition.mask & bridged):
        return False
    return partition.used == 1 and (n == 64 or bits >> n == 0)


@kernel
def _states_exist(partition: Partition, limits: Limits) -> bool:
    """Whether every automaton is in one of its states."""
    program = partition.program
    for c in range(program.n_automata):
        if not 0 <= partition[program.automata_at + c] < limits.n_states[c]:
            return False
    return True


@kernel
def _ring_end(ring: Ring, is_open: bool, at: int, used: int) -> int:
    """Where the ring ends that begins at ``at``, as a snapshot leaves them; NONE if it does not."""
    capacity = ring.capacity
    if not 0 <= ring.head <= ring.tail <= _HIGHEST_ID:
        return NONE
    if capacity == 0:
        return at if ring.base == 0 and ring.head == ring.tail and not is_open else NONE
    if not SMALLEST <= capacity <= used or capacity & (capacity - 1) or ring.base != at:
        return NONE
    end = at + ring_words(capacity, ring.width)
    if end > used or ring.tail - ring.head > capacity or (is_open and ring.tail == 0):
        return NONE
    return end if ring.candidates().is_consistent() else NONE


@kernel
def _refers_to(side: Side, slot: Slot, others: Ring, naming: int) -> bool:
    """Whether what an interval keeps of the other symbol are ids that this one has."""
    if naming:
        return NONE <= slot[side.predecessor] <= others.tail
    partners = slot.partners(side.partners)
    if partners.lo == NONE:
        if partners.hi != NONE:
            return False
    # the latest may have been dropped since; a ring without slots has no live ones
    elif not 0 <= partners.lo <= partners.hi <= others.tail or (
        others.capacity == 0 and partners.hi >= others.head
    ):
        return False
    before = side.last_ended_before
    if before != NONE and not NONE <= slot[before] < others.tail:
        return False
    if side.first_starting_after == NONE:
        return True
    after = slot[side.first_starting_after]
    return NONE <= after <= others.tail + 1 and (others.capacity != 0 or after <= others.head)


@kernel
def _holds_values(partition: Partition, s: int, slot: Slot, limits: Limits) -> bool:
    """Whether the aggregates of an interval are some that its rows can have given."""
    program = partition.program
    symbol = program.symbols[s]
    for number in range(symbol.cell, symbol.cell_end):
        cell = program.cells[number]
        kind = cell.kind
        words = at_word(slot, cell.word)
        if kind == CellKind.ROWS or kind == CellKind.COUNT or kind == CellKind.SPREAD:
            if words[0] < 0:
                return False
        elif kind != CellKind.SUM_INT and kind != CellKind.SUM_FLOAT:
            if not UNKNOWN_YET <= words[0] <= 1:
                return False
            values = limits.attributes[cell.column]
            if words[0] == 1 and not values.lowest <= words[1] <= values.highest:
                return False
    return True


@kernel
def _bridge_is_sound(partition: Partition, s: int, slot_id: int, last_end: int) -> bool:
    """Whether an interval is interrupted if, and since when, it can be."""
    ring = partition.ring(s)
    slot = BridgedSlot(ring.slot(slot_id))
    is_interrupted = partition.bridges().interrupted >> s & 1 and slot_id == ring.tail - 1
    if not is_interrupted:
        return slot.since == OPEN and slot.since_instant == OPEN
    if not 0 <= slot.events <= MOST_EVENTS or slot.ceased != slot.since:
        return False
    if not slot.start <= slot.since <= last_end:
        return False
    program = partition.program
    if not slot[program.start_instant] < slot.since_instant == slot.ceased_instant < OPEN:
        return False
    if not program.is_sequenced and slot.since_instant != slot.since:
        return False
    bridging = partition.program.symbols[s].bridging
    return partition.bridges().due <= plus(slot.since, bridging)


@kernel
def _check_intervals_of(partition: Partition, s: int, limits: Limits) -> int:
    """Check the live intervals of a symbol, and the latest if it is open."""
    program = partition.program
    symbol = program.symbols[s]
    ring = partition.ring(s)
    is_open = partition.mask >> s & 1
    last_end = partition.last_time
    if program.gap != NONE:
        last_end = plus(last_end, program.gap)
    earliest = limits.lowest_time
    earliest_instant = 0 if program.shifted_at == NONE else INT64_MIN
    for slot_id in range(min(ring.head, ring.tail - is_open), ring.tail):
        slot = ring.slot(slot_id)
        if not earliest <= slot.start <= partition.last_time:
            return Damage.INTERVAL
        if is_open and slot_id == ring.tail - 1:
            if slot.end != OPEN:
                return Damage.INTERVAL
        elif not slot.start <= slot.end <= last_end or slot.end == OPEN:
            return Damage.INTERVAL
        earliest = slot.end
        if program.bridged >> s & 1 and not _bridge_is_sound(partition, s, slot_id, last_end):
            return Damage.INTERVAL
        if program.is_sequenced:
            if not earliest_instant <= slot[program.start_instant] <= slot[program.end_instant]:
                return Damage.INTERVAL
            earliest_instant = slot[program.end_instant]
        if symbol.first_event != NONE:
            events = partition.events
            if symbol.counter != NONE:
                events = partition[program.counters[symbol.counter].count]
            if not 0 <= slot[symbol.first_event] < events:
                return Damage.INTERVAL
        for number in range(symbol.incident, symbol.incident_end):
            incident = program.incidents[number]
            constraint = program.constraints[incident.constraint]
            if constraint.automaton == NONE and (constraint.naming or constraint.listed != NONE):
                continue
            others = partition.ring(constraint.symbols[1 - incident.side])
            mine = constraint.sides[incident.side]
            if not _refers_to(mine, slot, others, constraint.naming):
                return Damage.PARTNERS
        if not _holds_values(partition, s, slot, limits):
            return Damage.VALUE
    return Damage.NOTHING


@kernel
def _check_rows_of(partition: Partition, s: int, limits: Limits) -> int:
    """Check the intervals of a symbol whose intervals come as rows."""
    ring = partition.ring(s)
    for slot_id in range(ring.head, ring.tail):
        slot = RowSlot(ring.slot(slot_id))
        if not row_is_sound(partition, s, slot, limits.lowest_time):
            return Damage.INTERVAL
        if not _holds_values(partition, s, ring.slot(slot_id), limits):
            return Damage.VALUE
    return Damage.NOTHING if orders_are_sound(partition, s) else Damage.ROWS


@kernel
def _check_intervals(partition: Partition, limits: Limits, rings_end: int) -> int:
    """Check the intervals of a partition, whose rings must be where they belong."""
    if rings_end == NONE:
        return Damage.RING
    program = partition.program
    damage = 0
    for s in range(program.n_symbols):
        if program.rows >> s & 1:
            damage = _check_rows_of(partition, s, limits)
        else:
            damage = _check_intervals_of(partition, s, limits)
        if damage != Damage.NOTHING:
            return damage
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        if constraint.listed != NONE and not pairs_are_sound(partition, constraint):
            return Damage.PAIRS
    if program.awaited_ring != NONE and not awaited_are_sound(partition):
        return Damage.AWAITED
    return Damage.NOTHING


@kernel
def _added_by_list(
    waiting: WaitingStore, s: int, first: int, owner: Words, met: Words, number: int
) -> int:
    """How many matches no list of the partition held before are in one of a symbol; NONE: damage.

    ``owner`` says whose each match is, ``met`` in how many lists it was found.
    """
    added = 0
    seen = 0
    at = first
    while at != NONE:
        if not 0 <= at < waiting.used or seen == waiting.used:
            return NONE
        if owner[at] == NONE:
            owner[at] = number
            added += 1
        elif owner[at] != number:
            return NONE
        met[at] += 1
        seen += 1
        at = waiting.match(at).links()[s]
    return added


@kernel
def _outputs_are_sound(waiting: WaitingStore, number: int, limits: Limits) -> bool:
    """Whether the output words of a waiting match are some that a result can hold."""
    outputs = waiting.match(number).outputs()
    for o in range(waiting.program.n_outputs):
        output = limits.outputs[o]
        if output.known != NONE and outputs[output.known] != 1:
            continue
        word = outputs[o]
        if not output.lowest <= word <= output.highest and word != OPEN:
            return False
    return True


@kernel
def _free_matches(waiting: WaitingStore) -> int:
    """How many records the list of free ones holds; NONE if it leads astray."""
    count = 0
    at = waiting.free
    while at != NONE:
        if not 0 <= at < waiting.used or count == waiting.used or waiting.match(at).n_open:
            return NONE
        count += 1
        at = waiting.match(at).starts()[0]
    return count


@kernel
def _waiting_fits(waiting: WaitingStore, words: int, emit_both: int) -> bool:
    """Whether the length of the store agrees with its header."""
    if waiting.used < 0 or waiting.used > words or waiting.words() != words:
        return False
    return emit_both != 0 or waiting.used == 0


@kernel
def _check_whole(waiting: WaitingStore, met: Words, limits: Limits, pool_is_full: bool) -> int:
    """Check that nothing is left over, and that matches are free or wait for all that is open."""
    if not pool_is_full:
        return Damage.POOL
    free = _free_matches(waiting)
    if free == NONE:
        return Damage.WAITING
    held = 0
    for number in range(waiting.used):
        if waiting.match(number).n_open != met[number]:
            return Damage.WAITING
        if met[number]:
            held += 1
            if not _outputs_are_sound(waiting, number, limits):
                return Damage.VALUE
    return Damage.NOTHING if free + held == waiting.used else Damage.WAITING


@kernel
def _check_fields(partition: Partition, limits: Limits) -> int:
    """Check the words of a partition outside its rings."""
    if not _flags_are_sound(partition):
        return Damage.FLAGS
    if not 0 <= partition.events < MOST_EVENTS:
        return Damage.FLAGS
    for number in range(partition.program.n_counters):
        counter = partition.program.counters[number]
        if not 0 <= partition[counter.count] < MOST_EVENTS:
            return Damage.FLAGS
        if not 0 <= partition[counter.due] <= MOST_EVENTS:
            return Damage.FLAGS
    if partition.program.given_at != NONE and partition.given().count < 0:
        return Damage.FLAGS
    last = partition.last_time
    if last != INT64_MIN and not limits.lowest_time <= last <= limits.highest_time:
        return Damage.FLAGS
    return Damage.NOTHING if _states_exist(partition, limits) else Damage.AUTOMATON


@kernel
def _rings_end(partition: Partition, at: int, used: int) -> int:
    """Where the rings of a partition end that begin at ``at``; NONE if they do not lie there."""
    program = partition.program
    for s in range(program.n_symbols):
        at = _ring_end(partition.ring(s), partition.mask >> s & 1 != 0, at, used)
        if at == NONE:
            return NONE
    for c in range(program.n_constraints):
        if program.constraints[c].listed != NONE:
            at = _ring_end(partition.pairs(program.constraints[c]), False, at, used)
            if at == NONE:
                return NONE
    if program.given_ring != NONE:
        at = _ring_end(partition.given_matches(), False, at, used)
        if at == NONE:
            return NONE
    if program.awaited_ring != NONE:
        at = _ring_end(partition.awaited_matches(), False, at, used)
        if at != NONE:
            at = _ring_end(partition.awaited_heap(), False, at, used)
        if at == NONE:
            return NONE
    return at


@kernel
def _check_lists(
    partition: Partition, waiting: WaitingStore, owner: Words, met: Words, number: int
) -> int:
    """Check the lists of matches that wait for the open intervals of a partition."""
    program = partition.program
    held = 0
    for s in range(program.n_symbols):
        word = program.symbols[s].waiting_list
        if word == NONE:
            continue
        ring = partition.ring(s)
        of_rows = program.rows >> s & 1
        if not of_rows and not partition.mask >> s & 1:
            continue
        for slot_id in range(ring.head if of_rows else ring.tail - 1, ring.tail):
            slot = ring.slot(slot_id)
            if of_rows and RowSlot(slot).held == Held.FORGOTTEN:
                continue
            if slot[word] != NONE and slot.end <= partition.last_time:
                return Damage.WAITING
            added = _added_by_list(waiting, s, slot[word], owner, met, number)
            if added == NONE:
                return Damage.WAITING
            held += added
    return Damage.NOTHING if held == partition.waiting else Damage.WAITING


@kernel
def check_state(
    program_array: Array, limits_array: Array, state: tuple[Array, Array, Array], n_partitions: int
) -> int:
    """Check a whole state in the form of a snapshot; returns a `Damage`."""
    partitions_array, pool_array, waiting_array = state
    if pool_array.size < _POOL_WORDS or waiting_array.size < _WAITING_WORDS:
        return Damage.POOL
    program = Program(pointer(program_array))
    limits = Limits(pointer(limits_array))
    pool = pointer(pool_array)
    waiting = WaitingStore(pointer(waiting_array), program)
    used = PoolHeader(pool).used
    if used != pool_array.size or PoolHeader(pool).wasted:
        return Damage.POOL
    if not _waiting_fits(waiting, waiting_array.size, program.emit_both):
        return Damage.WAITING
    owner_array = np.full(waiting.used, NONE)
    met_array = np.zeros(waiting.used, np.int64)
    owner, met = pointer(owner_array), pointer(met_array)
    at = _POOL_WORDS
    damage = 0
    number = 0
    while number < n_partitions and damage == Damage.NOTHING:
        words = program.partition_words
        place = within(pointer(partitions_array), number * words, words)
        partition = Partition(place, program, pool)
        damage = _check_fields(partition, limits)
        if damage == Damage.NOTHING:
            at = _rings_end(partition, at, used)
            damage = _check_intervals(partition, limits, at)
        if damage == Damage.NOTHING:
            damage = _check_lists(partition, waiting, owner, met, number)
        number += 1
    if damage == Damage.NOTHING:
        damage = _check_whole(waiting, met, limits, at == used)
    keep_alive(program_array)
    keep_alive(limits_array)
    keep_alive(state)
    keep_alive(owner_array)
    keep_alive(met_array)
    return damage
