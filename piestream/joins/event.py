"""One event of one partition: ends, starts, automata, pairs, matches.

What becomes known at an event is put in a queue and taken in turn: each item is entered into its
index and then extended through what is entered already. A match therefore comes out exactly once,
at its last item.
"""

from __future__ import annotations

from piestream.compiled.layout import INT64_MAX, NOWHERE
from piestream.compiled.loops import trailing_zeros
from piestream.compiled.records import Words, kernel
from piestream.intervals.ticks import lasts, plus
from piestream.joins.extend import DONE, extend
from piestream.joins.pairs import add_partner
from piestream.joins.partition import Columns, Partition
from piestream.joins.records import Item, Scratch
from piestream.joins.semijoin import offered, spread
from piestream.joins.slots import begin, bring_up_to_date, drop

_PAIR, _RANGE, _END, _START, _INTERVAL = range(5)


@kernel
def _find_ranges(part: Partition, scratch: Scratch, s: int, mask: int, kept: int) -> None:
    """Queue the ranges of a symbol's interval that starts, or close those of one that ends.

    All ranges of an interval are entered before it is extended, and only if they are all that is
    asked of it: pairs of it are decided later.
    """
    query = part.query
    symbol = query.symbols[s]
    starts = mask >> s & 1
    for number in range(symbol.incident, symbol.incident_end):
        incident = query.incidents[number]
        constraint = query.constraints[incident.constraint]
        mine = constraint.sides[incident.side]
        theirs = constraint.sides[1 - incident.side]
        other = constraint.symbols[1 - incident.side]
        if not starts and mine.earlier != NOWHERE:
            part.ring(s).latest()[mine.earlier] = part.rings[other].tail
            if theirs.ended != NOWHERE:
                scratch.put(_END, incident.constraint, incident.side, NOWHERE)
        elif starts and mine.later != NOWHERE:
            # the last that ended before now: not one that is open or ends now
            last = part.rings[other].tail - 1 - ((mask | kept) >> other & 1)
            scratch.put(_RANGE, incident.constraint, incident.side, last)
    if starts and query.all_after >> s & 1:
        scratch.put(_START, s, NOWHERE, NOWHERE)


@kernel
def _step_automata(part: Partition, scratch: Scratch, s: int, mask: int) -> None:
    """Let the automata of a symbol's constraints read the event; queue the pairs they decide."""
    query = part.query
    symbol = query.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        c = query.incidents[number].constraint
        constraint = query.constraints[c]
        if constraint.next == NOWHERE:
            continue
        x = constraint.symbols[0]
        y = constraint.symbols[1]
        state = query.automata_at + c
        arrow = 4 * part[state] + 2 * (mask >> x & 1) + (mask >> y & 1)
        decided = query[constraint.decides + arrow]
        part[state] = query[constraint.next + arrow]
        if not decided:
            continue
        x_id = part.rings[x].tail - 1
        y_id = part.rings[y].tail - 1
        # the latest x and y; the x before it and the latest y; the latest x and the y before it
        if decided & 1 and not (part.dropped >> x | part.dropped >> y) & 1:
            scratch.put(_PAIR, c, x_id, y_id)
        if decided & 2 and not part.previous_dropped >> x & 1:
            scratch.put(_PAIR, c, x_id - 1, y_id)
        if decided & 4 and not part.previous_dropped >> y & 1:
            scratch.put(_PAIR, c, x_id, y_id - 1)


@kernel
def take_in(
    part: Partition, scratch: Scratch, columns: Columns, time: int, mask: int, row: int
) -> int:
    """Take in the event at ``time``: its ends and starts, and a step of the automata they touch.

    What becomes known by it is queued. Gives the symbols (as bits) whose intervals have ended with
    an allowed duration.
    """
    query = part.query
    scratch.n_items = 0
    old = part.mask
    changed = old ^ mask
    ended = old & changed
    started = mask & changed
    part.mask = mask
    kept = 0  # ended intervals whose duration is allowed

    # ends, before starts: an interval that starts now is met by those that end now
    rest = ended
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        if query.has_cells:
            bring_up_to_date(part, columns, s, row, scratch)
        slot = part.ring(s).latest()
        slot.end = time
        at_least = query.symbols[s].at_least
        at_most = query.symbols[s].at_most
        start = slot.start
        if (at_least != NOWHERE and not lasts(start, time, at_least)) or (
            at_most != NOWHERE and lasts(start, time, at_most) and time - start != at_most
        ):
            drop(part, s)
        else:
            kept |= 1 << s

    rest = started
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        begin(part, s, time)
        scratch.added[s] = row

    # the endpoint index: which ended before those that start, and where those that end leave off
    rest = started & query.in_ranges
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        _find_ranges(part, scratch, s, mask, kept)
    rest = kept & query.in_ranges  # after those that start now, which they only meet
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        _find_ranges(part, scratch, s, mask, kept)

    rest = changed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        _step_automata(part, scratch, s, mask)

    # intervals that become valid: at their end, at their start, or by their length
    waits = 0
    rest = kept & ~part.valid
    if query.n_symbols == 1:
        rest |= started & part.valid
    pending = mask & ~part.valid & query.to_length
    while pending:
        s = trailing_zeros(pending)
        pending &= pending - 1
        start = part.ring(s).latest().start
        at_least = query.symbols[s].at_least
        if lasts(start, time, at_least):
            rest |= 1 << s
        else:
            due = plus(start, at_least)
            part.due = due if not waits else min(part.due, due)
            waits = 1
    if not waits:
        part.due = INT64_MAX
    while rest:
        scratch.put(_INTERVAL, trailing_zeros(rest), NOWHERE, NOWHERE)
        rest &= rest - 1
    return kept


@kernel
def _enter_range(part: Partition, item: Item, floor: int) -> int:
    """Enter the range of an interval that starts, or that one has ended, for those that will start.

    Gives how many partners were told what lies behind it.
    """
    query = part.query
    constraint = query.constraints[item.of]
    mine = constraint.sides[item.one]
    theirs = constraint.sides[1 - item.one]
    s = constraint.symbols[item.one]
    ring = part.ring(s)
    slot_id = ring.tail - 1
    slot = ring.slot(slot_id)
    if item.kind == _END:
        if part.valid >> s & 1:
            offer = offered(query.symbols[s], slot, mine.best)
            part[theirs.ended] = max(part[theirs.ended], offer)
        return 0
    slot[mine.later] = item.other
    grows = False
    if mine.best != NOWHERE:
        offer = part[mine.ended]
        grows = offer > slot[mine.best]
        slot[mine.best_later] = offer
        slot[mine.best] = max(offer, slot[mine.best])
    if theirs.best != NOWHERE:  # the earlier ones have not heard of this one
        return spread(part, floor, s, slot, slot_id, NOWHERE)
    return spread(part, floor, s, slot, slot_id, item.of) if grows else 0


@kernel
def _enter_interval(part: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Enter an interval that became valid, or all of whose partners are known at its start."""
    s = item.of
    if item.kind == _INTERVAL:
        part.valid |= 1 << s
    elif not part.valid >> s & 1:
        return NOWHERE
    ring = part.ring(s)
    slot_id = ring.tail - 1
    slot = ring.slot(slot_id)
    scratch.bound[s].slot_id = slot_id
    scratch.bound[s].place = ring.place(slot_id)
    if slot.start < floor:
        return NOWHERE
    if part.query.n_symbols > 1:
        scratch.visits += spread(part, floor, s, slot, slot_id, NOWHERE)
    return part.query.symbols[s].seed if slot.reach >= floor else NOWHERE


@kernel
def _enter_pair(part: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Enter a decided pair."""
    query = part.query
    constraint = query.constraints[item.of]
    x = constraint.symbols[0]
    y = constraint.symbols[1]
    of_x = constraint.sides[0]
    of_y = constraint.sides[1]
    x_id = item.one
    y_id = item.other
    x_ring = part.ring(x)
    y_ring = part.ring(y)
    if x_id < x_ring.head or y_id < y_ring.head:
        return NOWHERE
    x_slot = x_ring.slot(x_id)
    y_slot = y_ring.slot(y_id)
    if x_slot.start < floor or y_slot.start < floor:
        return NOWHERE
    if constraint.names:
        if x_slot.start < y_slot.start:
            y_slot[of_y.name] = x_id
        else:
            x_slot[of_x.name] = y_id
        return NOWHERE
    add_partner(x_slot, of_x.lo, y_id)
    add_partner(y_slot, of_y.lo, x_id)
    x_valid = x_id < x_ring.tail - 1 or part.valid >> x & 1 != 0
    y_valid = y_id < y_ring.tail - 1 or part.valid >> y & 1 != 0
    if of_x.best != NOWHERE and y_valid:
        offer = min(offered(query.symbols[y], y_slot, of_y.best), x_slot.start)
        if offer > x_slot[of_x.best]:
            x_slot[of_x.best] = offer
            scratch.visits += spread(part, floor, x, x_slot, x_id, item.of)
    if of_y.best != NOWHERE and x_valid:
        offer = min(offered(query.symbols[x], x_slot, of_x.best), y_slot.start)
        if offer > y_slot[of_y.best]:
            y_slot[of_y.best] = offer
            scratch.visits += spread(part, floor, y, y_slot, y_id, item.of)
    if not (x_valid and y_valid):
        return NOWHERE
    if x_slot.reach < floor or y_slot.reach < floor:
        return NOWHERE
    scratch.bound[x].slot_id = x_id
    scratch.bound[x].place = x_ring.place(x_id)
    scratch.bound[y].slot_id = y_id
    scratch.bound[y].place = y_ring.place(y_id)
    return constraint.seed


@kernel
def enter(part: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Enter a queued item into its index; gives the seed to extend it by, or NOWHERE.

    The intervals that the seed starts from are bound.
    """
    if item.kind == _PAIR:
        return _enter_pair(part, scratch, item, floor)
    if item.kind == _RANGE or item.kind == _END:
        scratch.visits += _enter_range(part, item, floor)
        return NOWHERE
    return _enter_interval(part, scratch, item, floor)


@kernel
def complete_matches(
    part: Partition, scratch: Scratch, found: Words, room: int, floor: int
) -> bool:
    """Enter the queued items one by one, and find the matches that each completes.

    False where ``found`` is full: call again with a larger one.
    """
    count = scratch.found
    depth = scratch.depth
    seed = scratch.seed
    for number in range(scratch.item, scratch.n_items):
        if depth == DONE:
            seed = enter(part, scratch, scratch.items[number], floor)
            if seed == NOWHERE:
                continue
            depth = 0
        count, depth, steps = extend(part, scratch, floor, seed, found, room, count, depth)
        scratch.steps += steps
        if depth != DONE:
            scratch.found = count
            scratch.depth = depth
            scratch.seed = seed
            scratch.item = number
            return False
    scratch.found = count
    return True
