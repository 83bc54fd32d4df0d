"""Calculations in RETURN: what is calculated of the columns beside them, in every engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.expressions.diagnostics import QueryError
from piestream.language.parts import Aggregate, DurationOf, Endpoint
from tests.engines import ENGINES, parse, run
from tests.randoms import scenario
from tests.scenario import Scenario, _written

Value = Callable[[Mapping[str, Any]], Any]

_WORDS = ("w0", "k")


def _of(name: str) -> Value:
    return lambda row: row[name]


def _both(x: Value, y: Value, calculate: Callable[[Any, Any], Any]) -> Value:
    def found(row: Mapping[str, Any]) -> Any:
        left, right = x(row), y(row)
        return None if left is None or right is None else calculate(left, right)

    return found


def _calculations(rng: Random, drawn: Scenario) -> Iterator[tuple[str, Value]]:
    """Calculations on what RETURN gives, and how they follow from it."""
    times = [i for i in drawn.returns if isinstance(i, Endpoint)]
    lengths = [i for i in drawn.returns if isinstance(i, DurationOf)]
    texts = [
        i
        for i in drawn.returns
        if isinstance(i, Aggregate) and i.column in _WORDS and i.function in ("FIRST", "LAST")
    ]
    numbers = [
        i for i in drawn.returns if isinstance(i, Aggregate) and i not in texts and i.column != "b0"
    ]

    def text(item: Any) -> str:
        return _written(item).partition(" AS ")[0]

    if times:
        x, y = rng.choice(times), rng.choice(times)
        yield f"{text(x)} - {text(y)}", _both(_of(x.alias), _of(y.alias), lambda a, b: a - b)
        yield f"{text(x)} < {text(y)}", _both(_of(x.alias), _of(y.alias), lambda a, b: a < b)
    if lengths:
        x = rng.choice(lengths)
        beats = rng.randint(1, 4)
        ticks = drawn.clock.beats(beats)
        length = f"2 * {text(x)} - {drawn.clock.text(beats)}"
        yield length, _both(_of(x.alias), lambda row: ticks, lambda a, b: 2 * a - b)
    if numbers:
        x, y = rng.choice(numbers), rng.choice(numbers)
        yield (
            f"{text(x)} - {text(y)} * 2",
            _both(_of(x.alias), _of(y.alias), lambda a, b: a - b * 2),
        )
        found = _of(x.alias)
        yield (
            f"CASE WHEN {text(x)} > 1 THEN 'many' ELSE 'few' END",
            lambda row: "few" if found(row) is None or not found(row) > 1 else "many",
        )
    if texts:
        x, y = rng.choice(texts), rng.choice(texts)
        yield f"{text(x)} || {text(y)}", _both(_of(x.alias), _of(y.alias), lambda a, b: a + b)


def _close(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float | int):
        return left == pytest.approx(right, rel=1e-9, abs=1e-9)
    return type(left) is type(right) and bool(left == right)


def test_calculations_follow_from_the_columns_beside_them(few_seeds: list[int]) -> None:
    looked_at = 0
    for seed in few_seeds:
        rng = Random(f"{seed} calculations")
        drawn = scenario(seed)
        calculations = list(_calculations(rng, drawn))
        if not calculations:
            continue
        items = [_written(item) for item in drawn.returns]
        items += [f"{text} AS c{n}" for n, (text, _) in enumerate(calculations)]
        query = parse(f"{drawn.having(returns=()).text()}\nRETURN {', '.join(items)}")
        assert parse(str(query)) == query, str(query)
        engine = rng.choice([name for name in ENGINES if name != "oracle"])
        rows, plan = run(engine, query, drawn.stream, rng)
        for row in rows:
            for n, (text, value) in enumerate(calculations):
                wanted, found = value(row), row[f"c{n}"]
                assert _close(found, wanted), f"{drawn}\n{text}: {found}, not {wanted}, {plan}"
            looked_at += 1
    assert looked_at or few_seeds[0]


ROWS = pl.DataFrame(
    {
        "t": range(1, 9),
        "x": [0.0, 5.5, 7.0, 0, 0, 0, 0, 0],
        "y": [0, 0, 0, 0, 3, 4, 0, 0],
        "w": list("abcdefgh"),
    }
)
QUERY = "FROM s ORDER BY t DEFINE a AS x > 1, d AS y > 1 PATTERN a before d WITHIN 60 {}"


def _types(returned: str, frame: pl.DataFrame) -> list[Any]:
    query = ps.query(QUERY.format(f"RETURN {returned}").replace("WITHIN 60", "WITHIN 60 d"))
    empty, found = query.run(frame[:0]), query.run(frame)
    assert empty.schema == found.schema
    return found.dtypes[1:]


def test_the_types_follow_from_the_expression() -> None:
    of_time = "d.ts - a.te AS lag, DURATION(a) / 2 AS half, d.ts - a.te + 1 d AS more"
    moments = ROWS.with_columns(t=pl.lit(datetime(2026, 1, 1)) + pl.duration(days=pl.col("t")))
    assert _types(of_time, moments) == [pl.Duration("us")] * 3
    days = moments.with_columns(t=pl.col("t").dt.date())
    assert _types(of_time, days) == [pl.Duration("ms")] * 3
    values = (
        "MAX(a.x) - MIN(a.x) AS r, COUNT(a) * 2 AS n, FIRST(a.w) || LAST(d.w) AS w, a.te < d.ts AS b, "
        "LEAST(a.ts, d.ts) AS t, COUNT(a) / 2 AS h"
    )
    assert _types(values, days) == [
        pl.Float64, pl.Int64, pl.String, pl.Boolean, pl.Date, pl.Float64,
    ]  # fmt: skip


def test_lengths_are_those_of_the_time_column() -> None:
    days = ROWS.with_columns(t=pl.lit(date(2026, 1, 1)) + pl.duration(days=pl.col("t")))
    days = days.with_columns(pl.col("t").cast(pl.Date))
    text = QUERY.format("RETURN d.ts - a.te + 12 d AS lag").replace("WITHIN 60", "WITHIN 60 d")
    assert ps.query(text).run(days)["lag"].to_list() == [timedelta(days=13)]
    ticks = ps.query(QUERY.format("RETURN d.ts - a.te AS lag, DURATION(a) AS a"))
    assert ticks.run(ROWS).select("lag", "a").rows() == [(1, 2)]


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("column", ["us", "ms", "day", "zoned"])
def test_differences_of_columns_of_another_unit_are_exact(unit: Any, column: str) -> None:
    moments = pl.Series([datetime(2026, 1, 1), datetime(2026, 1, 2), datetime(2026, 1, 4, 12)])
    rows = pl.DataFrame({"us": moments, "x": 1}).with_columns(
        t=pl.col("us").cast(pl.Datetime(unit)),
        ms=pl.col("us").cast(pl.Datetime("ms")),
        day=pl.col("us").dt.date(),
        zoned=pl.col("us").cast(pl.Datetime("ms")).dt.replace_time_zone("Europe/Paris"),
    )
    length = timedelta(days=3) if column == "day" else timedelta(days=3.5)
    text = f"""
        FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 30 d EMIT ON COMPLETION
        WHERE MAX(a.{column}) - MIN(a.{column}) BETWEEN 71 h AND 84 h
        RETURN MAX(a.{column}) - MIN(a.{column}) AS passed
    """
    if unit == "ms" and column == "us":
        with pytest.raises(ps.QueryError, match="finer than the time column"):
            ps.query(text).run(rows, at_end="close")
    else:
        found = ps.query(text).run(rows, at_end="close")
        assert found["passed"].to_list() == [length]
        assert found.schema["passed"] == pl.Duration(unit)
    of_rows = text.replace("ORDER BY t", "ORDER BY row UNIT h")
    counted = (
        ps.query(of_rows).run(rows.with_row_index("row"), at_end="close")
        if column == "day"
        else None
    )
    assert counted is None or counted["passed"].to_list() == [72]
    alone = f"FROM s ORDER BY row DEFINE a AS x > 0 PATTERN a WITHIN 9 RETURN LAST(a.{column}) - FIRST(a.{column})"
    alone += " AS passed EMIT ON COMPLETION"
    found = ps.query(alone).run(rows.with_row_index("row"), at_end="close")
    assert found["passed"].to_list() == [length]


def test_a_time_with_a_zone_is_not_subtracted_from_one_without() -> None:
    rows = pl.DataFrame({"t": [datetime(2026, 1, 1)], "x": [1]})
    rows = rows.with_columns(zoned=pl.col("t").dt.replace_time_zone("UTC"))
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9 d RETURN MAX(a.zoned) - a.ts AS d"
    )
    with pytest.raises(ps.QueryError, match="with and one without a time zone"):
        query.run(rows)
    since = "FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9 d RETURN a.ts - DATE '2025-12-31' AS d"
    assert ps.query(since).run(rows)["d"].to_list() == [timedelta(days=1)]


def test_what_is_not_known_at_the_report_is_null() -> None:
    query = ps.query(
        QUERY.format("EMIT ON BOTH RETURN DURATION(d) * 2 AS twice, d.ts - a.te AS lag")
    )
    assert query.run(ROWS).select("phase", "twice", "lag").rows() == [
        ("trigger", None, 1),
        ("completion", 4, 1),
    ]


def test_a_calculation_of_one_thing_is_that_thing() -> None:
    plain = ps.query(QUERY.format("RETURN MAX(a.x) AS most"))
    assert ps.query(QUERY.format("RETURN (MAX(a.x)) AS most")) == plain


def test_the_builder_takes_texts() -> None:
    a, d = ps.define("a", "x > 1"), ps.define("d", "y > 1")
    built = ps.pattern(a.before(d)).within(60).order_by("t")
    built = built.returning(a.ts, rise="MAX(a.x) - MIN(a.x)", most=a.max("x"), lag="d.ts - a.te")
    text = "RETURN a.ts, MAX(a.x) - MIN(a.x) AS rise, MAX(a.x) AS most, d.ts - a.te AS lag"
    assert built.query == ps.query(QUERY.format(text))
    with pytest.raises(QueryError, match="there is no symbol b"):
        _ = built.returning(rise="MAX(b.x) - 1").query
    with pytest.raises(QueryError, match="nothing to give as rise"):
        _ = built.returning(rise="").query


def test_several_streams_and_queries_in_brackets_calculate_too() -> None:
    query = ps.query("""
        FROM s ORDER BY t
        WITH (FROM s DEFINE hot AS x > 1 PATTERN hot WITHIN 9
              RETURN MAX(hot.x) - MIN(hot.x) AS rise) AS heat
        DEFINE a AS heat.rise > 1, d AS s.y > 1 PATTERN a before d WITHIN 60
        RETURN FIRST(a.rise) * SUM(d.y) AS product
    """)
    assert query.run({"s": ROWS})["product"].to_list() == [4.5]


def test_a_query_with_calculations_is_explained_and_diagnosed() -> None:
    query = ps.query(QUERY.format("RETURN FIRST(a.w) || 'x' AS word, d.ts - a.te AS lag"))
    assert "word" in str(query.explain())
    assert query.diagnose(ROWS).matches.number == 1
    assert query.why(query.run(ROWS), ROWS).reported_at == 5
