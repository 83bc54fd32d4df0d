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
from piestream.relations import ENDPOINT_ORDER, EndpointOrder, Relation

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


def _closed(bounds: _Bounds) -> _Bounds:
    """The least bounds that follow (Floyd and Warshall), of one matrix or of each of many."""
    for k in range(bounds.shape[-1]):
        through = _sum(bounds[..., :, k, None], bounds[..., None, k, :])
        bounds = np.minimum(bounds, through)
    return bounds


def _is_possible(closed: _Bounds) -> NDArray[np.bool_]:
    """Whether closed bounds do not contradict each other, of one matrix or of each of many."""
    return np.asarray((np.diagonal(closed, axis1=-2, axis2=-1) >= 0).all(-1))


#: The four comparisons of a relation, as nodes of x and of y.
_COMPARED = (("ts_ts", 0, 2), ("ts_te", 0, 3), ("te_ts", 1, 2), ("te_te", 1, 3))


def _bounds_of(order: EndpointOrder, strictly: bool) -> _Bounds:
    """The bounds of x's start and end, and of y's, that one relation sets.

    What comes before something else is less, ``strictly`` or not.
    """
    found = np.full((4, 4), _NONE, np.int64)
    for field, of_x, of_y in _COMPARED:
        sign = getattr(order, field)
        if sign <= 0:
            found[of_x, of_y] = sign * int(strictly)
        if sign >= 0:
            found[of_y, of_x] = -sign * int(strictly)
    return found


#: What each relation sets, in their order, where what comes before something else is strictly less, and not.
_OF_RELATIONS = {
    strictly: np.stack([_bounds_of(order, strictly) for order in ENDPOINT_ORDER.values()])
    for strictly in (False, True)
}


def _of_each(relations: Relation, strictly: bool) -> _Bounds:
    """What each of some relations sets."""
    chosen = [number for number, one in enumerate(ENDPOINT_ORDER) if one & relations]
    return _OF_RELATIONS[strictly][chosen]


def _possible(relations: Relation, bounds: _Bounds, strictly: bool) -> Relation:
    """The relations of a pair that the closed bounds of its four endpoints leave."""
    closed = _closed(np.minimum(bounds, _of_each(relations, strictly)))
    chosen = (one for one in ENDPOINT_ORDER if one & relations)
    left = Relation(0)
    for relation, is_possible in zip(chosen, _is_possible(closed), strict=True):
        if is_possible:
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
        of_pairs = {
            pair: np.ix_(*2 * [[_node(symbols, (name, e)) for name in pair for e in ("ts", "te")]])
            for pair in implied
        }
        for pair, allowed in implied.items():
            most = _of_each(allowed, strictly).max(0)  # what all of them set
            matrix[of_pairs[pair]] = np.minimum(matrix[of_pairs[pair]], most)
        matrix = _closed(matrix)
        if not _is_possible(matrix):
            return None
        narrowed = {
            pair: _possible(allowed, matrix[of_pairs[pair]], strictly)
            for pair, allowed in implied.items()
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
