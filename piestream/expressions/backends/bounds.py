"""What a typed predicate can be on a page of rows of which only bounds are known, a row a page.

Each value becomes what is known of it on the whole page: a lower and an upper bound of the values that
are there (NULL: none is known), and whether some may be there, or missing. Each condition becomes
whether it may be true, false, NULL somewhere on the page. All are Polars expressions over a table
with a row a page, so that thousands of pages are judged at once.

What is said may be more than there is, never less: *may* is true wherever it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any

import polars as pl

from piestream.expressions.backends.polars import constant_expression
from piestream.expressions.backends.polars_runtime import quotient
from piestream.expressions.functions.record import Order
from piestream.expressions.like import LikeParts
from piestream.expressions.limits import is_too_large
from piestream.expressions.syntax import ArithmeticOperator, ComparisonOperator
from piestream.expressions.typed import (
    And,
    Arithmetic,
    Call,
    Case,
    Coalesce,
    Comparison,
    Const,
    Convert,
    Expression,
    Extreme,
    Field,
    IsNull,
    Like,
    Member,
    Not,
    Or,
    children,
)
from piestream.expressions.types import Kind, Type

__all__ = ["Bounds", "Truth", "truth_of"]

_YES, _NO = pl.lit(True), pl.lit(False)
_NOTHING = pl.lit(None)
#: How often what is written mentions an operand, at most.
_MENTIONS = 6
#: Longer lists of IN are judged by their ends.
_MOST_MEMBERS = 32


@dataclass(frozen=True)
class Bounds:
    """What is known of a value on a page."""

    low: pl.Expr
    high: pl.Expr
    there: pl.Expr  # whether it may be there somewhere
    missing: pl.Expr  # whether it may be NULL somewhere


@dataclass(frozen=True)
class Truth:
    """What a condition may be somewhere on a page."""

    true: pl.Expr
    false: pl.Expr
    null: pl.Expr


#: What is known of a column; None: nothing.
ColumnBounds = Callable[[str], Bounds | None]
#: Whether a column may have a value somewhere on a page; None: it is not known.
MayHave = Callable[[str, Any], pl.Expr | None]


def truth_of(
    expression: Expression, columns: ColumnBounds, may_have: MayHave = lambda *_: None
) -> Truth:
    """What a condition may be on each page."""
    if is_too_large(expression, children, lambda _: _MENTIONS):
        return Truth(_YES, _YES, _YES)
    return _Writer(columns, may_have).truth(expression)


def _unknown(there: pl.Expr = _YES) -> Bounds:
    return Bounds(_NOTHING, _NOTHING, there, _YES)


def _may(tested: pl.Expr) -> pl.Expr:
    """A comparison of bounds, of which one may not be known."""
    return tested.fill_null(True)


def _is(tested: pl.Expr) -> pl.Expr:
    return tested.fill_null(False)


class _Writer:
    def __init__(self, columns: ColumnBounds, may_have: MayHave) -> None:
        self.columns = columns
        self.may_have = may_have

    # Conditions

    def truth(self, expression: Expression) -> Truth:
        match expression:
            case And(operands):
                parts = [self.truth(operand) for operand in operands]
                return Truth(_all(p.true for p in parts), _any(p.false for p in parts),
                             _any(p.null for p in parts))  # fmt: skip
            case Or(operands):
                parts = [self.truth(operand) for operand in operands]
                return Truth(_any(p.true for p in parts), _all(p.false for p in parts),
                             _any(p.null for p in parts))  # fmt: skip
            case Not(operand):
                part = self.truth(operand)
                return Truth(part.false, part.true, part.null)
            case Comparison(operator, left, right):
                return self._comparison(operator, left, right)
            case IsNull(operand):
                value = self.value(operand)
                return Truth(value.missing, value.there, _NO)
            case Member(operand, values):
                found = self._member(self.value(operand), values, operand.type)
                if len(values) > _MOST_MEMBERS:
                    return found
                there = _any(self._has(operand, one) for one in values)
                return replace(found, true=found.true & there)
            case Like(operand, parts):
                found = _like(self.value(operand), parts)
                if len(parts) == 1 and not parts[0][0]:
                    return replace(found, true=found.true & self._has(operand, parts[0][1]))
                return found
        value = self.value(expression)
        low, high = value.low.cast(pl.Boolean), value.high.cast(pl.Boolean)
        return Truth(value.there & _may(high), value.there & _may(~low), value.missing)

    def _comparison(
        self, operator: ComparisonOperator, left: Expression, right: Expression
    ) -> Truth:
        found = _compared(operator, self.value(left), self.value(right))
        if isinstance(left, Const):
            left, right = right, left
        if operator not in ("=", "<>") or not isinstance(right, Const) or right.value is None:
            return found
        there = self._has(left, right.value)
        if operator == "=":
            return replace(found, true=found.true & there)
        return replace(found, false=found.false & there)

    def _has(self, operand: Expression, value: Any) -> pl.Expr:
        """Whether an operand may have a value that is not NULL, by more than its bounds."""
        if not isinstance(operand, Field) or operand.type.is_wide:
            return _YES
        if operand.type.kind not in (Kind.STRING, Kind.INT):
            return _YES
        found = self.may_have(operand.name, value)
        return _YES if found is None else found

    def _member(self, value: Bounds, values: Sequence[Any], type: Type) -> Truth:
        if len(values) > _MOST_MEMBERS or type.is_wide:
            values = [] if type.is_wide else [min(values), max(values)]
            if not values:
                return Truth(value.there, value.there, value.missing)
            low, high = (constant_expression(one, type) for one in values)
            inside = _may(value.low <= high) & _may(low <= value.high)
            return Truth(value.there & inside, value.there, value.missing)
        equal = [
            _compared("=", value, Bounds(one, one, _YES, _NO))
            for one in (constant_expression(one, type) for one in values)
        ]
        return Truth(
            _any(one.true for one in equal), _all(one.false for one in equal), value.missing
        )

    # Values

    def value(self, expression: Expression) -> Bounds:
        match expression:
            case Field(name, type):
                return self._field(name, type)
            case Const(value, type):
                if value is None:
                    return Bounds(_NOTHING, _NOTHING, _NO, _YES)
                written = constant_expression(value, type)
                return Bounds(written, written, _YES, _NO)
            case Arithmetic(operator, left, right, type):
                return _arithmetic(operator, self.value(left), self.value(right), type)
            case Case(branches, otherwise):
                return self._case(branches, otherwise)
            case Coalesce(operands) | Extreme(_, operands):
                parts = [self.value(operand) for operand in operands]
                missing = _all(part.missing for part in parts)
                return replace(_union(parts), missing=missing)
            case Convert(operand, type):
                return self._convert(operand, type)
            case Call(_, operands):
                return _called(expression, [self.value(operand) for operand in operands])
            case Comparison() | And() | Or() | Not() | IsNull() | Member() | Like():
                truth = self.truth(expression)
                return Bounds(~truth.false, truth.true, truth.true | truth.false, truth.null)
        return _unknown()  # what reads the past

    def _field(self, name: str, type: Type) -> Bounds:
        known = self.columns(name)
        if type.kind is Kind.NULL:
            return Bounds(_NOTHING, _NOTHING, _NO, _YES)
        if known is None or type.kind in (Kind.NUMBER, Kind.UNKNOWN):
            return _unknown()
        dtype = pl.Int128 if type.is_wide else {Kind.INT: pl.Int64}.get(type.kind)
        if dtype is None:
            return known
        return Bounds(known.low.cast(dtype), known.high.cast(dtype), known.there, known.missing)

    def _case(
        self, branches: Sequence[tuple[Expression, Expression]], otherwise: Expression
    ) -> Bounds:
        found = []
        for condition, result in branches:
            chosen, value = self.truth(condition).true, self.value(result)
            found.append(
                Bounds(value.low, value.high, value.there & chosen, value.missing & chosen)
            )
        return _union([*found, self.value(otherwise)])

    def _convert(self, operand: Expression, type: Type) -> Bounds:
        value = self.value(operand)
        match operand.type.kind, type.kind:
            case Kind.INT, Kind.INT if operand.type.is_wide and not type.is_wide:
                return _whole(value.low, value.high, value.there, value.missing)
            case (Kind.INT | Kind.BOOL, Kind.INT):
                dtype = pl.Int128 if type.is_wide else pl.Int64
                return Bounds(
                    value.low.cast(dtype), value.high.cast(dtype), value.there, value.missing
                )
            case (Kind.INT | Kind.BOOL, Kind.FLOAT):
                low, high = value.low.cast(pl.Float64), value.high.cast(pl.Float64)
                return Bounds(low, high, value.there, value.missing)
            case (Kind.INT | Kind.FLOAT, Kind.BOOL):
                zero = pl.lit(0)
                truth = _compared("<>", value, Bounds(zero, zero, _YES, _NO))
                return Bounds(~truth.false, truth.true, value.there, value.missing)
            case Kind.DATE, Kind.DATETIME if type.zone is None:
                low, high = value.low.cast(pl.Datetime("us")), value.high.cast(pl.Datetime("us"))
                return Bounds(low, high, value.there, value.missing)
            case Kind.DATETIME, Kind.DATETIME:  # the same instant on another clock
                return value
        return _unknown(value.there)


def _all(parts: Iterable[pl.Expr]) -> pl.Expr:
    found: pl.Expr = reduce(and_, parts)
    return found


def _any(parts: Iterable[pl.Expr]) -> pl.Expr:
    found: pl.Expr = reduce(or_, parts)
    return found


def _number(value: pl.Expr, type: Type) -> pl.Expr:
    """A result of a function; what is no number, or too large for 64 bits, is not known."""
    if type.kind is Kind.FLOAT:
        return value.cast(pl.Float64).fill_nan(None)
    return value.cast(pl.Int64, strict=False)


def _called(call: Call, operands: Sequence[Bounds]) -> Bounds:
    """A function at the ends of its operand."""
    operand, order = operands[0], call.function.order
    there = _all(one.there for one in operands)
    if order is Order.ANY or call.type.is_wide:
        return _unknown(there)
    low, high = (
        _number(call.function.polars(end, *call.numbers), call.type)
        for end in (operand.low, operand.high)
    )
    missing = operand.missing | low.is_null() | high.is_null()
    if order is Order.VALLEY:
        crosses = (operand.low <= 0) & (operand.high >= 0)
        known = low.is_not_null() & high.is_not_null()
        least = pl.when(crosses).then(pl.lit(0)).otherwise(pl.min_horizontal(low, high))
        low, high = (pl.when(known).then(end) for end in (least, pl.max_horizontal(low, high)))
    return Bounds(low, high, there, missing)


def _compared(operator: ComparisonOperator, left: Bounds, right: Bounds) -> Truth:
    both = left.there & right.there
    null = left.missing | right.missing
    match operator:
        case "<":
            true, false = left.low < right.high, left.high >= right.low
        case "<=":
            true, false = left.low <= right.high, left.high > right.low
        case ">":
            true, false = left.high > right.low, left.low <= right.high
        case ">=":
            true, false = left.high >= right.low, left.low < right.high
        case _:
            meet = _may(left.low <= right.high) & _may(right.low <= left.high)
            same = (left.low == left.high) & (right.low == right.high) & (left.low == right.low)
            true, false = meet, ~_is(same)
            if operator == "<>":
                true, false = false, true
    return Truth(both & _may(true), both & _may(false), null)


def _like(value: Bounds, parts: LikeParts) -> Truth:
    """LIKE: what comes before the first wildcard bounds what can match."""
    if not parts or (len(parts) == 1 and not parts[0][0]):
        text = pl.lit(parts[0][1] if parts else "")
        return _compared("=", value, Bounds(text, text, _YES, _NO))
    is_wildcard, prefix = parts[0]
    if is_wildcard:
        return Truth(value.there, value.there, value.missing)
    start = value.low.cast(pl.String).str.slice(0, len(prefix))
    true = _may(start <= prefix) & _may(value.high >= prefix)
    false = _YES
    if parts[1:] == ((True, "%"),):
        both = start == prefix
        both &= value.high.cast(pl.String).str.slice(0, len(prefix)) == prefix
        false = ~_is(both)
    return Truth(value.there & true, value.there & false, value.missing)


def _union(parts: Sequence[Bounds]) -> Bounds:
    """A value that is one of several."""
    there = _any(part.there for part in parts)
    missing = _any(part.missing for part in parts)
    low = high = _NOTHING
    for number, part in enumerate(parts):
        known = ~part.there | (part.low.is_not_null() & part.high.is_not_null())
        own_low, own_high = (pl.when(part.there).then(end) for end in (part.low, part.high))
        if number == 0:
            low, high, all_known = own_low, own_high, known
            continue
        low = pl.when(low.is_null() | (own_low < low)).then(own_low).otherwise(low)
        high = pl.when(high.is_null() | (own_high > high)).then(own_high).otherwise(high)
        all_known &= known
    low, high = (pl.when(all_known).then(end) for end in (low, high))
    return Bounds(low, high, there, missing)


def _arithmetic(operator: ArithmeticOperator, left: Bounds, right: Bounds, type: Type) -> Bounds:
    """``+ - * /`` at the ends; rounding keeps their order, so they are bounds still."""
    there, missing = left.there & right.there, left.missing | right.missing
    if type.is_wide or operator == "%":
        return _unknown(there)
    is_float = type.kind is Kind.FLOAT
    wanted = pl.Float64 if is_float else pl.Int128
    a, b, c, d = (end.cast(wanted) for end in (left.low, left.high, right.low, right.high))
    match operator:
        case "+":
            ends = [a + c, b + d]
        case "-":
            ends = [a - d, b - c]
        case "*":
            ends = [a * c, a * d, b * c, b * d]
        case "/":
            ends = [quotient(x, y) for x in (a, b) for y in (c, d)]
    low: pl.Expr
    high: pl.Expr
    if not is_float:
        known = _all(end.is_not_null() for end in (a, b, c, d))
        low, high = (
            pl.when(known).then(end) for end in (pl.min_horizontal(ends), pl.max_horizontal(ends))
        )
        return _whole(low, high, there, missing)
    # of what is infinite a result may be no number, and is missing then
    sound = _all(_is(end.is_finite()) for end in (a, b, c, d))
    if operator == "/":
        sound &= _is((c > 0) | (d < 0))
    low, high = (
        pl.when(sound).then(end).fill_nan(None)
        for end in (pl.min_horizontal(ends), pl.max_horizontal(ends))
    )
    return Bounds(low, high, there, missing | ~sound)


def _whole(low: pl.Expr, high: pl.Expr, there: pl.Expr, missing: pl.Expr) -> Bounds:
    """Whole numbers; those that 64 bits do not hold are missing."""
    fits = _is(low >= -(2**63)) & _is(high <= 2**63 - 1)
    low, high = (pl.when(fits).then(end).cast(pl.Int64, strict=False) for end in (low, high))
    return Bounds(low, high, there, missing | ~fits)
