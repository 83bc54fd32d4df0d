"""Whether the intervals in a stored state that came as rows are sound.

Each order must be a search tree of exactly those that say that they are in it, and each pair must be
in one list of either interval that may still be in a match, and in its bucket.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE, OPEN
from piestream.compiled.primitives import keep_alive, pointer
from piestream.compiled.records import Words, kernel
from piestream.joins.listed import ListKind, bucket_of, is_held, lists_of
from piestream.joins.orders import BY_END, BY_START, Order
from piestream.joins.partition import Partition
from piestream.joins.records import Constraint
from piestream.joins.rings import Ring
from piestream.joins.state_records import Held, Pair, PairLists, RowSlot

_N_LISTS = len(ListKind)


@kernel
def _is_child(order: Order, child: int, parent: int) -> bool:
    """Whether a child, if there is one, is an interval of the order and knows its parent."""
    if child == NONE:
        return True
    if not order.ring.head <= child < order.ring.tail:
        return False
    node = order.node(child)
    return node.parent == parent and node.count > 0


@kernel
def _is_tree(order: Order) -> bool:
    """Whether an order is a search tree with the right summaries, of all that are in it."""
    in_order = 0
    for slot_id in range(order.ring.head, order.ring.tail):
        if order.node(slot_id).count:
            in_order += 1
    if order.root == NONE:
        return in_order == 0
    if not _is_child(order, order.root, NONE):
        return False
    at = order.root
    before = NONE
    visited = 0
    descends = True
    while at != NONE:
        node = order.node(at)
        if descends:
            visited += 1
            if not _is_child(order, node.left, at) or not _is_child(order, node.right, at):
                return False
            if visited > in_order or (node.left == node.right and node.left != NONE):
                return False
            if node.left != NONE:
                at = node.left
                continue
        # all to its left have been seen
        if before != NONE and not order.precedes(order.slot(before), order.slot(at)):
            return False
        before = at
        if node.right != NONE:
            at = node.right
            descends = True
            continue
        while at != NONE:  # up, to the first of which this is not the right child
            if order.summarize(at):
                return False
            below = at
            at = order.node(below).parent
            if at != NONE and order.node(at).left == below:
                break
        descends = False
    return visited == in_order


@kernel
def row_is_sound(partition: Partition, s: int, slot: RowSlot, lowest_time: int) -> bool:
    """Whether an interval that came as a row is one that can be there, in the orders it belongs to."""
    if not Held.PENDING <= slot.held <= Held.FORGOTTEN or not 0 <= slot.announced <= 1:
        return False
    in_start = slot.orders[0].count > 0
    in_end = slot.orders[1].count > 0
    if slot.held == Held.FORGOTTEN:
        return not in_start and not in_end
    now = partition.last_time
    if not in_start or not lowest_time <= slot.start <= now or slot.end < slot.start:
        return False
    program = partition.program
    if slot[program.end_instant] <= slot[program.start_instant]:
        return False
    if slot.end > now and slot.end != OPEN and not slot.announced:
        return False
    if slot.held == Held.RETIRED:
        return slot.end <= now or not in_end
    if slot[partition.program.symbols[s].kept_from] < partition.rows_of(s).floor:
        return False
    if slot.held == Held.REFUSED:
        return not in_end
    return in_end == (slot.end != OPEN)


@kernel
def orders_are_sound(partition: Partition, s: int) -> bool:
    """Whether the orders of a symbol agree with its ring."""
    header = partition.rows_of(s)
    if not 0 <= header.pending <= partition.rings[s].tail:
        return False
    return _is_tree(partition.order(s, BY_START)) and _is_tree(partition.order(s, BY_END))


@kernel
def _list_is_sound(
    ring: Ring, lists: PairLists, which: int, side: int, owner: int, met: Words
) -> bool:
    """Whether a list holds pairs of its interval, none of which was met before; notes them."""
    first = lists[which]
    is_pending = which == ListKind.PENDING
    before = NONE
    at = first
    while at != NONE:
        if not ring.head <= at < ring.tail:
            return False
        pair = Pair(ring.slot(at))
        place = 2 * (at - ring.head) + side
        if pair.ids[0] == NONE or pair.ids[side] != owner or met[place]:
            return False
        if (pair.chained == NONE) != is_pending:
            return False
        if pair.previous[side] != before:
            return False
        met[place] = 1
        before = at
        at = pair.next[side]
    return True


@kernel
def _buckets_are_sound(ring: Ring) -> bool:
    """Whether each pair is in its bucket, once."""
    pairs = 0
    for pair_id in range(ring.head, ring.tail):
        pair = Pair(ring.slot(pair_id))
        if pair.ids[0] != NONE and pair.chained != NONE:
            pairs += 1
    chained = 0
    for place in range(ring.capacity):
        at = Pair(ring.slot(place)).bucket
        while at:
            if not ring.head < at <= ring.tail or chained == pairs:
                return False
            pair = Pair(ring.slot(at - 1))
            if pair.ids[0] == NONE or pair.chained == NONE:
                return False
            if bucket_of(ring, pair.ids[0], pair.ids[1]) != place:
                return False
            chained += 1
            at = pair.chained
    return chained == pairs


@kernel
def pairs_are_sound(partition: Partition, constraint: Constraint) -> bool:
    """Whether the pairs of a listed constraint are in the lists and buckets that they belong to."""
    ring = partition.pairs(constraint)
    floor = partition.floor_at(partition.last_time)
    met_array = np.zeros(2 * (ring.tail - ring.head) + 1, np.int64)
    met = pointer(met_array)
    sound = True
    for side in range(2):
        s = constraint.symbols[side]
        header = partition.rings[s]
        for slot_id in range(header.head, header.tail):
            if sound and is_held(partition, s, slot_id, floor):
                lists = lists_of(partition, constraint, side, slot_id)
                for which in range(_N_LISTS):
                    sound = sound and _list_is_sound(ring, lists, which, side, slot_id, met)
    for pair_id in range(ring.head, ring.tail):
        pair = Pair(ring.slot(pair_id))
        for side in range(2):
            if pair.ids[0] != NONE and is_held(
                partition, constraint.symbols[side], pair.ids[side], floor
            ):
                sound = sound and met[2 * (pair_id - ring.head) + side] == 1
    keep_alive(met_array)
    if sound and constraint.checked and ring.capacity:
        sound = _buckets_are_sound(ring)
    return sound
