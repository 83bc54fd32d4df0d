"""What relations and bounds on differences of endpoints imply together, and whether they can hold.

Each part of a query that speaks of endpoints becomes bounds on differences: a distance, how long an
interval lasts, the window, and the hull of what the relations of a pair allow. Shortest paths close
them; a relation that they exclude is taken off its pair; path consistency narrows the relations of
other pairs; until nothing changes. An interval that would end before it starts, or a pair without a
relation, proves that the parts clash. The converse holds for two symbols, and where every pair has
one relation; not always beyond: then a clash may go unseen, but none is ever reported that is not
there. Time is dense here, so what only whole numbers exclude is not seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piestream.automata.allen import allen_of
from piestream.automata.consistency import closure
from piestream.relations import ENDPOINT_ORDER, Relation

__all__ = ["Bound", "Differences", "clashing_parts", "close"]

Pair = tuple[str, str]
#: ("a", "te")
End = tuple[str, str]

# A bound is one number: twice the amount, less one if it may not be reached. No bound is _NONE.
_Bounds = NDArray[np.int64]
_NONE = (1 << 62) - 2
#: Bounds beyond are taken for none, and those below its negative for that: neither makes one tighter.
#: (None less this is more than this, and the sum of two is a number of 64 bits.)
_MOST = (1 << 61) - 2
#: A length from which on it bounds nothing.
MOST_LENGTH = _MOST >> 1


@dataclass(frozen=True, slots=True)
class Bound:
    """``end - since <= most``, or ``<``, as some part of a query says.

    >>> Bound(("d", "ts"), ("a", "te"), 10, part="d.ts - a.te <= 10").most
    10
    """

    end: End
    since: End
    most: int
    is_strict: bool = False
    part: Hashable = None


@dataclass(frozen=True)
class Differences:
    """What is left possible: relations of all pairs, and bounds of all differences."""

    symbols: tuple[str, ...]
    relations: Mapping[Pair, Relation]
    bounds: _Bounds

    def most(self, end: End, since: End) -> tuple[int, bool] | None:
        """The greatest that ``end - since`` can be, and whether it stays below; None: unbounded."""
        bound = int(self.bounds[_node(self.symbols, end), _node(self.symbols, since)])
        return None if bound >= _MOST else ((bound + 1) // 2, bool(bound & 1))


def _node(symbols: Sequence[str], end: End) -> int:
    return 2 * symbols.index(end[0]) + (end[1] == "te")


def _sum(left: _Bounds, right: _Bounds) -> _Bounds:
    """The bounds of sums: they are not reached if one of the parts is not."""
    total = left + right + (left & right & 1)
    return np.where(total > _MOST, _NONE, np.maximum(total, -_MOST))


def _closed(bounds: _Bounds) -> _Bounds | None:
    """The least bounds that follow (Floyd and Warshall); None if they contradict each other."""
    for k in range(len(bounds)):
        through = _sum(np.broadcast_to(bounds[:, k, None], bounds.shape), bounds[None, k, :])
        bounds = np.minimum(bounds, through)
    return None if (np.diagonal(bounds) < 0).any() else bounds


#: The four comparisons of a relation, as nodes of x and of y.
_COMPARED = (("ts_ts", 0, 0), ("ts_te", 0, 1), ("te_ts", 1, 0), ("te_te", 1, 1))


def _bounded_by(relations: Relation, bounds: _Bounds, x: int, y: int, strictly: bool) -> None:
    """Add the hull of what relations allow to the bounds; x and y are the nodes of their starts.

    What comes before something else is less, ``strictly`` or not.
    """
    orders = [order for relation, order in ENDPOINT_ORDER.items() if relation & relations]
    for field, of_x, of_y in _COMPARED:
        signs = {getattr(order, field) for order in orders}
        for sign, end, since in ((1, x + of_x, y + of_y), (-1, y + of_y, x + of_x)):
            if sign not in signs:
                least = -int(strictly and 0 not in signs)
                bounds[end, since] = min(bounds[end, since], least)


def _possible(relations: Relation, bounds: _Bounds, x: int, y: int, strictly: bool) -> Relation:
    """The relations that closed bounds leave of a pair."""
    nodes = [x, x + 1, y, y + 1]
    within = bounds[np.ix_(nodes, nodes)]
    left = Relation(0)
    for relation in ENDPOINT_ORDER:
        if relation & relations:
            narrowed = within.copy()
            _bounded_by(relation, narrowed, 0, 2, strictly)
            if _closed(narrowed) is not None:
                left |= relation
    return left


def close(
    symbols: Sequence[str],
    relations: Mapping[Pair, Relation],
    bounds: Sequence[Bound],
    has_equal_times: bool = False,
) -> Differences | None:
    """What relations and bounds leave possible together, or None if they clash.

    Where an order of instants ``has_equal_times``, one that comes before another may have its time:
    relations compare instants, and bounds are on differences of times.

    >>> found = close("ab", {("a", "b"): Relation.BEFORE | Relation.OVERLAPS},
    ...               [Bound(("a", "te"), ("b", "ts"), -5)])
    >>> found.relations["a", "b"], found.most(("a", "ts"), ("b", "ts"))
    (<Relation.BEFORE: 1>, (-5, True))
    """
    symbols, strictly = tuple(symbols), not has_equal_times
    size = 2 * len(symbols)
    matrix = np.full((size, size), _NONE, np.int64)
    np.fill_diagonal(matrix, 0)
    for number in range(0, size, 2):
        matrix[number, number + 1] = -int(strictly)  # an interval starts before it ends
    for bound in bounds:
        at = _node(symbols, bound.end), _node(symbols, bound.since)
        amount = _NONE
        if bound.most < MOST_LENGTH:
            amount = max(2 * bound.most - bound.is_strict, -_MOST)
        matrix[at] = min(int(matrix[at]), amount)
    left = {pair: allen_of(allowed) for pair, allowed in relations.items()}
    while True:
        implied = closure(symbols, left)
        if implied is None:
            return None
        for (x, y), allowed in implied.items():
            at = _node(symbols, (x, "ts")), _node(symbols, (y, "ts"))
            _bounded_by(allowed, matrix, *at, strictly)
        closed = _closed(matrix)
        if closed is None:
            return None
        matrix = closed
        narrowed = {
            (x, y): _possible(
                allowed, matrix, _node(symbols, (x, "ts")), _node(symbols, (y, "ts")), strictly
            )
            for (x, y), allowed in implied.items()
        }
        if not all(narrowed.values()):
            return None
        if narrowed == implied:
            return Differences(symbols, narrowed, matrix)
        left = narrowed


def clashing_parts(
    symbols: Sequence[str],
    relations: Mapping[Pair, Relation],
    bounds: Sequence[Bound],
    has_equal_times: bool = False,
) -> tuple[Hashable, ...] | None:
    """The parts that cannot hold together, as few as may be, or None if none are found.

    The relations of a pair are a part that is named by the pair; the rest is as in `close`.

    >>> clashing_parts("ab", {("a", "b"): Relation.BEFORE}, [Bound(("b", "ts"), ("a", "te"), 0, part=1)])
    (('a', 'b'), 1)
    """
    parts: list[Hashable] = [*relations, *dict.fromkeys(bound.part for bound in bounds)]

    def clash(chosen: Sequence[Hashable]) -> bool:
        kept = {pair: allowed for pair, allowed in relations.items() if pair in chosen}
        of = [bound for bound in bounds if bound.part in chosen]
        named = {s for pair in kept for s in pair} | {e[0] for b in of for e in (b.end, b.since)}
        some = [symbol for symbol in symbols if symbol in named]
        return close(some, kept, of, has_equal_times) is None

    if not clash(parts):
        return None
    for part in list(parts):
        rest = [other for other in parts if other != part]
        if clash(rest):
            parts = rest
    return tuple(parts)
