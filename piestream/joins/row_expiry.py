"""Intervals that came as rows and that no match can hold any more are dropped, and their room is reused."""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, Words, kernel
from piestream.intervals.ticks import minus
from piestream.joins.boxes import box_in, box_of_times
from piestream.joins.keys import index_keys
from piestream.joins.listed import chain_again, expire_pairs
from piestream.joins.orders import BY_END, BY_START
from piestream.joins.partition import Partition
from piestream.joins.records import Program, Symbol
from piestream.joins.rings import grow_ring
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import NO_MATCH, Held, Pair, RowSlot

_PAIR_WORDS = Pair.size


@kernel
def forget(partition: Partition, s: int, slot_id: int) -> None:
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
                forget(partition, s, slot_id)
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
            forget(partition, s, slot_id)
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
def with_room_for_rows(place: Words, program: Program, pool_array: Array, s: int) -> Array:
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
def with_room_for_pairs(
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
