"""Whether a predicate can ever be true: by the ranges that its comparisons leave each column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from piestream.expressions.syntax import ComparisonOperator
from piestream.expressions.typed import (
    And,
    Comparison,
    Const,
    Convert,
    Expression,
    Field,
    IsNull,
    Member,
    Not,
    Or,
    Previous,
    Until,
    Window,
)
from piestream.expressions.types import NUMERIC

__all__ = ["is_never_true"]

_MIRRORED: dict[ComparisonOperator, ComparisonOperator] = {
    "<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>",
}  # fmt: skip
_NEGATED: dict[ComparisonOperator, ComparisonOperator] = {
    "<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "<>", "<>": "=",
}  # fmt: skip


@dataclass(slots=True)
class _Range:
    """What some comparisons with constants of one kind leave of a column's values."""

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False
    members: set[Any] | None = None  # the only values, where they are listed
    others: set[Any] = field(default_factory=set)  # values that are excluded
    is_null: bool = False  # it has to be missing
    is_known: bool = False  # it has to be there

    def compare(self, operator: ComparisonOperator, value: Any) -> None:
        self.is_known = True
        if operator == "<>":
            self.others.add(value)
        if operator == "=":
            self.keep({value})
        if operator in (">", ">="):
            is_open = operator == ">"
            if self.low is None or (value, is_open) > (self.low, self.low_open):
                self.low, self.low_open = value, is_open
        if operator in ("<", "<="):
            is_open = operator == "<"
            if self.high is None or (value, not is_open) < (self.high, not self.high_open):
                self.high, self.high_open = value, is_open

    def keep(self, values: set[Any]) -> None:
        self.is_known = True
        self.members = values if self.members is None else self.members & values

    def _holds(self, value: Any) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.high_open and value == self.high)):
            return False
        return value not in self.others

    @property
    def is_empty(self) -> bool:
        if self.is_null:
            return self.is_known
        if self.members is not None:
            return not any(self._holds(value) for value in self.members)
        if self.low is None or self.high is None:
            return False
        if self.low == self.high:
            return self.low_open or self.high_open or self.low in self.others
        return bool(self.low > self.high)


def is_never_true(expression: Expression) -> bool:
    """Whether no values of its columns make a condition true; False where that is not found out."""
    match expression:
        case Const(value):
            return value is not True
        case Or(operands):
            return all(is_never_true(operand) for operand in operands)
        case And():
            parts = list(_conjuncts(expression))
            return any(map(is_never_true, parts)) or _contradict(parts)
        case Not(Or(operands)):
            return is_never_true(And(tuple(Not(operand) for operand in operands)))
        case Not(And(operands)):
            return all(is_never_true(Not(operand)) for operand in operands)
        case Not(Not(operand)):
            return is_never_true(operand)
        case Not(Const(value)):
            return value is not False
        case Comparison(operator, Const(a), Const(b)) if a is not None and b is not None:
            return not _holds(operator, a, b)
        case Comparison(_, left, right):
            return any(isinstance(side, Const) and side.value is None for side in (left, right))
        case Until(_, start):
            return is_never_true(start)
    return False


def _holds(operator: ComparisonOperator, a: Any, b: Any) -> bool:
    results: dict[str, bool] = {
        "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "=": a == b, "<>": a != b,
    }  # fmt: skip
    return results[operator]


def _conjuncts(expression: Expression) -> Iterable[Expression]:
    if isinstance(expression, And):
        for operand in expression.operands:
            yield from _conjuncts(operand)
    else:
        yield expression


def _contradict(parts: list[Expression]) -> bool:
    """Whether some conditions on one column leave none of its values."""
    ranges: dict[tuple[_Column, str], _Range] = {}

    def of(column: _Column, value: Any) -> _Range:
        return ranges.setdefault((column, _kind(value)), _Range())

    for part in parts:
        match part:
            case Comparison(operator, left, right):
                pass
            case Not(Comparison(operator, left, right)):
                operator = _NEGATED[operator]
            case Member(operand, values):
                column = _column(operand)
                kinds = {_kind(value) for value in values}
                if column is not None and len(kinds) == 1:
                    of(column, values[0]).keep(set(values))
                continue
            case _:
                continue
        if isinstance(left, Const):
            left, right, operator = right, left, _MIRRORED[operator]
        column = _column(left)
        if column is not None and isinstance(right, Const) and right.value is not None:
            of(column, right.value).compare(operator, right.value)
    missing = {_column(part.operand) for part in parts if isinstance(part, IsNull)}
    for (column, _), values_left in ranges.items():
        values_left.is_null = column in missing
    return any(values_left.is_empty for values_left in ranges.values())


#: The name of a column, or the key of what reads the past.
_Column = tuple[str, bool]


def _column(expression: Expression) -> _Column | None:
    """The column that is compared, perhaps as a wider number."""
    if isinstance(expression, Convert) and expression.operand.type.kind in NUMERIC:
        expression = expression.operand if expression.type.kind in NUMERIC else expression
    if isinstance(expression, Previous | Window):
        return expression.key, True
    return (expression.name, False) if isinstance(expression, Field) else None


def _kind(value: Any) -> str:
    """Values of one kind can be compared with each other."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "number"
    zone = getattr(value, "tzinfo", None)
    return type(value).__name__ + (" with zone" if zone is not None else "")
