"""What generated Python predicates call besides the functions of the registry.

Operands are never None, apart from those of `greatest` and `least`; None stands for NULL.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from piestream.expressions.casts import NUMBER_TEXT, WHOLE_NUMBER_TEXT

__all__ = [
    "greatest",
    "least",
    "midnight",
    "number_in",
    "remainder",
    "truncated",
    "truth_text",
    "whole_number_in",
]


def greatest(*values: Any) -> Any:
    present = [value for value in values if value is not None]
    return max(present) if present else None


def least(*values: Any) -> Any:
    present = [value for value in values if value is not None]
    return min(present) if present else None


def remainder(a: int, b: int) -> int:
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def truth_text(value: Any) -> str:
    return "true" if value else "false"


def truncated(value: float) -> int | None:
    if not -(2.0**63) <= value < 2.0**63:  # also where it is a NaN
        return None
    return int(value)


_IS_WHOLE = re.compile(WHOLE_NUMBER_TEXT[:-1] + r"\Z").match
_IS_NUMBER = re.compile(NUMBER_TEXT[:-1] + r"\Z").match


def whole_number_in(text: str) -> int | None:
    text = text.strip(" ")
    if not _IS_WHOLE(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def number_in(text: str) -> float | None:
    text = text.strip(" ")
    return float(text) if _IS_NUMBER(text) else None


def midnight(day: date, zone: ZoneInfo | None) -> datetime:
    return datetime.combine(day, time(0), zone)
