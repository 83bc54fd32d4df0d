"""What is known of a page bounds what is in it."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from piestream.archives.statistics import MOST_TEXT, as_seen, page_statistics
from piestream.intervals.exact_sums import piece_sums


def _frame() -> pl.DataFrame:
    draw = np.random.default_rng(3)
    n = 100
    floats = draw.normal(0, 1e10, n)
    floats[::7] = math.nan
    text = [
        "x" * int(draw.integers(0, 200)) + "\U0010ffff" * int(draw.integers(0, 90))
        for _ in range(n)
    ]
    return pl.DataFrame(
        {
            "ts": np.arange(n),
            "float": pl.Series(floats),
            "small": pl.Series(floats, dtype=pl.Float32),
            "text": pl.Series([None if i % 11 == 0 else t for i, t in enumerate(text)]),
            "category": pl.Series([t[:2] for t in text], dtype=pl.Categorical),
            "flag": draw.random(n) < 0.1,
            "day": [date(2026, 1, 1 + i % 28) for i in range(n)],
            "at": pl.Series([datetime(2026, 1, 1 + i % 28) for i in range(n)]).dt.replace_time_zone("Europe/Berlin"),
            "cents": pl.Series([Decimal(i) / 7 for i in range(n)], dtype=pl.Decimal(20, 6)),
            "large": pl.Series([2**64 - 1 - i for i in range(n)], dtype=pl.UInt64),
            "nothing": pl.Series([None] * n, dtype=pl.Int64),
            "listed": [[i] for i in range(n)],
        }
    )  # fmt: skip


def test_bounds_and_counts_are_those_of_the_values_that_predicates_see() -> None:
    frame = _frame()
    found = page_statistics(frame, 9, None)
    assert found["rows"].to_list() == [9] * 11 + [1]
    for number in range(12):
        page = frame[number * 9 : number * 9 + 9]
        for name, dtype in frame.schema.items():
            seen = as_seen(name, dtype)
            if seen is None:
                assert f"min:{name}" not in found.columns
                continue
            values = page.select(seen).to_series()
            low, high = found[f"min:{name}"][number], found[f"max:{name}"][number]
            assert found[f"missing:{name}"][number] == values.null_count()
            there = values.drop_nulls()
            assert low is None or all(value >= low for value in there)
            assert high is None or all(value <= high for value in there)
            if dtype != pl.String:
                assert (low, high) == (there.min(), there.max())
            else:
                assert len(low or "") <= MOST_TEXT
                assert len(high or "") <= MOST_TEXT


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 63 + "b"),
        ("a" * 63 + "\ud7ff" + "x", "a" * 63 + "\ue000"),
        ("a" * 63 + "\U0010ffff" + "x", None),
    ],
)
def test_a_long_text_is_cut_off_upwards(text: str, most: str | None) -> None:
    found = page_statistics(pl.DataFrame({"text": [text]}), 9, None)
    assert found["max:text"][0] == most
    assert found["min:text"][0] == text[:64]


def test_sums_are_exact() -> None:
    draw = np.random.default_rng(5)
    values = draw.normal(0, 1, 500) * 10.0 ** draw.integers(-300, 290, 500)
    values[::50] = math.nan
    starts = np.array([0, 100, 100, 101, 500])
    found = piece_sums(values, starts)
    for first, last, parts in zip(starts, starts[1:], found, strict=False):
        assert parts is not None
        there = [Fraction(v) for v in values[first:last].tolist() if v == v]
        assert sum(map(Fraction, parts), Fraction(0)) == sum(there, Fraction(0))
    whole = pl.DataFrame({"n": [2**62] * 9 + [-(2**63)] * 5, "x": [1] * 14})
    ((high, low), _) = page_statistics(whole, 9, None)["sum:n"].to_list()
    assert high * 2**32 + low == 9 * 2**62


def test_sums_of_what_is_infinite_or_too_large_say_so() -> None:
    values = np.array([1.0, math.inf, -math.inf, math.inf, 1e308, 1e308, math.nan])
    first, second, third, none = piece_sums(values, np.array([0, 2, 4, 6, 7]))
    assert first == [math.inf]
    assert second is not None
    assert math.isnan(second[0])
    assert third is None
    assert none == []


def test_the_keys_of_a_page_are_listed_where_they_are_few() -> None:
    frame = pl.DataFrame({"car": [1, 1, 2, None, *range(3000)]})
    found = page_statistics(frame, 4, "car")
    assert found["keys:car"][0].to_list() == [1, 2, None]
    assert page_statistics(frame, 3004, "car")["keys:car"].null_count() == 1
