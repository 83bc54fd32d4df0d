"""Rings: the live intervals of one symbol in one partition, in order of their starts."""

from __future__ import annotations

import numpy as np
from numba import types

from piestream.compiled.layout import POOL_USED, POOL_WASTED
from piestream.compiled.loops import (
    ARRAY,
    INT,
    NOTHING,
    WORDS,
    at_word,
    compiled,
    pointer,
    trailing_zeros,
)
from piestream.compiled.records import Carried, Words, kernel, method
from piestream.joins.records import RingWords, Slot

#: Slots of the smallest ring: the latest interval, which may be open though its window is over, and
#: the one before it, which an automaton may point to.
SMALLEST = 2


@compiled(INT, INT)
def _words_for(count):
    """Words that hold so many bits."""
    return (count + 63) >> 6


@compiled(INT, INT, INT)
def ring_words(capacity, width):
    """Words of a ring: its slots, then a bit for each that tells whether it may be worth a visit.

    A bit for each word of those follows that tells whether it has any, and so on up to one word.
    """
    words = capacity * width
    bits = capacity
    while True:
        bits = _words_for(bits)
        words += bits
        if bits <= 1:
            return words


@compiled(NOTHING, WORDS, INT, INT, INT)
def set_bit(pool, words, bits, place):
    """Set a bit of so many that begin at ``words``, and what tells of it further up."""
    while True:
        word = words + (place >> 6)
        had = pool[word]
        pool[word] = had | np.int64(1) << (place & 63)
        if had or bits <= 64:
            return
        bits = _words_for(bits)
        words += bits
        place >>= 6


@compiled(NOTHING, WORDS, INT, INT, INT)
def clear_bit(pool, words, bits, place):
    """Clear a bit, and those further up that told of nothing else."""
    while True:
        word = words + (place >> 6)
        pool[word] &= ~(np.int64(1) << (place & 63))
        if pool[word] or bits <= 64:
            return
        bits = _words_for(bits)
        words += bits
        place >>= 6


@compiled(types.UniTuple(INT, 2), WORDS, INT, INT, INT)
def next_bit(pool, words, bits, place):
    """The first bit from ``place`` on that is set, else ``bits``; and how many words that took."""
    lowest = words
    n_bits = bits
    looked = 0
    level = 0
    while True:  # up, until a word has a bit from there on
        if place < bits:
            looked += 1
            rest = np.uint64(pool[words + (place >> 6)]) >> np.uint64(place & 63)
            if rest:
                place += np.int64(trailing_zeros(rest))
                break
        if bits <= 64:
            return n_bits, looked
        place = (place >> 6) + 1
        bits = _words_for(bits)
        words += bits
        level += 1
    while level > 0:  # and down, to its first one
        level -= 1
        words = lowest
        bits = n_bits
        for _ in range(level):
            bits = _words_for(bits)
            words += bits
        looked += 1
        place = (place << 6) + np.int64(trailing_zeros(np.uint64(pool[words + place])))
    return place, looked


class Ring(RingWords):
    """The live intervals of one symbol in one partition, in order of their starts."""

    pool: Carried[Words]
    width: Carried[int]  # words of a slot

    @method
    def place(self, slot_id: int) -> int:
        """Where in the pool the slot with this id lies."""
        return self.base + (slot_id & (self.capacity - 1)) * self.width

    @method
    def slot(self, slot_id: int) -> Slot:
        """The slot with this id."""
        return Slot(at_word(self.pool, self.place(slot_id)))

    @method
    def latest(self) -> Slot:
        """The interval that began last."""
        return self.slot(self.tail - 1)

    @method
    def expire(self, floor: int) -> int:
        """Forget intervals that began before ``floor``: no match may hold them any more."""
        head = self.head
        while head < self.tail and self.slot(head).start < floor:
            head += 1
        self.head = head
        return head

    @method
    def first_after(self, slot: Slot, word: int) -> int:
        """The first live interval that began after the one at ``slot`` ended.

        ``word`` of the slot says which had not begun when it ended.
        """
        first = slot[word]
        if first > self.head and self.slot(first - 1).start > slot.end:
            first -= 1  # the slot that was open then was dropped and given to a later interval
        return max(first, self.head)

    @method
    def mark(self, slot_id: int) -> None:
        """Note that a slot may be worth a visit."""
        capacity = self.capacity
        set_bit(self.pool, self.base + capacity * self.width, capacity, slot_id & (capacity - 1))

    @method
    def unmark(self, slot_id: int) -> None:
        """Note that a slot is not worth a visit."""
        capacity = self.capacity
        clear_bit(self.pool, self.base + capacity * self.width, capacity, slot_id & (capacity - 1))

    @method
    def next_worthy(self, slot_id: int, last: int) -> tuple[int, int]:
        """The first slot from ``slot_id`` to ``last`` that is marked, else one behind ``last``.

        And how many words it took to find it, beyond the first.
        """
        capacity = self.capacity
        if slot_id > last or not capacity:
            return last + 1, 0
        bits = self.base + capacity * self.width
        place = slot_id & (capacity - 1)
        rest = np.uint64(self.pool[bits + (place >> 6)]) >> np.uint64(place & 63)
        if rest:  # nearly always
            return min(slot_id + np.int64(trailing_zeros(rest)), last + 1), 0  # type: ignore[return-value]
        found, looked = next_bit(self.pool, bits, capacity, place)
        slot_id += found - place
        if found == capacity and slot_id <= last:  # the ring goes on at its beginning
            found, more = next_bit(self.pool, bits, capacity, 0)
            slot_id += found
            looked += more
        return min(slot_id, last + 1), looked


@compiled(NOTHING, WORDS, INT, WORDS, INT, INT)
def _copy(words, first, target, to, count):
    """Copy so many words. (An assignment of slices costs a second and more to compile.)"""
    for word in range(count):
        target[to + word] = words[first + word]


@compiled(ARRAY, INT)
def unwritten(words):
    """An array that is to be written, in small pages of memory.

    NumPy asks for large ones: where they have to be made free first, that takes longer than writing.
    """
    return np.empty(words, np.int64)


@compiled(ARRAY, ARRAY, INT, INT)
def with_space(words, used, more):
    """The array, or a larger copy of it that has ``more`` words after the ``used`` ones."""
    if used + more <= words.size:
        return words
    larger = np.empty(2 * (used + more), np.int64)
    _copy(pointer(words), 0, pointer(larger), 0, used)
    return larger


@compiled(ARRAY, ARRAY, INT, INT, INT)
def with_longer_columns(words, columns, used, more):
    """The columns of an array, or longer copies of them with room for ``more`` words behind."""
    room = words.size // columns
    if used + more <= room:
        return words
    longer = 2 * (used + more)
    larger = np.empty(columns * longer, np.int64)
    for column in range(columns):
        _copy(pointer(words), column * room, pointer(larger), column * longer, used)
    return larger


@kernel
def move_ring(ring: Ring, target: Words, first: int, to: int, to_capacity: int) -> None:
    """Move the slots from ``first`` on, with their bits, to a ring of another capacity at ``to``."""
    width = ring.width
    bits = ring.base + ring.capacity * width
    for word in range(to, to + ring_words(to_capacity, width)):
        target[word] = 0
    for slot_id in range(first, ring.tail):
        slot = ring.slot(slot_id)
        to_place = slot_id & (to_capacity - 1)
        for word in range(width):
            target[to + to_place * width + word] = slot[word]
        place = slot_id & (ring.capacity - 1)
        if ring.pool[bits + (place >> 6)] >> (place & 63) & 1:
            set_bit(target, to + to_capacity * width, to_capacity, to_place)
    ring.base = to
    ring.capacity = to_capacity


@compiled(ARRAY, RingWords.type, ARRAY, INT)
def grown(ring, own_pool, width):
    """Double a full ring. All slots move, also expired ones: the latest may still be open."""
    capacity = ring.capacity
    larger = max(SMALLEST, 2 * capacity)
    own_pool = with_space(own_pool, own_pool[POOL_USED], ring_words(larger, width))
    to = own_pool[POOL_USED]
    own_pool[POOL_USED] = to + ring_words(larger, width)
    own_pool[POOL_WASTED] += ring_words(capacity, width)
    pool = pointer(own_pool)
    move_ring(Ring(ring, pool, width), pool, max(0, ring.tail - capacity), to, larger)
    return own_pool
