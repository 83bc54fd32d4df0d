"""Endpoint comparisons (``a.ts < b.te``): each is a set of Allen's relations (SPEC 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from piestream.expressions.diagnostics import Span
from piestream.language.cursor import Cursor
from piestream.language.draft import ConstraintSpec
from piestream.relations import Relation, relations_ordered

__all__ = ["COMPARISONS", "read_comparisons", "relations_where"]

#: The orders of two endpoints for which a comparison holds: -1 earlier, 0 equal, 1 later.
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
    found = Relation(0)
    for order in COMPARISONS[comparison]:
        found |= relations_ordered(**{f"{x_which}_{y_which}": order})
    return found


@dataclass(frozen=True, slots=True)
class _Endpoint:
    symbol: str
    which: str
    span: Span


def read_comparisons(cursor: Cursor) -> list[ConstraintSpec]:
    """The constraints of ``a.ts < b.ts <= a.te``: one for every two neighbours."""
    constraints: list[ConstraintSpec] = []
    left = _endpoint(cursor)
    while left is not None and not cursor.at_end:
        sign = cursor.take()
        if not sign.is_sign(*COMPARISONS):
            cursor.report(sign, f"{sign.text} is not a comparison of endpoints")
            return constraints
        right = _endpoint(cursor)
        if right is None:
            return constraints
        span = left.span.joined(right.span)
        if left.symbol == right.symbol:
            message = f"this compares {left.symbol} with itself"
            cursor.report(span, message, "compare two different symbols")
        else:
            relations = relations_where(left.which, sign.text, right.which)
            constraints.append(
                ConstraintSpec(left.symbol, right.symbol, relations, span, left.span, right.span)
            )
        left = right
    return constraints


def _endpoint(cursor: Cursor) -> _Endpoint | None:
    symbol = cursor.take_name("a symbol")
    if symbol is None:
        return None
    if not cursor.take_sign("."):
        hint = f"write {symbol.text}.ts or .te"
        cursor.report(symbol, f"{symbol.text} is not an endpoint", hint)
        return None
    which = cursor.take()
    if which.text.lower() not in ("ts", "te"):
        cursor.report(which, f"an interval has no {which.text or 'such end'}", "write .ts or .te")
        return None
    return _Endpoint(symbol.text, which.text.lower(), symbol.span.joined(which.span))
