"""The constants that the predicates of a query compare its columns with: lines in a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from piestream.expressions.syntax import (
    Between,
    Column,
    Comparison,
    Literal,
    Minus,
    Node,
    children,
)
from piestream.language.model import Query

__all__ = ["Threshold", "thresholds"]

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Threshold:
    """A column compared with a number in the predicate of a symbol."""

    symbol: str
    column: str
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.symbol}: {self.column} {self.operator} {self.value:g}"


def thresholds(query: Query) -> tuple[Threshold, ...]:
    """Every comparison of a column with a number, in order of DEFINE, each once.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE c AS 0.5 < x OR x BETWEEN -2 AND -1 PATTERN c WITHIN 9")
    >>> [str(threshold) for threshold in thresholds(query)]
    ['c: x > 0.5', 'c: x >= -2', 'c: x <= -1']
    """
    found: dict[Threshold, None] = {}
    for symbol in query.symbols:
        if symbol.predicate.tree is not None:
            for column, operator, value in _compared(symbol.predicate.tree):
                found[Threshold(symbol.name, column, operator, value)] = None
    return tuple(found)


def _compared(node: Node) -> Iterator[tuple[str, str, float]]:
    match node:
        case Comparison(operator, left, right):
            yield from _between(left, operator, right)
            yield from _between(right, _TURNED.get(operator, operator), left)
        case Between(value, low, high):
            yield from _between(value, ">=", low)
            yield from _between(value, "<=", high)
    for child in children(node):
        yield from _compared(child)


def _between(column: Node, operator: str, constant: Node) -> Iterator[tuple[str, str, float]]:
    number = _number(constant)
    if isinstance(column, Column) and number is not None:
        yield column.name, operator, number


def _number(node: Node) -> float | None:
    match node:
        case Literal(value) if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case Minus(operand):
            number = _number(operand)
            return None if number is None else -number
    return None
