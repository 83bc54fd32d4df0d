"""A predicate with types: few kinds of node, every conversion written out.

The three engines (Polars, Python, Spark) translate this form, so what an expression means is
decided here, once:

* A value is NULL or it is there; a NaN, read or calculated, is NULL.
* Whole numbers are 64-bit; a result that does not fit is NULL. ``/`` divides floats. What is
  calculated from a wide number (a column of UInt64 or Int128) has up to 38 digits.
* Dividing by zero, ``SQRT`` of a negative and ``LN`` of a number not positive are NULL.
* ``AND``, ``OR``, ``NOT`` are Kleene's; a predicate that is NULL is false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union, assert_never

from piestream.expressions.functions.record import Implementation
from piestream.expressions.like import LikeParts
from piestream.expressions.syntax import ArithmeticOperator, ComparisonOperator
from piestream.expressions.types import BOOL, Type

__all__ = [
    "And",
    "Arithmetic",
    "Call",
    "Case",
    "Coalesce",
    "Comparison",
    "Const",
    "Convert",
    "Expression",
    "Extreme",
    "Field",
    "IsNull",
    "Like",
    "Member",
    "Not",
    "Or",
    "children",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the current or the previous event."""

    name: str
    previous: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Const:
    """A constant; None is NULL."""

    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * / %`` of two operands of one type; ``/`` only of floats, ``%`` only of integers."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Comparison:
    """``= <> < <= > >=`` of two operands of one type."""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class And:
    """AND."""

    operands: tuple[Expression, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Or:
    """OR."""

    operands: tuple[Expression, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Not:
    """NOT."""

    operand: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is NULL; never NULL itself."""

    operand: Expression
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Member:
    """Whether a value is one of some constants of its type, none of them NULL."""

    operand: Expression
    values: tuple[Any, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Like:
    """``operand LIKE pattern``."""

    operand: Expression
    parts: LikeParts
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Case:
    """The result of the first branch whose condition is true, else ``otherwise``."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first operand that is not NULL."""

    operands: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Extreme:
    """GREATEST or LEAST of the operands that are not NULL."""

    greatest: bool
    operands: tuple[Expression, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Call:
    """A function of operands, and of whole numbers that were written; NULL when an operand is."""

    function: Implementation
    operands: tuple[Expression, ...]
    numbers: tuple[int, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Convert:
    """A value as another type; NULL where it cannot be."""

    operand: Expression
    type: Type


Expression = Union[
    Field, Const, Arithmetic, Comparison, And, Or, Not, IsNull, Member, Like, Case, Coalesce,
    Extreme, Call, Convert,
]  # fmt: skip


def children(expression: Expression) -> tuple[Expression, ...]:
    """The operands of an expression."""
    match expression:
        case Field() | Const():
            return ()
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case And(operands) | Or(operands) | Coalesce(operands):
            return operands
        case Extreme(_, operands) | Call(_, operands):
            return operands
        case Not(operand) | IsNull(operand) | Member(operand) | Like(operand) | Convert(operand):
            return (operand,)
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case _:
            assert_never(expression)
