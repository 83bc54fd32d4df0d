"""Arithmetic is IEEE's, the same in a frame, in a frame of one row, and for a single event."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import polars as pl
import pytest

import piestream as ps
from piestream.language import Predicate, QueryError

INF = math.inf
CASES = [
    ("x / 10 = 0.3", [3.0, 2.0, None, INF], [True, False, False, False]),
    ("ROUND(x, 1) = 0.3", [0.3, 0.34, 3.0], [True, True, False]),
    ("LOG10(x) >= 3", [1000.0, 999.0, 1e300, 0.0, -1.0, INF], [True, False, True, False, False, True]),
    ("LOG10(x) = -5", [1e-5, 1e-4], [True, False]),
    ("POWER(x, -1) < 0", [-0.0, 0.0], [True, False]),
    ("POWER(x, 0.5) > 1", [-INF, 4.0, -4.0, -0.0], [True, True, False, False]),
    ("POWER(1, x) = 1", [INF, -INF, 7.0, None, math.nan], [True, True, True, False, False]),
    ("POWER(-1, x) = 1", [INF, -INF, 2.0, 3.0], [True, True, True, False]),
    ("SQRT(x) IS NULL", [-1.0, -0.0, 4.0, None], [True, False, False, True]),
    ("x / 0 IS NULL AND 10 / 4 = 2.5", [1.0, 0.0], [True, True]),
    ("x / 4 = 0.75", [3.0, 1.0], [True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values", "expected"), CASES, ids=[case[0] for case in CASES])
def test_one_meaning_in_all_engines(
    text: str, values: list[float | None], expected: list[bool]
) -> None:
    frame = pl.DataFrame({"x": values}, schema={"x": pl.Float64})
    predicate = Predicate.parse(text)
    expression, function = predicate.to_polars(frame.schema), predicate.to_python(frame.schema)
    assert function is not None
    assert frame.select(expression).to_series().to_list() == expected
    assert [row.select(expression).item() for row in frame.iter_slices(1)] == expected
    assert [function({"x": value}, None) for value in values] == expected


def test_division_is_exact_however_polars_holds_the_divisor() -> None:
    integers = pl.DataFrame({"x": range(1000)})
    scalar = integers.with_columns(pl.lit(10).alias("y"))  # one value for all rows
    for text in ("x / 10", "x / y", "x / COALESCE(10, x)", "x / CASE WHEN x >= 0 THEN 10 END"):
        for threshold in (0.3, 0.7, 2.9):
            frame = scalar if "y" in text else integers
            held = frame.select(Predicate.parse(f"{text} = {threshold}").to_polars(frame.schema))
            assert held.to_series().arg_true().to_list() == [round(threshold * 10)]


NESTED: dict[str, Callable[[int], str]] = {
    "BETWEEN": lambda n: "(" * n + "b" + " BETWEEN FALSE AND TRUE)" * n,
    "NULLIF": lambda n: "NULLIF(" * n + "x" + ", 1)" * n + " > 1",
    "CASE": lambda n: "CASE " * n + "x" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * n + " = 1",
    "IS DISTINCT": lambda n: "(" * n + "b" + " IS DISTINCT FROM c)" * n,
    "GREATEST": lambda n: "GREATEST(" * n + "x" + ", 1)" * n + " > 1",
    "division": lambda n: "1 / (" * n + "x" + ")" * n + " > 1",
    "remainder": lambda n: "1 % (" * n + "i" + ")" * n + " > 1",
    **{
        name: lambda n, name=name: f"{name}(" * n + "x" + ")" * n + " > 1"  # type: ignore[misc]
        for name in ("ABS", "FLOOR", "SQRT", "ROUND", "LN", "LOG10")
    },
    "ABS of integers": lambda n: "ABS(" * n + "i" + ")" * n + " > 1",
    "CAST": lambda n: "CAST(CAST(" * n + "i" + " AS STRING) AS BIGINT)" * n + " > 1",
}
SCHEMA = {"x": pl.Float64, "i": pl.Int64, "b": pl.Boolean, "c": pl.Boolean}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("depth", [3, 8, 14, 28])
def test_nesting_takes_bounded_time_and_size(name: str, depth: int) -> None:
    frame = pl.DataFrame({"x": [3.0], "i": [3], "b": [True], "c": [False]}, schema=SCHEMA)
    before = time.process_time()
    try:
        predicate = Predicate.parse(NESTED[name](depth))
    except QueryError:
        assert depth > 3
        return
    for translated in (
        lambda: frame.select(predicate.to_polars(SCHEMA)),
        lambda: predicate.to_python(SCHEMA),
        lambda: predicate.to_spark_sql(SCHEMA),
    ):
        try:
            result = translated()
        except QueryError as error:
            if depth <= 3 or "too large" not in str(error):
                raise
        else:
            assert not isinstance(result, str) or len(result) < 3_000_000
    assert time.process_time() - before < 10


@pytest.mark.parametrize(
    "text",
    [
        "NOT (0.3 <= f)",
        "NOT (0.3 <= f / 0)",
        "0.3 NOT BETWEEN 0.1 AND f",
        "NOT (0.3 > SQRT(f))",
        "NOT (1 < i % 0)",
        "NOT (0.3 < CAST(i AS DOUBLE) / 0)",
        "NOT (2 > GREATEST(f, f))",
        "(0.3 < f) IS NULL",
        "NOT (0 NOT IN (1, i))",
        "1 < f",
        "1 < f + 1 AND 2 > f",
        "f IS NULL",
        "0.5 IN (f)",
    ],
)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_column_of_nothing_but_missing_values_has_as_many_rows_as_any(
    text: str, rows: int
) -> None:
    schema = {"t": pl.Int64, "f": pl.Float64, "i": pl.Int64}
    events = [{"t": number, "f": math.nan, "i": 7} for number in range(rows)]
    try:
        predicate = Predicate.parse(text)
        whole = pl.DataFrame(events, schema=schema).select(predicate.to_polars(schema))
    except QueryError:
        assert "IN" in text
        return
    function = predicate.to_python(schema)
    assert function is not None
    assert whole.to_series().to_list() == [function(event, None) for event in events]
    query = ps.query(f"FROM s ORDER BY t DEFINE a AS {text} PATTERN a WITHIN 9")
    found = query.run(pl.DataFrame(events, schema=schema))
    assert len(found) == (1 if rows and function(events[0], None) else 0)


@pytest.mark.parametrize(
    "text", ["2 <= i", "i >= 2", "i = i", "NOT (i = 3)", "NOT (0 NOT IN (1, i))", "7 = i OR 2 < i"]
)
def test_a_column_of_one_value_has_as_many_rows_as_any(text: str) -> None:
    frame = pl.DataFrame({"t": [0, 1, 2]}).with_columns(i=pl.lit(5))
    predicate = Predicate.parse(text)
    function = predicate.to_python(frame.schema)
    assert function is not None
    found = frame.select(predicate.to_polars(frame.schema)).to_series().to_list()
    assert found == [function({"t": 0, "i": 5}, None)] * 3
