"""What an expression of DEFINE means, straight from the rules of SQL; None is NULL."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from piestream.expressions.syntax import (
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Choice,
    Column,
    Comparison,
    Is,
    Like,
    Literal,
    Minus,
    Node,
    Not,
    OneOf,
    Or,
    Previous,
)

__all__ = ["evaluated", "holds_of_row"]

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _ln(x: float) -> float | None:
    return math.log(x) if x > 0 else None


def _rounded(x: float, digits: int = 0) -> float:
    scaled = abs(x) * 10**digits
    whole = math.floor(scaled)
    whole += scaled - whole >= 0.5
    return math.copysign(whole, x) / 10**digits


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ABS": abs,
    "CEIL": math.ceil,
    "EXP": math.exp,
    "FLOOR": math.floor,
    "LENGTH": len,
    "LN": _ln,
    "LOWER": str.lower,
    "POWER": lambda x, y: x**y if x > 0 or y > 0 else math.inf if x == 0 and y < 0 else 1.0,
    "REVERSE": lambda text: text[::-1],
    "ROUND": _rounded,
    "SIGN": lambda x: (x > 0) - (x < 0),
    "SQRT": lambda x: math.sqrt(x) if x >= 0 else None,
    "UPPER": str.upper,
}


def _is_like(text: str, pattern: str) -> bool:
    """Whether a text is like a pattern; the first part of it decides how much of the text is taken."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[n:], pattern[1:]) for n in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _is_like(text[1:], pattern[1:])


def evaluated(
    node: Node, value_of: Callable[[str], Any], past_of: Callable[[Node], Any] | None = None
) -> Any:
    """The value of an expression whose columns, and parts that read rows before, have these values."""

    def of(part: Node) -> Any:
        return evaluated(part, value_of, past_of)

    match node:
        case Column(name):
            return value_of(name)
        case Literal(value):
            return value
        case Previous() if past_of is not None:
            return past_of(node)
        case And(operands):
            values = [of(operand) for operand in operands]
            return False if False in values else None if None in values else True
        case Or(operands):
            values = [of(operand) for operand in operands]
            return True if True in values else None if None in values else False
        case Not(operand):
            value = of(operand)
            return None if value is None else not value
        case Is(operand, Literal(None)):
            return of(operand) is None
        case Choice(form, operands):
            if form.value == "NULLIF":
                first, second = map(of, operands)
                return None if first == second else first
            known = [value for value in map(of, operands) if value is not None]
            if form.value == "COALESCE":
                return known[0] if known else None
            return (max if form.value == "GREATEST" else min)(known) if known else None
        case Case(branches, otherwise):
            chosen = next((result for when, result in branches if of(when) is True), otherwise)
            return of(chosen)
        case Between(operand, low, high):
            both = And((Comparison(">=", operand, low), Comparison("<=", operand, high)))
            return of(both)
        case OneOf(operand, members):
            return of(Or(tuple(Comparison("=", operand, member) for member in members)))
    return _calculated(node, of)


def holds_of_row(node: Node, rows: Sequence[Mapping[str, Any]], row: int) -> bool:
    """Whether a condition holds of a row that reads that row, and rows before it, alone."""

    def read(part: Node) -> Any:
        if isinstance(part, Previous):
            before = row - part.events
            return evaluated(part.operand, rows[before].__getitem__) if before >= 0 else None
        return None

    return evaluated(node, rows[row].__getitem__, read) is True


def _calculated(node: Node, of: Callable[[Node], Any]) -> Any:
    match node:
        case Comparison(operator, left, right):
            a, b = of(left), of(right)
            return None if a is None or b is None else _COMPARED[operator](a, b)
        case Arithmetic(operator, left, right):
            a, b = of(left), of(right)
            return None if a is None or b is None else _result(operator, a, b)
        case Minus(operand):
            value = of(operand)
            return None if value is None else -value
        case Call(name, operands):
            values = [of(operand) for operand in operands]
            return None if None in values else _FUNCTIONS[name](*values)
        case Like(operand, pattern):
            value = of(operand)
            return None if value is None else _is_like(value, pattern)
    raise AssertionError(f"the oracle does not know {node}")


def _result(operator: str, a: Any, b: Any) -> Any:
    if operator == "+":
        return a + b
    if operator == "-":
        return a - b
    if operator == "*":
        return a * b
    if b == 0:
        return None
    return a / b if operator == "/" else int(math.fmod(a, b))
