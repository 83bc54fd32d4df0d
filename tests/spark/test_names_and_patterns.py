"""Names and values that Spark could take for variables or patterns mean themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from piestream.language import parse
from tests.spark.streams import frame_of, rows_of

#: Names that Spark's parser reads as variables, or as patterns where that is set.
NAMES = [
    "${env:HOME}", "${spark.app.name}", "a$", "^x$", ".*", "(x)?+.+", "x|k", "a`b", "a.b", "a'b",
    'a"b', "a%b", "a\nb", "a\\b", "a b", "*", "a--b", "\U0001f600", "e\u0301",
]  # fmt: skip
_SETTING = "spark.sql.parser.quotedRegexColumnNames"


@pytest.fixture(params=["false", "true"], ids=["names", "patterns"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session that reads quoted names as names, and one that reads them as patterns."""
    spark.conf.set(_SETTING, request.param)
    yield spark
    spark.conf.unset(_SETTING)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _rows_agree(spark: Any, text: str, rows: pl.DataFrame) -> pl.DataFrame:
    query = parse(text)
    expected = query.run(rows)
    found = rows_of(query.run(frame_of(spark, rows)))
    assert found.columns == expected.columns
    order = expected.columns[:1]
    assert_frame_equal(found.sort(order), expected.sort(order), check_dtypes=False)
    return expected


def test_the_setting_makes_patterns_of_quoted_names(spark: Any) -> None:
    """Else the tests below would show nothing."""
    rows = spark.range(1).selectExpr("1L AS x1", "2L AS x2")
    spark.conf.set(_SETTING, "true")
    try:
        assert rows.selectExpr("`x.`").columns == ["x1", "x2"]
    finally:
        spark.conf.unset(_SETTING)


@pytest.mark.parametrize("variable", ["${env:HOME}", "${spark.app.name}", "$${x}", "${"])
def test_a_value_that_looks_like_a_variable_means_itself(session: Any, variable: str) -> None:
    known = [os.environ.get("HOME", ""), session.conf.get("spark.app.name")]
    rows = pl.DataFrame({"t": range(4), "s": [variable, "b", *known]})
    text = f"FROM z ORDER BY t DEFINE a AS s = '{variable}' PATTERN a WITHIN 9 RETURN a.ts"
    assert _rows_agree(session, text, rows)["a_ts"].to_list() == [0]


def test_predicates_read_columns_of_hostile_names(session: Any) -> None:
    """Each name decides alone where its condition holds, so that a pattern would find too much."""
    size = len(NAMES)
    columns = {name: [int(n == i) for n in range(2 * size)] for i, name in enumerate(NAMES)}
    rows = pl.DataFrame({"t": range(2 * size), "x": 0, "k": 0, **columns})
    holds = " OR ".join(f"{_quoted(name)} > 0" for name in NAMES[::2])
    text = f"FROM z ORDER BY t DEFINE a AS {holds} PATTERN a WITHIN 9 RETURN a.ts"
    assert _rows_agree(session, text, rows)["a_ts"].to_list() == list(range(0, size, 2))


def test_partitions_and_returns_read_columns_of_hostile_names(session: Any) -> None:
    rows = pl.DataFrame({"t": range(6), "x": [5, 0] * 3, **{n: [1, 1, 2, 2, 3, 3] for n in NAMES}})
    keys = ", ".join(map(_quoted, NAMES))
    sums = ", ".join(f"SUM(a.{_quoted(name)}) AS s{n}" for n, name in enumerate(NAMES))
    text = (
        f"FROM z PARTITION BY {keys} ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 "
        f"RETURN a.ts, {sums}"
    )
    assert len(_rows_agree(session, text, rows)) == 3
