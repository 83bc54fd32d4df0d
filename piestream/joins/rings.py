"""Rings: the live intervals of one symbol in one partition, in order of their starts."""

from __future__ import annotations

import numpy as np
from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.joins.layout import (
    POOL_USED,
    POOL_WASTED,
    RING_BASE,
    RING_CAPACITY,
    RING_HEAD,
    RING_TAIL,
    START,
)
from piestream.loops import ARRAY, INT, NOTHING, WORDS, compiled, pointer

#: Slots of the smallest ring: the latest interval, which may be open though its window is over, and
#: the one before it, which an automaton may point to.
SMALLEST = 2


@compiled(INT, WORDS, INT, INT, INT)
def slot_of(part, ring, width, slot_id):
    """Where in the pool the slot with this id lies."""
    return part[ring + RING_BASE] + (slot_id & (part[ring + RING_CAPACITY] - 1)) * width


@compiled(INT, WORDS, WORDS, INT, INT, INT)
def expire(part, pool, ring, width, floor):
    """Forget intervals that began before ``floor``: no match may hold them any more."""
    head = part[ring + RING_HEAD]
    tail = part[ring + RING_TAIL]
    while head < tail and pool[slot_of(part, ring, width, head) + START] < floor:
        head += 1
    part[ring + RING_HEAD] = head
    return head


@compiled(INT, INT, INT)
def ring_words(capacity, width):
    """Words of a ring: its slots, then a bit for each that tells whether it may be worth a visit."""
    return capacity * width + ((capacity + 63) >> 6)


@compiled(INT, WORDS, INT, INT, INT)
def bit_word(part, ring, width, slot_id):
    """Where the word lies that holds a slot's bit; the bit is the id's place in it."""
    capacity = part[ring + RING_CAPACITY]
    return part[ring + RING_BASE] + capacity * width + ((slot_id & (capacity - 1)) >> 6)


@compiled(INT, WORDS, INT, INT)
def bit_of(part, ring, slot_id):
    """A slot's bit in its word."""
    return np.int64(1) << (slot_id & (part[ring + RING_CAPACITY] - 1) & 63)


@compiled(INT, WORDS, WORDS, INT, INT, INT, INT)
def next_worthy(part, pool, ring, width, slot_id, last):
    """The first slot from ``slot_id`` to ``last`` whose bit is set, else one behind ``last``."""
    capacity = part[ring + RING_CAPACITY]
    words = part[ring + RING_BASE] + capacity * width
    while slot_id <= last:
        place = slot_id & (capacity - 1)
        bits = np.uint64(pool[words + (place >> 6)]) >> np.uint64(place & 63)
        if bits:
            return min(slot_id + np.int64(trailing_zeros(bits)), last + 1)
        slot_id += min(64 - (place & 63), capacity - place)
    return last + 1


@compiled(ARRAY, ARRAY, INT, INT)
def with_space(words, used, more):
    """The array, or a larger copy of it that has ``more`` words after the ``used`` ones."""
    if used + more <= words.size:
        return words
    larger = np.empty(2 * (used + more), np.int64)
    larger[:used] = words[:used]
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
        larger[column * longer : column * longer + used] = words[column * room : column * room + used]
    return larger


@compiled(NOTHING, WORDS, WORDS, WORDS, INT, INT, INT, INT, INT)
def move_ring(part, pool, target_pool, ring, width, first, to, to_capacity):
    """Move the slots from ``first`` on, with their bits, to a ring of another capacity at ``to``."""
    base = part[ring + RING_BASE]
    capacity = part[ring + RING_CAPACITY]
    bits = base + capacity * width
    to_bits = to + to_capacity * width
    for word in range(to, to + ring_words(to_capacity, width)):
        target_pool[word] = 0
    for slot_id in range(first, part[ring + RING_TAIL]):
        place = slot_id & (capacity - 1)
        to_place = slot_id & (to_capacity - 1)
        for word in range(width):
            target_pool[to + to_place * width + word] = pool[base + place * width + word]
        bit = pool[bits + (place >> 6)] >> (place & 63) & 1
        target_pool[to_bits + (to_place >> 6)] |= bit << (to_place & 63)
    part[ring + RING_BASE] = to
    part[ring + RING_CAPACITY] = to_capacity


@compiled(ARRAY, WORDS, ARRAY, INT, INT)
def grown(part, pool, ring, width):
    """Double a full ring. All slots move, also expired ones: the latest may still be open."""
    capacity = part[ring + RING_CAPACITY]
    larger = max(SMALLEST, 2 * capacity)
    pool = with_space(pool, pool[POOL_USED], ring_words(larger, width))
    to = pool[POOL_USED]
    pool[POOL_USED] = to + ring_words(larger, width)
    pool[POOL_WASTED] += ring_words(capacity, width)
    tail = part[ring + RING_TAIL]
    slots = pointer(pool)
    move_ring(part, slots, slots, ring, width, max(0, tail - capacity), to, larger)
    return pool
