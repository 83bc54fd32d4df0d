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
from piestream.expressions.durations import Duration

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
    "Named",
    "Node",
    "Not",
    "OneOf",
    "Or",
    "Previous",
    "Scalar",
    "Until",
    "Window",
    "children",
    "columns_of",
    "past_in",
    "reads_the_past",
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
    """A column of the event; ``is_quoted`` if its name is written in double quotes."""

    name: str
    span: Span = field(default=_NO_SPAN, compare=False)
    is_quoted: bool = field(default=False, compare=False)


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


@dataclass(frozen=True, slots=True)
class Previous:
    """``PREV(operand, events)``: the value so many events before in the partition."""

    operand: Node
    events: int
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """``AVG(operand) OVER 30 s`` or ``OVER 5 EVENTS``; ``COUNT(*)`` has no operand."""

    function: str
    operand: Node | None
    length: Duration | int  # a number of events
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Until:
    """``start UNTIL stop``: from an event at which the first holds, up to one at which the second does."""

    start: Node
    stop: Node
    span: Span = field(default=_NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Named:
    """An expression by the name that LET gave it.

    ``shift`` leads from places in the text of the name's user to those in the text of LET.
    """

    name: str
    value: Node
    shift: int = field(default=0, compare=False)
    span: Span = field(default=_NO_SPAN, compare=False)


Node = Union[
    Column, Literal, Arithmetic, Comparison, Concatenation, Minus, And, Or, Not, Between, OneOf,
    Like, Is, Case, Choice, Call, Cast, Previous, Window, Until, Named,
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
        case Not(operand) | Minus(operand) | Previous(operand):
            return (operand,)
        case Window(_, of):
            return () if of is None else (of,)
        case Until(start, stop):
            return (start, stop)
        case Named(_, value):
            return (value,)
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
    return (part for part in _parts(node) if isinstance(part, Column))


def past_in(node: Node) -> Iterator[Previous | Window | Until]:
    """The parts of a predicate that read events before the current one."""
    return (part for part in _parts(node) if isinstance(part, (Previous, Window, Until)))


def reads_the_past(node: Node) -> bool:
    """Whether a predicate reads events before the current one."""
    return next(past_in(node), None) is not None


def _parts(node: Node) -> Iterator[Node]:
    """A node and all below it, from left to right; what is shared comes once."""
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            pending.extend(reversed(children(current)))
