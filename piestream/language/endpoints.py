"""Endpoint comparisons (``a.ts < b.te``) as sets of Allen's relations.

Each of Allen's relations fixes the order of all four endpoints, so the relations that satisfy
a comparison are found by walking over all the orders that two intervals can have (SPEC 3).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from itertools import product

from piestream.relations import Relation, inverse

__all__ = ["COMPARISONS", "allen_relation", "relations_where"]

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
    "<>": operator.ne,
}


def allen_relation(x_start: int, x_end: int, y_start: int, y_end: int) -> Relation:
    """Allen's relation of ``x`` to ``y``, by its definition over the endpoints.

    >>> allen_relation(0, 2, 1, 3) is Relation.OVERLAPS
    True
    """
    xs, xe, ys, ye = x_start, x_end, y_start, y_end
    definitions = (
        (Relation.BEFORE, xe < ys),
        (Relation.MEETS, xe == ys),
        (Relation.OVERLAPS, xs < ys < xe < ye),
        (Relation.STARTS, xs == ys and xe < ye),
        (Relation.DURING, ys < xs and xe < ye),
        (Relation.FINISHES, ys < xs and xe == ye),
        (Relation.EQUALS, xs == ys and xe == ye),
    )
    for relation, holds in definitions:
        if holds:
            return relation
    return inverse(allen_relation(ys, ye, xs, xe))


@cache
def _orders() -> tuple[tuple[Relation, dict[str, int], dict[str, int]], ...]:
    orders = []
    for xs, xe, ys, ye in product(range(4), repeat=4):  # four endpoints take at most four values
        if xs < xe and ys < ye:
            orders.append(
                (allen_relation(xs, xe, ys, ye), {"ts": xs, "te": xe}, {"ts": ys, "te": ye})
            )
    return tuple(orders)


@cache
def relations_where(x_which: str, comparison: str, y_which: str) -> Relation:
    """The relations of x to y in which ``x.<x_which> <comparison> y.<y_which>`` holds.

    >>> from piestream.relations import names
    >>> names(relations_where("te", "=", "ts"))
    ('meets',)
    """
    holds = COMPARISONS[comparison]
    found = Relation(0)
    for relation, x, y in _orders():
        if holds(x[x_which], y[y_which]):
            found |= relation
    return found
