"""Passes over the whole state: compaction, statistics for the join orders, renumbering of codes."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.compiled.primitives import at_word, keep_alive, pointer, within
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.aggregates import Cell, CellKind
from piestream.intervals.ticks import minus
from piestream.joins.boxes import box_in
from piestream.joins.closing import any_open_row_before
from piestream.joins.given import forget_given, index_given, is_remembered
from piestream.joins.keys import index_keys
from piestream.joins.listed import chain_again, expire_pairs, is_held, pair_at
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint, Program, ScanMode, Side
from piestream.joins.result_rows import Samples, SideSample
from piestream.joins.rings import SMALLEST, Ring, move_ring, ring_words
from piestream.joins.row_expiry import expire_rows
from piestream.joins.state_records import NO_MATCH, PairLists, PoolHeader, RingHeader, Slot
from piestream.joins.waiting import WaitingStore

_POOL_WORDS = PoolHeader.size
#: Partners of one interval are counted up to so many: more make no order better.
_MOST_COUNTED = 1 << 10


@kernel
def _partition_at(program: Program, partitions: Words, number: int, pool: Words) -> Partition:
    """A partition by its number."""
    words = program.partition_words
    return Partition(within(partitions, number * words, words), program, pool)


@kernel
def _expire_all(partition: Partition, floor: int, now: int) -> int:
    """Forget all intervals that are not kept at a floor, and their pairs; gives how many are left."""
    program = partition.program
    alive = 0
    # what was dead at an event stays so, though now may be unknown: its lists are no longer kept
    latest = max(now, partition.last_time)
    latest_floor = max(floor, partition.floor_at(partition.last_time))
    for s in range(program.n_symbols):
        ring = partition.ring(s)
        if not ring.capacity:
            continue
        if program.rows >> s & 1:
            alive += expire_rows(partition, s, latest_floor, latest)
        else:
            symbol = program.symbols[s]
            alive += ring.tail - ring.expire(floor, symbol.kept_from, symbol.kept)
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        if constraint.listed != NONE and partition.rings[constraint.listed].capacity:
            tail = partition.rings[constraint.listed].tail
            expire_pairs(partition, constraint, tail, latest_floor)
    if program.given_ring != NONE and partition.given_matches().capacity:
        forget_given(partition, latest_floor)
    return alive


@kernel
def _forget_ring(header: RingHeader) -> None:
    """Leave a ring no slot; ids go on where they were."""
    header.base = 0
    header.capacity = 0
    header.head = header.tail


@kernel
def _forget_awaited(partition: Partition) -> None:
    """Forget the matches whose absences are not decided: they can no longer be reported in the window."""
    for which in range(2):
        header = partition.rings[partition.program.awaited_ring + which]
        header.head = 0
        header.tail = 0
    partition.await_nothing()


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
def _compact_partition(partition: Partition, target: Words, to: int) -> int:
    """Move the rings of a partition, as small as they can be; gives the word behind them."""
    program = partition.program
    for s in range(program.n_symbols):
        to += _move_compacted(partition.ring(s), target, to)
        index_keys(Partition(partition, program, target), s)
    for c in range(program.n_constraints):
        constraint = program.constraints[c]
        if constraint.listed == NONE:
            continue
        to += _move_compacted(partition.pairs(constraint), target, to)
        if constraint.checked and partition.rings[constraint.listed].capacity:
            tail = partition.rings[constraint.listed].tail
            chain_again(Partition(partition, program, target), constraint, tail)
    if program.given_ring != NONE:
        to += _move_compacted(partition.given_matches(), target, to)
        index_given(Partition(partition, program, target))
    if program.awaited_ring != NONE:
        to += _move_compacted(partition.awaited_matches(), target, to)
        to += _move_compacted(partition.awaited_heap(), target, to)
    return to


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
        is_open = partition.mask or any_open_row_before(partition, INT64_MAX)
        at = min(now, partition.last_time) if closable and is_open else now
        alive = _expire_all(partition, minus(at, program.shortest), at)
        kept = partition.waiting != 0 or is_remembered(partition, now)
        if alive or partition.mask or kept or partition.last_time >= now:
            to = _compact_partition(partition, pointer(fresh), to)
        else:
            idle[n_idle] = number
            n_idle += 1
            for ring in range(program.n_rings):
                _forget_ring(partition.rings[ring])
            if program.awaited_ring != NONE:
                _forget_awaited(partition)
    PoolHeader(pointer(fresh)).used = to
    keep_alive(program_array)
    keep_alive(pool_array)
    return fresh, idle[:n_idle]


@kernel
def _remap_word(words: Words, word: int, moved: Array, held: Array, rename: bool) -> None:
    """Mark a code as held, or replace it by its new number. Words that hold no code yet stay as they are."""
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
def index_all(
    program_array: Array, partitions_array: Array, n_partitions: int, pool_array: Array
) -> None:
    """Make all hash indexes anew, as the state comes from elsewhere or values have other codes."""
    program = Program(pointer(program_array))
    for number in range(n_partitions):
        partition = _partition_at(program, pointer(partitions_array), number, pointer(pool_array))
        if partition.used:
            for s in range(program.n_symbols):
                index_keys(partition, s)
            if program.given_ring != NONE:
                index_given(partition)
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
        index_all(program_array, partitions_array, n_partitions, pool_array)
    keep_alive(program_array)
    keep_alive(state)


@kernel
def _sample_slot(slot: Slot, side: Side, others: RingHeader, sample: SideSample) -> None:
    """Add one interval to the sample of a side of a constraint."""
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
def _count_box(partition: Partition, s: int, by: int, first: int, last: int) -> int:
    """How many intervals of a symbol have an endpoint in a range, of a few that are counted."""
    order = partition.order(s, by)
    box = box_in(order, first, last, INT64_MIN, INT64_MAX, NO_MATCH)
    count = 0
    slot_id = box.following(NONE)[0]
    while slot_id != NONE and count < _MOST_COUNTED:
        count += 1
        slot_id = box.following(slot_id)[0]
    return count


@kernel
def _sample_listed(
    partition: Partition, constraint: Constraint, side: int, slot_id: int, sample: SideSample
) -> None:
    """Add what one interval says of a side of a listed constraint."""
    program = partition.program
    mine = constraint.sides[side]
    s_other = constraint.symbols[1 - side]
    others = partition.ring(s_other)
    if not is_held(partition, constraint.symbols[side], slot_id, INT64_MIN):
        return
    slot = partition.ring(constraint.symbols[side]).slot(slot_id)
    lists = PairLists(slot.partners(mine.partners))
    found = 0
    for which in range(2):
        at = lists.completing if which == 0 else lists.others
        while at != NONE and found < _MOST_COUNTED:
            found += 1
            at = pair_at(partition, constraint, at).next[side]
    of_rows = program.rows >> s_other & 1
    if mine.allows_later and slot.end != OPEN:
        if of_rows:
            first = slot[partition.program.end_instant] + 1
            found += _count_box(partition, s_other, BY_START, first, INT64_MAX)
        else:
            found += others.tail - others.first_starting_from(slot.end + 1)
    sample.intervals += 1
    sample.candidates += others.tail - others.head
    sample.partners += found
    sample.partners_after_all += found
    if mine.allows_earlier:
        sample.partners_after_all += others.tail - others.head
        if of_rows:
            last = slot[partition.program.start_instant] - 1
            sample.partners += _count_box(partition, s_other, BY_END, INT64_MIN, last)
        else:
            sample.partners += others.first_ending_from(slot.start) - others.head


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
        now = partition.last_time
        _expire_all(partition, minus(now, program.shortest), now)
        for c in range(program.n_constraints):
            constraint = program.constraints[c]
            for side in range(2):
                sample = samples.by_side[2 * c + side]
                ring = partition.ring(constraint.symbols[side])
                others = partition.rings[constraint.symbols[1 - side]]
                stride = max(1, (ring.tail - ring.head) // max(1, most - sample.intervals))
                for slot_id in range(ring.head, ring.tail, stride):
                    if constraint.listed == NONE:
                        _sample_slot(ring.slot(slot_id), constraint.sides[side], others, sample)
                    else:
                        _sample_listed(partition, constraint, side, slot_id, sample)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
    keep_alive(samples_array)
