"""The slots of a symbol's intervals: beginning one, dropping one, keeping its aggregates."""

from __future__ import annotations

from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.intervals.aggregates import add_rows, clear_cells
from piestream.joins.layout import (
    ALWAYS,
    CELL_WORDS,
    CELLS_AT,
    CON_NAMES,
    CON_SIDES,
    CON_WORDS,
    CONSTRAINTS_AT,
    DEFERRED_NOT,
    DROPPED,
    END,
    INC_CONSTRAINT,
    INC_SIDE,
    INC_WORDS,
    INCIDENT_AT,
    N_SYMBOLS,
    NEVER,
    NOWHERE,
    OPEN,
    PREVIOUS_DROPPED,
    REACH,
    RING_CAPACITY,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SCRATCH_BOUND,
    SIDE_LO,
    SIDE_WALK,
    SIDE_WORDS,
    START,
    SYM_BEST,
    SYM_BEST_END,
    SYM_BESTS_END,
    SYM_CELLS,
    SYM_CELLS_END,
    SYM_DEFERRED,
    SYM_INCIDENT,
    SYM_INCIDENT_END,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    VALID,
    WALK_WORDS,
)
from piestream.joins.pairs import drop_partner, symbol_on
from piestream.joins.rings import expire, grown, mark, slot_of, unmark
from piestream.loops import ARRAY, BOOL, FLAGS, INT, NOTHING, WORDS, compiled


@compiled(NOTHING, WORDS, WORDS, WORDS, INT)
def drop(code, part, pool, symbol):
    """Take back an ended interval whose duration is not allowed, with its pairs."""
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    ring = RINGS + symbol * RING_WORDS
    slot_id = part[ring + RING_TAIL] - 1
    slot = slot_of(part, ring, code[sym + SYM_WIDTH], slot_id)
    for inc in range(code[sym + SYM_INCIDENT], code[sym + SYM_INCIDENT_END]):
        entry = code[INCIDENT_AT] + inc * INC_WORDS
        side = code[entry + INC_SIDE]
        con = code[CONSTRAINTS_AT] + code[entry + INC_CONSTRAINT] * CON_WORDS
        if code[con + CON_NAMES]:
            continue
        other = symbol_on(code, con, 1 - side)
        other_ring = RINGS + other * RING_WORDS
        other_width = code[code[SYMBOLS_AT] + other * SYM_WORDS + SYM_WIDTH]
        mine = slot + code[con + CON_SIDES + side * SIDE_WORDS + SIDE_LO]
        theirs = con + CON_SIDES + (1 - side) * SIDE_WORDS
        if pool[mine] == NOWHERE:
            continue
        for partner in range(max(pool[mine], part[other_ring + RING_HEAD]), pool[mine + 1] + 1):
            place = slot_of(part, other_ring, other_width, partner)
            drop_partner(pool, place + code[theirs + SIDE_LO], code[theirs + SIDE_WALK], slot_id)
    part[ring + RING_TAIL] = slot_id
    part[ring + RING_HEAD] = min(part[ring + RING_HEAD], slot_id)
    part[DROPPED] |= 1 << symbol
    part[VALID] |= 1 << symbol


@compiled(BOOL, WORDS, WORDS, WORDS, INT, INT)
def lacks_room(code, part, pool, started, floor):
    """Whether the ring of a symbol that starts an interval is full of live ones."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        ring = RINGS + s * RING_WORDS
        capacity = part[ring + RING_CAPACITY]
        if part[ring + RING_TAIL] - part[ring + RING_HEAD] < capacity:
            continue
        if not capacity:
            return True
        width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
        if part[ring + RING_TAIL] - expire(part, pool, ring, width, floor) == capacity:
            return True
    return False


@compiled(ARRAY, WORDS, WORDS, ARRAY, INT)
def with_room_for(code, part, pool, started):
    """The pool with a free slot in the ring of every symbol that starts an interval."""
    while started:
        s = trailing_zeros(started)
        started &= started - 1
        ring = RINGS + s * RING_WORDS
        if part[ring + RING_TAIL] - part[ring + RING_HEAD] == part[ring + RING_CAPACITY]:
            width = code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH]
            pool = grown(part, pool, ring, width)
    return pool


@compiled(NOTHING, WORDS, WORDS, WORDS, INT, INT)
def begin(code, part, pool, symbol, time):
    """Open an interval of a symbol."""
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    ring = RINGS + symbol * RING_WORDS
    width = code[sym + SYM_WIDTH]
    tail = part[ring + RING_TAIL]
    slot = slot_of(part, ring, width, tail)
    for word in range(width):
        pool[slot + word] = NOWHERE
    pool[slot + START] = time
    pool[slot + END] = OPEN
    for word in range(code[sym + SYM_BEST], code[sym + SYM_BESTS_END]):
        pool[slot + word] = NEVER
    if code[sym + SYM_BEST] < code[sym + SYM_BEST_END]:
        pool[slot + REACH] = NEVER
        unmark(part, pool, ring, width, tail)
    else:
        pool[slot + REACH] = ALWAYS
        mark(part, pool, ring, width, tail)
    clear_cells(
        code,
        code[CELLS_AT] + code[sym + SYM_CELLS] * CELL_WORDS,
        code[CELLS_AT] + code[sym + SYM_CELLS_END] * CELL_WORDS,
        pool,
        slot,
    )
    part[ring + RING_TAIL] = tail + 1
    bit = 1 << symbol
    dropped = part[DROPPED] & bit
    part[PREVIOUS_DROPPED] = (part[PREVIOUS_DROPPED] & ~bit) | dropped
    part[DROPPED] &= ~bit
    if code[sym + SYM_DEFERRED] == DEFERRED_NOT:
        part[VALID] |= bit
    else:
        part[VALID] &= ~bit


@compiled(NOTHING, WORDS, WORDS, WORDS, WORDS, FLAGS, INT, INT, INT, WORDS)
def bring_up_to_date(code, part, pool, columns, known, n_rows, symbol, row_end, scratch):
    """Add the rows up to ``row_end`` to the aggregates of a symbol's open interval."""
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    first = code[CELLS_AT] + code[sym + SYM_CELLS] * CELL_WORDS
    end = code[CELLS_AT] + code[sym + SYM_CELLS_END] * CELL_WORDS
    if first == end:
        return
    ring = RINGS + symbol * RING_WORDS
    slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
    n = code[N_SYMBOLS]
    added = SCRATCH_BOUND + (2 + WALK_WORDS) * n + symbol
    add_rows(code, first, end, pool, slot, columns, known, n_rows, scratch[added], row_end)
    scratch[added] = max(row_end, scratch[added])
