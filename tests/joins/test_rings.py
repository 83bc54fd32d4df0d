"""Rings of intervals: growing, moving, and finding the next slot that is a candidate."""

from __future__ import annotations

import numpy as np
import pytest

from piestream.compiled.primitives import pointer
from piestream.compiled.records import Array, kernel
from piestream.joins.rings import Ring as RingRecord
from piestream.joins.rings import grow_ring, move_ring, ring_words
from piestream.joins.state_records import PoolHeader, RingHeader

WIDTH = 3
POOL_WORDS = PoolHeader.size
EDGES = (1, 2, 4, 32, 64, 128, 256, 8192)


@kernel
def _next_candidate(header: Array, pool: Array, slot_id: int, last: int) -> tuple[int, int]:
    return RingRecord(pointer(header), pointer(pool), WIDTH).next_candidate(slot_id, last)


@kernel
def _set_candidate(header: Array, pool: Array, slot_id: int, is_candidate: bool) -> None:
    ring = RingRecord(pointer(header), pointer(pool), WIDTH)
    if is_candidate:
        ring.set_candidate(slot_id)
    else:
        ring.clear_candidate(slot_id)


@kernel
def _grown(header: Array, pool: Array) -> Array:
    return grow_ring(RingHeader(pointer(header)), pool, WIDTH)


@kernel
def _moved(header: Array, pool: Array, target: Array, first: int, to: int, capacity: int) -> None:
    ring = RingRecord(pointer(header), pointer(pool), WIDTH)
    move_ring(ring, pointer(target), first, to, capacity)


@kernel
def _expired(header: Array, pool: Array, floor: int) -> int:
    return RingRecord(pointer(header), pointer(pool), WIDTH).expire(floor, 0, 0)


@kernel
def _place(header: Array, slot_id: int) -> int:
    return RingRecord(pointer(header), pointer(header), WIDTH).place(slot_id)


class Ring:
    """A ring alone in a pool. Slot ``i`` begins at ``10 * i``; ``candidates`` are the bits that are set."""

    def __init__(self, capacity: int, tail: int, candidates: set[int]) -> None:
        self.header = np.array([POOL_WORDS, capacity, max(0, tail - capacity), tail], np.int64)
        self.pool = np.zeros(POOL_WORDS + ring_words(capacity, WIDTH), np.int64)
        self.pool[PoolHeader.offset("used")] = self.pool.size
        self.ids = range(max(0, tail - capacity), tail)
        for slot_id in self.ids:
            place = _place(self.header, slot_id)
            self.pool[place : place + WIDTH] = [10 * slot_id, -slot_id, 7 * slot_id]
        for slot_id in candidates:
            _set_candidate(self.header, self.pool, slot_id, True)


def contents(header: np.ndarray, pool: np.ndarray, ids: range) -> list[list[int]]:
    """The words of slots, and whether each is a candidate."""
    found = []
    for slot_id in ids:
        place = _place(header, slot_id)
        is_candidate = _next_candidate(header, pool, slot_id, slot_id)[0] == slot_id
        found.append([*pool[place : place + WIDTH].tolist(), int(is_candidate)])
    return found


@pytest.mark.parametrize("capacity", EDGES)
def test_the_next_candidate(capacity: int) -> None:
    """From every slot of rings that lie in all ways across their words and their end."""
    rng = np.random.default_rng(capacity)
    for tail in {capacity, capacity + 1, capacity + 63, 3 * capacity - 1, 1000}:
        ids = range(tail - capacity, tail)
        for density in (0.0, 0.01, 0.1, 1.0):
            candidates = {i for i in ids if rng.random() < density}
            for edge in (ids[0], ids[-1], ids[len(ids) // 2]):
                ring = Ring(capacity, tail, candidates | {edge} if density < 1 else candidates)
                marked = candidates | {edge}
                for first in {*ids[:3], *ids[-3:], *rng.choice(ids, 12).tolist()}:
                    for last in {first, int(rng.choice(ids)), ids[-1], first - 1}:
                        behind = [i for i in range(first, last + 1) if i in marked]
                        wanted = behind[0] if behind else last + 1
                        if first > last:
                            wanted = last + 1
                        found = _next_candidate(ring.header, ring.pool, first, last)[0]
                        assert found == wanted, (tail, first, last)


@pytest.mark.parametrize("capacity", EDGES)
def test_candidates_that_come_and_go(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tail = capacity + 17
    ring = Ring(capacity, tail, set())
    candidates: set[int] = set()
    for number in rng.choice(ring.ids, 500).tolist():
        candidates ^= {number}
        _set_candidate(ring.header, ring.pool, number, number in candidates)
        first = int(rng.choice(ring.ids))
        wanted = min((i for i in candidates if i >= first), default=tail)
        assert _next_candidate(ring.header, ring.pool, first, tail - 1)[0] == wanted
    for number in candidates:
        _set_candidate(ring.header, ring.pool, number, False)
    assert not ring.pool[POOL_WORDS + capacity * WIDTH :].any()


@pytest.mark.parametrize("capacity", [1 << 8, 1 << 14, 1 << 18])
def test_dead_slots_are_passed_over_in_few_words(capacity: int) -> None:
    tail = capacity + capacity // 3
    ring = Ring(capacity, tail, set())
    candidates: set[int]
    for candidates in (set(), {tail - 1}):
        for slot_id in candidates:
            _set_candidate(ring.header, ring.pool, slot_id, True)
        looked = _next_candidate(ring.header, ring.pool, ring.ids[0], tail - 1)[1]
        assert looked <= 16  # up and down, on both sides of the ring's end


@pytest.mark.parametrize("capacity", EDGES)
@pytest.mark.parametrize("turned", [0, 1, 37, 200])
def test_a_ring_that_doubles_keeps_its_slots_and_bits(capacity: int, turned: int) -> None:
    tail = capacity + turned
    candidates = set(range(max(0, tail - capacity), tail, 3))
    ring = Ring(capacity, tail, candidates)
    before = contents(ring.header, ring.pool, ring.ids)
    assert [bool(row[-1]) for row in before] == [i in candidates for i in ring.ids]
    used = int(ring.pool[PoolHeader.offset("used")])
    pool = _grown(ring.header, ring.pool)
    assert contents(ring.header, pool, ring.ids) == before
    assert ring.header.tolist() == [used, 2 * capacity, ring.ids.start, tail]
    assert pool[PoolHeader.offset("used")] == used + ring_words(2 * capacity, WIDTH)
    assert pool[PoolHeader.offset("wasted")] == ring_words(capacity, WIDTH)
    # nothing of what was there before is taken for a bit of a slot to come
    empty = range(tail, tail + capacity)
    assert all(_next_candidate(ring.header, pool, i, i)[0] != i for i in empty)


@pytest.mark.parametrize("capacity", [64, 128, 8192])
def test_candidates_are_found_from_afar_in_a_ring_that_doubled(capacity: int) -> None:
    """The levels above a mark came with it."""
    tail = capacity + 37
    for marked in (tail - capacity, tail - capacity // 3, tail - 1):
        ring = Ring(capacity, tail, {marked})
        pool = _grown(ring.header, ring.pool)
        assert _next_candidate(ring.header, pool, ring.ids[0], tail - 1)[0] == marked


def test_the_first_ring_has_the_smallest_size() -> None:
    header = np.zeros(4, np.int64)
    pool = _grown(header, np.array([POOL_WORDS, 0], np.int64))
    assert header.tolist() == [POOL_WORDS, 2, 0, 0]
    assert pool[PoolHeader.offset("used")] == POOL_WORDS + 2 * WIDTH + 1


@pytest.mark.parametrize("capacity", [4, 64, 128])
def test_a_ring_moves_to_less_room(capacity: int) -> None:
    for tail in (capacity, capacity + 5, 333):
        candidates = set(range(max(0, tail - capacity), tail, 2))
        for kept, smaller in ((2, 2), (2, 4), (4, 4), (capacity // 2, capacity // 2)):
            ring = Ring(capacity, tail, candidates)
            ids = range(tail - kept, tail)
            before = contents(ring.header, ring.pool, ids)
            target = np.full(20 + ring_words(smaller, WIDTH) + 9, -1)
            _moved(ring.header, ring.pool, target, ids.start, 20, smaller)
            assert contents(ring.header, target, ids) == before
            # exactly the ring's words are written
            assert (target[:20] == -1).all()
            assert (target[20 + ring_words(smaller, WIDTH) :] == -1).all()


def test_expired_slots_are_those_that_began_before_the_floor() -> None:
    for floor in range(-5, 200, 5):
        ring = Ring(8, 13, set())
        head = _expired(ring.header, ring.pool, floor)
        assert head == ring.header[RingHeader.offset("head")] == min(max(5, -(-floor // 10)), 13)
