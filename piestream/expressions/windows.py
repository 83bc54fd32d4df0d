"""``AVG(x) OVER 30 s`` and ``p UNTIL q``: what SQL has no words for, read before sqlglot reads the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Union

from piestream.expressions.diagnostics import Diagnostic, QueryError, Span, did_you_mean
from piestream.expressions.durations import (
    UNIT_SPELLINGS,
    Duration,
    as_duration,
    duration_of,
    unit_named,
)
from piestream.expressions.keywords import EXPRESSION_WORDS
from piestream.expressions.tokens import Kind, Token

__all__ = ["MOST_BACK", "MOST_IN_WINDOW", "WINDOW_FUNCTIONS", "Lengths", "until_of", "with_lengths"]

#: What may stand before OVER.
WINDOW_FUNCTIONS = ("AVG", "SUM", "MIN", "MAX", "COUNT", "STDDEV")
#: How far PREV can look back, in events; and how many events a window may hold.
MOST_BACK = 1_000
MOST_IN_WINDOW = 1_000_000

_EVENTS = ("EVENTS", "EVENT")
_EXAMPLE = "write OVER 30 s or OVER 5 EVENTS"

#: A duration, or a number of events.
Length = Union[Duration, int]


@dataclass(slots=True)
class Lengths:
    """The lengths of windows, by the texts that stand for them."""

    found: dict[str, Length] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def with_lengths(tokens: Sequence[Token]) -> tuple[list[Token], Lengths]:
    """Tokens, where the length behind each OVER is one name; and what the names stand for.

    >>> from piestream.expressions.tokens import tokenize
    >>> tokens, lengths = with_lengths(tokenize("AVG(x) OVER 30 s > 5")[0])
    >>> [token.text for token in tokens][3:7], lengths.found
    ([')', 'OVER', '30 s', '>'], {'30 s': Duration(amount=30000000000, in_ticks=False)})
    """
    lengths = Lengths()
    found: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        position += 1
        if token.upper != "OVER" or not found or not found[-1].is_sign(")"):
            found.append(token)
            continue
        found.append(replace(token, kind=Kind.SIGN))  # sqlglot is to read it as a keyword
        count = _take_length(tokens[position:], lengths)
        if count:
            span = tokens[position].span.joined(tokens[position + count - 1].span)
            found.append(Token(Kind.WORD, next(reversed(lengths.found)), span))
        position += count
    return found, lengths


def _take_length(tokens: Sequence[Token], lengths: Lengths) -> int:
    """How many of the tokens are a length, which goes to those found; 0 if none is."""
    first, after = tokens[0], tokens[min(1, len(tokens) - 1)]
    if first.kind is Kind.PARAMETER and isinstance(first.value, str | timedelta):
        return _note(lengths, first.span, _given(first), 1)
    written = first.text
    if first.kind is Kind.PARAMETER and type(first.value) in (int, float):
        written = str(first.value)
    elif first.kind is not Kind.NUMBER:
        lengths.diagnostics.append(
            Diagnostic(first.span, "the length of the window is missing after OVER", _EXAMPLE)
        )
        return 0
    if after.upper in _EVENTS:
        whole = int(written) if written.isdigit() else -1
        if not 1 <= whole <= MOST_IN_WINDOW:
            message = f"a window has from 1 to {MOST_IN_WINDOW:,} events, not {written}"
            return _note(lengths, first.span, message, 2)
        return _note(lengths, first.span, whole, 2)
    if after.kind is Kind.WORD and unit_named(after.text) is not None:
        span = first.span.joined(after.span)
        return _note(lengths, span, duration_of(written, after.text), 2)
    if after.kind is Kind.WORD and after.upper not in EXPRESSION_WORDS:
        hint = did_you_mean(after.text, (*UNIT_SPELLINGS, *_EVENTS)) or _EXAMPLE
        lengths.diagnostics.append(
            Diagnostic(after.span, f"{after.text} is not a unit of time", hint)
        )
        return 0
    return _note(lengths, first.span, duration_of(written, None), 1)


def _given(token: Token) -> Length | str:
    """The duration that a parameter stands for, or what is wrong with it."""
    assert isinstance(token.value, str | timedelta)
    try:
        return as_duration(token.value, f"OVER {token.text}")
    except QueryError as error:
        return error.faults[0].message


def _note(lengths: Lengths, span: Span, length: Length | str, count: int) -> int:
    """Keep a length that was read from so many tokens, or what is wrong with it."""
    if isinstance(length, Duration) and not length.amount:
        length = "a window is longer than 0"
    if isinstance(length, str):
        lengths.diagnostics.append(Diagnostic(span, length, _EXAMPLE))
        return 0
    text = f"{length} EVENTS" if isinstance(length, int) else str(length)
    lengths.found.pop(text, None)  # it becomes the last one
    lengths.found[text] = length
    return count


def until_of(tokens: Sequence[Token]) -> int | None:
    """Where the UNTIL of ``p UNTIL q`` stands among the tokens of a predicate; None without one.

    A column may have that name: the keyword stands outside of brackets and behind a whole condition.
    """
    depth = 0
    for index, (before, token) in enumerate(pairwise(tokens), 1):
        depth += before.is_sign("(", "[") - before.is_sign(")", "]")
        ends = before.is_sign(")") or (
            before.kind is not Kind.SIGN and before.upper not in EXPRESSION_WORDS - _LAST_WORDS
        )
        if token.upper == "UNTIL" and not depth and ends and not tokens[index + 1].is_sign("."):
            return index
    return None


#: Keywords with which a condition may end.
_LAST_WORDS = frozenset(["NULL", "TRUE", "FALSE", "END"])
