"""Endpoint comparisons (``a.ts < b.te``) as sets of Allen's relations (SPEC 3)."""

from __future__ import annotations

from functools import cache

from piestream.relations import Relation, relations_ordered

__all__ = ["COMPARISONS", "relations_where"]

#: The results of `piestream.relations.compare` for which a comparison holds.
COMPARISONS: dict[str, tuple[int, ...]] = {
    "<": (-1,),
    "<=": (-1, 0),
    "=": (0,),
    "==": (0,),
    ">": (1,),
    ">=": (0, 1),
    "!=": (-1, 1),
    "<>": (-1, 1),
}


@cache
def relations_where(x_which: str, comparison: str, y_which: str) -> Relation:
    """The relations of x to y in which ``x.<x_which> <comparison> y.<y_which>`` holds.

    >>> from piestream.relations import names
    >>> names(relations_where("te", "=", "ts"))
    ('meets',)
    """
    compared = f"{x_which}_{y_which}"
    found = Relation(0)
    for sign in COMPARISONS[comparison]:
        found |= relations_ordered(**{compared: sign})
    return found
