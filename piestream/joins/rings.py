"""Rings: the live intervals of one symbol in one partition, in order of their starts.

Intervals carry dense ids that only grow; the id is the interval's name in the pair index, and
``base + (id & (capacity - 1)) * width`` is where its slot lies, which makes the index a perfect hash.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.bits import BitSet, bit_set_words
from piestream.compiled.primitives import (
    at_word,
    keep_alive,
    pointer,
    signed,
    trailing_zeros,
    within,
)
from piestream.compiled.records import Array, Carried, Words, kernel, method
from piestream.intervals.ticks import plus
from piestream.joins.records import Program
from piestream.joins.state_records import PoolHeader, RingHeader, Slot

#: Slots of the smallest ring: the latest interval, which may be open though its window is over, and
#: the one before it, which an automaton may point to.
SMALLEST = 2

_START, _END = Slot.offset("start"), Slot.offset("end")


@kernel
def ring_words(capacity: int, width: int) -> int:
    """Words of a ring: its slots, then the set of those that can complete a match."""
    return capacity * width + bit_set_words(capacity)


class Ring(RingHeader):
    """The live intervals of one symbol in one partition."""

    pool: Carried[Words]
    width: Carried[int]  # words of a slot

    @method
    def place(self, slot_id: int) -> int:
        """Where in the pool the slot with this id lies."""
        return self.base + (slot_id & (self.capacity - 1)) * self.width

    @method
    def slot(self, slot_id: int) -> Slot:
        """The slot with this id."""
        return Slot(within(self.pool, self.place(slot_id), self.width))

    @method
    def latest(self) -> Slot:
        """The interval that began last."""
        return self.slot(self.tail - 1)

    @method
    def candidates(self) -> BitSet:
        """Which slots, by their places in the ring, can complete a match: a superset."""
        return BitSet(at_word(self.pool, self.base + self.capacity * self.width), self.capacity)

    @method
    def expire(self, floor: int, kept_from: int, kept: int) -> int:
        """Forget intervals that are not kept at a floor (`Symbol.expiry`): no match may hold them."""
        head = self.head
        while head < self.tail and plus(self.slot(head)[kept_from], kept) < floor:
            head += 1
        self.head = head
        return head

    @method
    def first_after(self, program: Program, slot: Slot, word: int) -> int:
        """The first live interval that began after the one at ``slot`` ended.

        ``word`` of the slot says which had not begun when it ended.
        """
        first = slot[word]
        if (
            first > self.head
            and self.slot(first - 1)[program.start_instant] > slot[program.end_instant]
        ):
            first -= 1  # the slot that was open then was dropped and given to a later interval
        return max(first, self.head)

    @method
    def first_from(self, word: int, at: int) -> int:
        """The first live run of which a word, an endpoint, is not less; else the tail."""
        low = self.head
        high = self.tail
        while low < high:
            middle = (low + high) >> 1
            if self.slot(middle)[word] < at:
                low = middle + 1
            else:
                high = middle
        return low

    @method
    def first_ending_from(self, time: int) -> int:
        """The first live run that ends at or after a time, or has not ended; else the tail."""
        return self.first_from(_END, time)

    @method
    def first_starting_from(self, time: int) -> int:
        """The first live run that begins at or after a time; else the tail."""
        return self.first_from(_START, time)

    @method
    def is_candidate(self, slot_id: int) -> bool:
        """Whether an interval is noted to be one that can complete a match."""
        return self.candidates().has(slot_id & (self.capacity - 1))

    @method
    def set_candidate(self, slot_id: int) -> None:
        """Note that an interval can complete a match."""
        self.candidates().add(slot_id & (self.capacity - 1))

    @method
    def clear_candidate(self, slot_id: int) -> None:
        """Note that an interval cannot complete a match as things are."""
        self.candidates().remove(slot_id & (self.capacity - 1))

    @method
    def next_candidate(self, slot_id: int, last: int) -> tuple[int, int]:
        """The first from ``slot_id`` to ``last`` that can complete a match, else one behind ``last``.

        And how many words it took to find it, beyond the first.
        """
        capacity = self.capacity
        if slot_id > last or not capacity:
            return last + 1, 0
        candidates = self.candidates()
        place = slot_id & (capacity - 1)
        rest = np.uint64(candidates[place >> 6]) >> np.uint64(place & 63)
        if rest:  # nearly always
            return min(slot_id + signed(trailing_zeros(rest)), last + 1), 0
        found, looked = candidates.next_from(place)
        slot_id += found - place
        if found == capacity and slot_id <= last:  # the ring goes on at its beginning
            found, more = candidates.next_from(0)
            slot_id += found
            looked += more
        return min(slot_id, last + 1), looked


@kernel
def move_ring(ring: Ring, target: Words, first: int, to: int, to_capacity: int) -> None:
    """Move the slots from ``first`` on to a ring of another capacity, at word ``to`` of ``target``."""
    width = ring.width
    candidates = ring.candidates()
    for word in range(to, to + ring_words(to_capacity, width)):
        target[word] = 0
    moved = BitSet(at_word(target, to + to_capacity * width), to_capacity)
    for slot_id in range(first, ring.tail):
        slot = ring.slot(slot_id)
        place = slot_id & (to_capacity - 1)
        for word in range(width):
            target[to + place * width + word] = slot[word]
        if candidates.has(slot_id & (ring.capacity - 1)):
            moved.add(place)
    ring.base = to
    ring.capacity = to_capacity


@kernel
def grow_ring(header: RingHeader, pool_array: Array, width: int) -> Array:
    """Double a full ring, in the pool or a larger one, which it gives.

    All slots move, also expired ones: the latest may still be open.
    """
    capacity = header.capacity
    larger = max(SMALLEST, 2 * capacity)
    to = PoolHeader(pointer(pool_array)).used
    pool_array = ensure_capacity(pool_array, to, ring_words(larger, width))
    pool = PoolHeader(pointer(pool_array))
    pool.used = to + ring_words(larger, width)
    pool.wasted += ring_words(capacity, width)
    words = pointer(pool_array)
    move_ring(Ring(header, words, width), words, max(0, header.tail - capacity), to, larger)
    keep_alive(pool_array)
    return pool_array
