"""The truth of a predicate on an event, for the oracle: a text with a Python closure beside it.

SQL's three values (True, False, None) over plain dictionaries, a NaN being NULL (SPEC 3). The
engine's own predicates are not used: two independent readings of one text must agree.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Expression", "Row", "binary", "column", "literal", "negated", "parsed", "previous"]

Row = Mapping[str, Any]
#: The value of an expression on an event, given the event before it in the partition.
Value = Callable[[Row, Row | None], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A text of the query language and what it is worth on an event.

    Two expressions are equal when their texts are: they are then the *same predicate*.

    >>> two = binary("+", column("n"), literal(1))
    >>> two.text, two.value({"n": 1}, None), two.value({"n": None}, None)
    ('n + 1', 2, None)
    """

    text: str
    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def holds(self, row: Row, before: Row | None) -> bool:
        """Whether the predicate holds: NULL is false (SPEC 2.3)."""
        return self.value(row, before) is True


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def column(name: str) -> Expression:
    """The event's own value."""
    return Expression(name, lambda row, before: _known(row[name]))


def previous(name: str) -> Expression:
    """``PREV(column)``: NULL at the first event."""
    return Expression(
        f"PREV({name})", lambda row, before: None if before is None else _known(before[name])
    )


def literal(value: Any) -> Expression:
    """A number, a string, TRUE, FALSE or NULL."""
    if value is None or isinstance(value, bool):
        text = {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    else:
        text = f"'{value}'" if isinstance(value, str) else repr(value)
    return Expression(text, lambda row, before: value)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def binary(sign: str, left: Expression, right: Expression) -> Expression:
    """A comparison, a sum, AND or OR."""
    if sign in ("AND", "OR"):
        join = _and if sign == "AND" else _or
        return Expression(
            f"({left.text}) {sign} ({right.text})",
            lambda row, before: join(left.value(row, before), right.value(row, before)),
        )
    apply = _OPERATORS[sign]

    def value(row: Row, before: Row | None) -> Any:
        first, second = left.value(row, before), right.value(row, before)
        return None if first is None or second is None else apply(first, second)

    return Expression(f"{left.text} {sign} {right.text}", value)


def negated(inner: Expression) -> Expression:
    """NOT: of NULL it is NULL."""

    def value(row: Row, before: Row | None) -> Any:
        truth = inner.value(row, before)
        return None if truth is None else not truth

    return Expression(f"NOT ({inner.text})", value)


def is_null(inner: Expression, *, negate: bool = False) -> Expression:
    """``x IS NULL`` or ``x IS NOT NULL``: never NULL itself."""
    return Expression(
        f"{inner.text} IS {'NOT ' if negate else ''}NULL",
        lambda row, before: (inner.value(row, before) is None) is not negate,
    )


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<word>[A-Za-z_]\w*)|(?P<string>'[^']*')"
    r"|(?P<sign><>|<=|>=|[-+*()<>=]))"
)


def parsed(text: str) -> Expression:
    """Reads the small part of SQL that the case folders use.

    >>> parsed("NOT (n > 1 AND b) OR PREV(n) IS NULL").holds({"n": 2, "b": False}, {"n": 0})
    True
    """
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"the oracle cannot read {text[at:]!r}")
        tokens.append(found[0].strip())
        at = found.end()
    reader = _Reader([*tokens, ""])
    expression = reader.disjunction()
    if reader.word():
        raise ValueError(f"the oracle cannot read {text!r} from {reader.word()!r} on")
    # The text as it was written, so that equal texts are equal predicates.
    return Expression(" ".join(tokens), expression.value)


class _Reader:
    """Recursive descent, one method a level of precedence."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def word(self) -> str:
        return self.tokens[self.at].upper()

    def take(self, *words: str) -> str | None:
        if self.word() in words:
            self.at += 1
            return self.tokens[self.at - 1].upper()
        return None

    def disjunction(self) -> Expression:
        left = self.conjunction()
        while self.take("OR"):
            left = binary("OR", left, self.conjunction())
        return left

    def conjunction(self) -> Expression:
        left = self.negation()
        while self.take("AND"):
            left = binary("AND", left, self.negation())
        return left

    def negation(self) -> Expression:
        return negated(self.negation()) if self.take("NOT") else self.comparison()

    def comparison(self) -> Expression:
        left = self.sum()
        if self.take("IS"):
            negate = self.take("NOT") is not None
            if not self.take("NULL"):
                raise ValueError(f"the oracle wants NULL after IS, not {self.word()!r}")
            return is_null(left, negate=negate)
        if sign := self.take(">", ">=", "<", "<=", "=", "<>"):
            return binary(sign, left, self.sum())
        return left

    def sum(self) -> Expression:
        left = self.atom()
        while sign := self.take("+", "-", "*"):
            left = binary(sign, left, self.atom())
        return left

    def atom(self) -> Expression:
        token = self.tokens[self.at]
        self.at += 1
        if token == "(":
            inner = self.disjunction()
            if not self.take(")"):
                raise ValueError("the oracle wants a closing parenthesis")
            return inner
        if token.upper() == "PREV":
            name = self.tokens[self.at + 1]
            self.at += 3
            return previous(name)
        if token == "-":
            return binary("-", literal(0), self.atom())
        if token.startswith("'"):
            return literal(token[1:-1])
        if token.upper() in ("TRUE", "FALSE", "NULL"):
            return literal({"TRUE": True, "FALSE": False, "NULL": None}[token.upper()])
        if token[:1].isdigit():
            return literal(float(token) if "." in token else int(token))
        return column(token)
