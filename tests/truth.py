"""The truth of a predicate on an event, for the oracle: a text with a Python closure beside it.

SQL's three values (True, False, None) over plain dictionaries, a NaN being NULL. The
engine's own predicates are not used: two independent readings of one text must agree.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.clock import Clock

__all__ = [
    "Expression",
    "Past",
    "Row",
    "binary",
    "column",
    "literal",
    "negated",
    "over",
    "parsed",
    "previous",
    "until",
]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """The events before one in its partition, the earliest first, and how their times are read."""

    rows: tuple[Row, ...] = ()
    clock: Clock = field(default_factory=Clock)
    time: str = "ts"
    gap: int | None = None  # MAX GAP in ticks

    def up_to(self, count: int) -> Past:
        """The past of the event with that number."""
        return Past(self.rows[:count], self.clock, self.time, self.gap)


#: The value of an expression on an event, given the events before it in the partition.
Value = Callable[[Row, Past], Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A text of the query language and what it is worth on an event.

    Two expressions are equal when their texts are: they are then the *same predicate*.

    >>> two = binary("+", column("n"), literal(1))
    >>> two.text, two.value({"n": 1}, Past()), two.value({"n": None}, Past())
    ('n + 1', 2, None)
    """

    text: str
    value: Value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def holds(self, row: Row, past: Past) -> bool:
        """Whether the predicate holds: NULL is false."""
        return self.value(row, past) is True

    @property
    def reads_the_past(self) -> bool:
        """Whether events before matter."""
        return re.search(r"\b(PREV|OVER|UNTIL)\b", self.text) is not None

    def written(self, clock: Clock) -> str:
        """The text, in which ``{3}`` is a duration of three beats."""
        return re.sub(r"\{(\d+)\}", lambda found: clock.text(int(found[1])), self.text)


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def column(name: str) -> Expression:
    """The event's own value."""
    return Expression(name, lambda row, past: _known(row[name]))


def previous(of: str | Expression, events: int = 1) -> Expression:
    """``PREV(column, events)``: NULL where so many events have not come."""
    inner = column(of) if isinstance(of, str) else of

    def value(row: Row, past: Past) -> Any:
        count = len(past.rows) - events
        return None if count < 0 else inner.value(past.rows[count], past.up_to(count))

    more = f", {events}" if events > 1 else ""
    return Expression(f"PREV({inner.text}{more})", value)


def over(
    function: str, inner: Expression, *, beats: int | None = None, events: int | None = None
) -> Expression:
    """``AVG(x) OVER 3 s`` or ``OVER 3 EVENTS``, by listing what is in the window."""

    def value(row: Row, past: Past) -> Any:
        rows = [*past.rows, row]
        if events is None:
            length = past.clock.beats(beats)
            first = next(i for i, r in enumerate(rows) if row[past.time] - r[past.time] < length)
        else:
            first = max(0, len(rows) - events)
        every = (inner.value(rows[i], past.up_to(i)) for i in range(first, len(rows)))
        return _aggregate(function, [one for one in every if one is not None])

    length = f"{events} EVENTS" if events is not None else f"{{{beats}}}"
    return Expression(f"{function}({inner.text}) OVER {length}", value)


def _aggregate(function: str, values: Sequence[Any]) -> Any:
    """What an aggregate gives, calculated without error and rounded where SQL's has floats."""
    count = len(values)
    if function == "COUNT":
        return count
    if not values:
        return None
    total = sum(map(Fraction, values))
    if function in ("MIN", "MAX"):
        return min(values) if function == "MIN" else max(values)
    if function == "SUM":
        return float(total) if isinstance(values[0], float) else int(total)
    if function == "AVG":
        return float(total) / count
    if count < 2:
        return None
    squares = sum(Fraction(one) ** 2 for one in values)
    return math.sqrt(float(count * squares - total**2) / (count * (count - 1)))


def until(start: Expression, stop: Expression) -> Expression:
    """``start UNTIL stop``, from the first event on; a silence ends it as it ends a run."""

    def value(row: Row, past: Past) -> Any:
        holds, last = False, None
        for number, one in enumerate([*past.rows, row]):
            before = past.up_to(number)
            now = None if past.gap is None else one[past.time]
            if now is not None and last is not None and now - last > past.gap:
                holds = False
            last = now
            if stop.value(one, before) is True:
                holds = False
            elif start.value(one, before) is True:
                holds = True
        return holds

    return Expression(f"{start.text} UNTIL {stop.text}", value)


def literal(value: Any) -> Expression:
    """A number, a string, TRUE, FALSE or NULL."""
    if value is None or isinstance(value, bool):
        text = {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    else:
        text = f"'{value}'" if isinstance(value, str) else repr(value)
    return Expression(text, lambda row, past: value)


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
            lambda row, past: join(left.value(row, past), right.value(row, past)),
        )
    apply = _OPERATORS[sign]

    def value(row: Row, past: Past) -> Any:
        first, second = left.value(row, past), right.value(row, past)
        return None if first is None or second is None else apply(first, second)

    return Expression(f"{left.text} {sign} {right.text}", value)


def negated(inner: Expression) -> Expression:
    """NOT: of NULL it is NULL."""

    def value(row: Row, past: Past) -> Any:
        truth = inner.value(row, past)
        return None if truth is None else not truth

    return Expression(f"NOT ({inner.text})", value)


def is_null(inner: Expression, *, negate: bool = False) -> Expression:
    """``x IS NULL`` or ``x IS NOT NULL``: never NULL itself."""
    return Expression(
        f"{inner.text} IS {'NOT ' if negate else ''}NULL",
        lambda row, past: (inner.value(row, past) is None) is not negate,
    )


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+|\d+)|(?P<word>[A-Za-z_]\w*)|(?P<string>'[^']*')"
    r"|(?P<sign><>|<=|>=|[-+*()<>=,]|\{\d+\}))"
)


def parsed(text: str) -> Expression:
    """Reads the small part of SQL that the case folders use.

    >>> past = Past(({"n": 0},))
    >>> parsed("NOT (n > 1 AND b) OR PREV(n) IS NULL").holds({"n": 2, "b": False}, past)
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
    expression = reader.predicate()
    if reader.word():
        raise ValueError(f"the oracle cannot read {text!r} from {reader.word()!r} on")
    # The text as it was written, so that equal texts are equal predicates.
    return Expression(" ".join(tokens), expression.value)


_WINDOWS = ("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV")


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

    def predicate(self) -> Expression:
        start = self.disjunction()
        return until(start, self.disjunction()) if self.take("UNTIL") else start

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

    def argument(self) -> Expression:
        """What stands behind an opening parenthesis."""
        self.at += 1
        return self.sum()

    def closing(self) -> None:
        if not self.take(")"):
            raise ValueError("the oracle wants a closing parenthesis")

    def window(self, function: str, inner: Expression) -> Expression:
        if not self.take("OVER"):
            raise ValueError(f"the oracle wants OVER after {function}")
        token = self.tokens[self.at]
        self.at += 1
        if token.startswith("{"):
            return over(function, inner, beats=int(token[1:-1]))
        if not self.take("EVENTS"):
            raise ValueError("the oracle reads durations of beats: {3}")
        return over(function, inner, events=int(token))

    def atom(self) -> Expression:
        token = self.tokens[self.at]
        self.at += 1
        if token == "(":
            inner = self.disjunction()
            if not self.take(")"):
                raise ValueError("the oracle wants a closing parenthesis")
            return inner
        if token.upper() == "PREV":
            inner, events = self.argument(), 1
            if self.take(","):
                events = int(self.tokens[self.at])
                self.at += 1
            self.closing()
            return previous(inner, events)
        if token.upper() in _WINDOWS:
            inner = literal(True) if self.tokens[self.at + 1] == "*" else self.argument()
            if inner.text == "TRUE":
                self.at += 2
                inner = Expression("*", inner.value)
            self.closing()
            return self.window(token.upper(), inner)
        if token == "-":
            return binary("-", literal(0), self.atom())
        if token.startswith("'"):
            return literal(token[1:-1])
        if token.upper() in ("TRUE", "FALSE", "NULL"):
            return literal({"TRUE": True, "FALSE": False, "NULL": None}[token.upper()])
        if token[:1].isdigit():
            return literal(float(token) if "." in token else int(token))
        return column(token)
