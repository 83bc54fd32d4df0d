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

from piestream.compiled.layout import (
    ALWAYS,
    NOWHERE,
    PIECE_EARLIER,
    PIECE_LATER,
    PIECE_PAIRS,
    WALK_ALL,
    WALK_ALL_CHECKED,
    WALK_ENDS,
    WALK_ENDS_CHECKED,
)
from piestream.compiled.records import kernel
from piestream.joins.pairs import possible_relations
from piestream.joins.partition import Partition
from piestream.joins.records import Slot, Symbol


@kernel
def offered(symbol: Symbol, slot: Slot, but: int) -> int:
    """What an interval offers to partners whose best of it is kept in word ``but`` of its slot."""
    offer = slot.start
    for word in range(symbol.best, symbol.best_end):
        if word != but:
            offer = min(offer, slot[word])
    return offer


@kernel
def spread(part: Partition, floor: int, s: int, slot: Slot, slot_id: int, heard: int) -> int:
    """A best of this interval has grown, or it became valid: tell the partners on other sides.

    ``heard`` is the constraint that the news came by. The pattern's tree bounds the recursion.
    Gives how many partners were looked at.
    """
    query = part.query
    symbol = query.symbols[s]
    ring = part.ring(s)
    lowest = ALWAYS
    second = ALWAYS
    lowest_word = NOWHERE
    for word in range(symbol.best, symbol.best_end):
        best = slot[word]
        if best < lowest:
            second = lowest
            lowest = best
            lowest_word = word
        elif best < second:
            second = best
    slot.reach = lowest
    if slot_id == ring.tail - 1 and not part.valid >> s & 1:
        return 0
    if lowest >= floor:
        ring.mark(slot_id)
    if second < floor:
        return 0
    visits = 0
    start = slot.start
    ranged = query.in_ranges >> s & 1
    for number in range(symbol.incident, symbol.incident_end):
        incident = query.incidents[number]
        if incident.constraint == heard:
            continue
        constraint = query.constraints[incident.constraint]
        mine = constraint.sides[incident.side]
        theirs = constraint.sides[1 - incident.side]
        best = theirs.best
        if best == NOWHERE:
            continue
        lo = slot[mine.lo]
        if lo == NOWHERE and not ranged:
            continue
        offer = min(start, second if mine.best == lowest_word else lowest)
        if offer < floor:
            continue
        other = constraint.symbols[1 - incident.side]
        partners = part.ring(other)
        head = partners.head

        for piece in range(PIECE_PAIRS, (PIECE_EARLIER if ranged else PIECE_PAIRS) + 1):
            alone = NOWHERE
            onward = 1
            walk = WALK_ALL
            if piece == PIECE_PAIRS:
                if lo == NOWHERE:
                    continue
                walk = mine.walk
                partner = lo
                last = slot[mine.lo + 1]
            elif piece == PIECE_LATER:
                # those that ended before this one began, from the last: it has heard the least
                alone = theirs.best_earlier
                if alone == NOWHERE:
                    continue
                onward = -1
                partner = slot[mine.later]
                last = partner
            else:
                # those that began after this one ended, from the first: it has heard the least
                alone = theirs.best_later
                if alone == NOWHERE or slot[mine.earlier] == NOWHERE:
                    continue
                part[theirs.ended] = max(part[theirs.ended], offer)
                partner = partners.first_after(slot, mine.earlier)
                last = partners.tail - 1
            while partner <= last and (alone == NOWHERE or partner >= head):
                visits += 1
                there = partners.slot(partner)
                news = min(offer, there.start)
                had = there[best]
                if alone != NOWHERE:
                    if there[alone] >= news:
                        break
                    there[alone] = news
                elif partner < head:
                    news = had
                elif walk >= WALK_ALL_CHECKED and news > had:
                    possible = possible_relations(slot.start, slot.end, there.start, there.end)
                    if possible & mine.allowed != possible:
                        news = had
                if news > had:
                    there[best] = news
                    visits += spread(part, floor, other, there, partner, incident.constraint)
                partner += onward
                if walk == WALK_ENDS:
                    partner = max(partner, last)
                elif walk == WALK_ENDS_CHECKED and partner > lo + 1:
                    partner = max(partner, last - 1)
    return visits
