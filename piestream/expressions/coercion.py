"""Operands brought to one type, where nothing is lost by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time
from typing import Any

from piestream.expressions import syntax
from piestream.expressions.diagnostics import Diagnostic
from piestream.expressions.tokens import is_plain_name, quoted
from piestream.expressions.typed import Const, Convert, Expression, Field, Previous, Window
from piestream.expressions.types import BOOL, FLOAT, INT, NUMBER, NUMERIC, STRING, WIDE, Kind, Type

__all__ = ["as_number", "column_in", "common_type", "constant", "type_of", "with_type"]


def column_in(expression: Expression) -> Field | None:
    """The column whose values an expression has, now or earlier; None if it is calculated."""
    if isinstance(expression, Previous):
        expression = expression.operand
    return expression if isinstance(expression, Field) else None


def constant(value: Any) -> Const:
    """A Python value as a constant of its type."""
    match value:
        case None:
            return Const(None, Type(Kind.NULL))
        case bool():
            return Const(value, BOOL)
        case int():
            return Const(value, INT if -(2**63) <= value < 2**63 else WIDE)
        case float():
            return Const(value, FLOAT)
        case str():
            return Const(value, STRING)
        case datetime(tzinfo=zone):
            return Const(value, Type(Kind.DATETIME, str(zone) if zone else None))
        case date():
            return Const(value, Type(Kind.DATE))
    raise TypeError(f"a predicate has no constants of type {type(value).__name__}")


def type_of(expressions: Sequence[Expression]) -> Type:
    """The type of operands that are alike; NULL has any."""
    typed = [e.type for e in expressions if e.type.kind is not Kind.NULL]
    if any(type.is_wide for type in typed):
        return WIDE
    return typed[0] if typed else expressions[0].type


def as_number(expression: Expression, type: Type) -> Expression:
    """A number as a wider type; what is no number stays."""
    if expression.type.kind is type.kind or expression.type.kind not in NUMERIC:
        return expression
    if isinstance(expression, Const) and type.kind is Kind.FLOAT:
        return Const(None if expression.value is None else float(expression.value), FLOAT)
    if type.kind is Kind.NUMBER:
        return expression  # the engine that has no schema widens by itself
    return Convert(expression, type)


def with_type(expression: Expression, type: Type) -> Expression:
    """What had no type of its own with the type that its use gives it."""
    if expression.type.kind is Kind.NULL and type.kind is not Kind.UNKNOWN:
        return Const(None, type)
    if expression.type.kind is Kind.UNKNOWN and isinstance(expression, Field | Previous | Window):
        guessed = NUMBER if type.kind in NUMERIC else type
        if isinstance(expression, Previous | Window):
            return replace(expression, operand=with_type(expression.operand, type), type=guessed)
        return Field(expression.name, guessed)
    return expression


def common_type(
    expressions: list[Expression], nodes: Sequence[syntax.Node], what: str
) -> tuple[list[Expression], Diagnostic | None]:
    """The operands as one type, or as they were and why they have none.

    Numbers are widened, and texts read as dates beside a date. ``what`` compares the operands.
    """
    kinds = {e.type.kind for e in expressions} - {Kind.NULL, Kind.UNKNOWN}
    type = next((e.type for e in expressions if e.type.kind in kinds), Type(Kind.NULL))
    if not kinds and any(e.type.kind is Kind.UNKNOWN for e in expressions):
        return expressions, None  # there is no schema, and nothing says of what type they are
    if kinds & {Kind.DATE, Kind.DATETIME} and kinds <= _TIMES:
        return _common_time(expressions, nodes, timed=Kind.DATETIME in kinds)
    if kinds and kinds <= set(NUMERIC):
        type = _widest(kinds)
    elif len(kinds) > 1:
        return expressions, _mixed(expressions, nodes, what, type, kinds)
    return [
        as_number(e, type) if e.type.kind in NUMERIC else with_type(e, type) for e in expressions
    ], None


_TIMES = {Kind.DATE, Kind.DATETIME, Kind.STRING}


def _widest(kinds: set[Kind]) -> Type:
    if Kind.NUMBER in kinds:
        return NUMBER
    return FLOAT if Kind.FLOAT in kinds else INT


def _mixed(
    expressions: list[Expression],
    nodes: Sequence[syntax.Node],
    what: str,
    type: Type,
    kinds: set[Kind],
) -> Diagnostic:
    odd, other = next(
        (node, expression.type.kind)
        for node, expression in zip(nodes, expressions, strict=True)
        if expression.type.kind != type.kind and expression.type.kind in kinds
    )
    # of a list the odd value alone, of a comparison both sides
    span = odd.span if what == "IN" else nodes[0].span.joined(odd.span)
    message = f"{what} cannot mix {type.kind.value} and {other.value}"
    return Diagnostic(span, message, _mix_hint(expressions))


def _mix_hint(expressions: list[Expression]) -> str | None:
    fields = [field for e in expressions if (field := column_in(e)) is not None]
    typed = [field for field in fields if field.type.kind is not Kind.UNKNOWN]
    if typed:
        name, kind = typed[0].name, typed[0].type.kind
        holds = f"the column {name} holds {kind.value}"
        if kind is Kind.STRING and any(e.type.kind in NUMERIC for e in expressions):
            column = name if is_plain_name(name) else quoted(name)
            return (
                f"{holds}; CAST({column} AS DOUBLE) reads numbers from it, NULL from what is none"
            )
        return holds
    if fields:
        return f"write all values as the column {fields[0].name} holds them"
    if any(e.type.kind is Kind.BOOL for e in expressions):
        return "join comparisons with AND"
    return None


def _common_time(
    expressions: list[Expression], nodes: Sequence[syntax.Node], timed: bool
) -> tuple[list[Expression], Diagnostic | None]:
    """Dates, timestamps and texts as dates; if one is ``timed``, all as timestamps of one zone."""
    zones = {
        e.type.zone
        for e in expressions
        if e.type.kind is Kind.DATETIME and not isinstance(e, Const)
    }
    written = any(isinstance(e, Const) and e.type.zone is not None for e in expressions)
    if None in zones and (len(zones) > 1 or written):
        message = "a timestamp with and one without a time zone are compared"
        return expressions, Diagnostic(nodes[0].span, message)
    # A timestamp written without a zone takes the zone of the column that it meets.
    zone = min((z for z in zones if z is not None), default="UTC" if written else None)
    # A text or a date beside a timestamp is a timestamp; a text beside dates is a date
    # unless it has a time of day.
    read: list[Expression] = []
    for expression, node in zip(expressions, nodes, strict=True):
        if expression.type.kind is Kind.STRING:
            if not isinstance(expression, Const):
                message = "a string column is compared with a date or timestamp"
                return expressions, Diagnostic(node.span, message)
            try:
                moment = datetime.fromisoformat(expression.value.strip())
            except ValueError:
                message = "this is not a date or timestamp"
                return expressions, Diagnostic(node.span, message, "write '2026-01-31'")
            timed = timed or moment.time() != time(0)
            expression = Const(moment, Type(Kind.DATETIME))
        read.append(expression)
    type = Type(Kind.DATETIME, zone) if timed else Type(Kind.DATE)
    return [_as_time(expression, type) for expression in read], None


def _as_time(expression: Expression, type: Type) -> Expression:
    """A date or timestamp as the other of both."""
    if expression.type.kind in (Kind.NULL, Kind.UNKNOWN):
        return with_type(expression, type)
    if isinstance(expression, Const):
        value = expression.value
        if type.kind is Kind.DATE:
            return Const(value.date() if isinstance(value, datetime) else value, type)
        if not isinstance(value, datetime):
            value = datetime.combine(value, time(0))
        return Const(value, type)
    return expression if expression.type == type else Convert(expression, type)
