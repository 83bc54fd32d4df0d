"""An item that became known is inserted into its index, which also raises the bounds of intervals.

What it gives is the seed to extend a match by, if the item can be the last of one.
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, NONE, OPEN
from piestream.compiled.records import inline_kernel, kernel, separate_kernel
from piestream.intervals.ticks import lasts
from piestream.joins.boxes import box_in, least_start
from piestream.joins.distances import Judged, judge_pair
from piestream.joins.keys import bucket_of, equal_keys, next_with_key
from piestream.joins.listed import is_held, link, pair_at, suspend
from piestream.joins.orders import BY_END
from piestream.joins.pairs import add_partner
from piestream.joins.partition import Partition
from piestream.joins.range_bounds import bound_by_ended, note_given
from piestream.joins.records import Constraint, Symbol, Validity
from piestream.joins.scratch import Item, ItemKind, Scratch
from piestream.joins.semijoin import bound_excluding, propagate_bound
from piestream.joins.state_records import NO_MATCH, Held, Pair, RowSlot, Slot


@kernel
def _insert_end(partition: Partition, item: Item) -> None:
    """Raise the best bound of all ended intervals, which intervals that start later will take."""
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
    """Make an interval that came as a row valid; returns the seed to extend it by, or NONE."""
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


@separate_kernel
def insert_next(partition: Partition, scratch: Scratch, item: Item, floor: int) -> int:
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


@inline_kernel
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


@inline_kernel
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
        seed = insert_next(scratch.insert_next_at, partition, scratch, item, floor)
        if seed != NONE:
            scratch.item -= 1  # it is taken again, for what is left
        return seed
    return _insert_interval(partition, scratch, item, floor)
