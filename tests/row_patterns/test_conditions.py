"""Conditions that join values of several rows: times, texts, functions, expressions."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import piestream as ps
from piestream.cli.app import app

_START = datetime(2026, 3, 29, 0, 30)


def _found(
    conditions: str, rows: pl.DataFrame, pattern: str = "A B", **given: Any
) -> list[tuple[Any, ...]]:
    """The numbers of the first and the last rows of matches, of a frame and of single events."""
    query = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(n) AS first, LAST(n) AS last "
        f"AFTER MATCH SKIP TO NEXT ROW PATTERN ({pattern}) DEFINE {conditions})",
        **given,
    )
    assert ps.query(str(query)) == query
    found = query.run(rows)
    session = query.open(schema=dict(rows.schema))
    given_rows = [tuple(row.values()) for event in rows.to_dicts() for row in session.push(event)]
    given_rows += [tuple(row.values()) for row in session.close()]
    assert given_rows == found.rows()
    return found.rows()


def _rows(seconds: list[int], **columns: Any) -> pl.DataFrame:
    times = [_START + timedelta(seconds=s) for s in seconds]
    return pl.DataFrame({"n": range(len(seconds)), "ts": times, **columns})


@pytest.mark.parametrize(
    "condition",
    [
        "B.ts - A.ts <= 10 s",
        "B.ts - A.ts <= INTERVAL '10' SECOND",
        "LAST(B.ts) - FIRST(A.ts) <= INTERVAL '10 seconds'",
        "NOT B.ts - A.ts > 0.5 min - 20 s",
        "(B.ts - A.ts) * 2 BETWEEN 0 AND 20 s",
        "B.ts - PREV(B.ts) <= :most",
        "ABS(A.ts - B.ts) <= 10000 ms",
    ],
)
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_a_difference_of_times_is_compared_with_a_length(condition: str, unit: Any) -> None:
    rows = _rows([0, 10, 21, 25, 40]).with_columns(pl.col("ts").dt.cast_time_unit(unit))
    given = {"most": timedelta(seconds=10)} if ":most" in condition else {}
    assert _found(f"B AS {condition}", rows, **given) == [(0, 1), (2, 3)]


def test_times_of_other_units_and_dates_meet() -> None:
    rows = _rows([0, 10, 21, 40]).with_columns(
        seen=pl.col("ts").dt.cast_time_unit("ms"), day=pl.lit(date(2026, 3, 29))
    )
    assert _found("B AS B.ts - A.seen <= 11 s AND B.seen > A.ts", rows) == [(0, 1), (1, 2)]
    assert _found("B AS B.ts - A.day > 30 min + 15 s", rows) == [(1, 2), (2, 3)]
    assert _found("B AS B.day - A.day = 0 d AND A.seen < B.seen", rows) == [(0, 1), (1, 2), (2, 3)]


def test_times_of_a_zone_are_instants() -> None:
    rows = _rows([0, 1800, 5400, 9000]).with_columns(
        pl.col("ts").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    )
    assert _found("B AS B.ts - A.ts <= 1 h", rows) == [(0, 1), (1, 2), (2, 3)]
    assert _found("B AS A.ts >= '2026-03-29 01:00+00:00'", rows) == [(1, 2), (2, 3)]
    assert rows["ts"][0] == datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def test_dates_have_lengths_of_days() -> None:
    rows = pl.DataFrame(
        {"n": [0, 1, 2], "ts": [date(2026, 1, 1), date(2026, 1, 3), date(2026, 1, 10)]}
    )
    assert _found("B AS B.ts - A.ts <= 2 d", rows) == [(0, 1)]


def test_a_length_needs_a_unit_that_is_known() -> None:
    rows = _rows([0, 10])
    with pytest.raises(ps.QueryError, match="cannot mix a length of time and a number"):
        _found("B AS B.ts - A.ts <= 10", rows)
    ticks = rows.with_columns(ts=pl.col("n"))
    assert _found("B AS B.ts - A.ts <= 10", ticks) == [(0, 1)]
    with pytest.raises(ps.QueryError, match="declare the unit"):
        _found("B AS B.ts - A.ts <= 10 s", ticks)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("A.kind = 'x' AND B.kind <> A.kind", [(0, 1)]),
        ("A.kind LIKE 'x%' AND UPPER(A.kind) = 'X'", [(0, 1), (2, 3)]),
        ("B.kind IN (A.kind, 'z')", [(2, 3)]),
        ("B.kind = A.sort", [(1, 2)]),
        ("LOWER(B.kind) = CONCAT(A.sort, '')", [(1, 2)]),
        ("COALESCE(A.sort, B.kind) = 'x'", [(1, 2), (2, 3)]),
        ("A.sort IS NULL", [(2, 3)]),
        ("LENGTH(A.sort) < LENGTH(B.sort)", []),
        ("NOT A.ok AND B.ok", [(1, 2)]),
        ("A.amount > 1.5", [(1, 2), (2, 3)]),
        ("A.huge = 18446744073709551615", [(0, 1)]),
        ("EXTRACT(MINUTE FROM A.ts) = 30 AND A.ts < '2026-03-29 00:30:15'", [(0, 1), (1, 2)]),
    ],
)
def test_texts_and_other_values_of_other_rows(
    condition: str, expected: list[tuple[int, int]]
) -> None:
    rows = _rows(
        [0, 10, 21, 25],
        kind=["x", "y", "x", "x"],
        sort=pl.Series(["w", "x", None, "zz"], dtype=pl.Enum(["zz", "x", "w"])),
        ok=[True, False, True, False],
        amount=pl.Series(["1.5", "2.5", "3.5", "1"]).cast(pl.Decimal(10, 2)),
        huge=pl.Series([2**64 - 1, 1, 2, 3], dtype=pl.UInt64),
    )
    assert _found(f"B AS {condition}", rows) == expected


def test_aggregates_and_navigations_take_expressions() -> None:
    rows = _rows([0, 10, 20, 30, 40], price=[5, 4, 6, 1, 2], volume=[1, 2, 3, 4, 5])
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (
            ORDER BY ts
            MEASURES SUM(A.price * A.volume) / SUM(A.volume) AS mean, FIRST(A.price * 2) AS first,
                     MAX(PRICE.price - 1) AS most, PREV(A.price + 1, 2) AS before, COUNT(*) AS n
            PATTERN (A+ B) SUBSET PRICE = (A, B)
            DEFINE A AS AVG(A.price * 2) > 8, B AS NEXT(B.price * 2) > PREV(A.price + 0, 1) - 9)
    """)
    assert ps.query(str(query)) == query
    assert query.run(rows).rows() == [((5 + 8 + 18) / 6, 10, 5, 6, 4)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("CONCAT(A.kind, B.kind) = 'xy'", "a text made of values of several rows"),
        ("A.kind LIKE 'x' OR LOG10(A.n / B.n) > 1", r"LOG10 of .*(\n.*)*write LN\(x\) / LN\(10\)"),
        ("SUM(A.n * B.n) > 1", "SUM takes an expression of one row, not of rows of A and B"),
        ("SUM(PREV(A.n)) > 1", "PREV inside SUM reads other rows than SUM does"),
        ("SUM(1 + 1) > A.n", "SUM takes an expression that reads a column"),
        ("CLASSIFIER(A) < 'A'", "an order of names of variables"),
        ("COALESCE(CLASSIFIER(A), A.kind) = 'A'", "names of variables beside values"),
        ("SUM(A.n) OVER 3 EVENTS > B.n", "windows beside values of other rows"),
    ],
)
def test_what_conditions_cannot_say_is_refused(condition: str, message: str) -> None:
    rows = _rows([0, 10], kind=["x", "y"])
    with pytest.raises(ps.QueryError, match=message):
        _found(f"B AS {condition}", rows)


_DOUBLING = """
    FROM s MATCH_RECOGNIZE (
        ORDER BY ts MEASURES COUNT(*) AS n PATTERN ((A | B)+ C) {within}
        DEFINE C AS SUM(A.n) > 2)
"""


def test_ways_that_may_double_with_each_row_are_warned_of_once() -> None:
    rows = _rows([0, 10, 21, 25])
    query = ps.query(_DOUBLING.format(within=""))
    with pytest.warns(ps.ResultWarning, match=r"may double with each row: SUM\(A.n\)"):
        query.run(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.run(rows)
        query.open(schema=dict(rows.schema)).push(rows)
    assert "at most 2^n of n rows, without a bound" in str(query.explain())
    bounded = ps.query(_DOUBLING.format(within="WITHIN 1 min"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bounded.run(rows)
    assert "at most 2^n of n rows, within WITHIN 1 min" in str(bounded.explain())


def test_check_warns_of_ways_that_may_double(tmp_path: Path) -> None:
    path = tmp_path / "query.sql"
    path.write_text(_DOUBLING.format(within=""))
    checked = CliRunner().invoke(app, ["check", str(path)])
    assert checked.stdout == "ok\n"
    assert "warning: line 3, column" in checked.stderr
    assert "the ways to match may double with each row" in checked.stderr
    path.write_text(_DOUBLING.format(within="WITHIN 9 s"))
    assert CliRunner().invoke(app, ["check", str(path)]).stderr == ""


def test_words_of_an_expression_are_no_columns() -> None:
    rows = _rows([0, 10, 21], kind=["3", "x", "5"])
    first = "TIMESTAMP '2026-03-29 00:30:05'"
    assert _found(f"B AS A.ts < {first} AND B.ts > A.ts", rows) == [(0, 1)]
    assert _found(f"B AS FIRST(A.ts < {first})", rows) == [(0, 1)]
    assert _found("B AS SUM(CAST(A.kind AS BIGINT)) > 1", rows) == [(0, 1)]
    assert _found("B AS FIRST(A.kind::BIGINT) > 1", rows) == [(0, 1)]
    assert _found("B AS FIRST(EXTRACT(MINUTE FROM A.ts)) = 30", rows) == [(0, 1), (1, 2)]
    assert _found("B AS FIRST(TRIM(BOTH FROM A.kind)) = 'x'", rows) == [(1, 2)]


def test_brackets_around_a_column_say_nothing() -> None:
    rows = _rows([0, 10, 21])
    assert _found("B AS SUM((A.n)) > 0", rows) == [(1, 2)]


def test_chosen_times_meet_those_of_other_units() -> None:
    rows = _rows([0, 10, 21])
    chosen = "CASE WHEN A.n > 0 THEN '2026-03-29 00:30:30' ELSE A.ts END"
    for unit in ("ms", "us"):
        same = rows.with_columns(pl.col("ts").dt.cast_time_unit(unit))
        assert _found(f"B AS B.ts < {chosen}", same) == [(1, 2)]
    with pytest.raises(ps.QueryError, match="cannot have the constant"):
        _found(f"B AS B.ts < {chosen}", rows.with_columns(pl.col("ts").dt.cast_time_unit("ns")))


def test_a_function_of_a_difference_of_times_that_there_is_not_is_refused() -> None:
    rows = _rows([0, 10, 21]).with_columns(seen=pl.col("ts").dt.cast_time_unit("ms"))
    with pytest.raises(ps.QueryError, match="LOG10 of values of several rows"):
        _found("B AS LOG10(A.seen - A.ts) > 1", rows)


def test_numbers_of_more_than_64_bits_are_calculated() -> None:
    huge = pl.Series([2**64 - 1, 1, 2], dtype=pl.UInt64)
    rows = _rows([0, 10, 21], huge=huge)
    assert _found("B AS CAST(A.huge AS DOUBLE) > B.n", rows) == [(0, 1)]
    assert _found("B AS (A.huge + 1) / 2 > B.n", rows) == [(0, 1)]
    assert _found("B AS MAX(A.huge / 2) > 5", rows) == [(0, 1)]
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(A.huge + 1) AS next PATTERN (A) "
        "DEFINE A AS n >= 0)"
    )
    assert query.run(rows)["next"].to_list() == [2**64, 2, 3]


@pytest.mark.parametrize(
    "condition",
    [
        "A.kind = 'x'",
        "B.kind <> A.kind",
        "MAX(A.kind) = 'x'",
        "COALESCE(A.kind, 'y') = 'x'",
        "A.kind LIKE 'x%'",
        "UPPER(A.kind) = UPPER(B.kind)",
        "COALESCE(LENGTH(A.kind), 0) < B.n",
    ],
)
def test_a_session_does_not_take_a_column_for_null_that_is_so_at_first(condition: str) -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES LAST(n) AS last AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN (A B) DEFINE B AS {condition})"
    )
    rows = pl.DataFrame({"n": range(4), "ts": range(4), "kind": [None, "x", "y", "x"]})
    _given_as_in_a_table(query, rows)


@pytest.mark.parametrize("measure", ["SUM(A.v * 2)", "LAST(COALESCE(A.v, 7))", "MAX(A.n > A.v)"])
@pytest.mark.parametrize("values", [[None, 2, 3, 4], [None, 2.5, 3.0, 4.0]])
def test_what_is_calculated_of_a_column_that_is_null_at_first(
    measure: str, values: list[float | None]
) -> None:
    query = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m AFTER MATCH SKIP TO NEXT ROW "
        "PATTERN (A B) DEFINE B AS n > 0)"
    )
    _given_as_in_a_table(query, pl.DataFrame({"n": range(4), "ts": range(4), "v": values}))


def _given_as_in_a_table(query: ps.Query, rows: pl.DataFrame) -> None:
    """A session gives of single events what the table gives, or says that it cannot."""
    session = query.open()
    found: list[Any] = []
    try:
        for event in rows.to_dicts():
            found += session.push(event)
    except ps.SchemaError:
        with pytest.raises(ps.SchemaError, match="say the types when the session is opened"):
            session.push(event)
        return
    assert found + list(session.close()) == query.run(rows).to_dicts()


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("B.n - A.n <= 10 s", "no difference of dates or timestamps: write 10 alone"),
        ("B.ts - A.ts <= B.n", "a difference of times is compared with a length such as 5 s"),
        ("B.ts - A.ts <= 7", "write 7 s, 7 min, 7 h or 7 d"),
        ("B.ts - A.n <= 7", "a difference of two times is a length: B.ts - A.ts <= 5 s"),
        ("ts - PREV(ts) <= 7", "DEFINE of MATCH_RECOGNIZE has ts - PREV(ts) <= 5 s"),
    ],
)
def test_what_times_and_numbers_are_compared_with_is_said(condition: str, hint: str) -> None:
    with pytest.raises(ps.QueryError) as error:
        _found(f"B AS {condition}", _rows([0, 10]))
    assert hint in str(error.value)


def test_logarithms_of_values_of_several_rows_to_the_base_of_ten() -> None:
    rows = pl.DataFrame({"n": range(3), "ts": range(3), "x": [1.0, 50.0, 2000.0]})
    assert _found("B AS LN(B.x - A.x) / LN(10) BETWEEN 3 AND 4", rows) == [(1, 2)]


def test_a_column_that_has_no_type_is_null_in_every_function() -> None:
    rows = _rows([0, 10, 20], none=pl.Series([None] * 3, dtype=pl.Null))
    for condition in ("A.none LIKE 'a%'", "UPPER(A.none) = 'A'", "LENGTH(A.none) >= 0"):
        assert _found(f"B AS {condition}", rows) == []
        assert _found(f"B AS ({condition}) IS NULL", rows) == [(0, 1), (1, 2)]


def test_a_measure_is_a_difference_of_times() -> None:
    text = "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES {} PATTERN (A B C*) DEFINE B AS n > 0, C AS n > 1)"
    rows = _rows([0, 10, 31], day=[date(2026, 3, 29), None, date(2026, 3, 31)])
    query = ps.query(
        text.format("LAST(ts) - FIRST(ts) AS took, (C.ts - B.ts) / 3 AS third, "
                    "C.day - A.day AS days, B.ts - A.ts > 0 AS later")
    )  # fmt: skip
    assert ps.query(str(query)) == query
    wanted = (timedelta(seconds=31), timedelta(seconds=7), timedelta(days=2), True)
    assert query.run(rows).rows() == [wanted]
    assert query.run(rows.clear()).schema == query.run(rows).schema
    zoned = rows.with_columns(pl.col("ts").dt.replace_time_zone("UTC"))
    assert query.run(zoned).rows() == [wanted]
    message = r"took subtracts times that are not of one type: LAST\(day\) is Date and LAST\(ts\)"
    for took in ("LAST(day) - LAST(ts)", "LAST(day) - LAST(ts) > 0"):
        with pytest.raises(ps.QueryError, match=message):
            ps.query(text.format(f"{took} AS took")).run(rows)
    with pytest.raises(ps.QueryError, match=r"LAST\(B.ts\) - FIRST\(A.ts\) AS lag"):
        ps.query(text.format("LAST(ts) - LAST(n) AS took")).run(rows)


def test_columns_that_are_called_like_words_of_expressions_stand_in_expressions_of_a_row() -> None:
    rows = pl.DataFrame({"n": range(3), "ts": range(3), "select": [1, 2, 3], "like": [5, 6, 7]})
    assert _found('B AS SUM(A."select" + A."like") = 6', rows) == [(0, 1)]
    query = ps.query(
        'FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES SUM(A."select" * A."like") AS total PATTERN (A+) '
        "DEFINE A AS n >= 0)"
    )
    assert ps.query(str(query)) == query
    assert query.run(rows)["total"].to_list() == [5 + 12 + 21]
