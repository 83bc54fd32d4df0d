"""A few rows say the same as many: what Python works out is what Polars does."""

from __future__ import annotations

from datetime import date, datetime
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.engine.few_rows import MOST_ROWS
from piestream.engine.projection import Projection
from piestream.language import Predicate
from piestream.plan.binding import bind
from tests.expressions.trees import SCHEMA, Expressions, rows

#: Of these the values in Python differ from those in a frame.
_OTHERS = ("g",)


def _schema() -> dict[str, pl.DataType]:
    own = {name: dtype() if isinstance(dtype, type) else dtype for name, dtype in SCHEMA.items()}
    return {name: dtype for name, dtype in own.items() if name not in _OTHERS} | {
        "tick": pl.Int64()
    }


def _conditions(random: Random, schema: dict[str, pl.DataType]) -> list[str]:
    """Conditions of these columns that are right, and read one row."""
    expressions = Expressions(random)
    found = []
    while len(found) < 12:
        text = expressions.truth(3)
        try:
            Predicate.parse(text).to_polars(schema)
        except ps.QueryError:
            continue
        if "PREV" not in text:
            found.append(text)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_a_few_rows_are_projected_as_polars_does_it(seed: int) -> None:
    random, schema = Random(seed), _schema()
    defined = ", ".join(f"x{n} AS {c}" for n, c in enumerate(_conditions(random, schema)))
    pattern = " AND ".join(f"x0 before x{n}" for n in range(1, 12))
    query = ps.query(
        f"FROM s ORDER BY tick DEFINE {defined} PATTERN {pattern} WITHIN 9 RETURN FIRST(x0.s) AS one, "
        "MAX(x0.f) AS two, MIN(x0.d) AS three, LAST(x0.b) AS four, SUM(x0.u) AS five, MAX(x0.t) AS six"
    )
    projection = Projection(bind(query, schema))
    given = [row | {"tick": n} for n, row in enumerate(rows(random, MOST_ROWS))]
    frame = pl.DataFrame(given, schema=schema)
    expected = frame.select(projection.columns)
    found = [projection.few_columns(frame[n : n + 1]) for n in range(len(frame))]
    some = [n for n, columns in enumerate(found) if columns is not None]
    assert len(some) > MOST_ROWS / 2  # all but those with a NaN among the attributes
    few = pl.concat([pl.DataFrame(columns) for columns in found if columns is not None])
    assert few.schema == expected.schema
    assert few.equals(expected[some])


FAR = {
    "a date": pl.Series([-5_000_000, 0, 5_000_000], dtype=pl.Int32).cast(pl.Date),
    "a datetime": pl.Series([-(10**17), 0, 10**18]).cast(pl.Datetime("us")),
}


@pytest.mark.parametrize("column", FAR.values(), ids=list(FAR))
def test_conditions_hold_of_times_for_which_python_has_no_value(column: pl.Series) -> None:
    query = ps.query(
        "FROM s ORDER BY tick DEFINE late AS d > DATE '2026-01-01', early AS d < DATE '1800-01-01' "
        "PATTERN early before late WITHIN 9 RETURN early.ts AS one, late.ts AS two"
    )
    frame = pl.DataFrame({"tick": [1, 2, 3], "d": column})
    session = query.open()
    found = [row for n in range(3) for row in session.push(frame[n : n + 1]).rows()]
    assert found == query.run(frame).rows() == [(3, 1, 3)]


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("count", [1, MOST_ROWS + 1])
def test_a_time_is_compared_with_all_digits_of_a_literal(unit: Any, count: int) -> None:
    query = ps.query(
        "FROM s ORDER BY tick DEFINE a AS d >= TIMESTAMP '2026-01-01', "
        "b AS d < TIMESTAMP '2026-01-01 00:00:00.0005' PATTERN a starts; equals; started-by b "
        "WITHIN 99 RETURN b.ts AS since"
    )
    frame = pl.DataFrame({"tick": range(count), "d": [datetime(2026, 1, 1)] * count}).cast(
        {"d": pl.Datetime(unit)}
    )
    assert query.open().push(frame).rows() == [(0, 0)]
    assert query.run(frame).rows() == [(0, 0)]


# What rows are told apart by

NANOSECONDS = [pl.Datetime("ns"), pl.Duration("ns"), pl.Time()]


@pytest.mark.parametrize("dtype", NANOSECONDS, ids=str)
@pytest.mark.parametrize("more", [0, 300])
def test_keys_differ_by_a_nanosecond(dtype: pl.DataType, more: int) -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY tick DEFINE a AS x > 1, b AS x < -1 PATTERN a before b "
        "WITHIN 9 RETURN a.ts AS one, b.ts AS two"
    )
    frame = pl.DataFrame(
        {
            "k": pl.Series([1000, 1001, 1000, 1001, 1000] + [1000] * more, dtype=pl.Int64).cast(
                dtype
            ),
            "tick": range(5 + more),
            "x": [2, 0, 0, -2, -2] + [0] * more,
        }
    )
    assert [row[1:] for row in query.open().push(frame).rows()] == [(4, 0, 4)]


@pytest.mark.parametrize("dtype", NANOSECONDS, ids=str)
def test_intervals_have_ids_that_differ_by_a_nanosecond(dtype: pl.DataType) -> None:
    query = ps.query(
        "FROM halts FROM b TO e ID one DEFINE x AS halts, y AS halts PATTERN x overlaps y "
        "WITHIN 99 RETURN x.ts AS xs, x.te AS xe, y.ts AS ys, y.te AS ye"
    )
    ids = pl.Series([1000, 1001, 1000, 1001], dtype=pl.Int64).cast(dtype)
    frame = pl.DataFrame({"b": [1, 2, 1, 2], "e": [None, None, 5, 7], "one": ids})
    session = query.open()
    found = session.push(frame[:2]).rows()
    session = query.open(state=session.snapshot())
    found += session.push(frame[2:3]).rows() + session.advance(6).rows()
    assert [row[-4:] for row in found] == [(1, 5, 2, None)]


def test_far_times_of_any_stream_are_refused_where_instants_are_numbered() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH halts FROM b TO e WITH other ORDER BY t DEFINE a AS s.x, "
        "halt AS halts, c AS other.x PATTERN a during halt AND c during halt WITHIN 5"
    )
    session = query.open()
    session.push(pl.DataFrame({"t": [1], "q": [1], "x": [True]}), stream="s")
    session.push(pl.DataFrame({"b": [0], "e": [2]}), stream="halts")
    session.push(pl.DataFrame({"t": [3], "x": [True]}), stream="other")
    with pytest.raises(ps.TimeError, match="times lie within"):
        session.push(pl.DataFrame({"t": [1 << 62], "x": [True]}), stream="other")


def test_dates_are_projected_without_polars() -> None:
    query = ps.query("FROM s ORDER BY tick DEFINE a AS d > DATE '2026-01-01' PATTERN a WITHIN 9")
    projection = Projection(bind(query, {"tick": pl.Int64(), "d": pl.Date()}))
    frame = pl.DataFrame({"tick": [1], "d": [date(2026, 1, 2)]})
    assert projection.few_columns(frame) is not None
