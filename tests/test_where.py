"""WHERE: a condition on matches, with the values known at the report."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.expressions.diagnostics import QueryError
from tests.randoms import scenario

EVENTS = pl.DataFrame(
    {
        "ts": range(1, 13),
        "k": ["a"] * 12,
        "x": [0, 2, 2, 2, 0, 0, 2, 2, 0, 0, 2, 0],
        "y": [0, 0, 2, 2, 2, 0, 0, 2, 2, 2, 0, 0],
        "lane": [1, 1, 1, 1, 1, 2, 2, 3, 3, 3, 3, 3],
        "w": list("aabbccddeeff"),
    }
)
MOMENTS = EVENTS.with_columns(ts=pl.lit(datetime(2026, 1, 1)) + pl.duration(minutes=pl.col("ts")))
QUERY = """FROM cars PARTITION BY k ORDER BY ts DEFINE a AS x > 1, s AS y > 1
    PATTERN a overlaps s WITHIN 5 h {} RETURN a.ts"""


def starts(where: str, frame: pl.DataFrame = EVENTS, emit: str = "") -> list[Any]:
    """The starts of a in the matches: without a condition, at 2 and 7."""
    text = QUERY.format(f"WHERE {where} {emit}")
    if frame is EVENTS:
        text = text.replace("5 h", "500")
    return ps.query(text).run(frame)["a_ts"].to_list()


def minute(*numbers: int) -> list[datetime]:
    return [datetime(2026, 1, 1) + timedelta(minutes=n) for n in numbers]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("TRUE", [2, 7]),
        ("FIRST(a.lane) = FIRST(s.lane)", [2]),
        ("FIRST(a.lane) <> FIRST(s.lane)", [7]),
        ("a.te - a.ts > 2", [2]),
        ("DURATION(a) BETWEEN 1 AND 2", [7]),
        ("RELATION(a, s) = 'overlaps' AND LAST(s.w) LIKE 'e%'", [7]),
        ("COUNT(s) * 2 > 4", [2]),
        ("FIRST(a.k) = 'a'", [2, 7]),
        ("CASE WHEN a.ts < 5 THEN MAX(s.lane) > 1 ELSE TRUE END", [7]),
    ],
)
def test_a_condition_leaves_out_matches(where: str, expected: list[int]) -> None:
    assert starts(where) == expected


def test_what_is_not_known_at_the_report_is_null_and_null_is_false() -> None:
    assert starts("DURATION(s) > 0") == []
    assert starts("NOT DURATION(s) > 0") == []
    assert starts("s.te IS NULL") == [2, 7]
    assert starts("DURATION(s) > 2", emit="EMIT ON COMPLETION") == [2, 7]


def test_the_trigger_decides_whether_a_match_has_its_two_rows() -> None:
    assert starts("s.te IS NULL AND a.ts = 2", emit="EMIT ON BOTH") == [2, 2]
    assert starts("DURATION(s) > 0", emit="EMIT ON BOTH") == []
    assert starts("LAST(s.w) = 'c'", emit="EMIT ON BOTH") == [2, 2]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a.te - a.ts > 2 min", minute(2)),
        (
            "DURATION(a) > INTERVAL '2' MINUTE OR a.ts > TIMESTAMP '2026-01-01 00:05:00'",
            minute(2, 7),
        ),
        ("ABS(a.ts - s.ts) < 1.5 * 60 s AND EXTRACT(MINUTE FROM a.ts) = 7", minute(7)),
        ("DURATION(a) / (a.te - s.ts) = 2", minute(7)),
        ("a.te - s.ts = 0 OR a.te - a.ts < 180 s", minute(7)),
    ],
)
def test_lengths_of_time_have_units_beside_timestamps(where: str, expected: list[Any]) -> None:
    assert starts(where, MOMENTS) == expected


def test_days_are_lengths_between_dates() -> None:
    days = EVENTS.with_columns(
        ts=pl.lit(datetime(2026, 1, 1)).dt.date().dt.offset_by("0d")
        + pl.duration(days=pl.col("ts"))
    )
    found = ps.query(QUERY.format("WHERE a.te - a.ts > 2 d").replace("5 h", "50 d")).run(days)
    assert found["a_ts"].dt.day().to_list() == [3]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a.te - a.ts > 2", "cannot mix a length of time and a number without a unit"),
        ("DURATION(a) + 1 > 2 s", "cannot mix a length of time and a number without a unit"),
        ("DURATION(a) * DURATION(a) > 2 s", "gives no length of time"),
        ("5 / DURATION(a) > 2", "gives no length of time"),
        ("AVG(s.lanes) > 5", "did you mean lane?"),
        ("AVG(s.w) > 5", "AVG needs a numeric column"),
        ("FIRST(s.w) > 5", "CAST(FIRST(s.w) AS DOUBLE)"),
        ("AVG(s.y)", "AVG(s.y) holds a float"),
        ("a.te > 5", "cannot mix a timestamp and a whole number"),
    ],
)
def test_what_does_not_fit_the_columns_is_refused_with_carets(where: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        starts(where, MOMENTS)
    assert message in str(caught.value)
    assert "^^" in str(caught.value) or "^\n" in str(caught.value)


def test_a_length_needs_a_declared_unit_of_integers() -> None:
    with pytest.raises(QueryError, match="whose unit was not declared"):
        starts("DURATION(a) > 2 s")


def test_what_the_condition_left_out_is_counted() -> None:
    for emit in ("TRIGGER", "COMPLETION", "BOTH"):
        text = QUERY.format(f"WHERE FIRST(a.lane) < FIRST(s.lane) + a.ts - 2 EMIT ON {emit}")
        session = ps.query(text.replace("5 h", "500")).open()
        session.push(EVENTS)
        assert (session.statistics.matches, session.statistics.left_out) == (1, 1)


def test_rows_that_are_missing_at_the_end_are_counted_by_the_condition() -> None:
    text = QUERY.replace("5 h", "500").format("WHERE {} EMIT ON COMPLETION")
    for where, incomplete in (("TRUE", 1), ("FIRST(a.lane) = 1", 1), ("FIRST(a.lane) = 9", 0)):
        session = ps.query(text.format(where)).open()
        session.push(EVENTS.head(5))
        session.close()
        assert session.statistics.incomplete == incomplete


def test_the_builder_says_the_same() -> None:
    a, s = ps.define("a", "x > 1"), ps.define("s", "y > 1")
    built = ps.pattern(a.overlaps(s)).within(9).where("AVG(s.x) > 5 OR a.te = 3")
    built = built.where("DURATION(a) < 7")
    text = "DEFINE a AS x > 1, s AS y > 1 PATTERN a overlaps s FROM stream WITHIN 9 "
    assert built == ps.query(text + "WHERE (avg(s.x)>5 OR a.te=3) AND duration(a) < 7")
    assert hash(built.query) == hash(ps.query(str(built)))
    assert built.query != ps.query(text)
    with pytest.raises(QueryError, match="there is no symbol b"):
        built.where("b.ts > 5")
    with pytest.raises(QueryError, match="something is missing"):
        built.where("a.ts >")
    with pytest.raises(QueryError, match="where takes SQL"):
        built.where(a.ts)  # type: ignore[arg-type]


def test_values_of_parameters_stand_in_conditions() -> None:
    text = QUERY.format("WHERE MAX(a.x) < :most AND a.te - a.ts > :least AND DURATION(a) < :n min")
    query = ps.query(text, most=5, least=timedelta(minutes=2), n=9)
    assert str(query.where) == "MAX(a.x) < 5 AND a.te - a.ts > 2 min AND DURATION(a) < 9 min"
    assert query.run(MOMENTS)["a_ts"].to_list() == minute(2)
    with pytest.raises(QueryError, match="the parameter :n has no value"):
        ps.query(text, most=5, least=timedelta(minutes=2))


def test_another_condition_is_another_query_to_a_snapshot() -> None:
    text = QUERY.replace("5 h", "500")
    blob = ps.query(text.format("WHERE a.ts > 2")).open(schema=EVENTS.schema).snapshot()
    with pytest.raises(ps.StateError, match="another query"):
        ps.query(text.format("WHERE a.ts > 3")).open(state=blob)


def test_the_random_conditions_are_worth_trying() -> None:
    drawn = [one for one in map(scenario, range(200)) if one.where is not None]
    kept = sum(bool(one.expected()) for one in drawn)
    left_out = sum(len(one.having(where=None).expected()) > len(one.expected()) for one in drawn)
    assert kept > 12
    assert left_out > 20
