"""The pair index of listed constraints: those of a symbol whose intervals come as rows.

Intervals that come as rows may overlap, so an interval's partners are any of the other symbol: each
decided pair is a record, in the order of decision in a ring, and in a list of either interval. An
interval has two lists, so that whoever cannot complete a match is passed over: a pair moves to the
other list when a scan finds its partner to be such, and back when the partner's bound increases.
Pairs of which a distance is not certain yet are in a third list (distances.py).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.primitives import signed
from piestream.compiled.records import kernel
from piestream.joins.orders import BY_END, BY_START, scattered
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint
from piestream.joins.rings import Ring
from piestream.joins.state_records import Held, Pair, PairLists, RowSlot


class ListKind(IntEnum):
    """The lists of an interval, as `PairLists` has them."""

    COMPLETING = 0
    OTHERS = 1
    PENDING = 2


_N_LISTS = len(ListKind)


@kernel
def is_held(partition: Partition, s: int, slot_id: int, floor: int) -> bool:
    """Whether an interval is there, and can be in a match as far as the window goes."""
    header = partition.rings[s]
    if not header.head <= slot_id < header.tail:
        return False
    slot = partition.ring(s).slot(slot_id)
    if partition.program.symbols[s].expiry(slot) < floor:
        return False
    return not partition.program.rows >> s & 1 or RowSlot(slot).held <= Held.VALID


@kernel
def can_complete(partition: Partition, s: int, slot_id: int, floor: int) -> bool:
    """Whether an interval that is held may be taken into a match."""
    if not partition.is_valid_of_any(s, slot_id):
        return False
    slot = partition.ring(s).slot(slot_id)
    symbol = partition.program.symbols[s]
    bound = min(slot.match_bound, symbol.own_bound(slot))
    return min(bound, symbol.expiry(slot)) >= floor  # else its lists are no longer kept


# -- the pairs of a constraint ---------------------------------------------------------------------
@kernel
def pair_at(partition: Partition, constraint: Constraint, pair_id: int) -> Pair:
    """A pair of a listed constraint."""
    return Pair(partition.pairs(constraint).slot(pair_id))


@kernel
def bucket_of(ring: Ring, x_id: int, y_id: int) -> int:
    """The number of the bucket of two ids."""
    return signed((scattered(x_id) ^ scattered(~y_id)) >> np.uint64(1)) & (ring.capacity - 1)


@kernel
def _bucket(ring: Ring, x_id: int, y_id: int) -> Pair:
    """The place that heads the pairs in the bucket of two ids."""
    return Pair(ring.slot(bucket_of(ring, x_id, y_id)))


@kernel
def _chain(ring: Ring, pair_id: int) -> None:
    """Put a pair into its bucket."""
    pair = Pair(ring.slot(pair_id))
    head = _bucket(ring, pair.ids[0], pair.ids[1])
    pair.chained = head.bucket
    head.bucket = pair_id + 1


@kernel
def _unchain(ring: Ring, pair_id: int) -> None:
    """Take a pair out of its bucket."""
    pair = Pair(ring.slot(pair_id))
    at = _bucket(ring, pair.ids[0], pair.ids[1])
    if at.bucket == pair_id + 1:
        at.bucket = pair.chained
        return
    at = Pair(ring.slot(at.bucket - 1))
    while at.chained != pair_id + 1:
        at = Pair(ring.slot(at.chained - 1))
    at.chained = pair.chained


@kernel
def chain_again(partition: Partition, constraint: Constraint, end: int) -> None:
    """Put all pairs before ``end`` into their buckets, as their ring has another capacity.

    Those behind it are to be inserted.
    """
    ring = partition.pairs(constraint)
    for place in range(ring.capacity):
        Pair(ring.slot(place)).bucket = 0
    for pair_id in range(ring.head, end):
        pair = Pair(ring.slot(pair_id))
        if pair.ids[0] != NONE and pair.chained != NONE:
            _chain(ring, pair_id)


@kernel
def is_listed(partition: Partition, constraint: Constraint, x_id: int, y_id: int) -> bool:
    """Whether two intervals are a pair that has been inserted."""
    ring = partition.pairs(constraint)
    if not ring.capacity:
        return False
    at = _bucket(ring, x_id, y_id).bucket
    while at:
        pair = Pair(ring.slot(at - 1))
        if pair.ids[0] == x_id and pair.ids[1] == y_id:
            return True
        at = pair.chained
    return False


# -- the lists of an interval ----------------------------------------------------------------------
@kernel
def lists_of(partition: Partition, constraint: Constraint, side: int, slot_id: int) -> PairLists:
    """The lists of an interval on one side."""
    slot = partition.ring(constraint.symbols[side]).slot(slot_id)
    return PairLists(slot.partners(constraint.sides[side].partners))


@kernel
def _push(partition: Partition, constraint: Constraint, side: int, pair_id: int, to: int) -> None:
    """Put a pair into one of the lists (`ListKind`) of its interval on one side."""
    ring = partition.pairs(constraint)
    pair = Pair(ring.slot(pair_id))
    lists = lists_of(partition, constraint, side, pair.ids[side])
    first = lists[to]
    pair.next[side] = first
    pair.previous[side] = NONE
    if first != NONE:
        Pair(ring.slot(first)).previous[side] = pair_id
    lists[to] = pair_id


@kernel
def _pull(partition: Partition, constraint: Constraint, side: int, pair_id: int) -> None:
    """Take a pair out of the list of its interval on one side."""
    ring = partition.pairs(constraint)
    pair = Pair(ring.slot(pair_id))
    following = pair.next[side]
    previous = pair.previous[side]
    if following != NONE:
        Pair(ring.slot(following)).previous[side] = previous
    if previous != NONE:
        Pair(ring.slot(previous)).next[side] = following
        return
    lists = lists_of(partition, constraint, side, pair.ids[side])
    for which in range(_N_LISTS):
        if lists[which] == pair_id:
            lists[which] = following


@kernel
def set_aside(partition: Partition, constraint: Constraint, side: int, pair_id: int) -> None:
    """Note that the partner of the interval on one side cannot complete a match as things are."""
    _pull(partition, constraint, side, pair_id)
    _push(partition, constraint, side, pair_id, ListKind.OTHERS)
    partner = pair_at(partition, constraint, pair_id).ids[1 - side]
    partition.ring(constraint.symbols[1 - side]).clear_candidate(partner)


@kernel
def note_bound(partition: Partition, s: int, slot_id: int, floor: int) -> int:
    """Propagate the bound of an interval with listed constraints to orders and partners.

    Gives how many partners there were to tell; NONE if it is not valid, so that nobody is told.
    """
    if not partition.is_valid_of_any(s, slot_id):
        return NONE
    visits = 0
    ring = partition.ring(s)
    if ring.slot(slot_id).match_bound >= floor and not ring.is_candidate(slot_id):
        visits = offer(partition, s, slot_id, floor)
    if partition.program.rows & partition.program.in_ranges & 1 << s:
        partition.order(s, BY_START).changed(slot_id)
        partition.order(s, BY_END).changed(slot_id)
    return visits


@kernel
def offer(partition: Partition, s: int, slot_id: int, floor: int) -> int:
    """Mark an interval as a candidate in the lists of all its partners; returns their number."""
    program = partition.program
    symbol = program.symbols[s]
    visits = 0
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        constraint = program.constraints[incident.constraint]
        if constraint.listed == NONE:
            continue
        ring = partition.pairs(constraint)
        mine = incident.side
        lists = lists_of(partition, constraint, mine, slot_id)
        for which in range(2):
            at = lists.completing if which == 0 else lists.others
            while at != NONE:
                visits += 1
                pair = Pair(ring.slot(at))
                if is_held(partition, constraint.symbols[1 - mine], pair.ids[1 - mine], floor):
                    _pull(partition, constraint, 1 - mine, at)
                    _push(partition, constraint, 1 - mine, at, ListKind.COMPLETING)
                at = pair.next[mine]
    return visits


@kernel
def link(partition: Partition, constraint: Constraint, pair_id: int, floor: int) -> None:
    """Insert a pair, whose intervals are both held."""
    pair = pair_at(partition, constraint, pair_id)
    for side in range(2):
        partner = pair.ids[1 - side]
        s_partner = constraint.symbols[1 - side]
        to = ListKind.COMPLETING
        if not can_complete(partition, s_partner, partner, floor):
            partition.ring(s_partner).clear_candidate(partner)
            to = ListKind.OTHERS
        _push(partition, constraint, side, pair_id, to)
    if constraint.checked:
        _chain(partition.pairs(constraint), pair_id)


@kernel
def suspend(partition: Partition, constraint: Constraint, pair_id: int) -> None:
    """Put a pair into the pending lists of its intervals: one of its distances is not certain yet."""
    pair = pair_at(partition, constraint, pair_id)
    pair.chained = NONE
    for side in range(2):
        _push(partition, constraint, side, pair_id, ListKind.PENDING)


@kernel
def _take_back(partition: Partition, constraint: Constraint, pair_id: int) -> None:
    """Delete a pair that is in no list: it leaves its bucket."""
    pair = pair_at(partition, constraint, pair_id)
    if constraint.checked and pair.chained != NONE:
        _unchain(partition.pairs(constraint), pair_id)
    pair.ids[0] = NONE


@kernel
def discard(partition: Partition, constraint: Constraint, pair_id: int, floor: int) -> None:
    """Delete an inserted pair: it leaves the lists of those of its intervals that are held."""
    pair = pair_at(partition, constraint, pair_id)
    for side in range(2):
        if is_held(partition, constraint.symbols[side], pair.ids[side], floor):
            _pull(partition, constraint, side, pair_id)
    _take_back(partition, constraint, pair_id)


@kernel
def drop_pairs(partition: Partition, s: int, slot_id: int, floor: int) -> None:
    """Delete all pairs of an interval that turned out to be invalid."""
    program = partition.program
    symbol = program.symbols[s]
    for number in range(symbol.incident, symbol.incident_end):
        incident = program.incidents[number]
        constraint = program.constraints[incident.constraint]
        if constraint.listed == NONE:
            continue
        lists = lists_of(partition, constraint, incident.side, slot_id)
        for which in range(_N_LISTS):
            while lists[which] != NONE:
                at = lists[which]
                _pull(partition, constraint, incident.side, at)
                pair = pair_at(partition, constraint, at)
                other = 1 - incident.side
                if is_held(partition, constraint.symbols[other], pair.ids[other], floor):
                    _pull(partition, constraint, other, at)
                _take_back(partition, constraint, at)


@kernel
def expire_pairs(partition: Partition, constraint: Constraint, end: int, floor: int) -> int:
    """Forget the oldest pairs, as far as no match may hold them any more; gives how many are left.

    Those from ``end`` on are to be inserted: they are in no list and no bucket yet.
    """
    ring = partition.pairs(constraint)
    head = ring.head
    while head < end:
        pair = Pair(ring.slot(head))
        if pair.ids[0] != NONE:
            x_held = is_held(partition, constraint.symbols[0], pair.ids[0], floor)
            if x_held and is_held(partition, constraint.symbols[1], pair.ids[1], floor):
                break
            discard(partition, constraint, head, floor)
        head += 1
    ring.head = head
    return ring.tail - head


@kernel
def add_pair(
    partition: Partition, constraint: Constraint, side: int, mine: int, other: int
) -> None:
    """Note that two intervals are a decided pair, to be inserted; there must be room for it."""
    ring = partition.pairs(constraint)
    pair = Pair(ring.slot(ring.tail))
    pair.ids[side] = mine
    pair.ids[1 - side] = other
    for mine_or_other in range(2):
        pair.next[mine_or_other] = NONE
        pair.previous[mine_or_other] = NONE
    pair.chained = 0
    ring.tail += 1
