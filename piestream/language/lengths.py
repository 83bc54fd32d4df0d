"""Lengths of time in an expression: ``5 min``, ``INTERVAL '30' SECOND``, a parameter."""

from __future__ import annotations

from datetime import timedelta

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration, duration_of, rewritten, unit_named
from piestream.expressions.keywords import EXPRESSION_WORDS
from piestream.expressions.tokens import Kind
from piestream.language.cursor import Cursor

__all__ = ["begins_length", "take_length"]


def begins_length(cursor: Cursor) -> bool:
    """Whether a length of time comes next, or what may be meant as one."""
    token, after = cursor.peek(), cursor.peek(1)
    if token.upper == "INTERVAL":
        return after.kind in (Kind.STRING, Kind.NUMBER)
    if token.kind is Kind.PARAMETER and isinstance(token.value, timedelta):
        return True
    is_number = token.kind in (Kind.NUMBER, Kind.PARAMETER)
    return is_number and bool(after.upper) and after.upper not in EXPRESSION_WORDS


def take_length(cursor: Cursor, clause: str) -> tuple[Duration, Span] | None:
    """Read what `begins_length` has found; None if it is no length, and faults go to the cursor."""
    token = cursor.peek()
    if token.upper == "INTERVAL":
        return _take_interval(cursor)
    count = 1 if isinstance(token.value, timedelta) else 2
    tokens = cursor.tokens[cursor.position : cursor.position + count]
    end = cursor.peek(count)
    if count == 2 and unit_named(tokens[1].text) is None and end.is_sign("(", "."):
        cursor.take()  # something is missing between a number and what follows
        return None
    cursor.position += count
    length = Cursor(tokens, end.span, cursor.diagnostics).take_duration(clause)
    return None if length is None else (length, tokens[0].span.joined(tokens[-1].span))


def _take_interval(cursor: Cursor) -> tuple[Duration, Span] | None:
    """Read ``INTERVAL '30' SECOND``."""
    first, number, unit = cursor.take(), cursor.take(), cursor.peek()
    written = number.text
    last = number
    if unit_named(unit.text) is not None:
        written += f" {unit.text}"
        last = cursor.take()
    text = rewritten(written)
    span = first.span.joined(last.span)
    length = duration_of(*text.split()) if text is not None else "this is not a length of time"
    if isinstance(length, str):
        cursor.report(span, length, "write it like 5 s or 5 minutes")
        return None
    return length, span
