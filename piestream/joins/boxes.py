"""Range search over an order: the intervals with both endpoints in ranges, in steps linear in the result."""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.records import Carried, kernel, method
from piestream.joins.orders import Order
from piestream.joins.records import Program
from piestream.joins.state_records import NO_MATCH, Held, RowSlot, Slot

__all__ = ["FIRST_AHEAD", "Box", "ahead", "box_in", "box_of_times", "least_start"]

#: The instant of an end at time 0 that is still to come, where instants are numbers: behind all that
#: have come (`engine.instant_numbers`), and in the order of the times.
FIRST_AHEAD = 1 << 62


class _Came(IntEnum):
    """From which neighbour a walk through the tree reached a node."""

    FROM_ABOVE = 0
    FROM_LEFT = 1
    FROM_ITSELF = 2


class Box(Order):
    """The intervals of an order of which both endpoints lie in ranges, and the bound is not lower."""

    first: Carried[int]  # of the endpoint that the order is by
    last: Carried[int]
    low: Carried[int]  # of the other one
    high: Carried[int]
    floor: Carried[int]  # of the bound

    @method
    def may_hold(self, slot_id: int) -> bool:
        """Whether the summary of a subtree allows such an interval in it."""
        if slot_id == NONE:
            return False
        node = self.node(slot_id)
        return node.high >= self.low and node.low <= self.high and node.best >= self.floor

    @method
    def holds(self, slot: RowSlot) -> bool:
        """Whether an interval lies in the box."""
        if not self.first <= slot[self.at + self.by] <= self.last:
            return False
        if not self.low <= slot[self.at + 1 - self.by] <= self.high:
            return False
        if self.floor == NO_MATCH:
            return True
        bound = min(self.symbol.own_bound(Slot(slot)), slot.match_bound)
        return slot.held == Held.VALID and bound >= self.floor

    @method
    def following(self, slot_id: int) -> tuple[int, int]:
        """The one after an interval of the order, the first after NONE; NONE after the last.

        And how many nodes it took to find it.
        """
        at = slot_id
        came = _Came.FROM_ITSELF
        looked = 0
        if at == NONE:
            at = self.root
            came = _Came.FROM_ABOVE
            if not self.may_hold(at):
                return NONE, 1
        while True:
            looked += 1
            slot = self.slot(at)
            node = slot.orders[self.by]
            first = slot[self.at + self.by]
            if came == _Came.FROM_ABOVE:
                if first >= self.first and self.may_hold(node.left):
                    at = node.left
                    continue
                came = _Came.FROM_LEFT
            if first > self.last:
                return NONE, looked
            if came == _Came.FROM_LEFT and self.holds(slot):
                return at, looked
            if self.may_hold(node.right):
                at = node.right
                came = _Came.FROM_ABOVE
                continue
            while True:  # up, to the first that comes after
                below = at
                at = self.node(below).parent
                if at == NONE:
                    return NONE, looked
                if self.node(at).left == below:
                    break
                looked += 1
            came = _Came.FROM_LEFT


@kernel
def box_in(order: Order, first: int, last: int, low: int, high: int, floor: int) -> Box:
    """The intervals of an order with the endpoint that it is by from ``first`` to ``last``.

    The other endpoint is from ``low`` to ``high``; the bound is not lower than ``floor``, unless this
    is NO_MATCH.
    """
    return Box(
        order, order.ring, order.by, order.at, order.keeps_best, order.symbol, first, last, low, high,
        floor,
    )  # fmt: skip


@kernel
def least_start(program: Program, first_start: int) -> int:
    """The first instant that may be a start, if starts have this time or a later one.

    Where instants are numbers, the start of each interval is to be looked at besides.
    """
    return INT64_MIN if program.is_sequenced else first_start


@kernel
def ahead(time: int) -> int:
    """The instant of an end that is still to come, where instants are numbers."""
    return FIRST_AHEAD + time


@kernel
def box_of_times(order: Order, first: int, last: int) -> Box:
    """The intervals of an order of which the endpoint that it is by has a time in a range.

    Instants are in order of time, so that they are a part of the order.
    """
    return Box(
        order, order.ring, order.by, 0, order.keeps_best, order.symbol, first, last, INT64_MIN,
        INT64_MAX, NO_MATCH,
    )  # fmt: skip
