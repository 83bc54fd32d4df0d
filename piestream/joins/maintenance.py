"""All of the state at once: forgetting what is dead, counting what lives, renaming values."""

from __future__ import annotations

import numpy as np
from numba import njit, types

from piestream.compiled.layout import (
    CELL_COLUMN,
    CELL_KIND,
    CELL_WORD,
    CELL_WORDS,
    CELLS_AT,
    CON_SIDES,
    CON_WORDS,
    CONSTRAINTS_AT,
    LAST_TIME,
    MASK,
    N_CONSTRAINTS,
    N_OUTPUTS,
    N_SYMBOLS,
    NOWHERE,
    OUT_SYMBOL,
    OUT_WORD,
    OUT_WORDS,
    OUTPUTS_AT,
    PARTITION_WORDS,
    POOL_USED,
    POOL_WASTED,
    POOL_WORDS,
    RING_CAPACITY,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SIDE_EARLIER,
    SIDE_LATER,
    SIDE_LO,
    SIDE_WALK,
    SIDE_WORDS,
    SYM_CELLS,
    SYM_CELLS_END,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    USED,
    WAITING,
    WAITING_OPEN,
    WAITING_USED,
    WAITING_WORDS,
    WALK_ENDS,
    WINDOW,
)
from piestream.compiled.loops import ARRAY, BOOL, INT, NOTHING, at_word, compiled, pointer
from piestream.intervals.aggregates import FIRST, LAST, MAX_INT, MIN_INT
from piestream.intervals.ticks import minus
from piestream.joins.rings import SMALLEST, Ring, move_ring, ring_words


@compiled(types.Tuple((ARRAY, ARRAY)), ARRAY, ARRAY, INT, ARRAY, INT)
def compact(own_code, own_parts, n_partitions, own_pool, now):
    """Copy what is alive at ``now`` to a new pool, and find the partitions without any state.

    Gives the pool and the partitions that hold nothing: no interval, open or alive, no waiting
    match, nor an event that a tie could still meet. Rings keep their two latest slots: an automaton
    may still point to them.
    """
    code = pointer(own_code)
    parts = pointer(own_parts)
    pool = pointer(own_pool)
    n = code[N_SYMBOLS]
    words = code[PARTITION_WORDS]
    floor = minus(now, code[WINDOW])
    # zeros: what no slot fills is written to snapshots too, which are to be the same for one state
    fresh = np.zeros(POOL_WORDS + pool[POOL_USED] - pool[POOL_WASTED], np.int64)
    target = pointer(fresh)
    to = POOL_WORDS
    idle = np.empty(n_partitions, np.int64)
    n_idle = 0
    for partition in range(n_partitions):
        part = at_word(parts, partition * words)
        if not part[USED]:
            continue
        alive = 0
        for s in range(n):
            ring = RINGS + s * RING_WORDS
            if part[ring + RING_CAPACITY]:
                width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
                alive += part[ring + RING_TAIL] - Ring(at_word(part, ring), pool, width).expire(
                    floor
                )
        if not (alive or part[MASK] or part[WAITING] or part[LAST_TIME] >= now):
            idle[n_idle] = partition
            n_idle += 1
            for s in range(n):
                ring = RINGS + s * RING_WORDS
                part[ring + RING_CAPACITY] = 0
                part[ring + RING_HEAD] = part[ring + RING_TAIL]
            continue
        for s in range(n):
            ring = RINGS + s * RING_WORDS
            capacity = part[ring + RING_CAPACITY]
            if not capacity:
                continue
            width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
            tail = part[ring + RING_TAIL]
            first = max(0, min(part[ring + RING_HEAD], tail - 2))
            smaller = SMALLEST
            while smaller < tail - first + 1:
                smaller *= 2
            smaller = min(smaller, capacity)
            first = max(first, tail - smaller)
            move_ring(Ring(at_word(part, ring), pool, width), target, first, to, smaller)
            to += ring_words(smaller, width)
    fresh[POOL_USED] = to
    fresh[POOL_WASTED] = 0
    return fresh, idle[:n_idle]


@njit(inline="always")
def _visit_code(word, moved, held, rename):
    """Note a code as held, or give its new name. Words that are no code yet stay."""
    if word < 0 or word >= held.size:
        return word
    held[word] = 1
    return moved[word] if rename else word


@compiled(NOTHING, ARRAY, ARRAY, INT, ARRAY, ARRAY, INT, ARRAY, ARRAY, BOOL)
def visit_codes(own_code, own_parts, n_partitions, pool, waiting, column, moved, held, rename):
    """Go through all words that hold codes of a column: mark them in ``held``, or rename them."""
    code = pointer(own_code)
    parts = pointer(own_parts)
    words = code[PARTITION_WORDS]
    n = code[N_SYMBOLS]
    n_outputs = code[N_OUTPUTS]
    record_words = 1 + 2 * n + n_outputs
    for s in range(n):
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        for c in range(code[sym + SYM_CELLS], code[sym + SYM_CELLS_END]):
            cell = code[CELLS_AT] + c * CELL_WORDS
            kind = code[cell + CELL_KIND]
            if code[cell + CELL_COLUMN] != column:
                continue
            if kind != FIRST and kind != LAST and kind != MIN_INT and kind != MAX_INT:
                continue
            word = code[cell + CELL_WORD] + 1
            for partition in range(n_partitions):
                part = at_word(parts, partition * words)
                ring = RINGS + s * RING_WORDS
                capacity = part[ring + RING_CAPACITY]
                if not part[USED] or not capacity:
                    continue
                tail = part[ring + RING_TAIL]
                for slot_id in range(max(0, tail - capacity), tail):
                    place = (
                        Ring(at_word(part, ring), pointer(pool), code[sym + SYM_WIDTH]).place(
                            slot_id
                        )
                        + word
                    )
                    pool[place] = _visit_code(pool[place], moved, held, rename)
            for o in range(n_outputs):
                out = code[OUTPUTS_AT] + o * OUT_WORDS
                if code[out + OUT_SYMBOL] != s or code[out + OUT_WORD] != word:
                    continue
                for record in range(waiting[WAITING_USED]):
                    place = WAITING_WORDS + record * record_words
                    if waiting[place + WAITING_OPEN] > 0:
                        place += 1 + 2 * n + o
                        waiting[place] = _visit_code(waiting[place], moved, held, rename)


@compiled(NOTHING, ARRAY, ARRAY, ARRAY, ARRAY, INT, ARRAY)
def survey(own_code, own_parts, own_pool, partitions, most, own_counts):
    """Count live intervals and their partners, in at most ``most`` intervals a constraint and side.

    For each constraint, and for each of its sides: how many intervals were looked at, how many live
    intervals of the other symbol there were beside them, how many of those are their partners, and
    how many would be if all of those began before them, as before the latest they did.
    """
    code = pointer(own_code)
    pool = pointer(own_pool)
    counts = pointer(own_counts)
    words = code[PARTITION_WORDS]
    for partition in partitions:
        part = at_word(pointer(own_parts), partition * words)
        floor = minus(part[LAST_TIME], code[WINDOW])
        for s in range(code[N_SYMBOLS]):
            ring = RINGS + s * RING_WORDS
            if part[ring + RING_CAPACITY]:
                width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
                Ring(at_word(part, ring), pool, width).expire(floor)
        for c in range(code[N_CONSTRAINTS]):
            con = code[CONSTRAINTS_AT] + c * CON_WORDS
            for side in range(2):
                at = 8 * c + 4 * side
                block = con + CON_SIDES + side * SIDE_WORDS
                symbol = code[con + side]
                other = code[con + 1 - side]
                ring = RINGS + symbol * RING_WORDS
                other_ring = RINGS + other * RING_WORDS
                other_head = part[other_ring + RING_HEAD]
                other_tail = part[other_ring + RING_TAIL]
                width = code[code[SYMBOLS_AT] + symbol * SYM_WORDS + SYM_WIDTH]
                head = part[ring + RING_HEAD]
                tail = part[ring + RING_TAIL]
                stride = max(1, (tail - head) // max(1, most - counts[at]))
                for slot_id in range(head, tail, stride):
                    slot = Ring(at_word(part, ring), pool, width).place(slot_id)
                    lo = pool[slot + code[block + SIDE_LO]]
                    hi = pool[slot + code[block + SIDE_LO] + 1]
                    found = 0
                    if lo != NOWHERE and hi >= other_head:
                        found = hi - max(lo, other_head) + 1
                        if code[block + SIDE_WALK] == WALK_ENDS:
                            found = min(found, 2)
                    earlier = code[block + SIDE_EARLIER]
                    if earlier != NOWHERE and pool[slot + earlier] != NOWHERE:
                        found += max(0, other_tail - max(pool[slot + earlier], other_head))
                    counts[at] += 1
                    counts[at + 1] += other_tail - other_head
                    counts[at + 2] += found
                    counts[at + 3] += found
                    later = code[block + SIDE_LATER]
                    if later != NOWHERE:
                        counts[at + 2] += max(0, pool[slot + later] + 1 - other_head)
                        counts[at + 3] += other_tail - other_head
