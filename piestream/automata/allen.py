"""Allen's interval algebra: the converse of a relation, and what two relations imply together.

The composition table is computed by trying every order that the six endpoints of three intervals
can have. ``followed-by`` counts as ``before`` here and ``follows`` as ``after``, because whether
anything happened in between is not a matter of endpoints.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product

from piestream.relations import ALLEN, ANY, PRECISE_FORM, Relation, inverse, relation_of

__all__ = ["allen_of", "basic_compositions", "compose", "converse"]


def allen_of(relations: Relation) -> Relation:
    """The same set in Allen's terms, the precise forms widened.

    >>> allen_of(Relation.FOLLOWED_BY | Relation.MEETS) == Relation.BEFORE | Relation.MEETS
    True
    """
    widened = relations & ANY
    for wide, precise in PRECISE_FORM.items():
        if relations & precise:
            widened |= wide
    return Relation(widened)


def converse(relations: Relation) -> Relation:
    """What y may be to x, if ``relations`` is what x may be to y, in Allen's terms.

    >>> converse(Relation.FOLLOWED_BY)
    <Relation.AFTER: 16384>
    """
    return inverse(allen_of(relations))


@cache
def basic_compositions() -> dict[tuple[Relation, Relation], Relation]:
    """Allen's table: for every two of the thirteen, what x may be to z if x R y and y S z."""
    # Three intervals have six endpoints, so positions 0 to 5 are enough for every order.
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
