"""One event of one partition: ends, starts, automata, pairs, matches.

What becomes known at an event is put in a queue and taken in turn: each item is entered into its
index and then extended through what is entered already. A match therefore comes out exactly once,
at its last item.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.intervals.aggregates import add_rows, clear_cells
from piestream.joins.extend import extend
from piestream.joins.layout import (
    CELLS_AT,
    CELL_WORDS,
    CON_DECIDES,
    CON_NAMES,
    CON_NEXT,
    CON_SEED,
    CON_SIDES,
    CON_WORDS,
    CON_X,
    CON_Y,
    CONSTRAINTS_AT,
    DEFERRED_NOT,
    DROPPED,
    DUE,
    EMIT_BOTH,
    END,
    HAS_CELLS,
    INC_CONSTRAINT,
    INC_SIDE,
    INC_WORDS,
    INCIDENT_AT,
    INT64_MAX,
    INT64_MIN,
    LAST_TIME,
    MASK,
    N_SYMBOLS,
    NOWHERE,
    OPEN,
    PREVIOUS_DROPPED,
    RING_CAPACITY,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SCRATCH_BOUND,
    SCRATCH_FOUND,
    SIDE_EARLIER,
    SIDE_LATER,
    SIDE_LO,
    SIDE_NAME,
    SIDE_SEED,
    SIDE_WALK,
    SIDE_WORDS,
    START,
    SYM_AT_LEAST,
    SYM_AT_MOST,
    SYM_CELLS,
    SYM_CELLS_END,
    SYM_DEFERRED,
    SYM_INCIDENT,
    SYM_INCIDENT_END,
    SYM_SEED,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    TO_LENGTH,
    VALID,
    WALK_WORDS,
    WINDOW,
)
from piestream.joins.pairs import add_partner, drop_partner
from piestream.joins.report import complete, report
from piestream.joins.rings import expire, grown, slot_of

_PAIR, _RANGE, _INTERVAL = range(3)
_ITEM_WORDS = 4  # kind, constraint or symbol, then slot ids


@njit("int64(int64, int64)", inline="always")
def minus(time, length):
    """``time - length``, or the earliest time there is."""
    return time - length if time >= INT64_MIN + length else INT64_MIN


@njit("int64(int64, int64)", inline="always")
def plus(time, length):
    """``time + length``, or the latest time there is."""
    return time + length if time <= INT64_MAX - length else INT64_MAX


@njit("boolean(int64, int64, int64)", inline="always")
def lasts(start, time, length):
    """Whether ``time - start`` reaches ``length``; the difference may exceed 63 bits."""
    return np.uint64(time) - np.uint64(start) >= np.uint64(length)


@njit("void(int64[::1], int64[::1], int64[::1], int64)", cache=True, nogil=True)
def _drop(code, part, pool, symbol):
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
        other = code[con + CON_X] if side == 1 else code[con + CON_Y]
        other_ring = RINGS + other * RING_WORDS
        other_width = code[code[SYMBOLS_AT] + other * SYM_WORDS + SYM_WIDTH]
        mine = slot + code[con + CON_SIDES + side * SIDE_WORDS + SIDE_LO]
        theirs = con + CON_SIDES + (1 - side) * SIDE_WORDS
        if pool[mine] == NOWHERE:
            continue
        for partner in range(max(pool[mine], part[other_ring + RING_HEAD]), pool[mine + 1] + 1):
            place = slot_of(part, other_ring, other_width, partner)
            drop_partner(
                pool, place + code[theirs + SIDE_LO], code[theirs + SIDE_WALK], slot_id
            )
    part[ring + RING_TAIL] = slot_id
    part[ring + RING_HEAD] = min(part[ring + RING_HEAD], slot_id)
    part[DROPPED] |= 1 << symbol
    part[VALID] |= 1 << symbol


@njit("int64[::1](int64[::1], int64[::1], int64[::1], int64, int64, int64)", cache=True, nogil=True)
def _begin(code, part, pool, symbol, time, floor):
    """Open an interval of a symbol."""
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    ring = RINGS + symbol * RING_WORDS
    width = code[sym + SYM_WIDTH]
    tail = part[ring + RING_TAIL]
    if tail - part[ring + RING_HEAD] == part[ring + RING_CAPACITY]:
        if part[ring + RING_CAPACITY] == 0 or tail - expire(
            part, pool, ring, width, floor
        ) >= part[ring + RING_CAPACITY]:
            pool = grown(part, pool, ring, width)
    slot = slot_of(part, ring, width, tail)
    for word in range(width):
        pool[slot + word] = NOWHERE
    pool[slot + START] = time
    pool[slot + END] = OPEN
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
    return pool


@njit("void(int64[::1], int64[::1], int64[::1], int64[:,::1], uint8[:,::1], int64, int64, int64[::1])",
      cache=True, nogil=True)
def bring_up_to_date(code, part, pool, columns, known, symbol, row_end, scratch):
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
    add_rows(code, first, end, pool, slot, columns, known, scratch[added], row_end)
    scratch[added] = max(row_end, scratch[added])


@njit(
    "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]))"
    "(int64[::1], int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    " int64[::1], int64[:,::1], uint8[:,::1], int64, int64, int64, boolean)",
    cache=True,
    nogil=True,
)
def work_on_event(
    code, part, partition, pool, waiting, found, rows, items, scratch, columns, known,
    time, mask, row, is_row,
):
    """Work on the event at ``time``: row ``row``, or (not ``is_row``) a silence before that row."""
    n = code[N_SYMBOLS]
    bound = scratch[SCRATCH_BOUND : SCRATCH_BOUND + 2 * n]
    walk = scratch[SCRATCH_BOUND + 2 * n : SCRATCH_BOUND + (2 + WALK_WORDS) * n]
    old = part[MASK]
    changed = old ^ mask
    ended = old & changed
    started = mask & changed
    part[MASK] = mask
    floor = minus(time, code[WINDOW])
    n_items = 0
    kept = 0  # ended intervals whose duration is allowed

    # ends, before starts: an interval that starts now is met by those that end now
    rest = ended
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if code[HAS_CELLS]:
            bring_up_to_date(code, part, pool, columns, known, s, row, scratch)
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
        pool[slot + END] = time
        at_least = code[sym + SYM_AT_LEAST]
        at_most = code[sym + SYM_AT_MOST]
        begin = pool[slot + START]
        if (at_least != NOWHERE and not lasts(begin, time, at_least)) or (
            at_most != NOWHERE and lasts(begin, time, at_most) and time - begin != at_most
        ):
            _drop(code, part, pool, s)
        else:
            kept |= 1 << s

    rest = started
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        pool = _begin(code, part, pool, s, time, floor)
        scratch[SCRATCH_BOUND + (2 + WALK_WORDS) * n + s] = row

    # the automata, and the ends' and starts' places in the endpoint index
    rest = changed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        starts = started >> s & 1
        for inc in range(code[sym + SYM_INCIDENT], code[sym + SYM_INCIDENT_END]):
            entry = code[INCIDENT_AT] + inc * INC_WORDS
            c = code[entry + INC_CONSTRAINT]
            side = code[entry + INC_SIDE]
            con = code[CONSTRAINTS_AT] + c * CON_WORDS
            x = code[con + CON_X]
            y = code[con + CON_Y]
            if code[con + CON_NEXT] != NOWHERE:
                state = RINGS + n * RING_WORDS + c
                arrow = 4 * part[state] + 2 * (mask >> x & 1) + (mask >> y & 1)
                decided = code[code[con + CON_DECIDES] + arrow]
                part[state] = code[code[con + CON_NEXT] + arrow]
                if decided:
                    x_id = part[RINGS + x * RING_WORDS + RING_TAIL] - 1
                    y_id = part[RINGS + y * RING_WORDS + RING_TAIL] - 1
                    gone = (part[DROPPED] >> x | part[DROPPED] >> y) & 1 != 0
                    x_gone = part[PREVIOUS_DROPPED] >> x & 1 != 0
                    y_gone = part[PREVIOUS_DROPPED] >> y & 1 != 0
                    for kind in range(3):
                        if not decided >> kind & 1:
                            continue
                        if kind == 0 and gone or kind == 1 and x_gone or kind == 2 and y_gone:
                            continue
                        items[n_items] = _PAIR
                        items[n_items + 1] = c
                        items[n_items + 2] = x_id - 1 if kind == 1 else x_id
                        items[n_items + 3] = y_id - 1 if kind == 2 else y_id
                        n_items += _ITEM_WORDS
            block = con + CON_SIDES + side * SIDE_WORDS
            other = x if side == 1 else y
            other_tail = part[RINGS + other * RING_WORDS + RING_TAIL]
            if starts:
                if code[block + SIDE_LATER] != NOWHERE:
                    # the last that ended before now: not one that is open or ends now
                    last = other_tail - 1
                    if mask >> other & 1 or kept >> other & 1:
                        last -= 1
                    items[n_items] = _RANGE
                    items[n_items + 1] = c
                    items[n_items + 2] = side
                    items[n_items + 3] = last
                    n_items += _ITEM_WORDS
            elif kept >> s & 1 and code[block + SIDE_EARLIER] != NOWHERE:
                slot = slot_of(
                    part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1
                )
                pool[slot + code[block + SIDE_EARLIER]] = other_tail

    # intervals that become valid: at their end, at their start, or by their length
    waits = 0
    rest = kept & ~part[VALID]
    if n == 1:
        rest |= started & part[VALID]
    pending = mask & ~part[VALID] & code[TO_LENGTH]
    while pending:
        s = trailing_zeros(pending)
        pending &= pending - 1
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
        if lasts(pool[slot + START], time, code[sym + SYM_AT_LEAST]):
            rest |= 1 << s
        else:
            due = plus(pool[slot + START], code[sym + SYM_AT_LEAST])
            part[DUE] = due if not waits else min(part[DUE], due)
            waits = 1
    if not waits:
        part[DUE] = INT64_MAX
    while rest:
        items[n_items] = _INTERVAL
        items[n_items + 1] = trailing_zeros(rest)
        rest &= rest - 1
        n_items += _ITEM_WORDS

    count = 0
    item = 0
    while item < n_items:
        kind = items[item]
        if kind == _INTERVAL:
            s = items[item + 1]
            sym = code[SYMBOLS_AT] + s * SYM_WORDS
            ring = RINGS + s * RING_WORDS
            part[VALID] |= 1 << s
            slot_id = part[ring + RING_TAIL] - 1
            slot = slot_of(part, ring, code[sym + SYM_WIDTH], slot_id)
            if pool[slot + START] >= floor:
                bound[s] = slot_id
                bound[n + s] = slot
                found, count = extend(
                    code, part, pool, floor, code[sym + SYM_SEED], bound, walk, found, count
                )
            item += _ITEM_WORDS
            continue

        con = code[CONSTRAINTS_AT] + items[item + 1] * CON_WORDS
        x = code[con + CON_X]
        y = code[con + CON_Y]
        if kind == _RANGE:
            side = items[item + 2]
            s = y if side == 1 else x
            block = con + CON_SIDES + side * SIDE_WORDS
            ring = RINGS + s * RING_WORDS
            slot_id = part[ring + RING_TAIL] - 1
            slot = slot_of(
                part, ring, code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH], slot_id
            )
            pool[slot + code[block + SIDE_LATER]] = items[item + 3]
            if part[VALID] >> s & 1 and items[item + 3] != NOWHERE:
                bound[s] = slot_id
                bound[n + s] = slot
                found, count = extend(
                    code, part, pool, floor, code[block + SIDE_SEED], bound, walk, found, count
                )
            item += _ITEM_WORDS
            continue

        x_id = items[item + 2]
        y_id = items[item + 3]
        item += _ITEM_WORDS
        x_ring = RINGS + x * RING_WORDS
        y_ring = RINGS + y * RING_WORDS
        if x_id < part[x_ring + RING_HEAD] or y_id < part[y_ring + RING_HEAD]:
            continue
        x_slot = slot_of(part, x_ring, code[code[SYMBOLS_AT] + x * SYM_WORDS + SYM_WIDTH], x_id)
        y_slot = slot_of(part, y_ring, code[code[SYMBOLS_AT] + y * SYM_WORDS + SYM_WIDTH], y_id)
        if pool[x_slot + START] < floor or pool[y_slot + START] < floor:
            continue
        if code[con + CON_NAMES]:
            if pool[x_slot + START] < pool[y_slot + START]:
                pool[y_slot + code[con + CON_SIDES + SIDE_WORDS + SIDE_NAME]] = x_id
            else:
                pool[x_slot + code[con + CON_SIDES + SIDE_NAME]] = y_id
            continue
        add_partner(pool, x_slot + code[con + CON_SIDES + SIDE_LO], y_id)
        add_partner(pool, y_slot + code[con + CON_SIDES + SIDE_WORDS + SIDE_LO], x_id)
        if x_id == part[x_ring + RING_TAIL] - 1 and not part[VALID] >> x & 1:
            continue
        if y_id == part[y_ring + RING_TAIL] - 1 and not part[VALID] >> y & 1:
            continue
        bound[x] = x_id
        bound[n + x] = x_slot
        bound[y] = y_id
        bound[n + y] = y_slot
        found, count = extend(
            code, part, pool, floor, code[con + CON_SEED], bound, walk, found, count
        )

    if is_row:
        part[LAST_TIME] = time
    if count:
        if code[HAS_CELLS] and is_row:
            rest = mask
            while rest:
                bring_up_to_date(
                    code, part, pool, columns, known, trailing_zeros(rest), row + 1, scratch
                )
                rest &= rest - 1
        scratch[SCRATCH_FOUND] = count
        rows, waiting = report(code, part, partition, pool, waiting, found, rows, scratch, time)
    if code[EMIT_BOTH] and kept:
        rows = complete(code, part, partition, pool, waiting, rows, scratch, time, kept)
    return pool, waiting, found, rows, items
