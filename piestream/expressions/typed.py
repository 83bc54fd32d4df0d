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

from collections.abc import Iterable
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
    "Past",
    "Previous",
    "Until",
    "Window",
    "children",
    "past_of",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the event."""

    name: str
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
    """A value as another type; NULL where it cannot be.

    A date or timestamp as a number is one of ticks of so many nanoseconds; None: of those of its column.
    """

    operand: Expression
    type: Type
    tick: int | None = None


@dataclass(frozen=True, slots=True)
class Previous:
    """The value that an operand had so many events before in the partition; NULL where there is none.

    Its ``key``, as that of all that reads the past, is its canonical text.
    """

    key: str
    operand: Expression
    events: int
    type: Type


@dataclass(frozen=True, slots=True)
class Window:
    """An aggregate of an operand over the latest events of the partition, this one included.

    These are so many of them, or those that are less than so many ticks before this one. Without a
    time column the ticks are not known, and None.
    """

    key: str
    function: str
    operand: Expression
    length: int | None
    of_events: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Until:
    """True from an event at which ``start`` is true and ``stop`` is not, until ``stop`` is."""

    key: str
    start: Expression
    stop: Expression
    type: Type = BOOL


#: What reads events before the current one: whoever evaluates a predicate supplies their values.
Past = Union[Previous, Window, Until]

Expression = Union[
    Field, Const, Arithmetic, Comparison, And, Or, Not, IsNull, Member, Like, Case, Coalesce,
    Extreme, Call, Convert, Previous, Window, Until,
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
        case Previous(_, operand) | Window(_, _, operand):
            return (operand,)
        case Until(_, start, stop):
            return (start, stop)
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case _:
            assert_never(expression)


def past_of(expressions: Iterable[Expression]) -> tuple[Past, ...]:
    """All that reads the past in some expressions, each once, and what one needs before it."""
    found: dict[str, Past] = {}
    seen: set[int] = set()

    def visit(expression: Expression) -> None:
        if id(expression) in seen:
            return
        seen.add(id(expression))
        for child in children(expression):
            visit(child)
        if isinstance(expression, Previous | Window | Until):
            found.setdefault(expression.key, expression)

    for expression in expressions:
        visit(expression)
    return tuple(found.values())
