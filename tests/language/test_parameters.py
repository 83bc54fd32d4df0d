"""Parameters: values in the place of ``:name``, in texts, in the builder, on the command line."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app
from piestream.language import Predicate

TEXT = "FROM s ORDER BY t DEFINE a AS x > :limit PATTERN a WITHIN :window"


def predicate(text: str, **values: Any) -> str:
    query = ps.query(f"FROM s DEFINE a AS {text} PATTERN a WITHIN 5 s", **values)
    again = ps.query(str(query))
    assert again == query
    assert again.symbols[0].predicate.tree == query.symbols[0].predicate.tree
    return str(query.symbols[0].predicate)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (8, "8"),
        (-8, "-8"),
        (2**64, str(2**64)),
        (0.5, "0.5"),
        (-1e300, "-1e300"),
        (1e16, "1e16"),
        (np.int64(8), "8"),
        (np.float32(0.5), "0.5"),
        (Decimal("8.5"), "8.5"),
        (Decimal("8"), "8"),
    ],
)
def test_numbers(value: Any, written: str) -> None:
    assert predicate("x > :limit", limit=value) == f"x > {written}"
    assert predicate("x BETWEEN :low AND 1e301", low=value) == f"x BETWEEN {written} AND 1e301"
    assert predicate("2 * :p - x > 0 - :p", p=value) == f"2 * {written} - x > 0 - {written}"


@pytest.mark.parametrize(
    "value", ["red", "", "it's", "x' OR '1'='1", 'a"b', ":limit", "-- no", "a\\nb", "5 s", "ß\n"]
)
def test_texts_are_values_whatever_is_in_them(value: str) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS c = :v PATTERN a WITHIN 9", v=value)
    frame = pl.DataFrame({"t": [1, 2, 3], "c": ["other", value, "1"]})
    assert query.run(frame)["a_ts"].to_list() == [2]
    assert ps.query(str(query)) == query
    quoted = "'" + value.replace("'", "''") + "'"
    assert predicate("c IN (:v, 'b') OR c = :v", v=value) == f"c IN ({quoted}, 'b') OR c = {quoted}"
    assert predicate("c LIKE :v", v=value) == f"c LIKE {quoted}"


def test_truth_values_dates_and_times() -> None:
    assert predicate("b = :on AND b IS :on", on=True) == "b = TRUE AND b IS TRUE"
    assert predicate(":on", on=False) == "FALSE"
    assert predicate("d > :day", day=date(2026, 1, 31)) == "d > DATE '2026-01-31'"
    noon = datetime(2026, 1, 31, 12, 0, 0, 5)
    assert predicate("d > :at", at=noon) == "d > TIMESTAMP '2026-01-31 12:00:00.000005'"
    zoned = predicate("d > :at", at=noon.replace(tzinfo=UTC))
    assert zoned == "d > TIMESTAMP '2026-01-31 12:00:00.000005+00:00'"
    for same in (pd.Timestamp(noon), np.datetime64(noon, "ns")):
        assert predicate("d > :at", at=same) == predicate("d > :at", at=noon)
    assert predicate("SUBSTRING(s, :k, 2) = 'ab'", k=3) == "SUBSTRING(s, 3, 2) = 'ab'"


@pytest.mark.parametrize(
    "value", ["5 s", timedelta(seconds=5), "5000 ms", np.timedelta64(5, "s"), pd.Timedelta("5s")]
)
def test_durations(value: Any) -> None:
    text = (
        "FROM s ORDER BY t MAX GAP {d} DEFINE a AS x > 1 AT LEAST {d}, b AS x > 2 AT MOST {d}, "
        "c AS x > 3 BETWEEN {d} AND {d} PATTERN a contains b AND a contains c WITHIN 1 min COOLDOWN {d}"
    )
    query = ps.query(text.format(d=":d"), d=value)
    assert query == ps.query(text.format(d="5 s"))
    assert ps.query(str(query)) == query


def test_a_number_beside_a_unit_or_of_events_or_ticks() -> None:
    text = "FROM s DEFINE a AS x > 1 AT LEAST {n} min AT MOST {m} EVENTS PATTERN a WITHIN {w}"
    given = ps.query(text.format(n=":n", m=":m", w=":w"), n=1.5, m=3, w=600)
    assert given == ps.query(text.format(n="1.5", m="3", w="600"))
    between = "FROM s DEFINE a AS x > :l BETWEEN :n AND :m EVENTS PATTERN a WITHIN 9"
    assert ps.query(between, l=1, n=2, m=3).symbols[0].at_most_events == 3
    bare = "FROM s DEFINE a AS x BETWEEN :n AND :m PATTERN a WITHIN 9"
    assert str(ps.query(bare, n=2, m=3).symbols[0].predicate) == "x BETWEEN 2 AND 3"


def test_a_filled_query_is_a_query_like_any_other() -> None:
    query = ps.query(TEXT, limit=8, window="5 s")
    plain = ps.query(TEXT.replace(":limit", "8").replace(":window", "5 s"))
    assert query == plain
    assert hash(query) == hash(plain)
    assert str(query) == str(plain)
    assert ":" not in str(query)
    assert pickle.loads(pickle.dumps(query)) == query
    assert query != ps.query(TEXT, limit=9, window="5 s")
    assert str(query.explain()) == str(plain.explain())
    frame = pl.DataFrame({"t": pl.Series([0, 1]).cast(pl.Datetime("us")), "x": [9, 8]})
    assert query.run(frame).height == 1
    state = query.open(schema=frame.schema).snapshot()
    plain.open(state=state)


def test_the_builder_takes_parameters_too() -> None:
    a = ps.define("a", "x > :limit AND c = :c", parameters={"limit": 8, "c": "it's"})
    assert str(a.predicate) == "x > 8 AND c = 'it''s'"
    assert Predicate.parse("x > :n", {"n": 3}) == Predicate.parse("x > 3")
    with pytest.raises(ps.QueryError, match="the parameter :limit has no value"):
        ps.define("a", "x > :limit")
    with pytest.raises(ps.QueryError, match="there is no parameter :more"):
        ps.define("a", "x > 1", parameters={"more": 8})
    with pytest.raises(ps.QueryError, match="no text that they could fill"):
        ps.define("a", pl.col("x") > 1, parameters={"more": 8})


def test_a_missing_and_a_superfluous_parameter_are_named_together() -> None:
    with pytest.raises(ps.QueryError) as raised:
        ps.query(TEXT, limt=8, window="5 s")
    text = str(raised.value)
    assert "column 35: the parameter :limit has no value" in text
    assert "^^^^^^" in text
    assert "did you mean limt?" in text
    assert "there is no parameter :limt in the text" in text
    assert "did you mean limit?" in text
    with pytest.raises(ps.QueryError, match=r"--param limit=\.\.\."):
        ps.query(TEXT, window="5 s")
    with pytest.raises(ps.QueryError, match="write :limit"):
        ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 5", limit=8)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "the parameter limit is a list; a parameter is a number"),
        (None, "the parameter limit is None: write IS NULL"),
        (float("nan"), "the parameter limit is nan"),
        (float("inf"), "the parameter limit is inf"),
        (timedelta(seconds=5), ":limit is a duration, and a predicate has none"),
        (10**40, "more than 38 digits"),
        (b"x", "the parameter limit is a bytes"),
        (pl.col("x"), "the parameter limit is a Expr"),
    ],
)
def test_what_cannot_be_a_value_of_a_predicate(value: Any, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.query(TEXT, limit=value, window="5 s")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "WITHIN :window is not a duration: 'soon'"),
        (True, "WITHIN needs a duration, not :window"),
        (-5, "WITHIN needs a duration, not :window"),
        (date(2026, 1, 1), "WITHIN needs a duration, not :window"),
        (timedelta(seconds=-5), "WITHIN :window is negative"),
    ],
)
def test_what_cannot_be_a_duration(value: Any, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message) as raised:
        ps.query(TEXT, limit=1, window=value)
    assert "^^^^^^^" in str(raised.value)


def test_types_are_checked_at_the_place_of_the_parameter() -> None:
    query = ps.query(TEXT, limit="many", window=9)
    with pytest.raises(ps.QueryError) as raised:
        query.run(pl.DataFrame({"t": [1], "x": [1.0]}))
    assert "x > :limit" in str(raised.value)
    assert "> cannot mix a float and a string" in str(raised.value)
    for text in (
        "FROM :s DEFINE a AS x > 1 PATTERN a WITHIN 5",
        "FROM s DEFINE :s AS x > 1 PATTERN s WITHIN 5",
    ):
        with pytest.raises(ps.QueryError, match="should stand here, not :s"):
            ps.query(text, s="cars")
    with pytest.raises(ps.QueryError, match="PREV takes one column"):
        ps.query("FROM s DEFINE a AS PREV(:x) > 1 PATTERN a WITHIN 5", x="speed")


def test_casts_with_colons_are_no_parameters() -> None:
    assert predicate("x::BIGINT > 1") == "CAST(x AS BIGINT) > 1"


def test_a_query_in_a_query_takes_them_too() -> None:
    text = (
        "FROM v ORDER BY t WITH (FROM v DEFINE low AS x < :low PATTERN low WITHIN :w) AS dip "
        "DEFINE high AS v.x > :high, d AS dip PATTERN d before high WITHIN :w"
    )
    plain = text.replace(":low", "1").replace(":high", "5").replace(":w", "9")
    assert ps.query(text, low=1, high=5, w=9) == ps.query(plain)


def test_the_command_line_takes_them(tmp_path: Path) -> None:
    data, text = tmp_path / "events.csv", tmp_path / "query.sql"
    data.write_text("t,x,c\n1,9,it's\n2,3,b\n3,9,8\n")
    text.write_text("FROM s ORDER BY t DEFINE a AS x > :limit AND c = :c PATTERN a WITHIN :w")
    options = ["--param", "limit=8", "--param", "c=it's", "--param", "w=9"]

    def invoke(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    found = invoke("run", str(text), str(data), *options, "-o", "-", "--output-format", "csv")
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[1].startswith("1,1")
    assert invoke("check", str(text), str(data), *options).stdout == "ok\n"
    assert "x > 8 AND c = 'it''s'" in invoke("explain", str(text), *options).stdout
    quoted = [*options[:2], "--param", "c='8'", *options[4:]]
    found = invoke(
        "run",
        str(text),
        str(data),
        *quoted,
        "--type",
        "c=text",
        "-o",
        "-",
        "--output-format",
        "csv",
    )
    assert found.stdout.splitlines()[1].startswith("3,3")
    missing = invoke("check", str(text))
    assert missing.exit_code == 1
    assert "the parameter :limit has no value" in missing.stderr
    for wrong, message in (("limit", "write NAME=VALUE"), ("limit=9", "given twice")):
        refused = invoke("check", str(text), *options, "--param", wrong)
        assert refused.exit_code == 2
        assert message in refused.stderr
