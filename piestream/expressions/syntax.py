"""A predicate as a tree, as it was written.

This is the whole language of predicates: what has no node here cannot be written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import Literal as OneOfThese
from typing import Union, assert_never

from piestream.expressions.diagnostics import Span

__all__ = [
    "And",
    "Arithmetic",
    "ArithmeticOperator",
    "Between",
    "Call",
    "Case",
    "Cast",
    "Choice",
    "Column",
    "Comparison",
    "ComparisonOperator",
    "Concatenation",
    "Form",
    "Is",
    "Like",
    "Literal",
    "Minus",
    "Node",
    "Not",
    "OneOf",
    "Or",
    "Scalar",
    "children",
    "columns_of",
]

Scalar = Union[int, float, str, bool, None, date, datetime]

_NO_SPAN = Span(0, 0)

ArithmeticOperator = OneOfThese["+", "-", "*", "/", "%"]
ComparisonOperator = OneOfThese["=", "<>", "<", "<=", ">", ">="]


class Form(Enum):
    """What is written like a function, but treats NULL or the types of its operands differently."""

    COALESCE = "COALESCE"
    GREATEST = "GREATEST"
    LEAST = "LEAST"
    NULLIF = "NULLIF"

    @property
    def arity(self) -> tuple[int, int | None]:
        """The fewest and the most operands; None if there is no limit."""
        return (2, 2) if self is Form.NULLIF else (1, None)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the current event, or with ``previous`` of the event before it."""

    name: str
    previous: bool = False
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, string, truth value, NULL, date or timestamp."""

    value: Scalar
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``+ - * / %`` of two numbers."""

    operator: ArithmeticOperator
    left: Node
    right: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Comparison:
    """``= <> < <= > >=``."""

    operator: ComparisonOperator
    left: Node
    right: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Concatenation:
    """``left || right``."""

    left: Node
    right: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Minus:
    """``-`` of one operand; a negative number is a Literal."""

    operand: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction; flat, so that its length does not nest."""

    operands: tuple[Node, ...]
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction; flat as `And` is."""

    operands: tuple[Node, ...]
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """NOT."""

    operand: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``value BETWEEN low AND high``, both inclusive."""

    value: Node
    low: Node
    high: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """``value IN (members)``."""

    value: Node
    members: tuple[Node, ...]
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """``value LIKE 'pattern' ESCAPE 'c'``; without ESCAPE no character escapes."""

    value: Node
    pattern: str
    escape: str | None = None
    any_case: bool = False
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Is:
    """``value IS NULL / TRUE / FALSE`` or ``value IS NOT DISTINCT FROM other``."""

    value: Node
    other: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN condition THEN result ... ELSE otherwise END``; IF and IIF become this."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """COALESCE, GREATEST, LEAST or NULLIF."""

    form: Form
    operands: tuple[Node, ...]
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the registry, by its canonical name."""

    function: str
    arguments: tuple[Node, ...]
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(value AS type)``."""

    value: Node
    to: str  # BIGINT DOUBLE BOOLEAN STRING
    span: Span = field(default=_NO_SPAN, compare=False)


Node = Union[
    Column, Literal, Arithmetic, Comparison, Concatenation, Minus, And, Or, Not, Between, OneOf,
    Like, Is, Case, Choice, Call, Cast,
]  # fmt: skip


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node, from left to right."""
    match node:
        case Column() | Literal():
            return ()
        case Arithmetic(_, left, right) | Comparison(_, left, right) | Concatenation(left, right):
            return (left, right)
        case And(operands) | Or(operands) | Choice(_, operands):
            return operands
        case Not(operand) | Minus(operand):
            return (operand,)
        case Between(value, low, high):
            return (value, low, high)
        case OneOf(value, members):
            return (value, *members)
        case Like(value) | Cast(value):
            return (value,)
        case Is(value, other):
            return (value, other)
        case Case(branches, otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Call(_, arguments):
            return arguments
        case _:
            assert_never(node)


def columns_of(node: Node) -> Iterator[Column]:
    """The columns of a predicate in the order in which they are written."""
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue  # an operand that is shared
        seen.add(id(current))
        if isinstance(current, Column):
            yield current
        else:
            pending.extend(reversed(children(current)))
