"""Constants as they are written in a predicate, and their values."""

from __future__ import annotations

import math
from datetime import date, datetime

from piestream.expressions.syntax import Scalar
from piestream.expressions.types import MOST_WIDE

__all__ = ["LiteralError", "date_value", "literal_text", "number_value", "timestamp_value"]


class LiteralError(ValueError):
    """A constant that has no value: what is wrong with it, and perhaps what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def number_value(digits: str) -> int | float:
    """The number that is written; a whole number has up to 38 digits.

    >>> number_value("2"), number_value("-1e3")
    (2, -1000.0)
    """
    value: int | float
    try:
        value = int(digits)
    except ValueError:
        try:
            value = float(digits)
        except ValueError:
            raise LiteralError(f"{digits} is not a number") from None
    if isinstance(value, int) and abs(value) > MOST_WIDE:
        raise LiteralError(f"{digits} has more than 38 digits", "write it as a float, like 1e40")
    if math.isinf(value):
        raise LiteralError(f"{digits} is too large for a number")
    return value


def date_value(text: str, type_name: str) -> date:
    """The date that is written."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise _not_a(type_name, "2026-01-31") from None


def timestamp_value(text: str, type_name: str) -> datetime:
    """The timestamp that is written."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise _not_a(type_name, "2026-01-31 12:00:00") from None


def _not_a(type_name: str, example: str) -> LiteralError:
    return LiteralError(f"this is not a {type_name.lower()}", f"write it as '{example}'")


def literal_text(value: Scalar) -> str:
    """A constant as it is written.

    >>> literal_text("it's"), literal_text(date(2026, 1, 31))
    ("'it''s'", "DATE '2026-01-31'")
    """
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
