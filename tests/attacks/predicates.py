"""Random predicates over hostile values: a frame, frames of one row and single events agree."""

from __future__ import annotations

import math
import random
from datetime import date, datetime
from functools import cache
from typing import Any

import polars as pl

import piestream as ps
from piestream.language import Predicate
from tests.attacks.workers import AttackError, main
from tests.expressions.trees import SCHEMA as _TREES
from tests.expressions.trees import Expressions, past_of, with_past

#: Unsigned integers of 64 bits, of which those beyond 63 bits count as NULL.
SCHEMA: dict[str, Any] = {**_TREES, "u": pl.UInt64}
_ROWS = 400
_FLOATS = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -2.2e-308, 1.7976931348623157e308, 0.1, 0.3,
           3.0, -7.5, 10.0, 1000.0, 2.0**53, 2.0**53 + 2, -(2.0**63), 2.0**63, 9.223372036854775e18, 0.5,
           2.5, 1e-5, 1 / 3, 4503599627370495.5]  # fmt: skip
_WHOLE = [0, 1, -1, 2, 3, 7, 10, 2**31 - 1, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63),
          1 - 2**63, 10**18]  # fmt: skip
_TEXTS = ["", " ", "a", "A", "ab", "a%b", "_", "\\", "'", '"', "\x00", "\n", "a\nb\n", "ß", "İ", "ſ", "é", "e\u0301",
          "\U0001f600", "\u202eabc", "\ufeff", "a" * 5000, "%" * 50, "${HOME}", "$", "^x$", "\u2028",
          " a ", "\ta\t", "NULL", "ẞ", "ΑΣ"]  # fmt: skip
_NUMBERS_IN_TEXTS = ["1", "-0", "+7", "1e400", "1e-400", "NaN", "inf", " 12 ", "1_0", "0x1F", "١", "9" * 30, "1\n", "--1",
                     "9223372036854775807", "9223372036854775808", "-9223372036854775808", ".", "1.", ".5e1", ""]  # fmt: skip
_VALUES: dict[str, list[Any]] = {
    "i": _WHOLE,
    "j": [0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "u": [0, 1, 7, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    "f": _FLOATS,
    "g": [0.0, -0.0, 0.1, 0.5, math.inf, -math.inf, math.nan, 1e-45, 3.4028234663852886e38],
    "s": _TEXTS,
    "n": _NUMBERS_IN_TEXTS,
    "b": [True, False],
    "c": [True, False],
    "d": [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1969, 12, 31), date(1970, 1, 1)],
    "t": [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1969, 12, 31, 23),
          datetime(2024, 2, 29, 12, 30, 15, 1)],
}  # fmt: skip


class _Hostile(Expressions):
    """Predicates with divisions by constants, and constants at the ends of their types."""

    def truth(self, depth: int) -> str:
        if self.random.random() > 0.2:
            return super().truth(depth)
        # What is true of one of the values, if the last digit is right.
        column, values = self.random.choice([("i", _WHOLE), ("f", _FLOATS)])
        divisor, dividend = (
            self.random.choice([10, 3, 7, 49, 0.1, 1e-5]),
            self.random.choice(values),
        )
        sign, quotient = self.pick("=", "<>", "<", ">="), float(dividend) / divisor
        if not math.isfinite(quotient):
            quotient = 0.3
        return f"{column} / {divisor!r} {sign} {quotient!r}"

    def number(self, depth: int) -> str:
        kind = self.random.randrange(8)
        if depth > 0 and kind == 0:
            divisor = self.pick(
                "10", "3", "0.1", "7", "1e-300", "0", "-0.0", "COALESCE(10, f)", "49"
            )
            return f"({self.number(depth - 1)}) / {divisor}"
        if kind == 1:
            return self.pick(
                "-0.0", "1e308", "9007199254740993", "9223372036854775807", "0.3", "1e-320"
            )
        return super().number(depth)


@cache
def hostile_rows(seed: int) -> tuple[pl.DataFrame, list[dict[str, Any]]]:
    """Rows of hostile values, as a frame with the values of PREV and as events."""
    draw = random.Random(seed)
    events = [
        {name: None if draw.random() < 0.1 else draw.choice(_VALUES[name]) for name in SCHEMA}
        for _ in range(_ROWS)
    ]
    frame = pl.DataFrame(events, schema=SCHEMA)
    # As the values come from a frame: a float of 32 bits is what its column holds.
    return with_past(frame), frame.to_dicts()


def text_of(seed: int) -> str:
    """The predicate of a seed."""
    draw = random.Random(seed)
    return _Hostile(draw).truth(draw.choice([1, 2, 2, 3]))


def one(seed: int) -> str:
    """Evaluate a predicate in each way; all must say the same of each row."""
    text = text_of(seed)
    frame, events = hostile_rows(seed % 8)
    try:
        predicate = Predicate.parse(text)
        expression = predicate.to_polars(SCHEMA)
    except ps.QueryError:
        return "QueryError"
    if Predicate.parse(str(predicate)).tree != predicate.tree:
        raise AttackError(f"the canonical text says something else: {text}")
    whole = frame.select(expression).to_series().to_list()
    if len(whole) != _ROWS:
        raise AttackError(f"{len(whole)} rows: {text}")
    function = predicate.to_python(SCHEMA)
    if function is None:
        return "too large for Python"
    before = [None, *map(past_of, events[:-1])]
    single = [function(event, past) for event, past in zip(events, before, strict=True)]
    if whole != single:
        row = next(n for n in range(_ROWS) if whole[n] != single[n])
        raise AttackError(
            f"Polars {whole[row]}, Python {single[row]}: {text}\n{events[row]}\nafter {events[row - 1]}"
        )
    for row in random.Random(seed).sample(range(_ROWS), 2):
        alike = pl.concat([frame[row : row + 1]] * 3)  # Polars may find a constant here
        for rows in (alike, alike[:1]):
            if rows.select(expression).to_series().to_list() != [single[row]] * len(rows):
                raise AttackError(f"a frame of {len(rows)} rows: {text}\n{events[row]}")
    return "agree"


if __name__ == "__main__":
    main("tests.attacks.predicates", one)
