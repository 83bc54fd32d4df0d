"""Rings of intervals: growing, moving, and finding the next slot that is worth a visit."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from piestream.compiled import layout as at
from piestream.compiled.loops import ARRAY, BOOL, INT, NOTHING, pointer
from piestream.joins.records import RingWords
from piestream.joins.rings import (
    Ring as RingRecord,
)
from piestream.joins.rings import (
    grown,
    move_ring,
    ring_words,
    with_longer_columns,
    with_space,
)

WIDTH = 3
EDGES = (1, 2, 4, 32, 64, 128, 256, 8192)


# compiled anew in every process: what is kept on disk would not notice a change in rings.py
@njit(INT(ARRAY, ARRAY, INT, INT))
def _next_worthy(part, pool, slot_id, last):  # type: ignore[no-untyped-def]
    return RingRecord(pointer(part), pointer(pool), 3).next_worthy(slot_id, last)[0]


@njit(INT(ARRAY, ARRAY, INT, INT))
def _words_looked_at(part, pool, slot_id, last):  # type: ignore[no-untyped-def]
    return RingRecord(pointer(part), pointer(pool), 3).next_worthy(slot_id, last)[1]


@njit(NOTHING(ARRAY, ARRAY, INT, BOOL))
def _marked(part, pool, slot_id, worth):  # type: ignore[no-untyped-def]
    if worth:
        RingRecord(pointer(part), pointer(pool), 3).mark(slot_id)
    else:
        RingRecord(pointer(part), pointer(pool), 3).unmark(slot_id)


@njit(ARRAY(ARRAY, ARRAY))
def _grown(part, pool):  # type: ignore[no-untyped-def]
    return grown(RingWords(pointer(part)), pool, 3)


@njit(NOTHING(ARRAY, ARRAY, ARRAY, INT, INT, INT))
def _moved(part, pool, target, first, to, capacity):  # type: ignore[no-untyped-def]
    move_ring(RingRecord(pointer(part), pointer(pool), 3), pointer(target), first, to, capacity)


@njit(INT(ARRAY, ARRAY, INT))
def _expired(part, pool, floor):  # type: ignore[no-untyped-def]
    return RingRecord(pointer(part), pointer(pool), 3).expire(floor)


@njit(INT(ARRAY, INT))
def _slot_of(part, slot_id):  # type: ignore[no-untyped-def]
    return RingRecord(pointer(part), pointer(part), 3).place(slot_id)


@njit(INT(INT))
def _ring_words(capacity):  # type: ignore[no-untyped-def]
    return ring_words(capacity, 3)


class Ring:
    """A ring alone in a pool. Slot ``i`` begins at ``10 * i``; ``worthy`` are the bits that are set."""

    def __init__(self, capacity: int, tail: int, worthy: set[int]) -> None:
        self.part = np.array([at.POOL_WORDS, capacity, max(0, tail - capacity), tail], np.int64)
        self.pool = np.zeros(at.POOL_WORDS + _ring_words(capacity), np.int64)
        self.pool[at.POOL_USED] = self.pool.size
        self.ids = range(max(0, tail - capacity), tail)
        for slot_id in self.ids:
            place = _slot_of(self.part, slot_id)
            self.pool[place : place + WIDTH] = [10 * slot_id, -slot_id, 7 * slot_id]
        for slot_id in worthy:
            _marked(self.part, self.pool, slot_id, True)


def contents(part: np.ndarray, pool: np.ndarray, ids: range) -> list[list[int]]:
    """The words of slots, and whether each is worth a visit."""
    found = []
    for slot_id in ids:
        place = _slot_of(part, slot_id)
        worth = _next_worthy(part, pool, slot_id, slot_id) == slot_id
        found.append([*pool[place : place + WIDTH].tolist(), int(worth)])
    return found


@pytest.mark.parametrize("capacity", EDGES)
def test_the_next_worthy_slot(capacity: int) -> None:
    """From every slot of rings that lie in all ways across their words and their end."""
    rng = np.random.default_rng(capacity)
    for tail in {capacity, capacity + 1, capacity + 63, 3 * capacity - 1, 1000}:
        ids = range(tail - capacity, tail)
        for density in (0.0, 0.01, 0.1, 1.0):
            worthy = {i for i in ids if rng.random() < density}
            for edge in (ids[0], ids[-1], ids[len(ids) // 2]):
                ring = Ring(capacity, tail, worthy | {edge} if density < 1 else worthy)
                marked = worthy | {edge}
                for first in {*ids[:3], *ids[-3:], *rng.choice(ids, 12).tolist()}:
                    for last in {first, int(rng.choice(ids)), ids[-1], first - 1}:
                        behind = [i for i in range(first, last + 1) if i in marked]
                        wanted = behind[0] if behind else last + 1
                        if first > last:
                            wanted = last + 1
                        found = _next_worthy(ring.part, ring.pool, first, last)
                        assert found == wanted, (tail, first, last)


@pytest.mark.parametrize("capacity", EDGES)
def test_marks_that_come_and_go(capacity: int) -> None:
    rng = np.random.default_rng(capacity)
    tail = capacity + 17
    ring = Ring(capacity, tail, set())
    worthy: set[int] = set()
    for number in rng.choice(ring.ids, 500).tolist():
        worthy ^= {number}
        _marked(ring.part, ring.pool, number, number in worthy)
        first = int(rng.choice(ring.ids))
        wanted = min((i for i in worthy if i >= first), default=tail)
        assert _next_worthy(ring.part, ring.pool, first, tail - 1) == wanted
    for number in worthy:
        _marked(ring.part, ring.pool, number, False)
    assert not ring.pool[at.POOL_WORDS + capacity * WIDTH :].any()


@pytest.mark.parametrize("capacity", [1 << 8, 1 << 14, 1 << 18])
def test_dead_slots_are_passed_over_in_few_words(capacity: int) -> None:
    tail = capacity + capacity // 3
    ring = Ring(capacity, tail, set())
    worthy: set[int]
    for worthy in (set(), {tail - 1}):
        for slot_id in worthy:
            _marked(ring.part, ring.pool, slot_id, True)
        looked = _words_looked_at(ring.part, ring.pool, ring.ids[0], tail - 1)
        assert looked <= 16  # up and down, on both sides of the ring's end


@pytest.mark.parametrize("capacity", EDGES)
@pytest.mark.parametrize("turned", [0, 1, 37, 200])
def test_a_ring_that_doubles_keeps_its_slots_and_bits(capacity: int, turned: int) -> None:
    tail = capacity + turned
    worthy = set(range(max(0, tail - capacity), tail, 3))
    ring = Ring(capacity, tail, worthy)
    before = contents(ring.part, ring.pool, ring.ids)
    assert [bool(row[-1]) for row in before] == [i in worthy for i in ring.ids]
    used = int(ring.pool[at.POOL_USED])
    pool = _grown(ring.part, ring.pool)
    assert contents(ring.part, pool, ring.ids) == before
    assert ring.part.tolist() == [used, 2 * capacity, ring.ids.start, tail]
    assert pool[at.POOL_USED] == used + _ring_words(2 * capacity)
    assert pool[at.POOL_WASTED] == _ring_words(capacity)
    # nothing of what was there before is taken for a bit of a slot to come
    empty = range(tail, tail + capacity)
    assert all(_next_worthy(ring.part, pool, i, i) != i for i in empty)


@pytest.mark.parametrize("capacity", [64, 128, 8192])
def test_marks_are_found_from_afar_in_a_ring_that_doubled(capacity: int) -> None:
    """The levels above a mark came with it."""
    tail = capacity + 37
    for marked in (tail - capacity, tail - capacity // 3, tail - 1):
        ring = Ring(capacity, tail, {marked})
        pool = _grown(ring.part, ring.pool)
        assert _next_worthy(ring.part, pool, ring.ids[0], tail - 1) == marked


def test_the_first_ring_has_the_smallest_size() -> None:
    part = np.zeros(4, np.int64)
    pool = _grown(part, np.array([at.POOL_WORDS, 0], np.int64))
    assert part.tolist() == [at.POOL_WORDS, 2, 0, 0]
    assert pool[at.POOL_USED] == at.POOL_WORDS + 2 * WIDTH + 1


@pytest.mark.parametrize("capacity", [4, 64, 128])
def test_a_ring_moves_to_less_room(capacity: int) -> None:
    for tail in (capacity, capacity + 5, 333):
        worthy = set(range(max(0, tail - capacity), tail, 2))
        for kept, smaller in ((2, 2), (2, 4), (4, 4), (capacity // 2, capacity // 2)):
            ring = Ring(capacity, tail, worthy)
            ids = range(tail - kept, tail)
            before = contents(ring.part, ring.pool, ids)
            target = np.full(20 + _ring_words(smaller) + 9, -1)
            _moved(ring.part, ring.pool, target, ids.start, 20, smaller)
            assert contents(ring.part, target, ids) == before
            # exactly the ring's words are written
            assert (target[:20] == -1).all()
            assert (target[20 + _ring_words(smaller) :] == -1).all()


def test_expired_slots_are_those_that_began_before_the_floor() -> None:
    for floor in range(-5, 200, 5):
        ring = Ring(8, 13, set())
        head = _expired(ring.part, ring.pool, floor)
        assert head == ring.part[at.RING_HEAD] == min(max(5, -(-floor // 10)), 13)


def test_words_with_space_are_left_as_they_are() -> None:
    words = np.arange(20)
    assert with_space(words, 12, 8).size == 20
    larger = with_space(words, 12, 9)
    assert larger.size >= 12 + 9
    assert larger[:12].tolist() == words[:12].tolist()


@njit(ARRAY(ARRAY, INT, INT, INT))
def _with_longer_columns(words, columns, used, more):  # type: ignore[no-untyped-def]
    return with_longer_columns(words, columns, used, more)


def test_columns_that_are_made_longer_keep_what_is_used_of_them() -> None:
    """Four columns of five words, and three words that belong to none."""
    words = np.arange(23)
    for used in range(6):
        assert _with_longer_columns(words, 4, used, 5 - used).size == words.size
        longer = _with_longer_columns(words, 4, used, 6 - used)
        room = longer.size // 4
        assert room >= 6
        for column in range(4):
            kept = words[5 * column : 5 * column + used]
            assert longer[room * column : room * column + used].tolist() == kept.tolist()
