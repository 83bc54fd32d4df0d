"""A cursor over the tokens of one clause; what it cannot read becomes a diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, did_you_mean
from piestream.expressions.durations import (
    BY_CALENDAR,
    CALENDAR,
    MOST_EVENTS,
    UNIT_SPELLINGS,
    UNITS,
    Duration,
    as_duration,
    duration_of,
    rewritten,
    unit_named,
)
from piestream.expressions.refusals import template_fault
from piestream.expressions.tokens import RESERVED, Kind, Token

__all__ = ["Cursor"]

T = TypeVar("T")

#: Words that may follow a duration and are therefore never taken for a misspelt unit.
_AFTER_DURATION = frozenset({"AND", "OR", "AT", "BETWEEN", "BRIDGING", "AS", "OF"})

#: What a bound on the number of events is written with.
_EVENTS = ("EVENTS", "EVENT")

#: What others call events.
_ROWS = ("row", "rows", "tick", "ticks", "times", "points", "samples", "records")

_EXAMPLE = "write it like 5 s or 5 minutes"


class Cursor:
    """Reads tokens from left to right and adds faults to a shared list."""

    def __init__(self, tokens: list[Token], end: Span, diagnostics: list[Diagnostic]) -> None:
        self.tokens = tokens
        self.end = Token(Kind.END, "", end)
        self.diagnostics = diagnostics
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes next, or one further on; END after the last."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else self.end

    def take(self) -> Token:
        """The next token; the cursor moves behind it."""
        token = self.peek()
        self.position += 1
        return token

    @property
    def at_end(self) -> bool:
        """Whether every token has been read."""
        return self.position >= len(self.tokens)

    def report(self, place: Token | Span, message: str, hint: str | None = None) -> None:
        """Add a fault at this place."""
        span = place.span if isinstance(place, Token) else place
        self.diagnostics.append(Diagnostic(span, message, hint))

    def take_word(self, *words: str) -> bool:
        """Read one of these keywords if it comes next."""
        if self.peek().upper in words:
            self.position += 1
            return True
        return False

    def take_sign(self, *signs: str) -> bool:
        """Read one of these signs if it comes next."""
        if self.peek().is_sign(*signs):
            self.position += 1
            return True
        return False

    def take_name(self, what: str) -> Token | None:
        """Read a name; a reserved word must be quoted to be one."""
        token = self.peek()
        if token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.upper not in RESERVED):
            return self.take()
        if token.kind is Kind.WORD:
            hint = f'to use it as a name, write "{token.text}"'
            self.report(token, f"{token.text} is a reserved word, not {what}", hint)
        elif token.kind is Kind.END:
            self.report(token, f"{what} is missing")
        else:
            self.report(token, f"{what} should stand here, not {token.text}")
        return None

    def take_duration(self, what: str) -> Duration | None:
        """Read ``5 minutes`` or a bare number of ticks; a parameter may stand for all or the number."""
        number = self.peek()
        if number.kind is Kind.PARAMETER:
            if isinstance(number.value, (str, timedelta)):
                return self._given(as_duration, f"{what} {number.text}")
            number = _as_number(number)
        template = template_fault([*self.tokens[self.position :], self.end])
        if number.kind is not Kind.NUMBER and template is not None:
            self.diagnostics.append(template)
            return None
        if number.kind is not Kind.NUMBER:
            quote = "'" if number.kind is Kind.STRING else ""
            shown = f", not {quote}{number.text}{quote}" if number.text else ""
            self.report(number, f"{what} needs a duration{shown}", self._duration_hint())
            return None
        hint = self._duration_hint()
        self.take()
        unit: str | None = None
        after = self.peek()
        if after.kind is Kind.WORD and after.upper not in _AFTER_DURATION:
            self.take()
            unit = after.text
            if unit_named(unit) is None:
                near = did_you_mean(unit, (*UNIT_SPELLINGS, *_EVENTS))
                if after.upper in _EVENTS:
                    near = f"{what} takes a length of time, such as 5 s, and no number of events"
                if unit.lower() in _ROWS:
                    near = f"write {what} {number.text} EVENTS"
                if unit.lower() in CALENDAR:
                    near = f"{BY_CALENDAR}, as in {what} 30 d"
                units = near or UNITS
                hint = units if hint == _EXAMPLE else hint
                self.report(after, f"{unit} is not a unit of time", hint)
                return None
        if self.peek().kind is Kind.NUMBER or self.peek().is_sign(":"):
            more = self.peek()
            self.position = len(self.tokens)
            self.report(more, "a duration is one number and one unit", hint)
            return None
        duration = duration_of(number.text, unit)
        if isinstance(duration, str):
            self.report(number, duration)
            return None
        return duration

    def _given(self, read: Callable[[Any, str], T], what: str) -> T | None:
        """What a parameter's value gives."""
        token = self.take()
        try:
            return read(token.value, what)
        except QueryError as error:
            self.report(token, error.faults[0].message, error.faults[0].hint)
            return None

    def counts_events(self) -> bool:
        """Whether the bound that comes next is a number of events: ``3 EVENTS``, ``3 AND 5 EVENTS``."""
        ahead = 1
        if self.peek(1).upper == "AND":
            ahead = 3
        return self.peek(ahead).upper in _EVENTS

    def take_event_count(self, what: str) -> int | None:
        """Read ``3 EVENTS``; behind BETWEEN the word may stand once."""
        number = _as_number(self.peek())
        if number.kind is not Kind.NUMBER:
            self.report(number, f"{what} needs a number of events", "write it like 3 EVENTS")
            return None
        self.take()
        self.take_word(*_EVENTS)
        count = Decimal(number.text)
        if count != count.to_integral_value() or count > MOST_EVENTS:
            self.report(number, f"{number.text} is not a number of events")
            return None
        return int(count)

    def _duration_hint(self) -> str:
        """A hint for a duration of another style: how to write it here."""
        rest = self.tokens[self.position :]
        stop = next((i for i, t in enumerate(rest) if t.upper in _AFTER_DURATION), len(rest))
        written = rewritten(" ".join(token.text for token in rest[:stop]))
        return _EXAMPLE if written is None else f"write it as {written}"

    def expect_end(self, what: str, hint: str | None = None) -> None:
        """Report what is left over at the end of a clause or item."""
        if not self.at_end:
            token = self.peek()
            if token.upper == "MATCH_RECOGNIZE":
                hint = (
                    "it stands behind the stream's name, and ORDER BY and PARTITION BY in its "
                    "brackets: FROM trades MATCH_RECOGNIZE ( ORDER BY ts … )"
                )
            self.report(token, f"{token.text or 'this'} does not belong after {what}", hint)
            self.position = len(self.tokens)

    def split(self, *separators: str) -> Iterator[Cursor]:
        """The rest, split at these signs outside of brackets; each part has a cursor of its own."""
        current: list[Token] = []
        depth = 0
        for token in self.tokens[self.position :]:
            depth += token.is_sign("(", "[") - token.is_sign(")", "]")
            if depth <= 0 and token.is_sign(*separators):
                yield Cursor(current, token.span, self.diagnostics)
                current, depth = [], 0
            else:
                current.append(token)
        yield Cursor(current, self.end.span, self.diagnostics)
        self.position = len(self.tokens)

    def span(self) -> Span:
        """All that this cursor covers."""
        if not self.tokens:
            return self.end.span
        return self.tokens[0].span.joined(self.tokens[-1].span)


def _as_number(token: Token) -> Token:
    """A parameter that stands for a number that may be written, as that; any other token as it is."""
    value = token.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return token
    return Token(Kind.NUMBER, format(Decimal(repr(value)), "f"), token.span)


def depths(tokens: Iterable[Token]) -> list[int]:
    """How many brackets are open around each token."""
    found, depth = [], 0
    for token in tokens:
        if token.is_sign(")", "]"):
            depth = max(depth - 1, 0)
        found.append(depth)
        if token.is_sign("(", "["):
            depth += 1
    return found
