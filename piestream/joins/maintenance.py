"""All of the state at once: forgetting what is dead, sampling what lives, renaming values."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer, within
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.aggregates import Cell, CellKind
from piestream.intervals.ticks import minus
from piestream.joins.keys import index_keys
from piestream.joins.partition import Partition
from piestream.joins.records import (
    PoolHeader,
    Program,
    RingHeader,
    Samples,
    ScanMode,
    Side,
    SideSample,
    Slot,
)
from piestream.joins.rings import SMALLEST, Ring, move_ring, ring_words
from piestream.joins.waiting import WaitingStore

_POOL_WORDS = PoolHeader.size


@kernel
def _partition_at(program: Program, partitions: Words, number: int, pool: Words) -> Partition:
    """A partition by its number."""
    words = program.partition_words
    return Partition(within(partitions, number * words, words), program, pool)


@kernel
def _expire_all(partition: Partition, floor: int) -> int:
    """Forget all intervals that began before ``floor``; gives how many are left."""
    alive = 0
    for s in range(partition.program.n_symbols):
        ring = partition.ring(s)
        if ring.capacity:
            alive += ring.tail - ring.expire(floor)
    return alive


@kernel
def _forget_ring(header: RingHeader) -> None:
    """Leave a ring no slot; ids go on where they were."""
    header.base = 0
    header.capacity = 0
    header.head = header.tail


@kernel
def _move_compacted(ring: Ring, target: Words, to: int) -> int:
    """Move a ring into the smallest one that holds its live slots; gives the words of that.

    The two latest slots are kept: an automaton may still point to them.
    """
    capacity = ring.capacity
    if not capacity:
        return 0
    first = max(0, min(ring.head, ring.tail - 2))
    smaller = SMALLEST
    while smaller < ring.tail - first + 1:
        smaller *= 2
    smaller = min(smaller, capacity)
    move_ring(ring, target, max(first, ring.tail - smaller), to, smaller)
    return ring_words(smaller, ring.width)


@kernel
def compact(
    program_array: Array, partitions_array: Array, n_partitions: int, pool_array: Array, now: int,
    closable: bool,
) -> tuple[Array, Array]:  # fmt: skip
    """Copy what is alive at ``now`` to a new pool, and find the partitions without any state.

    Where partitions may be closed, those with an open interval keep what was alive at their last
    event, because at that their matches would be completed.

    Gives the pool and the partitions that hold nothing: no interval, open or alive, no waiting
    match, nor an event that a tie could still meet.
    """
    program = Program(pointer(program_array))
    old = PoolHeader(pointer(pool_array))
    # zeros: what no slot fills is written to snapshots too, which are to be the same for one state
    fresh = np.zeros(_POOL_WORDS + old.used - old.wasted, np.int64)
    to = _POOL_WORDS
    idle = np.empty(n_partitions, np.int64)
    n_idle = 0
    for number in range(n_partitions):
        partition = _partition_at(program, pointer(partitions_array), number, pointer(pool_array))
        if not partition.used:
            continue
        at = min(now, partition.last_time) if closable and partition.mask else now
        alive = _expire_all(partition, minus(at, program.window))
        if alive or partition.mask or partition.waiting or partition.last_time >= now:
            for s in range(program.n_symbols):
                to += _move_compacted(partition.ring(s), pointer(fresh), to)
                index_keys(Partition(partition, program, pointer(fresh)), s)
        else:
            idle[n_idle] = number
            n_idle += 1
            for s in range(program.n_symbols):
                _forget_ring(partition.rings[s])
    PoolHeader(pointer(fresh)).used = to
    keep_alive(program_array)
    keep_alive(pool_array)
    return fresh, idle[:n_idle]


@kernel
def _remap_word(words: Words, word: int, moved: Array, held: Array, rename: bool) -> None:
    """Note a code as held, or give it its new name. Words that are no code yet stay."""
    code = words[word]
    if 0 <= code < held.size:
        held[code] = 1
        if rename:
            words[word] = moved[code]


@kernel
def _has_codes(cell: Cell, column: int) -> bool:
    """Whether a cell keeps a value of the column as it is."""
    kind = cell.kind
    selects = kind == CellKind.FIRST or kind == CellKind.LAST
    compares = kind == CellKind.MIN_INT or kind == CellKind.MAX_INT
    return (selects or compares) and cell.column == column


@kernel
def _remap_slots(
    partition: Partition, s: int, word: int, moved: Array, held: Array, rename: bool
) -> None:
    """Go through one word of all slots of a symbol."""
    ring = partition.ring(s)
    if partition.used and ring.capacity:
        for slot_id in range(max(0, ring.tail - ring.capacity), ring.tail):
            _remap_word(at_word(ring.slot(slot_id), 0), word, moved, held, rename)


@kernel
def _remap_waiting(
    waiting: WaitingStore, s: int, word: int, moved: Array, held: Array, rename: bool
) -> None:
    """Go through the outputs of waiting matches that were one word of a symbol's slot."""
    program = waiting.program
    for o in range(program.n_outputs):
        output = program.outputs[o]
        if output.symbol == s and output.word == word:
            for number in range(waiting.used):
                match = waiting.match(number)
                if match.n_open > 0:
                    _remap_word(match.outputs(), o, moved, held, rename)


@kernel
def index_all_keys(
    program_array: Array, partitions_array: Array, n_partitions: int, pool_array: Array
) -> None:
    """Make all indexes by keys anew, as the state comes from elsewhere or values have other codes."""
    program = Program(pointer(program_array))
    for number in range(n_partitions):
        partition = _partition_at(program, pointer(partitions_array), number, pointer(pool_array))
        if partition.used:
            for s in range(program.n_symbols):
                index_keys(partition, s)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)


@kernel
def remap_codes(
    program_array: Array, state: tuple[Array, Array, Array], n_partitions: int, column: int,
    moved: Array, held: Array, rename: bool,
) -> None:  # fmt: skip
    """Go through all words that hold codes of a column: note them in ``held``, or rename them.

    ``moved[old]`` is the new name of a code.
    """
    partitions_array, pool_array, waiting_array = state
    program = Program(pointer(program_array))
    waiting = WaitingStore(pointer(waiting_array), program)
    for s in range(program.n_symbols):
        symbol = program.symbols[s]
        for number in range(symbol.cell, symbol.cell_end):
            cell = program.cells[number]
            if not _has_codes(cell, column):
                continue
            word = cell.word + 1
            for p in range(n_partitions):
                partition = _partition_at(
                    program, pointer(partitions_array), p, pointer(pool_array)
                )
                _remap_slots(partition, s, word, moved, held, rename)
            _remap_waiting(waiting, s, word, moved, held, rename)
    if rename:
        index_all_keys(program_array, partitions_array, n_partitions, pool_array)
    keep_alive(program_array)
    keep_alive(state)


@kernel
def _sample_slot(slot: Slot, side: Side, others: RingHeader, sample: SideSample) -> None:
    """Add what one interval says of a side of a constraint."""
    partners = slot.partners(side.partners)
    found = 0
    if partners.lo != NONE and partners.hi >= others.head:
        found = partners.hi - max(partners.lo, others.head) + 1
        if side.scan == ScanMode.ENDS:
            found = min(found, 2)
    after = side.first_starting_after
    if after != NONE and slot[after] != NONE:
        found += max(0, others.tail - max(slot[after], others.head))
    sample.intervals += 1
    sample.candidates += others.tail - others.head
    sample.partners += found
    sample.partners_after_all += found
    before = side.last_ended_before
    if before != NONE:
        sample.partners += max(0, slot[before] + 1 - others.head)
        sample.partners_after_all += others.tail - others.head


@kernel
def sample_statistics(
    program_array: Array, partitions_array: Array, pool_array: Array, partitions: Array, most: int,
    samples_array: Array,
) -> None:  # fmt: skip
    """Count the partners of at most ``most`` live intervals a constraint and side, into `Samples`."""
    program = Program(pointer(program_array))
    samples = Samples(pointer(samples_array))
    for number in partitions:
        partition = _partition_at(program, pointer(partitions_array), number, pointer(pool_array))
        _expire_all(partition, minus(partition.last_time, program.window))
        for c in range(program.n_constraints):
            constraint = program.constraints[c]
            for side in range(2):
                sample = samples.by_side[2 * c + side]
                ring = partition.ring(constraint.symbols[side])
                others = partition.rings[constraint.symbols[1 - side]]
                stride = max(1, (ring.tail - ring.head) // max(1, most - sample.intervals))
                for slot_id in range(ring.head, ring.tail, stride):
                    _sample_slot(ring.slot(slot_id), constraint.sides[side], others, sample)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
    keep_alive(samples_array)
