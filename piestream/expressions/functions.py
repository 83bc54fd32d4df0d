"""The functions of predicates over Python values; operands are never None."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from piestream.expressions.typed import NUMBER, WHOLE_NUMBER

__all__ = [
    "FUNCTIONS",
    "cut",
    "greatest",
    "least",
    "midnight",
    "number_in",
    "remainder",
    "truth_word",
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


def truth_word(value: Any) -> str:
    return "true" if value else "false"


def cut(value: float) -> int | None:
    if not -(2.0**63) <= value < 2.0**63:  # also where it is a NaN
        return None
    return int(value)


_IS_WHOLE = re.compile(WHOLE_NUMBER[:-1] + r"\Z").match
_IS_NUMBER = re.compile(NUMBER[:-1] + r"\Z").match


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


def absolute(value: Any) -> Any:
    result = abs(value)
    return None if type(result) is int and result >= 2**63 else result


def sign(value: Any) -> int | None:
    return None if value != value else (value > 0) - (value < 0)


def rounded(value: float) -> float:
    if not abs(value) < 2.0**52:  # already whole, infinite or NaN
        return value
    whole = math.trunc(value)
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return float(whole)


def floor(value: float) -> float:
    return float(math.floor(value)) if abs(value) < 2.0**52 else value


def ceiling(value: float) -> float:
    return float(math.ceil(value)) if abs(value) < 2.0**52 else value


def power(base: float, exponent: float) -> float | None:
    if base != base or exponent != exponent:
        return None
    try:
        return math.pow(base, exponent)
    except OverflowError:
        odd = exponent == math.floor(exponent) and exponent % 2 == 1
        return -math.inf if base < 0 and odd else math.inf
    except ValueError:  # 0 to a negative power, or a negative base to a broken one
        return math.inf if base == 0 else None


def exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ABS": absolute,
    "SIGN": sign,
    "ROUND": rounded,
    "FLOOR": floor,
    "CEIL": ceiling,
    "SQRT": lambda x: math.sqrt(x) if x >= 0 else None,
    "LN": lambda x: math.log(x) if x > 0 else None,
    "EXP": exponential,
    "POWER": power,
    "LENGTH": len,
    "EXTRACT DOW": lambda moment: moment.isoweekday() % 7,
}
