"""Endpoint comparisons (``a.ts < b.te``): each is a set of Allen's relations, or a distance."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration
from piestream.expressions.tokens import Kind
from piestream.language.cursor import Cursor
from piestream.language.distances import MIRRORED, distances_of
from piestream.language.draft import ConstraintSpec
from piestream.relations import ANY, Relation, relations_ordered

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

_DIFFERENT = "compare two different symbols"
_DISTANCE = "a distance is from one endpoint to another: b.ts - a.te <= 10 s"


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


@dataclass(slots=True)
class _Sum:
    """One side of a comparison: endpoints, each with its sign, and lengths of time."""

    endpoints: list[tuple[int, _Endpoint]] = field(default_factory=list)
    lengths: list[tuple[int, Duration]] = field(default_factory=list)

    def less(self, other: _Sum) -> _Sum:
        """This side less another; an endpoint on both is in neither."""
        ends = list(self.endpoints)
        for sign, end in other.endpoints:
            same = [i for i, (s, e) in enumerate(ends) if s == sign and _is_same(e, end)]
            if same:
                del ends[same[0]]
            else:
                ends.append((-sign, end))
        return _Sum(ends, [*self.lengths, *((-sign, length) for sign, length in other.lengths)])


def _is_same(one: _Endpoint, other: _Endpoint) -> bool:
    return (one.symbol, one.which) == (other.symbol, other.which)


def read_comparisons(cursor: Cursor) -> list[ConstraintSpec]:
    """The constraints of ``a.ts < b.ts <= a.te + 5 s``: one for every two neighbours.

    A difference of endpoints may be BETWEEN two lengths.
    """
    constraints: list[ConstraintSpec] = []
    left = _sum(cursor)
    while left is not None and not cursor.at_end:
        if cursor.take_word("BETWEEN"):
            return constraints + _between(cursor, left)
        sign = cursor.take()
        if not sign.is_sign(*COMPARISONS):
            cursor.report(sign, f"{sign.text} is not a comparison of endpoints")
            return constraints
        right = _sum(cursor)
        if right is None:
            return constraints
        constraints += _compared(cursor, left, sign.text, right)
        left = right
    return constraints


def _between(cursor: Cursor, difference: _Sum) -> list[ConstraintSpec]:
    least = _sum(cursor)
    if least is None:
        return []
    if not cursor.take_word("AND"):
        hint = "write b.ts - a.te BETWEEN 5 s AND 10 s"
        cursor.report(cursor.peek(), "BETWEEN needs two lengths, joined with AND", hint)
        return []
    most = _sum(cursor)
    if most is None:
        return []
    cursor.expect_end("a distance", "constraints join with AND")
    least_of = _compared(cursor, difference, ">=", least)
    return least_of + (_compared(cursor, difference, "<=", most) if least_of else [])


def _compared(cursor: Cursor, left: _Sum, sign: str, right: _Sum) -> list[ConstraintSpec]:
    """What one comparison says of two symbols: an order of endpoints, or a distance."""
    whole = left.less(right)
    ends = [end for side in (left, right) for _, end in side.endpoints]
    span = cursor.span()
    if ends:
        span = ends[0].span.joined(ends[-1].span)
    if len({length.in_ticks for _, length in whole.lengths if length.amount}) > 1:
        cursor.report(span, "lengths with and without a unit cannot be added")
        return []
    amount = -sum(sign * length.amount for sign, length in whole.lengths)
    plus = [end for sign, end in whole.endpoints if sign > 0]
    minus = [end for sign, end in whole.endpoints if sign < 0]
    if len(plus) != 1 or len(minus) != 1:
        if whole.endpoints or not ends or len(ends) > 2:
            cursor.report(span, "this is no distance of two endpoints", _DISTANCE)
        else:
            cursor.report(span, f"this compares {ends[0].symbol} with itself", _DIFFERENT)
        return []
    x, y = plus[0], minus[0]
    if x.symbol == y.symbol:
        hint = _DIFFERENT
        if whole.lengths:
            hint = f"how long {x.symbol} lasts is said in DEFINE: AT LEAST 5 s, AT MOST 10 s"
        cursor.report(span, f"this compares {x.symbol} with itself", hint)
        return []
    if not whole.lengths:
        if minus[0] is ends[0]:  # in the order in which they are written
            x, y, sign = y, x, MIRRORED.get(sign, sign)
        relations = relations_where(x.which, sign, y.which)
        return [ConstraintSpec(x.symbol, y.symbol, relations, span, x.span, y.span)]
    if sign in ("!=", "<>"):
        cursor.report(
            span, f"a distance is not compared by {sign}", "take <, <=, =, >=, > or BETWEEN"
        )
        return []
    in_ticks = all(length.in_ticks for _, length in whole.lengths)
    distances = distances_of((x.symbol, x.which), (y.symbol, y.which), sign, amount, in_ticks)
    return [ConstraintSpec(x.symbol, y.symbol, ANY, span, x.span, y.span, distances)]


def _sum(cursor: Cursor) -> _Sum | None:
    """Endpoints and lengths, added and subtracted."""
    found = _Sum()
    sign = -1 if cursor.take_sign("-") else 1
    while True:
        if cursor.peek().kind in (Kind.NUMBER, Kind.PARAMETER, Kind.STRING):
            length = cursor.take_duration("a distance")
            if length is None:
                return None
            found.lengths.append((sign, length))
        else:
            end = _endpoint(cursor)
            if end is None:
                return None
            found.endpoints.append((sign, end))
        if not cursor.peek().is_sign("+", "-"):
            return found
        sign = -1 if cursor.take().is_sign("-") else 1


def _endpoint(cursor: Cursor) -> _Endpoint | None:
    if cursor.peek().upper == "ABS" and cursor.peek(1).is_sign("("):
        cursor.report(
            cursor.take(),
            "a distance has a sign, and takes no ABS",
            "write BETWEEN with both: b.ts - a.te BETWEEN -10 s AND 10 s",
        )
        return None
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
