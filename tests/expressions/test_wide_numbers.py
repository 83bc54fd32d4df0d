"""Whole numbers of every width at their extremes: all of them are numbers, in every engine."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import polars as pl
import pytest

import piestream as ps
from piestream.language import Predicate, QueryError

LIMITS: dict[Any, tuple[int, int]] = {
    pl.Int8: (-(2**7), 2**7 - 1),
    pl.Int16: (-(2**15), 2**15 - 1),
    pl.Int32: (-(2**31), 2**31 - 1),
    pl.Int64: (-(2**63), 2**63 - 1),
    pl.Int128: (-(2**127), 2**127 - 1),
    pl.UInt8: (0, 2**8 - 1),
    pl.UInt16: (0, 2**16 - 1),
    pl.UInt32: (0, 2**32 - 1),
    pl.UInt64: (0, 2**64 - 1),
}
#: What is calculated with wide numbers has up to 38 digits.
MOST = 10**38 - 1


def held(text: str, frame: pl.DataFrame) -> list[bool]:
    """Where a predicate holds: in a frame, and the same for single events."""
    predicate = Predicate.parse(text)
    found = frame.select(predicate.to_polars(frame.schema)).to_series().to_list()
    function = predicate.to_python(frame.schema)
    assert function is not None
    assert [function(row, None) for row in frame.iter_rows(named=True)] == found, text
    return found


@pytest.mark.parametrize("dtype", LIMITS)
def test_the_extremes_of_every_type_compare_as_numbers(dtype: Any) -> None:
    least, most = LIMITS[dtype]
    frame = pl.DataFrame({"x": [least, 1, most, None]}, schema={"x": dtype})
    assert held("x > 1", frame) == [False, False, True, False]
    assert held("x < 1", frame) == [True, False, False, False]
    assert held("x IS NULL", frame) == [False, False, False, True]
    assert held("x IN (1, 7) OR x = 1.0", frame) == [False, True, False, False]
    assert held("CAST(x AS DOUBLE) > 1e1 AND x * 1.0 > 10", frame) == [False, False, True, False]
    if abs(least) <= MOST:
        assert held(f"x = {least}", frame)[0]
    if most <= MOST:
        assert held(f"x BETWEEN {most} AND {MOST}", frame) == [False, False, True, False]
        assert held(f"x IN ({most}, 3)", frame) == [False, False, True, False]
        assert held(f"x - {most} = 0", frame) == [False, False, True, False]
        assert held(f"CAST(x AS STRING) = '{most}'", frame) == [False, False, True, False]


def test_neighbours_beyond_the_digits_of_a_float_differ() -> None:
    values = [2**64 - 2, 2**64 - 1]
    frame = pl.DataFrame({"x": values, "y": [5, -5]}, schema={"x": pl.UInt64, "y": pl.Int64})
    assert held(f"x = {2**64 - 1}", frame) == [False, True]
    assert held(f"x < {2**64 - 1}", frame) == [True, False]
    assert held("x > y AND y < x", frame) == [True, True]  # UInt64 beside Int64
    assert held(f"x + y = {2**64 + 3}", frame) == [True, False]
    assert held(f"GREATEST(y, x) = {2**64 - 1}", frame) == [False, True]
    assert held(f"COALESCE(NULLIF(y, 5), x) = {2**64 - 2}", frame) == [True, False]
    assert held(f"CASE WHEN y > 0 THEN y ELSE x END = {2**64 - 1}", frame) == [False, True]
    assert held("x % 10 = 5", frame) == [False, True]
    assert held("CAST(x AS BIGINT) IS NULL", frame) == [True, True]
    assert held("x / 2 = 9223372036854775808.0", frame) == [True, True]


def test_a_calculation_beyond_38_digits_is_null() -> None:
    frame = pl.DataFrame({"x": [10**37, 2 * 10**37, -(2**127), None]}, schema={"x": pl.Int128})
    assert held("x * 10 IS NULL", frame) == [True, True, True, True]
    assert held("x * 4 IS NULL", frame) == [False, False, True, True]
    assert held("x * x IS NULL AND x + x IS NOT NULL", frame) == [True, True, False, False]
    assert held("ABS(x) > 1", frame) == [True, True, False, False]
    assert held("-(x) < 0", frame) == [True, True, False, False]
    with pytest.raises(QueryError, match="more than 38 digits"):
        Predicate.parse(f"x > {10**38}")


def test_a_large_constant_beside_ordinary_columns() -> None:
    frame = pl.DataFrame({"x": [2**63 - 1, -(2**63)]})
    assert held(f"x < {2**63}", frame) == [True, True]
    assert held(f"x + {2**63} = 0", frame) == [False, True]
    assert held("x + 1 IS NULL", frame) == [True, False]  # of 64-bit numbers, as ever
    assert Predicate.parse(f"x < {2**64}").to_spark_sql({"x": int}).count(f"{2**64}BD") == 1
    wide = Predicate.parse("ABS(x) * 2 > 1").to_spark_sql({"x": pl.UInt64})
    assert "CAST(`x` AS DECIMAL(38, 0))" in wide
    assert "try_multiply" in wide


def test_numbers_of_128_bits_without_a_sign_are_refused_by_name() -> None:
    with pytest.raises(QueryError, match="cannot use the column x: its type is UInt128"):
        Predicate.parse("x > 1").to_polars({"x": pl.UInt128()})


@pytest.mark.parametrize("seed", range(20))
def test_calculations_with_wide_columns_are_exact(seed: int) -> None:
    """Against Python's own integers: every node of the tree holds a wide column."""
    random = Random(seed)
    values = [0, 1, 7, 2**63 - 1, 2**63, 2**64 - 1, 10**10]
    wider = [*values, -1, -7, -(2**64), 10**19, 2**126, -(2**127), 2**127 - 1]
    rows = [
        {"u": random.choice([*values, None]), "w": random.choice([*wider, None])} for _ in range(60)
    ]
    frame = pl.DataFrame(rows, schema={"u": pl.UInt64, "w": pl.Int128})

    def drawn(depth: int) -> tuple[str, Any]:
        if depth == 0:
            name = random.choice("uw")
            return name, lambda row: row[name]
        (a, left), (b, right) = drawn(depth - 1), drawn(depth - 1)
        if random.random() < 0.4:
            number = random.choice([1, -3, 10, 2**63, 2**64])
            b, right = str(number), lambda row: number
        sign = random.choice("+-*%")

        def value(row: dict[str, Any]) -> int | None:
            x, y = left(row), right(row)
            if x is None or y is None or (sign == "%" and y == 0):
                return None
            if sign == "%":
                rest = abs(x) % abs(y)
                return -rest if x < 0 else rest
            found = x + y if sign == "+" else x - y if sign == "-" else x * y
            return found if abs(found) <= MOST else None

        return f"({a} {sign} {b})", value

    for _ in range(30):
        text, value = drawn(random.randint(1, 3))
        limit = random.choice([0, 1, -1, 2**63, 2**64, 10**30])
        expected = [(v := value(row)) is not None and v > limit for row in rows]
        assert held(f"{text} > {limit}", frame) == expected, text
        missing = [value(row) is None for row in rows]
        assert held(f"{text} IS NULL", frame) == missing, text


def test_duckdb_means_the_same_by_unsigned_numbers() -> None:
    values = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, None]
    frame = pl.DataFrame({"u": values, "i": [5] * 6}, schema={"u": pl.UInt64, "i": pl.Int64})
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    for text in ("u > 9223372036854775807", "u > i", "u IN (1, 18446744073709551615)", "u / 2 > 9"):
        theirs = relation.project(f"coalesce({text}, false)").fetchall()
        assert held(text, frame) == [bool(row[0]) for row in theirs], text


@pytest.mark.parametrize("dtype", [pl.UInt64(), pl.Int128()])
def test_runs_of_large_numbers_are_found_in_frames_and_sessions(dtype: pl.DataType) -> None:
    frame = pl.DataFrame(
        {"t": [1, 2, 3, 4], "x": pl.Series([2**63 + 5, 2**63 + 9, 2**63 + 1, 3], dtype=dtype)}
    )
    query = ps.query(
        f"FROM s ORDER BY t DEFINE a AS x > {2**63 + 4}, b AS x < PREV(x) PATTERN a meets b "
        "WITHIN 9 RETURN a.ts, b.ts, MAX(a.x) AS top"
    )
    expected = [{"detected_at": 3, "a_ts": 1, "b_ts": 3, "top": 2**63 + 9}]
    assert query.run(frame).to_dicts() == expected
    session = query.open(schema=frame.schema)
    found = [match for event in frame.to_dicts() for match in session.push(event)]
    assert found == expected


def test_decimals_of_any_size_are_numbers() -> None:
    values = [Decimal(10) ** 37, Decimal(-(10**37)), Decimal("0"), None]
    frame = pl.DataFrame({"p": values}, schema={"p": pl.Decimal(38, 0)})
    assert held("p > 1", frame) == [True, False, False, False]
    assert held("p * 10 > 9e37", frame) == [True, False, False, False]
    assert held("p IS NULL", frame) == [False, False, False, True]
    fine = pl.DataFrame({"p": [Decimal("0.10"), Decimal("90071992547409.93")]},
                        schema={"p": pl.Decimal(38, 2)})  # fmt: skip
    assert held("p = 0.1 OR p = 90071992547409.93", fine) == [True, True]
