"""The intervals of a symbol that came as rows, ordered by start or by end: a search tree.

Such intervals may overlap, start and end together, and come in any order of their starts. So each is
in two treaps, whose nodes lie in its slot: by start, then end, then the number of its row, and by
end, then start, then number. A subtree knows the range of its intervals' other endpoints, and the
best bound: those in a range of one endpoint whose other endpoint lies beyond a limit are found in
as many steps as there are of them, and a logarithm.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import NONE
from piestream.compiled.records import Carried, Record, kernel, method
from piestream.joins.records import Symbol
from piestream.joins.rings import Ring
from piestream.joins.state_records import NO_MATCH, UNBOUNDED, Held, OrderNode, RowSlot, Slot

#: The orders, by the word of the slot that comes first in their keys.
BY_START, BY_END = 0, 1

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX_AGAIN = np.uint64(0xBF58476D1CE4E5B9)


@kernel
def scattered(number: int) -> np.uint64:
    """The bits of a number, mixed."""
    bits = np.uint64(number) * _MIX
    bits = (bits ^ (bits >> np.uint64(29))) * _MIX_AGAIN
    return bits ^ (bits >> np.uint64(32))


class Order(Record):
    """The intervals of one symbol of a partition in one of their orders."""

    root: int

    ring: Carried[Ring]
    by: Carried[int]  # BY_START or BY_END
    at: Carried[
        int
    ]  # where slots have their starts as they are compared, and next to them the ends
    keeps_best: Carried[bool]  # whether somebody asks for the best bounds
    symbol: Carried[Symbol]

    @method
    def slot(self, slot_id: int) -> RowSlot:
        """An interval."""
        return RowSlot(self.ring.slot(slot_id))

    @method
    def node(self, slot_id: int) -> OrderNode:
        """Its place in the order."""
        return RowSlot(self.ring.slot(slot_id)).orders[self.by]

    @method
    def precedes(self, one: RowSlot, other: RowSlot) -> bool:
        """Whether one interval comes before another one."""
        if one[self.at + self.by] != other[self.at + self.by]:
            return one[self.at + self.by] < other[self.at + self.by]
        if one[self.at + 1 - self.by] != other[self.at + 1 - self.by]:
            return one[self.at + 1 - self.by] < other[self.at + 1 - self.by]
        return one.number < other.number

    @method
    def summarize(self, slot_id: int) -> bool:
        """Recompute a node's summary from its subtrees; False if it did not change."""
        slot = RowSlot(self.ring.slot(slot_id))
        node = slot.orders[self.by]
        count = 1
        low = slot[self.at + 1 - self.by]
        high = low
        best = NO_MATCH
        if self.keeps_best and slot.held == Held.VALID:
            best = min(self.symbol.own_bound(Slot(slot)), slot.match_bound)
        for side in range(2):
            child_id = node.left if side == 0 else node.right
            if child_id != NONE:
                child = self.node(child_id)
                count += child.count
                low = min(low, child.low)
                high = max(high, child.high)
                best = max(best, child.best)
        changed = False
        if self.by == BY_END and self.symbol.given != self.symbol.lowest_end:
            changed = self.summarize_bounds(slot)
        if node.count == count and node.low == low and node.high == high and node.best == best:
            return changed
        node.count = count
        node.low = low
        node.high = high
        node.best = best
        return True

    @method
    def given_by(self, slot: RowSlot, word: int) -> int:
        """The bound that an interval gives to partners: see `Symbol.given`; NONE: without exception."""
        if slot.held != Held.VALID:
            return NO_MATCH
        symbol = self.symbol
        if word == NONE:
            return min(symbol.own_bound(Slot(slot)), slot.match_bound)
        excluded = symbol.bound + word - symbol.given
        best = symbol.own_bound(Slot(slot))
        for other in range(symbol.bound, symbol.bound_end):
            if other != excluded:
                best = min(best, slot[other])
        return best

    @method
    def raisable(self, slot: RowSlot, word: int) -> int:
        """The bound that later partners may still raise: see `Symbol.lowest`."""
        symbol = self.symbol
        bound = slot[symbol.by_later + word - symbol.lowest]
        return bound if bound < symbol.own_bound(Slot(slot)) else UNBOUNDED

    @method
    def summarize_bounds(self, slot: RowSlot) -> bool:
        """Recompute the bounds in the summary of a node of the order by end; False if they did not change."""
        symbol = self.symbol
        node = slot.orders[BY_END]
        changed = False
        for word in range(symbol.given, symbol.lowest_end):
            gives = word < symbol.given_end
            bound = self.given_by(slot, word) if gives else self.raisable(slot, word)
            for side in range(2):
                child_id = node.left if side == 0 else node.right
                if child_id != NONE:
                    theirs = self.slot(child_id)[word]
                    bound = max(bound, theirs) if gives else min(bound, theirs)
            if slot[word] != bound:
                slot[word] = bound
                changed = True
        return changed

    @method
    def best_given_before(self, limit: int, word: int) -> int:
        """The best bound that those give whose first endpoint is less than a limit.

        ``word`` is one of `Symbol.given`, or NONE.
        """
        best = NO_MATCH
        at = self.root
        while at != NONE:
            slot = self.slot(at)
            node = slot.orders[self.by]
            if slot[self.at + self.by] >= limit:
                at = node.left
                continue
            best = max(best, self.given_by(slot, word))
            if node.left != NONE:
                left = self.slot(node.left)
                best = max(best, left[word] if word != NONE else left.orders[self.by].best)
            at = node.right
        return best

    @method
    def first_raisable(self, limit: int, word: int, bound: int) -> int:
        """One whose first endpoint is less than a limit and whose bound is lower; NONE if none is.

        ``word`` is one of `Symbol.lowest`.
        """
        at = self.root
        while at != NONE:
            slot = self.slot(at)
            node = slot.orders[self.by]
            if slot[word] >= bound:
                return NONE
            if slot[self.at + self.by] >= limit:
                at = node.left
                continue
            if node.left != NONE and self.slot(node.left)[word] < bound:
                at = node.left
            elif self.raisable(slot, word) < bound:
                return at
            else:
                at = node.right
        return NONE

    @method
    def refresh(self, slot_id: int) -> None:
        """Update all summaries above an interval that has changed."""
        while slot_id != NONE and self.summarize(slot_id):
            slot_id = self.node(slot_id).parent

    @method
    def changed(self, slot_id: int) -> None:
        """Update the summaries after a change of an interval, if it is in the order."""
        if self.node(slot_id).count:
            self.refresh(slot_id)

    @method
    def replace_child(self, parent: int, old: int, new: int) -> None:
        """Replace a child of a node, or the root."""
        if parent == NONE:
            self.root = new
        else:
            node = self.node(parent)
            if node.left == old:
                node.left = new
            else:
                node.right = new
        if new != NONE:
            self.node(new).parent = parent

    @method
    def rotate_up(self, slot_id: int) -> None:
        """Rotate a node above its parent."""
        node = self.node(slot_id)
        parent_id = node.parent
        parent = self.node(parent_id)
        self.replace_child(parent.parent, parent_id, slot_id)
        if parent.left == slot_id:
            moved = node.right
            node.right = parent_id
            parent.left = moved
        else:
            moved = node.left
            node.left = parent_id
            parent.right = moved
        if moved != NONE:
            self.node(moved).parent = parent_id
        parent.parent = slot_id
        self.summarize(parent_id)
        self.summarize(slot_id)

    @method
    def ranks_above(self, one: int, other: int) -> bool:
        """Whether a node has the higher random priority, and so belongs above another one."""
        return bool(scattered(self.slot(one).number) > scattered(self.slot(other).number))

    @method
    def insert(self, slot_id: int) -> None:
        """Insert an interval."""
        slot = self.slot(slot_id)
        node = slot.orders[self.by]
        node.left = NONE
        node.right = NONE
        node.parent = NONE
        node.count = 0
        self.summarize(slot_id)
        at = self.root
        if at == NONE:
            self.root = slot_id
            return
        while True:
            there = self.node(at)
            before = self.precedes(slot, self.slot(at))
            following = there.left if before else there.right
            if following == NONE:
                break
            at = following
        if before:
            there.left = slot_id
        else:
            there.right = slot_id
        node.parent = at
        self.refresh(at)
        while node.parent != NONE and self.ranks_above(slot_id, node.parent):
            self.rotate_up(slot_id)

    @method
    def remove(self, slot_id: int) -> None:
        """Remove an interval if the order contains it."""
        node = self.node(slot_id)
        if not node.count:
            return
        while node.left != NONE or node.right != NONE:
            if node.right == NONE or (
                node.left != NONE and self.ranks_above(node.left, node.right)
            ):
                self.rotate_up(node.left)
            else:
                self.rotate_up(node.right)
        parent = node.parent
        self.replace_child(parent, slot_id, NONE)
        node.count = 0
        self.refresh(parent)

    @method
    def rename(self, slot_id: int, new: int) -> None:
        """Give an interval another id; its slot stays where it is."""
        node = self.node(slot_id)
        if not node.count:
            return
        parent = node.parent
        self.replace_child(parent, slot_id, new)
        if node.left != NONE:
            self.node(node.left).parent = new
        if node.right != NONE:
            self.node(node.right).parent = new

    @method
    def find(self, first: int, second: int, number: int) -> int:
        """The interval with this key, or NONE."""
        at = self.root
        while at != NONE:
            slot = self.slot(at)
            if (
                slot[self.at + self.by] == first
                and slot[self.at + 1 - self.by] == second
                and slot.number == number
            ):
                return at
            node = slot.orders[self.by]
            before = first < slot[self.at + self.by]
            if first == slot[self.at + self.by]:
                before = second < slot[self.at + 1 - self.by]
                if second == slot[self.at + 1 - self.by]:
                    before = number < slot.number
            at = node.left if before else node.right
        return NONE

    @method
    def highest_before(self, limit: int) -> int:
        """The greatest other endpoint of those whose first one is less than a limit, else NO_MATCH."""
        highest = NO_MATCH
        at = self.root
        while at != NONE:
            slot = self.slot(at)
            node = slot.orders[self.by]
            if slot[self.at + self.by] < limit:
                highest = max(highest, slot[self.at + 1 - self.by])
                if node.left != NONE:
                    highest = max(highest, self.node(node.left).high)
                at = node.right
            else:
                at = node.left
        return highest
