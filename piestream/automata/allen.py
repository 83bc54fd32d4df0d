"""Allen's interval algebra: which relation holds, its converse, and what two of them imply.

The composition table is not typed in: it is found by trying every order that the six endpoints
of three intervals can have. ``followed-by`` counts as ``before`` here and ``follows`` as
``after``, because whether anything happened in between is not a matter of endpoints.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import Any

from piestream.relations import ALLEN, Relation, inverse

__all__ = ["ANY", "allen_of", "compose", "converse", "relation_of"]

#: All thirteen: nothing is known of the pair.
ANY = Relation(sum(ALLEN))

# For each relation: how xs stands to ys, xe to ye, xe to ys, and xs to ye (SPEC section 3).
_ORDERS = {
    Relation.BEFORE: "<<<<",
    Relation.MEETS: "<<=<",
    Relation.OVERLAPS: "<<><",
    Relation.STARTS: "=<><",
    Relation.DURING: "><><",
    Relation.FINISHES: ">=><",
    Relation.EQUALS: "==><",
}
_RELATION_OF_ORDER = {order: relation for relation, order in _ORDERS.items()}
_TURNED = str.maketrans("<>", "><")
for _relation, _order in _ORDERS.items():
    # Seen from y: starts and ends compare the other way round, and xe:ys changes place with xs:ye.
    _seen_from_y = (_order[:2] + _order[3] + _order[2]).translate(_TURNED)
    _RELATION_OF_ORDER[_seen_from_y] = inverse(_relation)


def relation_of(xs: Any, xe: Any, ys: Any, ye: Any) -> Relation:
    """The one of Allen's relations that holds between ``[xs, xe)`` and ``[ys, ye)``.

    >>> relation_of(0, 5, 3, 8)
    <Relation.OVERLAPS: 8>
    """
    for name, ts, te in (("x", xs, xe), ("y", ys, ye)):
        if not ts < te:
            raise ValueError(f"{name} = [{ts}, {te}) is not an interval: its end must be later")
    pairs = ((xs, ys), (xe, ye), (xe, ys), (xs, ye))
    return _RELATION_OF_ORDER["".join("<" if a < b else ">" if a > b else "=" for a, b in pairs)]


def allen_of(relations: Relation) -> Relation:
    """The same set in Allen's terms, the precise forms widened.

    >>> allen_of(Relation.FOLLOWED_BY | Relation.MEETS) == Relation.BEFORE | Relation.MEETS
    True
    """
    widened = relations & ANY
    if relations & Relation.FOLLOWED_BY:
        widened |= Relation.BEFORE
    if relations & Relation.FOLLOWS:
        widened |= Relation.AFTER
    return Relation(widened)


def converse(relations: Relation) -> Relation:
    """What y may be to x, if ``relations`` is what x may be to y, in Allen's terms.

    >>> converse(Relation.FOLLOWED_BY)
    <Relation.AFTER: 16384>
    """
    return inverse(allen_of(relations))


@cache
def basic_compositions() -> dict[tuple[Relation, Relation], Relation]:
    """Allen's table: for each two of the thirteen, what x may be to z if x R y and y S z."""
    # Three intervals have six endpoints, so positions 0-5 show every order they can have.
    intervals = tuple(combinations(range(6), 2))
    between = {(a, b): relation_of(*a, *b) for a, b in product(intervals, repeat=2)}
    table: dict[tuple[Relation, Relation], Relation] = {
        (r, s): Relation(0) for r in ALLEN for s in ALLEN
    }
    for x, y, z in product(intervals, repeat=3):
        table[between[x, y], between[y, z]] |= between[x, z]
    return table


@cache
def compose(xy: Relation, yz: Relation) -> Relation:
    """What x may be to z, if ``xy`` is what x may be to y and ``yz`` what y may be to z.

    >>> compose(Relation.MEETS, Relation.DURING) == (
    ...     Relation.OVERLAPS | Relation.STARTS | Relation.DURING
    ... )
    True
    """
    table = basic_compositions()
    left, right = allen_of(xy), allen_of(yz)
    found = Relation(0)
    for r in ALLEN:
        if r & left:
            for s in ALLEN:
                if s & right:
                    found |= table[r, s]
    return found
