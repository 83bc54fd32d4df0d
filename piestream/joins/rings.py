"""Rings: the live intervals of one symbol in one partition, in order of their starts."""

from __future__ import annotations

import numpy as np
from numba import njit

from piestream.joins.layout import (
    POOL_USED,
    POOL_WASTED,
    RING_BASE,
    RING_CAPACITY,
    RING_HEAD,
    RING_TAIL,
    START,
)

_SMALLEST = 4


@njit("int64(int64[::1], int64, int64, int64)", inline="always")
def slot_of(part, ring, width, slot_id):
    """Where in the pool the slot with this id lies."""
    return part[ring + RING_BASE] + (slot_id & (part[ring + RING_CAPACITY] - 1)) * width


@njit(inline="always")
def expire(part, pool, ring, width, floor):
    """Forget intervals that began before ``floor``: no match may hold them any more."""
    head = part[ring + RING_HEAD]
    tail = part[ring + RING_TAIL]
    while head < tail and pool[slot_of(part, ring, width, head) + START] < floor:
        head += 1
    part[ring + RING_HEAD] = head
    return head


@njit("int64[::1](int64[::1], int64)", cache=True, nogil=True)
def with_room(pool, words):
    """The pool, or a copy with at least ``words`` free words."""
    used = pool[POOL_USED]
    if used + words <= pool.size:
        return pool
    larger = np.empty(2 * (used + words), np.int64)
    larger[:used] = pool[:used]
    return larger


@njit("int64[::1](int64[::1], int64[::1], int64, int64)", cache=True, nogil=True)
def grown(part, pool, ring, width):
    """Double a full ring. All slots move, also expired ones: the latest may still be open."""
    capacity = part[ring + RING_CAPACITY]
    larger = max(_SMALLEST, 2 * capacity)
    pool = with_room(pool, larger * width)
    base = part[ring + RING_BASE]
    to = pool[POOL_USED]
    tail = part[ring + RING_TAIL]
    for slot_id in range(max(0, tail - capacity), tail):
        source = base + (slot_id & (capacity - 1)) * width
        target = to + (slot_id & (larger - 1)) * width
        for word in range(width):
            pool[target + word] = pool[source + word]
    pool[POOL_USED] = to + larger * width
    pool[POOL_WASTED] += capacity * width
    part[ring + RING_BASE] = to
    part[ring + RING_CAPACITY] = larger
    return pool
