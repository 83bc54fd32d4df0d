"""One event of one partition: ends, starts, automata, pairs, matches.

What becomes known at an event is put in a queue and taken in turn: each item is inserted into its
index and then extended through what has been inserted already. A match therefore comes out exactly
once, at its last item.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.primitives import trailing_zeros
from piestream.compiled.records import inline_kernel, kernel
from piestream.intervals.aggregates import Columns
from piestream.intervals.ticks import lasts, plus
from piestream.joins.boxes import box_in, least_start
from piestream.joins.counters import note_counts
from piestream.joins.distances import Judged, judge_pair
from piestream.joins.extend import DONE, extend
from piestream.joins.first import extend_to_first
from piestream.joins.keys import add_keys, bucket_of, equal_keys, next_with_key
from piestream.joins.listed import is_held, link, pair_at, suspend
from piestream.joins.matches import Matches
from piestream.joins.orders import BY_END
from piestream.joins.pairs import add_partner
from piestream.joins.partition import Partition
from piestream.joins.range_bounds import bound_by_ended, note_given
from piestream.joins.records import Constraint, Symbol, Validity
from piestream.joins.scratch import Item, ItemKind, Scratch
from piestream.joins.semijoin import bound_excluding, propagate_bound
from piestream.joins.slots import drop_interval, open_interval, update_aggregates
from piestream.joins.state_records import (
    MOST_EVENTS,
    NO_MATCH,
    BridgedSlot,
    Held,
    Pair,
    RowSlot,
    Slot,
)


@kernel
def _enqueue_ranges(
    partition: Partition, scratch: Scratch, symbols: int, mask: int, kept: int
) -> None:
    """Queue the ranges of the intervals of symbols (as bits) that start, or close those that end.

    All ranges of an interval are inserted before it is extended, and that only if its constraints
    are all of this kind: pairs of it are decided later.
    """
    program = partition.program
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        symbol = program.symbols[s]
        starts = mask >> s & 1
        for number in range(symbol.incident, symbol.incident_end):
            incident = program.incidents[number]
            constraint = program.constraints[incident.constraint]
            mine = constraint.sides[incident.side]
            theirs = constraint.sides[1 - incident.side]
            other = constraint.symbols[1 - incident.side]
            if not starts and mine.first_starting_after != NONE:
                latest = partition.ring(s).latest()
                latest[mine.first_starting_after] = partition.rings[other].tail
                if theirs.bound_by_ended != NONE or mine.given != NONE:
                    item = scratch.enqueue(ItemKind.END)
                    item.constraint = incident.constraint
                    item.side = incident.side
            elif starts and mine.last_ended_before != NONE:
                item = scratch.enqueue(ItemKind.RANGE)
                item.constraint = incident.constraint
                item.side = incident.side
                # the last that ended before now: not one that is open or ends now
                item.last = partition.rings[other].tail - 1 - ((mask | kept) >> other & 1)
                if constraint.listed != NONE:
                    item.last = 0  # it is asked only whether they are inserted
        if starts and program.all_after >> s & 1:
            scratch.enqueue(ItemKind.START).symbol = s


@kernel
def _enqueue_pair(scratch: Scratch, c: int, x_id: int, y_id: int) -> None:
    """Queue a decided pair."""
    item = scratch.enqueue(ItemKind.PAIR)
    item.constraint = c
    item.ids[0] = x_id
    item.ids[1] = y_id


@kernel
def _step_automata(partition: Partition, scratch: Scratch, s: int, mask: int) -> None:
    """Let the automata of a symbol's constraints read the event; queue the pairs they decide."""
    program = partition.program
    symbol = program.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        c = program.incidents[number].constraint
        constraint = program.constraints[c]
        if constraint.automaton == NONE:
            continue
        x = constraint.symbols[0]
        y = constraint.symbols[1]
        state = program.automata_at + c
        letter = 2 * (mask >> x & 1) + (mask >> y & 1)
        transition = program.transitions[constraint.automaton + 4 * partition[state] + letter]
        partition[state] = transition.state
        decides = transition.decides
        if not decides:
            continue
        x_id = partition.rings[x].tail - 1
        y_id = partition.rings[y].tail - 1
        # the latest x and y; the x before it and the latest y; the latest x and the y before it
        if decides & 1 and not (partition.dropped >> x | partition.dropped >> y) & 1:
            _enqueue_pair(scratch, c, x_id, y_id)
        if decides & 2 and not partition.previous_dropped >> x & 1:
            _enqueue_pair(scratch, c, x_id - 1, y_id)
        if decides & 4 and not partition.previous_dropped >> y & 1:
            _enqueue_pair(scratch, c, x_id, y_id - 1)


@kernel
def _has_allowed_length(symbol: Symbol, start: int, end: int) -> bool:
    """Whether an interval that has ended fulfils its duration constraint."""
    if symbol.at_least != NONE and not lasts(start, end, symbol.at_least):
        return False
    at_most = symbol.at_most
    return at_most == NONE or not lasts(start, end, at_most) or end - start == at_most


@kernel
def _has_allowed_count(partition: Partition, symbol: Symbol, slot: Slot, event: int) -> bool:
    """Whether an interval that has ended before the event of this number has enough events."""
    if symbol.first_event == NONE:
        return True
    if symbol.counter != NONE:
        event = partition[partition.program.counters[symbol.counter].before]
    return _is_allowed_count(symbol, slot, event)


@kernel
def _is_allowed_count(symbol: Symbol, slot: Slot, event: int) -> bool:
    """The same, where ``event`` is the number of one of the symbol's own events."""
    count = event - slot[symbol.first_event]
    at_most = symbol.at_most_events
    return count >= symbol.at_least_events and (at_most == NONE or count <= at_most)


@kernel
def _end_intervals(partition: Partition, ended: int, time: int, instant: int, event: int) -> int:
    """End the intervals of symbols (as bits); gives those that fulfil their constraints.

    ``event`` is the number of the event that ends them.
    """
    program = partition.program
    kept = 0
    while ended:
        s = trailing_zeros(ended)
        ended &= ended - 1
        slot = partition.ring(s).latest()
        slot[program.end_instant] = instant
        slot.end = time
        symbol = program.symbols[s]
        if _has_allowed_length(symbol, slot.start, time) and _has_allowed_count(
            partition, symbol, slot, event
        ):
            kept |= 1 << s
        else:
            drop_interval(partition, s, time)
    return kept


@kernel
def _fits_as_interrupted(symbol: Symbol, slot: Slot, end: int) -> bool:
    """Whether an interrupted interval fulfils its constraints if it has ended when it was."""
    if not _has_allowed_length(symbol, slot.start, end):
        return False
    return symbol.first_event == NONE or _is_allowed_count(symbol, slot, BridgedSlot(slot).events)


@kernel
def end_interrupted(partition: Partition, ended: int, time: int) -> int:
    """End intervals of symbols (as bits) that are known by now to have ended when they were interrupted.

    Gives those that fulfil their constraints.
    """
    kept = 0
    partition.mask &= ~ended
    while ended:
        s = trailing_zeros(ended)
        ended &= ended - 1
        slot = partition.ring(s).latest()
        bridged = BridgedSlot(slot)
        slot[partition.program.end_instant] = bridged.since_instant
        slot.end = bridged.since
        bridged.since = OPEN
        bridged.since_instant = OPEN
        if _fits_as_interrupted(partition.program.symbols[s], slot, slot.end):
            kept |= 1 << s
        else:
            drop_interval(partition, s, time)
    return kept


@kernel
def enqueue_interrupted(partition: Partition, scratch: Scratch, symbols: int, time: int) -> None:
    """Queue the intervals of symbols (as bits) that are interrupted now if they have their minimum."""
    symbols &= ~partition.valid & partition.program.valid_at_length
    while symbols:
        s = trailing_zeros(symbols)
        symbols &= symbols - 1
        slot = partition.ring(s).latest()
        since = BridgedSlot(slot).since
        if since == time and _fits_as_interrupted(partition.program.symbols[s], slot, time):
            scratch.enqueue(ItemKind.INTERVAL).symbol = s


@kernel
def _reach_lengths(partition: Partition, mask: int, time: int, event: int) -> int:
    """Which open intervals (as bits) have reached their minimum, and when the next will."""
    program = partition.program
    reached = 0
    due = INT64_MAX
    due_event = MOST_EVENTS
    pending = mask & ~partition.valid & program.valid_at_length
    while pending:
        s = trailing_zeros(pending)
        pending &= pending - 1
        slot = partition.ring(s).latest()
        symbol = program.symbols[s]
        if not lasts(slot.start, time, symbol.at_least):
            due = min(due, plus(slot.start, symbol.at_least))
            continue
        if symbol.first_event != NONE:
            enough = slot[symbol.first_event] + symbol.at_least_events - 1
            if symbol.counter != NONE:
                counter = program.counters[symbol.counter]
                if partition[counter.up_to] <= enough:
                    partition[counter.due] = min(partition[counter.due], enough)
                    due_event = 0  # see `counters.first_row_of_due_count`
                    continue
            elif event < enough:
                due_event = min(due_event, enough)
                continue
        reached |= 1 << s
    partition.due = due
    partition.due_event = due_event
    return reached


@kernel
def apply_event(
    partition: Partition, scratch: Scratch, columns: Columns, time: int, mask: int, row: int,
    holds: int, ended_before: int,
) -> int:  # fmt: skip
    """Apply the event at ``time``: its ends and starts, and a step of the automata they touch.

    ``row`` is its own; of the end of a silence or of the input, the row behind it. What becomes
    known is queued. Gives the symbols (as bits) whose intervals have ended as their bounds allow.
    ``mask`` has the symbols whose intervals last, ``holds`` those whose predicates hold. Those that
    ``ended_before`` are known now to have.
    """
    program = partition.program
    scratch.n_items = 0
    event = scratch.event_origin + row
    changed = partition.mask ^ mask
    ended = partition.mask & changed
    started = mask & changed

    # ends, before starts: an interval that starts now is met by those that end now
    if program.has_cells:
        update_aggregates(partition, columns, ended, row, scratch)
        note_counts(partition, scratch, columns, row)
    partition.mask = mask
    kept = _end_intervals(partition, ended, time, scratch.instant, event) | ended_before
    rest = started
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        open_interval(partition, s, time, scratch.instant, event)
        symbol = program.symbols[s]
        if symbol.key != symbol.key_end:
            add_keys(partition, s, columns, row)
        scratch.aggregated[s] = row

    # the endpoint index: which ended before those that start, and where those that end leave off
    if (started | kept) & program.in_ranges:
        _enqueue_ranges(partition, scratch, started & program.in_ranges, mask, kept)
        # after those that start now, which they only meet
        _enqueue_ranges(partition, scratch, kept & program.in_ranges, mask, kept)

    rest = changed
    while rest:
        s = trailing_zeros(rest)
        rest &= rest - 1
        _step_automata(partition, scratch, s, mask)

    # intervals that become valid: at their end, at their start, or by their length
    latest = event - 1 if scratch.closing else event  # the end of the input is no event
    rest = kept & ~partition.valid | _reach_lengths(partition, holds, time, latest)
    if program.n_present == 1:
        rest |= started & partition.valid
    while rest:
        scratch.enqueue(ItemKind.INTERVAL).symbol = trailing_zeros(rest)
        rest &= rest - 1
    return kept


@kernel
def apply_deadline(partition: Partition, scratch: Scratch, kept: int) -> None:
    """Queue what becomes known between events, of intervals (as bits) that are known to have ended."""
    scratch.n_items = 0
    ranges = kept & partition.program.in_ranges
    if ranges:
        _enqueue_ranges(partition, scratch, ranges, partition.mask, kept)
    rest = kept & ~partition.valid
    while rest:
        scratch.enqueue(ItemKind.INTERVAL).symbol = trailing_zeros(rest)
        rest &= rest - 1


@kernel
def _insert_end(partition: Partition, item: Item) -> None:
    """Keep the best bound of the intervals that ended, for those that will start."""
    program = partition.program
    constraint = program.constraints[item.constraint]
    s = constraint.symbols[item.side]
    if partition.valid >> s & 1:
        given = bound_excluding(
            program.symbols[s], partition.ring(s).latest(), constraint.sides[item.side].bound
        )
        if constraint.listed != NONE:
            slot_id = partition.rings[s].tail - 1
            note_given(partition, constraint, item.side, slot_id, given)
            return
        ended = constraint.sides[1 - item.side].bound_by_ended
        partition[ended] = max(partition[ended], given)


@kernel
def _latest_with_key(partition: Partition, constraint: Constraint, item: Item) -> int:
    """The last partner with the key of an interval that starts; NONE if there is none."""
    mine = constraint.sides[item.side]
    theirs = constraint.sides[1 - item.side]
    slot = partition.ring(constraint.symbols[item.side]).latest()
    others = partition.ring(constraint.symbols[1 - item.side])
    if slot[mine.key] != 1 or not others.capacity:
        return NONE
    latest = partition.pool[bucket_of(others, mine.key, slot, theirs.bucket)] - 1
    while latest > item.last and latest >= others.head:
        latest = others.slot(latest)[theirs.chain] - 1
    key = slot[mine.key + 1]
    found, _ = next_with_key(others, theirs.key, theirs.chain, latest, others.head, key)
    return found


@kernel
def _insert_range(partition: Partition, item: Item, floor: int) -> int:
    """Insert the range of partners that ended before an interval starts.

    Gives how many partners' bounds were looked at.
    """
    constraint = partition.program.constraints[item.constraint]
    mine = constraint.sides[item.side]
    s = constraint.symbols[item.side]
    ring = partition.ring(s)
    slot = ring.latest()
    slot[mine.last_ended_before] = item.last
    if mine.latest_with_key != NONE:
        slot[mine.latest_with_key] = _latest_with_key(partition, constraint, item)
    increased = False
    if mine.bound != NONE:
        if constraint.listed != NONE:
            start = slot[partition.program.start_instant]
            bound = bound_by_ended(partition, constraint, item.side, start)
        else:
            bound = partition[mine.bound_by_ended]
        increased = bound > slot[mine.bound]
        slot[mine.bound_by_earlier] = bound
        slot[mine.bound] = max(bound, slot[mine.bound])
    if constraint.sides[1 - item.side].bound != NONE:  # those before do not know of this one
        return propagate_bound(partition, floor, s, ring.tail - 1, NONE)
    if increased:
        return propagate_bound(partition, floor, s, ring.tail - 1, item.constraint)
    return 0


@kernel
def _bind(partition: Partition, scratch: Scratch, s: int, slot_id: int) -> None:
    """Bind an interval to its symbol."""
    scratch.bound[s].slot_id = slot_id
    scratch.bound[s].place = partition.ring(s).place(slot_id)


@kernel
def _insert_interval(partition: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Insert an interval that became valid, or all of whose partners are known at its start."""
    program = partition.program
    s = item.symbol
    if item.kind == ItemKind.INTERVAL:
        partition.valid |= 1 << s
    elif not partition.valid >> s & 1:
        return NONE
    ring = partition.ring(s)
    slot = ring.latest()
    if program.symbols[s].expiry(slot) < floor:
        return NONE
    if program.n_symbols > 1:
        scratch.visits += propagate_bound(partition, floor, s, ring.tail - 1, NONE)
    if slot.match_bound < floor:
        return NONE
    _bind(partition, scratch, s, ring.tail - 1)
    return program.symbols[s].seed


@kernel
def _validate_row(partition: Partition, scratch: Scratch, s: int, slot_id: int, floor: int) -> int:
    """Let an interval that came as a row be valid; gives the seed to extend it by, or NONE."""
    slot = RowSlot(partition.ring(s).slot(slot_id))
    if partition.program.symbols[s].expiry(Slot(slot)) < floor:
        return NONE
    slot.held = Held.VALID
    scratch.visits += propagate_bound(partition, floor, s, slot_id, NONE)
    seed = partition.program.symbols[s].seed
    if seed == NONE or slot.match_bound < floor:
        return NONE
    _bind(partition, scratch, s, slot_id)
    return seed


@kernel
def _is_valid_at_arrival(symbol: Symbol, slot: RowSlot, time: int) -> bool:
    """Whether an interval that becomes known by a row is valid at once."""
    if symbol.validity == Validity.AT_START:
        return True
    if slot.end == OPEN:
        return symbol.validity == Validity.AT_LENGTH and symbol.at_least == 0
    return slot.end <= time or not symbol.at_passing


@kernel
def _insert_next(partition: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Insert intervals or pairs of an item of many until one may be extended; gives its seed.

    NONE where there are no more.
    """
    program = partition.program
    time = scratch.time
    seed = NONE
    if item.kind == ItemKind.LISTED:
        constraint = program.constraints[item.constraint]
        while seed == NONE and item.ids[0] <= item.last:
            item.ids[0] += 1
            seed = _insert_listed(partition, scratch, constraint, item.ids[0] - 1, floor)
        return seed
    s = item.symbol
    symbol = program.symbols[s]
    ring = partition.ring(s)
    if item.kind == ItemKind.ARRIVALS:
        while seed == NONE and item.ids[0] <= item.last:
            slot_id = item.ids[0]
            item.ids[0] += 1
            slot = RowSlot(ring.slot(slot_id))
            if slot.held == Held.PENDING and _is_valid_at_arrival(symbol, slot, time):
                seed = _validate_row(partition, scratch, s, slot_id, floor)
    elif item.kind == ItemKind.REACHED:
        header = partition.rows_of(s)
        while seed == NONE and header.pending < ring.tail:
            slot = RowSlot(ring.slot(header.pending))
            if slot.end == OPEN and slot.held == Held.PENDING:
                if not lasts(slot.start, time, symbol.at_least):
                    break
                seed = _validate_row(partition, scratch, s, header.pending, floor)
            header.pending += 1
    else:
        now = scratch.now
        first_start = symbol.first_start(floor)
        order = partition.order(s, BY_END)
        passed = box_in(order, now, now, least_start(program, first_start), OPEN, NO_MATCH)
        while seed == NONE and item.last != NONE:
            slot_id = passed.following(item.ids[0])[0]
            item.ids[0] = slot_id
            item.last = slot_id
            if slot_id != NONE:
                slot = RowSlot(ring.slot(slot_id))
                if slot.held == Held.PENDING and slot.start >= first_start:
                    seed = _validate_row(partition, scratch, s, slot_id, floor)
    return seed


@kernel
def _have_equal_keys(partition: Partition, constraint: Constraint, pair: Pair) -> bool:
    """Whether a pair may be in a match, as far as a join key says."""
    word = constraint.sides[0].key
    if word == NONE:
        return True
    x_slot = partition.ring(constraint.symbols[0]).slot(pair.ids[0])
    y_slot = partition.ring(constraint.symbols[1]).slot(pair.ids[1])
    return equal_keys(x_slot, word, y_slot, constraint.sides[1].key)


@kernel
def _insert_listed(
    partition: Partition, scratch: Scratch, constraint: Constraint, pair_id: int, floor: int
) -> int:
    """Insert a decided pair of a listed constraint; gives the seed to extend it by, or NONE."""
    pair = pair_at(partition, constraint, pair_id)
    for side in range(2):
        if not is_held(partition, constraint.symbols[side], pair.ids[side], floor):
            pair.ids[0] = NONE
            return NONE
    if not _have_equal_keys(partition, constraint, pair):
        pair.ids[0] = NONE
        return NONE
    if constraint.distance < constraint.distance_end:
        judged = judge_pair(partition, constraint, pair_id, scratch.time)
        if judged != Judged.CERTAIN:  # it was possible when it was found
            suspend(partition, constraint, pair_id)
            return NONE
    link(partition, constraint, pair_id, floor)
    for side in range(2):
        scratch.visits += _raise_listed(partition, constraint, pair_id, side, floor)
    lowest = INT64_MAX
    for side in range(2):
        s = constraint.symbols[side]
        if not partition.is_valid_of_any(s, pair.ids[side]):
            return NONE
        lowest = min(lowest, partition.ring(s).slot(pair.ids[side]).match_bound)
        _bind(partition, scratch, s, pair.ids[side])
    return NONE if lowest < floor else constraint.seed


@kernel
def _raise_listed(
    partition: Partition, constraint: Constraint, pair_id: int, side: int, floor: int
) -> int:
    """Raise the bound of the interval on one side of a listed pair to what its partner gives it."""
    pair = pair_at(partition, constraint, pair_id)
    s = constraint.symbols[side]
    other = constraint.symbols[1 - side]
    bound_word = constraint.sides[side].bound
    if bound_word == NONE or not partition.is_valid_of_any(other, pair.ids[1 - side]):
        return 0
    partner = partition.ring(other).slot(pair.ids[1 - side])
    slot = partition.ring(s).slot(pair.ids[side])
    given = bound_excluding(
        partition.program.symbols[other], partner, constraint.sides[1 - side].bound
    )
    bound = min(given, partition.program.symbols[s].own_bound(slot))
    if bound <= slot[bound_word]:
        return 0
    slot[bound_word] = bound
    return propagate_bound(partition, floor, s, pair.ids[side], constraint.number)


@kernel
def _slot_of(partition: Partition, item: Item, side: int) -> Slot:
    """The interval on one side of a pair."""
    s = partition.program.constraints[item.constraint].symbols[side]
    return partition.ring(s).slot(item.ids[side])


@inline_kernel
def _raise_bound(
    partition: Partition, item: Item, side: int, slot: Slot, partner: Slot, floor: int
) -> int:
    """Raise the bound of the interval on one side of a pair to what its partner gives it.

    Gives how many partners' bounds were looked at.
    """
    program = partition.program
    constraint = program.constraints[item.constraint]
    other = constraint.symbols[1 - side]
    bound_word = constraint.sides[side].bound
    if bound_word == NONE or not partition.is_valid(other, item.ids[1 - side]):
        return 0
    given = bound_excluding(program.symbols[other], partner, constraint.sides[1 - side].bound)
    s = constraint.symbols[side]
    bound = min(given, program.symbols[s].own_bound(slot))
    if bound <= slot[bound_word]:
        return 0
    slot[bound_word] = bound
    return propagate_bound(partition, floor, s, item.ids[side], item.constraint)


@kernel
def _insert_pair(partition: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Insert a decided pair."""
    program = partition.program
    constraint = program.constraints[item.constraint]
    for side in range(2):
        if item.ids[side] < partition.rings[constraint.symbols[side]].head:
            return NONE
    x_slot = _slot_of(partition, item, 0)
    y_slot = _slot_of(partition, item, 1)
    if program.symbols[constraint.symbols[0]].expiry(x_slot) < floor:
        return NONE
    if program.symbols[constraint.symbols[1]].expiry(y_slot) < floor:
        return NONE
    x_side = constraint.sides[0]
    y_side = constraint.sides[1]
    if constraint.naming:
        start = partition.program.start_instant
        if x_slot[start] < y_slot[start]:
            y_slot[y_side.predecessor] = item.ids[0]
        else:
            x_slot[x_side.predecessor] = item.ids[1]
        return NONE
    add_partner(x_slot.partners(x_side.partners), item.ids[1])
    add_partner(y_slot.partners(y_side.partners), item.ids[0])
    if x_side.key != NONE and not equal_keys(x_slot, x_side.key, y_slot, y_side.key):
        return NONE
    scratch.visits += _raise_bound(partition, item, 0, x_slot, y_slot, floor)
    scratch.visits += _raise_bound(partition, item, 1, y_slot, x_slot, floor)
    for side in range(2):
        s = constraint.symbols[side]
        if not partition.is_valid(s, item.ids[side]):
            return NONE
        _bind(partition, scratch, s, item.ids[side])
    if min(x_slot.match_bound, y_slot.match_bound) < floor:
        return NONE
    return constraint.seed


@kernel
def insert(partition: Partition, scratch: Scratch, item: Item, floor: int) -> int:
    """Insert a queued item into its index; gives the seed to extend it by, or NONE.

    The intervals that the seed starts from are bound.
    """
    if item.kind == ItemKind.PAIR:
        return _insert_pair(partition, scratch, item, floor)
    if item.kind == ItemKind.RANGE:
        scratch.visits += _insert_range(partition, item, floor)
        return NONE
    if item.kind == ItemKind.END:
        _insert_end(partition, item)
        return NONE
    if item.kind >= ItemKind.ARRIVALS:
        seed = _insert_next(partition, scratch, item, floor)
        if seed != NONE:
            scratch.item -= 1  # it is taken again, for what is left
        return seed
    return _insert_interval(partition, scratch, item, floor)


@kernel
def drain_queue(partition: Partition, scratch: Scratch, matches: Matches, floor: int) -> bool:
    """Insert the queued items one by one, and find the matches that each completes.

    False where the buffer of matches is full, or the call pauses: see `extend`.
    """
    while scratch.item < scratch.n_items:
        if scratch.depth == DONE:
            scratch.seed = insert(partition, scratch, scratch.items[scratch.item], floor)
            if scratch.seed == NONE or scratch.barred:
                scratch.item += 1
                continue
            scratch.depth = 0
        if partition.program.finds_first:
            if not extend_to_first(partition, scratch, matches, floor):
                return False
        elif not extend(partition, scratch, matches, floor):
            return False
        scratch.item += 1
    return True
