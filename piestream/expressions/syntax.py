"""A predicate as a tree, as it was written, and its canonical SQL.

This is the whole language of predicates: what has no node here cannot be said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Union

from piestream.expressions.diagnostics import Span
from piestream.expressions.tokens import is_plain_name, quoted

__all__ = [
    "FUNCTIONS",
    "And",
    "Between",
    "Call",
    "Case",
    "Cast",
    "Column",
    "Is",
    "Like",
    "Literal",
    "Node",
    "Not",
    "OneOf",
    "Operation",
    "Or",
    "children",
    "columns_of",
    "sql",
]

Scalar = Union[int, float, str, bool, None, date, datetime]

_NOWHERE = Span(0, 0)

#: The functions of predicates, with the fewest and the most arguments they take.
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "ABS": (1, 1),
    "CEIL": (1, 1),
    "COALESCE": (1, None),
    "CONCAT": (1, None),
    "EXP": (1, 1),
    "FLOOR": (1, 1),
    "GREATEST": (1, None),
    "LEAST": (1, None),
    "LENGTH": (1, 1),
    "LN": (1, 1),
    "LOG10": (1, 1),
    "LOWER": (1, 1),
    "LTRIM": (1, 1),
    "NULLIF": (2, 2),
    "POWER": (2, 2),
    "ROUND": (1, 2),
    "RTRIM": (1, 1),
    "SIGN": (1, 1),
    "SQRT": (1, 1),
    "SUBSTRING": (2, 3),
    "TRIM": (1, 1),
    "UPPER": (1, 1),
    **{f"EXTRACT {f}": (1, 1) for f in ["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "DOW"]},
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the current event, or with ``previous`` of the event before it."""

    name: str
    previous: bool = False
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, string, truth value, NULL, date or timestamp."""

    value: Scalar
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Operation:
    """A sign between two operands: arithmetic, ``||`` or a comparison; ``-`` of one is a Call."""

    sign: str  # + - * / % || = <> < <= > >=
    left: Node
    right: Node
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction; flat, so that its length does not nest."""

    operands: tuple[Node, ...]
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction; flat as `And` is."""

    operands: tuple[Node, ...]
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """NOT."""

    operand: Node
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``value BETWEEN low AND high``, both inclusive."""

    value: Node
    low: Node
    high: Node
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class OneOf:
    """``value IN (members)``."""

    value: Node
    members: tuple[Node, ...]
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """``value LIKE 'pattern' ESCAPE 'c'``; without ESCAPE no character escapes."""

    value: Node
    pattern: str
    escape: str | None = None
    any_case: bool = False
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Is:
    """``value IS NULL / TRUE / FALSE`` or ``value IS NOT DISTINCT FROM other``."""

    value: Node
    other: Node
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE WHEN condition THEN result ... ELSE otherwise END``; IF and IIF become this."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `FUNCTIONS`, or ``-`` of one operand."""

    function: str
    arguments: tuple[Node, ...]
    span: Span = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(value AS type)``."""

    value: Node
    to: str  # BIGINT DOUBLE BOOLEAN STRING
    span: Span = field(default=_NOWHERE, compare=False)


Node = Union[Column, Literal, Operation, And, Or, Not, Between, OneOf, Like, Is, Case, Call, Cast]


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node, from left to right."""
    match node:
        case Column() | Literal():
            return ()
        case Operation(_, left, right):
            return (left, right)
        case And(operands) | Or(operands):
            return operands
        case Not(operand):
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


def columns_of(node: Node) -> Iterator[Column]:
    """The columns of a predicate in the order in which they are written."""
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Column):
            yield current
        else:
            pending.extend(reversed(children(current)))


_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _PRIMARY = range(1, 8)
_STRENGTH = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "||": _SUM}


def sql(node: Node, sql_words: frozenset[str] = frozenset()) -> str:
    """The canonical text of a predicate; names that are ``sql_words`` are quoted.

    >>> sql(Or((Operation(">", Column("lat"), Literal(0.5)), Not(Column("ok")))))
    'lat > 0.5 OR NOT ok'
    """

    def name(word: str) -> str:
        plain = is_plain_name(word) and word.upper() not in sql_words
        return word if plain else quoted(word)

    def write(node: Node, at_least: int) -> str:
        text, strength = written(node)
        return text if strength >= at_least else f"({text})"

    def listed(nodes: tuple[Node, ...]) -> str:
        return ", ".join(write(n, _OR) for n in nodes)

    def written(node: Node, negated: str = "") -> tuple[str, int]:
        match node:
            case Column(column, previous):
                return (f"PREV({name(column)})" if previous else name(column)), _PRIMARY
            case Literal(value):
                return _literal(value), _PRIMARY
            case Operation("||", left, right):
                # Where || binds differs between SQL dialects, so its operands stand in brackets.
                return f"{write(left, _PRIMARY)} || {write(right, _PRIMARY)}", _SUM - 1
            case Operation(sign, left, right):
                strength = _STRENGTH.get(sign, _COMPARISON)
                if strength == _COMPARISON:
                    return f"{write(left, _SUM)} {sign} {write(right, _SUM)}", strength
                return f"{write(left, strength)} {sign} {write(right, strength + 1)}", strength
            case And(operands):
                return " AND ".join(write(o, _NOT) for o in operands), _AND
            case Or(operands):
                return " OR ".join(write(o, _AND) for o in operands), _OR
            case Not(Between() | OneOf() | Like() | Is() as inner):
                return written(inner, "NOT ")
            case Not(operand):
                return f"NOT {write(operand, _PRIMARY)}", _NOT
            case Between(value, low, high):
                bounds = f"{write(low, _SUM)} AND {write(high, _SUM)}"
                return f"{write(value, _SUM)} {negated}BETWEEN {bounds}", _COMPARISON
            case OneOf(value, members):
                return f"{write(value, _SUM)} {negated}IN ({listed(members)})", _COMPARISON
            case Like(value, pattern, escape, any_case):
                verb = "ILIKE" if any_case else "LIKE"
                tail = f" ESCAPE {_literal(escape)}" if escape is not None else ""
                text = f"{write(value, _SUM)} {negated}{verb} {_literal(pattern)}{tail}"
                return text, _COMPARISON
            case Is(value, Literal(None | True | False as truth)):
                return f"{write(value, _SUM)} IS {negated}{_literal(truth)}", _COMPARISON
            case Is(value, other):
                distinct = "DISTINCT" if negated else "NOT DISTINCT"
                return f"{write(value, _SUM)} IS {distinct} FROM {write(other, _SUM)}", _COMPARISON
            case Case(branches, otherwise):
                whens = [f"WHEN {write(c, _OR)} THEN {write(r, _OR)}" for c, r in branches]
                if otherwise != Literal(None):
                    whens.append(f"ELSE {write(otherwise, _OR)}")
                return f"CASE {' '.join(whens)} END", _PRIMARY
            case Call("-", (operand,)):
                return f"-({write(operand, _OR)})", _PRIMARY
            case Call(function, arguments) if function.startswith("EXTRACT "):
                return f"EXTRACT({function[8:]} FROM {listed(arguments)})", _PRIMARY
            case Call(function, arguments):
                return f"{function}({listed(arguments)})", _PRIMARY
            case Cast(value, to):
                return f"CAST({write(value, _OR)} AS {to})", _PRIMARY
        raise AssertionError(node)

    return write(node, _OR)


def _literal(value: Scalar) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return repr(value).replace("e+", "e")
