"""One event of one partition: ends, starts, automata, pairs, matches.

What becomes known at an event is put in a queue and taken in turn: each item is entered into its
index and then extended through what is entered already. A match therefore comes out exactly once,
at its last item.
"""

from __future__ import annotations

from numba import types
from numba.cpython.unsafe.numbers import trailing_zeros

from piestream.intervals.ticks import lasts, plus
from piestream.joins.extend import DONE, extend
from piestream.joins.layout import (
    ALL_AFTER,
    CON_DECIDES,
    CON_NAMES,
    CON_NEXT,
    CON_SEED,
    CON_SIDES,
    CON_WORDS,
    CON_X,
    CON_Y,
    CONSTRAINTS_AT,
    DROPPED,
    DUE,
    END,
    HAS_CELLS,
    IN_RANGES,
    INC_CONSTRAINT,
    INC_SIDE,
    INC_WORDS,
    INCIDENT_AT,
    INT64_MAX,
    MASK,
    N_SYMBOLS,
    NOWHERE,
    PREVIOUS_DROPPED,
    REACH,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SCRATCH_AGAIN,
    SCRATCH_BOUND,
    SCRATCH_DEPTH,
    SCRATCH_FOUND,
    SCRATCH_ITEM,
    SCRATCH_SEED,
    SCRATCH_STEPS,
    SCRATCH_VISITS,
    SIDE_BEST,
    SIDE_BEST_LATER,
    SIDE_EARLIER,
    SIDE_ENDED,
    SIDE_LATER,
    SIDE_LO,
    SIDE_NAME,
    SIDE_WORDS,
    START,
    SYM_AT_LEAST,
    SYM_AT_MOST,
    SYM_INCIDENT,
    SYM_INCIDENT_END,
    SYM_SEED,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    TO_LENGTH,
    VALID,
    WALK_WORDS,
)
from piestream.joins.pairs import add_partner, symbol_on
from piestream.joins.reach import offered, spread
from piestream.joins.rings import slot_of
from piestream.joins.slots import begin, bring_up_to_date, drop
from piestream.loops import BOOL, FLAGS, INT, WORDS, at_word, compiled

_PAIR, _RANGE, _END, _START, _INTERVAL = range(5)
ITEM_WORDS = 4  # kind, constraint or symbol, then slot ids


@compiled(INT, WORDS, WORDS, WORDS, WORDS, INT, INT, INT, INT)
def _find_ranges(code, part, pool, items, n_items, symbol, mask, kept):
    """Queue the ranges of a symbol's interval that starts, or close those of one that ends.

    All ranges of an interval are entered before it is extended, and only if they are all that is
    asked of it: pairs of it are decided later.
    """
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    ring = RINGS + symbol * RING_WORDS
    starts = mask >> symbol & 1
    for inc in range(code[sym + SYM_INCIDENT], code[sym + SYM_INCIDENT_END]):
        entry = code[INCIDENT_AT] + inc * INC_WORDS
        side = code[entry + INC_SIDE]
        con = code[CONSTRAINTS_AT] + code[entry + INC_CONSTRAINT] * CON_WORDS
        block = con + CON_SIDES + side * SIDE_WORDS
        other = symbol_on(code, con, 1 - side)
        other_tail = part[RINGS + other * RING_WORDS + RING_TAIL]
        if not starts and code[block + SIDE_EARLIER] != NOWHERE:
            slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
            pool[slot + code[block + SIDE_EARLIER]] = other_tail
            if code[con + CON_SIDES + (1 - side) * SIDE_WORDS + SIDE_ENDED] != NOWHERE:
                items[n_items] = _END
                items[n_items + 1] = code[entry + INC_CONSTRAINT]
                items[n_items + 2] = side
                n_items += ITEM_WORDS
        elif starts and code[block + SIDE_LATER] != NOWHERE:
            # the last that ended before now: not one that is open or ends now
            last = other_tail - 1
            if mask >> other & 1 or kept >> other & 1:
                last -= 1
            items[n_items] = _RANGE
            items[n_items + 1] = code[entry + INC_CONSTRAINT]
            items[n_items + 2] = side
            items[n_items + 3] = last
            n_items += ITEM_WORDS
    if starts and code[ALL_AFTER] >> symbol & 1:
        items[n_items] = _START
        items[n_items + 1] = symbol
        n_items += ITEM_WORDS
    return n_items


@compiled(INT, WORDS, WORDS, WORDS, INT, INT, INT)
def _step_automata(code, part, items, n_items, symbol, mask):
    """Let the automata of a symbol's constraints read the event; queue the pairs they decide."""
    n = code[N_SYMBOLS]
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    for inc in range(code[sym + SYM_INCIDENT], code[sym + SYM_INCIDENT_END]):
        c = code[code[INCIDENT_AT] + inc * INC_WORDS + INC_CONSTRAINT]
        con = code[CONSTRAINTS_AT] + c * CON_WORDS
        if code[con + CON_NEXT] == NOWHERE:
            continue
        x = code[con + CON_X]
        y = code[con + CON_Y]
        state = RINGS + n * RING_WORDS + c
        arrow = 4 * part[state] + 2 * (mask >> x & 1) + (mask >> y & 1)
        decided = code[code[con + CON_DECIDES] + arrow]
        part[state] = code[code[con + CON_NEXT] + arrow]
        if not decided:
            continue
        x_id = part[RINGS + x * RING_WORDS + RING_TAIL] - 1
        y_id = part[RINGS + y * RING_WORDS + RING_TAIL] - 1
        gone = (part[DROPPED] >> x | part[DROPPED] >> y) & 1 != 0
        x_gone = part[PREVIOUS_DROPPED] >> x & 1 != 0
        y_gone = part[PREVIOUS_DROPPED] >> y & 1 != 0
        for kind in range(3):
            if not decided >> kind & 1:
                continue
            if (kind == 0 and gone) or (kind == 1 and x_gone) or (kind == 2 and y_gone):
                continue
            items[n_items] = _PAIR
            items[n_items + 1] = c
            items[n_items + 2] = x_id - 1 if kind == 1 else x_id
            items[n_items + 3] = y_id - 1 if kind == 2 else y_id
            n_items += ITEM_WORDS
    return n_items


@compiled(types.UniTuple(INT, 2), WORDS, WORDS, WORDS, WORDS, WORDS, FLAGS, INT, INT, INT, INT)
def take_in(code, part, pool, scratch, columns, known, n_rows, time, mask, row):
    """Take in the event at ``time``: its ends and starts, and a step of the automata they touch.

    What becomes known by it is queued. Gives the length of the queue, and the symbols
    (as bits) whose intervals have ended with an allowed duration.
    """
    n = code[N_SYMBOLS]
    items = at_word(scratch, SCRATCH_BOUND + (3 + WALK_WORDS) * n)
    old = part[MASK]
    changed = old ^ mask
    ended = old & changed
    started = mask & changed
    part[MASK] = mask
    n_items = 0
    kept = 0  # ended intervals whose duration is allowed

    # ends, before starts: an interval that starts now is met by those that end now
    rest = ended
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if code[HAS_CELLS]:
            bring_up_to_date(code, part, pool, columns, known, n_rows, s, row, scratch)
        sym = code[SYMBOLS_AT] + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        slot = slot_of(part, ring, code[sym + SYM_WIDTH], part[ring + RING_TAIL] - 1)
        pool[slot + END] = time
        at_least = code[sym + SYM_AT_LEAST]
        at_most = code[sym + SYM_AT_MOST]
        start = pool[slot + START]
        if (at_least != NOWHERE and not lasts(start, time, at_least)) or (
            at_most != NOWHERE and lasts(start, time, at_most) and time - start != at_most
        ):
            drop(code, part, pool, s)
        else:
            kept |= 1 << s

    rest = started
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        begin(code, part, pool, s, time)
        scratch[SCRATCH_BOUND + (2 + WALK_WORDS) * n + s] = row

    # the endpoint index: which ended before those that start, and where those that end leave off
    rest = started & code[IN_RANGES]
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        n_items = _find_ranges(code, part, pool, items, n_items, s, mask, kept)
    rest = kept & code[IN_RANGES]  # after those that start now, which they only meet
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        n_items = _find_ranges(code, part, pool, items, n_items, s, mask, kept)

    rest = changed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        n_items = _step_automata(code, part, items, n_items, s, mask)

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
        n_items += ITEM_WORDS

    return n_items, kept


@compiled(INT, WORDS, WORDS, WORDS, WORDS, INT, INT)
def _enter_range(code, part, pool, items, item, floor):
    """Enter the range of an interval that starts, or that one has ended, for those that will start.

    Gives how many partners were told what lies behind it.
    """
    constraint = items[item + 1]
    side = items[item + 2]
    con = code[CONSTRAINTS_AT] + constraint * CON_WORDS
    block = con + CON_SIDES + side * SIDE_WORDS
    theirs = con + CON_SIDES + (1 - side) * SIDE_WORDS
    s = symbol_on(code, con, side)
    ring = RINGS + s * RING_WORDS
    slot_id = part[ring + RING_TAIL] - 1
    slot = slot_of(part, ring, code[code[SYMBOLS_AT] + s * SYM_WORDS + SYM_WIDTH], slot_id)
    best = code[block + SIDE_BEST]
    if items[item] == _END:
        if part[VALID] >> s & 1:
            most = code[theirs + SIDE_ENDED]
            part[most] = max(part[most], offered(code, pool, s, slot, best))
        return 0
    pool[slot + code[block + SIDE_LATER]] = items[item + 3]
    grows = False
    if best != NOWHERE:
        offer = part[code[block + SIDE_ENDED]]
        grows = offer > pool[slot + best]
        pool[slot + code[block + SIDE_BEST_LATER]] = offer
        pool[slot + best] = max(offer, pool[slot + best])
    if code[theirs + SIDE_BEST] != NOWHERE:  # the earlier ones have not heard of this one
        return spread(code, part, pool, floor, s, slot, slot_id, NOWHERE)
    return spread(code, part, pool, floor, s, slot, slot_id, constraint) if grows else 0


@compiled(INT, WORDS, WORDS, WORDS, WORDS, INT, INT, WORDS)
def enter(code, part, pool, items, item, floor, scratch):
    """Enter a queued item into its index; gives the seed to extend it by, or NOWHERE.

    The intervals that the seed starts from are put where `extend` expects them, in ``scratch``.
    """
    bound = at_word(scratch, SCRATCH_BOUND)
    n = code[N_SYMBOLS]
    symbols = code[SYMBOLS_AT]
    kind = items[item]
    if kind == _INTERVAL or kind == _START:
        s = items[item + 1]
        sym = symbols + s * SYM_WORDS
        ring = RINGS + s * RING_WORDS
        if kind == _INTERVAL:
            part[VALID] |= 1 << s
        elif not part[VALID] >> s & 1:
            return NOWHERE
        slot_id = part[ring + RING_TAIL] - 1
        slot = slot_of(part, ring, code[sym + SYM_WIDTH], slot_id)
        bound[s] = slot_id
        bound[n + s] = slot
        if pool[slot + START] < floor:
            return NOWHERE
        if n > 1:
            scratch[SCRATCH_VISITS] += spread(code, part, pool, floor, s, slot, slot_id, NOWHERE)
        return code[sym + SYM_SEED] if pool[slot + REACH] >= floor else NOWHERE

    con = code[CONSTRAINTS_AT] + items[item + 1] * CON_WORDS
    x = code[con + CON_X]
    y = code[con + CON_Y]
    if kind == _RANGE or kind == _END:
        scratch[SCRATCH_VISITS] += _enter_range(code, part, pool, items, item, floor)
        return NOWHERE

    x_id = items[item + 2]
    y_id = items[item + 3]
    x_ring = RINGS + x * RING_WORDS
    y_ring = RINGS + y * RING_WORDS
    if x_id < part[x_ring + RING_HEAD] or y_id < part[y_ring + RING_HEAD]:
        return NOWHERE
    x_slot = slot_of(part, x_ring, code[symbols + x * SYM_WORDS + SYM_WIDTH], x_id)
    y_slot = slot_of(part, y_ring, code[symbols + y * SYM_WORDS + SYM_WIDTH], y_id)
    if pool[x_slot + START] < floor or pool[y_slot + START] < floor:
        return NOWHERE
    if code[con + CON_NAMES]:
        if pool[x_slot + START] < pool[y_slot + START]:
            pool[y_slot + code[con + CON_SIDES + SIDE_WORDS + SIDE_NAME]] = x_id
        else:
            pool[x_slot + code[con + CON_SIDES + SIDE_NAME]] = y_id
        return NOWHERE
    add_partner(pool, x_slot + code[con + CON_SIDES + SIDE_LO], y_id)
    add_partner(pool, y_slot + code[con + CON_SIDES + SIDE_WORDS + SIDE_LO], x_id)
    x_valid = x_id < part[x_ring + RING_TAIL] - 1 or part[VALID] >> x & 1 != 0
    y_valid = y_id < part[y_ring + RING_TAIL] - 1 or part[VALID] >> y & 1 != 0
    x_best = code[con + CON_SIDES + SIDE_BEST]
    y_best = code[con + CON_SIDES + SIDE_WORDS + SIDE_BEST]
    if x_best != NOWHERE and y_valid:
        offer = min(offered(code, pool, y, y_slot, y_best), pool[x_slot + START])
        if offer > pool[x_slot + x_best]:
            pool[x_slot + x_best] = offer
            scratch[SCRATCH_VISITS] += spread(
                code, part, pool, floor, x, x_slot, x_id, items[item + 1]
            )
    if y_best != NOWHERE and x_valid:
        offer = min(offered(code, pool, x, x_slot, x_best), pool[y_slot + START])
        if offer > pool[y_slot + y_best]:
            pool[y_slot + y_best] = offer
            scratch[SCRATCH_VISITS] += spread(
                code, part, pool, floor, y, y_slot, y_id, items[item + 1]
            )
    if not (x_valid and y_valid):
        return NOWHERE
    if pool[x_slot + REACH] < floor or pool[y_slot + REACH] < floor:
        return NOWHERE
    bound[x] = x_id
    bound[n + x] = x_slot
    bound[y] = y_id
    bound[n + y] = y_slot
    return code[con + CON_SEED]


@compiled(BOOL, WORDS, WORDS, WORDS, WORDS, INT, WORDS, INT, INT)
def complete_matches(code, part, pool, found, room, scratch, n_items, floor):
    """Enter the queued items one by one, and find the matches that each completes.

    False where ``found`` is full: call again with a larger one.
    """
    n = code[N_SYMBOLS]
    bound = at_word(scratch, SCRATCH_BOUND)
    walk = at_word(scratch, SCRATCH_BOUND + 2 * n)
    again = at_word(scratch, SCRATCH_AGAIN)
    items = at_word(scratch, SCRATCH_BOUND + (3 + WALK_WORDS) * n)
    count = scratch[SCRATCH_FOUND]
    depth = scratch[SCRATCH_DEPTH]
    seed = scratch[SCRATCH_SEED]
    for item in range(scratch[SCRATCH_ITEM], n_items, ITEM_WORDS):
        if depth == DONE:
            seed = enter(code, part, pool, items, item, floor, scratch)
            if seed == NOWHERE:
                continue
            depth = 0
        count, depth, steps = extend(
            code, part, pool, floor, seed, bound, walk, again, found, room, count, depth
        )
        scratch[SCRATCH_STEPS] += steps
        if depth != DONE:
            scratch[SCRATCH_FOUND] = count
            scratch[SCRATCH_DEPTH] = depth
            scratch[SCRATCH_SEED] = seed
            scratch[SCRATCH_ITEM] = item
            return False
    scratch[SCRATCH_FOUND] = count
    return True
