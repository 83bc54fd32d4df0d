"""What statistics say of a predicate is true of the rows, whatever the predicate and the rows."""

from __future__ import annotations

import math
from datetime import date, datetime
from random import Random
from typing import Any

import polars as pl
import pytest

from piestream.archives.filters import FILTER, may_have, page_filters
from piestream.archives.pages import Pages
from piestream.archives.statistics import page_statistics
from piestream.archives.verdicts import verdicts
from piestream.language import Predicate, QueryError
from tests.expressions.trees import SCHEMA, Expressions, rows, with_past


@pytest.mark.parametrize("seed", range(6))
def test_random_predicates_over_random_pages(seed: int) -> None:
    random = Random(seed)
    expressions = Expressions(random)
    decided = checked = 0
    for size in (1, 2, 3, 8):
        frame = with_past(pl.DataFrame(rows(random, 60), schema=SCHEMA))
        table = page_statistics(frame.select(list(SCHEMA)), size, None)
        filters = page_filters(frame.select(list(SCHEMA)), size, list(SCHEMA))
        known = Pages(pl.Schema(SCHEMA), (), table, load_filters=lambda found=filters: found)
        for _ in range(12):
            text = expressions.truth(random.choice((1, 2, 3)))
            try:
                predicate = Predicate.parse(text)
                holds = frame.select(predicate.to_polars(SCHEMA)).to_series()
            except QueryError:
                continue
            (verdict,) = verdicts([predicate], pl.Schema(SCHEMA), table, known.may_have)
            for page, (can, always) in enumerate(
                zip(verdict.can_hold, verdict.always_holds, strict=True)
            ):
                there = holds[page * size : page * size + size]
                assert can or not there.any(), (text, page)
                assert not always or there.all(), (text, page)
                decided += (not can) or always
                checked += 1
    assert decided > checked // 8


def _verdict(text: str, values: list[Any], dtype: Any = None) -> str:
    """Of one page with a column x."""
    frame = pl.DataFrame({"x": pl.Series(values, dtype=dtype)})
    table = page_statistics(frame, len(values), None)
    (found,) = verdicts([Predicate.parse(text)], frame.schema, table)
    return "all" if found.always_holds[0] else "some" if found.can_hold[0] else "none"


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("x > 5", [6, 7], "all"),
        ("x > 5", [6, None], "some"),
        ("x > 5", [1, 5], "none"),
        ("x > 5", [None, None], "none"),
        ("NOT x > 5", [None], "none"),
        ("x IS NULL", [None, None], "all"),
        ("x IS NULL", [1, 2], "none"),
        ("x IS NOT NULL", [1, 2], "all"),
        ("x = 5", [5, 5], "all"),
        ("x <> 5", [5, 5], "none"),
        ("x <> 5", [6, 9], "all"),
        ("x BETWEEN 3 AND 8", [3, 8], "all"),
        ("x + 1 > 5", [1, 4], "none"),
        ("2 * x - 10 >= 0", [5, 7], "all"),
        ("x * x > 100", [-10, 10], "none"),
        ("x + 9223372036854775807 > 0", [1, 2], "some"),  # all are NULL
        ("x / 2 > 5", [2, 10], "none"),
        ("1 / x > 5", [-1, 1], "some"),
        ("ABS(x) > 5", [-3, 5], "none"),
        ("ABS(x) > 5", [-8, -6], "all"),
        ("x IN (1, 2)", [3, 9], "none"),
        ("x IN (1, 2)", [0, 3], "some"),
        ("x IN (1, 2)", [2, 2], "all"),
        ("COALESCE(x, 0) > 5", [None, 3], "none"),
        ("GREATEST(x, 3) > 9", [None, 1], "none"),
        ("CASE WHEN x > 5 THEN 1 ELSE 0 END = 1", [1, 4], "none"),
        ("x > 5 OR x < 2", [6, 9], "all"),
        ("x > 5 AND x < 9", [1, 4], "none"),
        ("x > 5", [math.nan, math.nan], "none"),
        ("x > 5", [6.5, math.nan], "some"),
        ("x <= 5", [1.0, math.nan], "some"),
        ("x >= 0", [-0.0, 0.0], "all"),
        ("x = 0", [-0.0, 0.0], "all"),
        ("1 / x > 0", [-0.0, 1.0], "some"),
        ("x - x = 0", [math.inf, 1.0], "some"),  # inf - inf is NULL
        ("x * 0 = 0", [math.inf, 1.0], "some"),
        ("x > 1e308", [math.inf], "all"),
        ("SQRT(x) >= 0", [-1.0, 4.0], "some"),
        ("FLOOR(x) = 2", [2.1, 2.9], "all"),
        ("x LIKE 'ab%'", ["ab", "abz"], "all"),
        ("x LIKE 'ab%'", ["aa", "b"], "some"),
        ("x LIKE 'ab%'", ["b", "c"], "none"),
        ("x LIKE 'ab%'", ["a", "aaz"], "none"),
        ("x LIKE 'ab_'", ["aba", "abb"], "some"),
        ("x LIKE '%ab'", ["x", "y"], "some"),
        ("x LIKE 'ab'", ["ab", "ab"], "all"),
        ("x LIKE ''", ["", ""], "all"),
        ("x = 'b'", ["a" * 200, "a" * 100], "none"),
        ("x >= 'a'", ["a" * 200, "a" * 100], "all"),
        ("x", [True, True], "all"),
        ("NOT x", [True, True], "none"),
        ("x >= TIMESTAMP '2026-01-02 00:00:00'", [datetime(2026, 1, 1)], "none"),
        ("x < DATE '2026-01-02'", [date(2026, 1, 1)], "all"),
        ("x > PREV(x)", [1, 2], "some"),
        ("x > 5 AND PREV(x) < 3", [1, 2], "none"),
        ("AVG(x) OVER 3 EVENTS > 9", [1, 2], "some"),
    ],
)  # fmt: skip
def test_what_is_said_of_one_page(text: str, values: list[Any], said: str) -> None:
    assert _verdict(text, values) == said


def test_numbers_beyond_64_bits_are_not_judged_wrongly() -> None:
    assert _verdict("x > 9223372036854775807", [2**63, 2**64 - 1], pl.UInt64) in ("all", "some")
    assert _verdict("x < 5", [2**63, 2**64 - 1], pl.UInt64) == "none"


def test_a_predicate_in_polars_is_not_judged() -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    (found,) = verdicts(
        [Predicate.from_polars(pl.col("x") > 5)], frame.schema, page_statistics(frame, 2, None)
    )
    assert found.can_hold.tolist() == [True]
    assert found.always_holds.tolist() == [False]


def test_filters_have_every_value_and_few_others() -> None:
    texts = [f"order {n}" for n in range(4000)] + [None]
    frame = pl.DataFrame({"text": texts, "key": range(-5, 3996)})
    filters = page_filters(frame, 1000, ["key"])
    for page, part in enumerate(frame.iter_slices(1000)):
        for name in frame.columns:
            of_page = filters[FILTER + name].to_list()[page : page + 1]
            assert all(may_have(of_page, one)[0] for one in part[name].drop_nulls())
    others = [may_have(filters[FILTER + "text"].to_list(), f"other {n}").mean() for n in range(500)]
    assert sum(others) / len(others) < 0.05
    assert page_filters(frame, 1000, []).columns == [FILTER + "text"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 'b'", "none"),
        ("x = 'c'", "some"),
        ("x IN ('b', 'bb')", "none"),
        ("x IN ('b', 'c')", "some"),
        ("x LIKE 'b'", "none"),
        ("x <> 'b'", "all"),
        ("NOT x = 'b'", "all"),
        ("x <> 'c'", "some"),
        ("y = 3", "none"),
        ("3 = y OR x = 'b'", "none"),
        ("y = 5", "some"),
    ],
)
def test_a_value_between_the_bounds_that_is_not_there(text: str, said: str) -> None:
    frame = pl.DataFrame({"x": ["a", "c", "e"], "y": [1, 5, 9]})
    table, filters = page_statistics(frame, 3, None), page_filters(frame, 3, ["y"])
    known = Pages(frame.schema, (), table, load_filters=lambda: filters)
    (found,) = verdicts([Predicate.parse(text)], frame.schema, table, known.may_have)
    assert said == ("all" if found.always_holds[0] else "some" if found.can_hold[0] else "none")
