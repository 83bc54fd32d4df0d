"""A reader over the tokens of one clause; what it cannot read becomes a finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.durations import UNIT_SPELLINGS, Duration, duration_of, meant, unit_named
from piestream.expressions.tokens import RESERVED, Kind, Token

__all__ = ["Reader"]

#: Words that may follow a duration and are therefore never taken for a misspelt unit.
_AFTER_DURATION = frozenset({"AND", "AT", "BETWEEN", "AS"})

_LIKE = "write it like 5 s or 5 minutes"


class Reader:
    """Reads tokens from left to right and puts faults into a shared list."""

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
        """The next token, which is thereby read."""
        token = self.peek()
        self.position += 1
        return token

    @property
    def at_end(self) -> bool:
        """Whether every token was read."""
        return self.position >= len(self.tokens)

    def fault(self, place: Token | Span, message: str, hint: str | None = None) -> None:
        """Notes that something is wrong here."""
        span = place.span if isinstance(place, Token) else place
        self.diagnostics.append(Diagnostic(span, message, hint))

    def word(self, *words: str) -> bool:
        """Reads one of these keywords if it comes next."""
        if self.peek().upper in words:
            self.position += 1
            return True
        return False

    def sign(self, *signs: str) -> bool:
        """Reads one of these signs if it comes next."""
        if self.peek().is_sign(*signs):
            self.position += 1
            return True
        return False

    def name(self, what: str) -> Token | None:
        """Reads a name; a reserved word must be quoted to be one."""
        token = self.peek()
        if token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.upper not in RESERVED):
            return self.take()
        if token.kind is Kind.WORD:
            hint = f'to use it as a name, write "{token.text}"'
            self.fault(token, f"{token.text} is a reserved word, not {what}", hint)
        elif token.kind is Kind.END:
            self.fault(token, f"{what} is missing")
        else:
            self.fault(token, f"{what} should stand here, not {token.text}")
        return None

    def duration(self, what: str) -> Duration | None:
        """Reads ``5 minutes`` or a bare number of ticks."""
        number = self.peek()
        if number.kind is not Kind.NUMBER:
            quote = "'" if number.kind is Kind.STRING else ""
            shown = f", not {quote}{number.text}{quote}" if number.text else ""
            self.fault(number, f"{what} needs a duration{shown}", self._how_long())
            return None
        hint = self._how_long()
        self.take()
        unit: str | None = None
        after = self.peek()
        if after.kind is Kind.WORD and after.upper not in _AFTER_DURATION:
            self.take()
            unit = after.text
            if unit_named(unit) is None:
                near = did_you_mean(unit, UNIT_SPELLINGS)
                units = near or "the units are ns, us, ms, s, min, h, d, w"
                hint = units if hint == _LIKE else hint
                self.fault(after, f"{unit} is not a unit of time", hint)
                return None
        if self.peek().kind is Kind.NUMBER or self.peek().is_sign(":"):
            more = self.peek()
            self.position = len(self.tokens)
            self.fault(more, "a duration is one number and one unit", hint)
            return None
        duration = duration_of(number.text, unit)
        if isinstance(duration, str):
            self.fault(number, duration)
            return None
        return duration

    def _how_long(self) -> str:
        """A hint for what stands here instead of a duration."""
        rest = self.tokens[self.position :]
        stop = next((i for i, t in enumerate(rest) if t.upper in _AFTER_DURATION), len(rest))
        written = meant(" ".join(token.text for token in rest[:stop]))
        return _LIKE if written is None else f"write it as {written}"

    def nothing_more(self, what: str) -> None:
        """Faults what is left over at the end of a clause or item."""
        if not self.at_end:
            token = self.peek()
            self.fault(token, f"{token.text or 'this'} does not belong after {what}")
            self.position = len(self.tokens)

    def parts(self, *separators: str) -> Iterator[Reader]:
        """The rest, cut at these signs outside of brackets; each part is a reader of its own."""
        current: list[Token] = []
        depth = 0
        for token in self.tokens[self.position :]:
            depth += token.is_sign("(", "[") - token.is_sign(")", "]")
            if depth <= 0 and token.is_sign(*separators):
                yield Reader(current, token.span, self.diagnostics)
                current, depth = [], 0
            else:
                current.append(token)
        yield Reader(current, self.end.span, self.diagnostics)
        self.position = len(self.tokens)

    def span(self) -> Span:
        """All that this reader covers."""
        if not self.tokens:
            return self.end.span
        return self.tokens[0].span.joined(self.tokens[-1].span)


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
