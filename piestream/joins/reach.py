"""Reach: whether a match can still be completed on every side of an interval.

The insert-only form of Yannakakis' algorithm. For each interval and each constraint of its symbol
is kept the *best* that partners offer there: the latest time at which all of what would have to be
bound behind them began. A match must begin within the window, so a side is worth entering while its
best is not before the window. Bests only grow, and only up to the interval's own start, so that the
many partners inside a long interval are news to its other sides once; then the partners there hear
of it.

The partners in a range (before, after) are not entered one by one, but what they offer is as if they
were. The range of whoever began later holds that of all before it: so among those that ended the best
falls, and among those that began it rises, in the order of their slots, and news go from the nearest
on only as far as they are news. For one that will begin, the partition keeps the best of all that
ended. A side of a symbol is kept only where some match comes from another side of it (`plan.asked`).

Of a cycle a spanning tree is looked at. On all other patterns the walk of `extend` enters nothing
that cannot be completed.
"""

from __future__ import annotations

from piestream.joins.layout import (
    ALWAYS,
    CON_SIDES,
    CON_WORDS,
    CONSTRAINTS_AT,
    END,
    IN_RANGES,
    INC_CONSTRAINT,
    INC_SIDE,
    INC_WORDS,
    INCIDENT_AT,
    NOWHERE,
    PIECE_EARLIER,
    PIECE_LATER,
    PIECE_PAIRS,
    REACH,
    RING_HEAD,
    RING_TAIL,
    RING_WORDS,
    RINGS,
    SIDE_ALLOWED,
    SIDE_BEST,
    SIDE_BEST_EARLIER,
    SIDE_BEST_LATER,
    SIDE_EARLIER,
    SIDE_ENDED,
    SIDE_LATER,
    SIDE_LO,
    SIDE_WALK,
    SIDE_WORDS,
    START,
    SYM_BEST,
    SYM_BEST_END,
    SYM_INCIDENT,
    SYM_INCIDENT_END,
    SYM_WIDTH,
    SYM_WORDS,
    SYMBOLS_AT,
    VALID,
    WALK_ALL,
    WALK_ALL_CHECKED,
    WALK_ENDS,
    WALK_ENDS_CHECKED,
)
from piestream.joins.pairs import first_after, possible_relations, symbol_on
from piestream.joins.rings import mark, slot_of
from piestream.loops import INT, WORDS, compiled


@compiled(INT, WORDS, WORDS, INT, INT, INT)
def offered(code, pool, symbol, slot, but):
    """What an interval offers to partners whose best of it is kept in word ``but`` of its slot."""
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    offer = pool[slot + START]
    for word in range(code[sym + SYM_BEST], code[sym + SYM_BEST_END]):
        if word != but:
            offer = min(offer, pool[slot + word])
    return offer


@compiled(INT, WORDS, WORDS, WORDS, INT, INT, INT, INT, INT)
def spread(code, part, pool, floor, symbol, slot, slot_id, heard):
    """A best of this interval has grown, or it became valid: tell the partners on other sides.

    ``heard`` is the constraint that the news came by. The pattern's tree bounds the recursion.
    Gives how many partners were looked at.
    """
    sym = code[SYMBOLS_AT] + symbol * SYM_WORDS
    ring = RINGS + symbol * RING_WORDS
    lowest = ALWAYS
    second = ALWAYS
    lowest_word = NOWHERE
    for word in range(code[sym + SYM_BEST], code[sym + SYM_BEST_END]):
        best = pool[slot + word]
        if best < lowest:
            second = lowest
            lowest = best
            lowest_word = word
        elif best < second:
            second = best
    pool[slot + REACH] = lowest
    if slot_id == part[ring + RING_TAIL] - 1 and not part[VALID] >> symbol & 1:
        return 0
    if lowest >= floor:
        mark(part, pool, ring, code[sym + SYM_WIDTH], slot_id)
    if second < floor:
        return 0
    visits = 0
    start = pool[slot + START]
    ranged = code[IN_RANGES] >> symbol & 1
    for inc in range(code[sym + SYM_INCIDENT], code[sym + SYM_INCIDENT_END]):
        entry = code[INCIDENT_AT] + inc * INC_WORDS
        constraint = code[entry + INC_CONSTRAINT]
        if constraint == heard:
            continue
        side = code[entry + INC_SIDE]
        con = code[CONSTRAINTS_AT] + constraint * CON_WORDS
        block = con + CON_SIDES + side * SIDE_WORDS
        theirs = con + CON_SIDES + (1 - side) * SIDE_WORDS
        best = code[theirs + SIDE_BEST]
        if best == NOWHERE:
            continue
        lo = pool[slot + code[block + SIDE_LO]]
        if lo == NOWHERE and not ranged:
            continue
        offer = min(start, second if code[block + SIDE_BEST] == lowest_word else lowest)
        if offer < floor:
            continue
        other = symbol_on(code, con, 1 - side)
        other_ring = RINGS + other * RING_WORDS
        other_width = code[code[SYMBOLS_AT] + other * SYM_WORDS + SYM_WIDTH]
        other_head = part[other_ring + RING_HEAD]

        for piece in range(PIECE_PAIRS, (PIECE_EARLIER if ranged else PIECE_PAIRS) + 1):
            alone = NOWHERE
            onward = 1
            walk = WALK_ALL
            if piece == PIECE_PAIRS:
                if lo == NOWHERE:
                    continue
                walk = code[block + SIDE_WALK]
                partner = lo
                last = pool[slot + code[block + SIDE_LO] + 1]
            elif piece == PIECE_LATER:
                # those that ended before this one began, from the last: it has heard the least
                alone = code[theirs + SIDE_BEST_EARLIER]
                if alone == NOWHERE:
                    continue
                onward = -1
                partner = pool[slot + code[block + SIDE_LATER]]
                last = partner
            else:
                # those that began after this one ended, from the first: it has heard the least
                alone = code[theirs + SIDE_BEST_LATER]
                if alone == NOWHERE or pool[slot + code[block + SIDE_EARLIER]] == NOWHERE:
                    continue
                most = code[theirs + SIDE_ENDED]
                part[most] = max(part[most], offer)
                partner = first_after(
                    part, pool, other_ring, other_width, slot, code[block + SIDE_EARLIER]
                )
                last = part[other_ring + RING_TAIL] - 1
            while partner <= last and (alone == NOWHERE or partner >= other_head):
                visits += 1
                place = slot_of(part, other_ring, other_width, partner)
                news = min(offer, pool[place + START])
                had = pool[place + best]
                if alone != NOWHERE:
                    if pool[place + alone] >= news:
                        break
                    pool[place + alone] = news
                elif partner < other_head:
                    news = had
                elif walk >= WALK_ALL_CHECKED and news > had:
                    possible = possible_relations(
                        pool[slot + START], pool[slot + END],
                        pool[place + START], pool[place + END],
                    )  # fmt: skip
                    if possible & code[block + SIDE_ALLOWED] != possible:
                        news = had
                if news > had:
                    pool[place + best] = news
                    visits += spread(code, part, pool, floor, other, place, partner, constraint)
                partner += onward
                if walk == WALK_ENDS:
                    partner = max(partner, last)
                elif walk == WALK_ENDS_CHECKED and partner > lo + 1:
                    partner = max(partner, last - 1)
    return visits
