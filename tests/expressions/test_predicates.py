"""The allow-list, the type checks, and the rules of predicates one by one."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import polars as pl
import pytest

from piestream.language import Predicate, QueryError, compile_mask, parse

NAN, INF = float("nan"), float("inf")


def holds_on(text: str, column: str, values: list[object], dtype: object = None) -> list[bool]:
    frame = pl.DataFrame({column: values}, schema={column: dtype} if dtype else None)
    predicate = Predicate.parse(text)
    function = predicate.to_python(frame.schema)
    assert function is not None
    found: list[bool] = frame.select(predicate.to_polars(frame.schema)).to_series().to_list()
    assert found == [function({column: value}, None) for value in values]
    return found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a > > 8", "bit operation >>"),
        ("a & 1 = 1", "bit operation and"),
        ("foo(a) > 1", "FOO is not a function"),
        ("leength(a) > 1", "did you mean LENGTH"),
        ("count(*) > 1", "COUNT is not a function"),
        ("sum(a) over () > 1", "written without brackets"),
        ("lag(a) > 1", "LAG is not a function"),
        ("a in (select 1)", "without SELECT"),
        ("(select 1) > 1", "without SELECT"),
        ("exists (select 1)", "without SELECT"),
        ("a > 1; drop table x", "does not belong|without SELECT|not a predicate"),
        ("a b", "b does not belong"),
        ("a as b", "does not belong"),
        ("a", None),
        ("a + 1", "must be true or false"),
        ("1 < a < 5", "join comparisons with AND"),
        ("s.a > 1", "s is not the stream"),
        ("prev() > 1", "PREV takes one column"),
        ("prev(1) > 1", "PREV takes one column"),
        ("prev(a, 0) > 1", "PREV looks from 1 to 1,000 events back"),
        ("prev(a, b) > 1", "PREV looks from 1 to 1,000 events back"),
        ("prev(a, 1001) > 1", "PREV looks from 1 to 1,000 events back"),
        ("avg(a) over", "length of the window is missing"),
        ("avg(a) over 5 parsec > 1", "parsec is not a unit of time"),
        ("avg(a) over 0 s > 1", "longer than 0"),
        ("avg(a) over 0 events > 1", "from 1 to 1,000,000 events"),
        ("median(a) over 5 > 1", "MEDIAN is no aggregate of a window"),
        ("avg(*) over 5 > 1", "AVG needs a value"),
        ("sum(distinct a) over 5 > 1", "SUM takes one value"),
        ("min(a, b) over 5 > 1", "EXPRESSIONS is not allowed"),
        ("sum(a like 'x') over 5 > 1", "needs a number"),
        ("a > 1 until", "missing after UNTIL"),
        ("a > 1 until b > 1 until c", "UNTIL is given twice"),
        ("a > 1 until b + 1", "UNTIL needs something true or false"),
        ("a like b", "must be a string in quotes"),
        ("a like 'x!y' escape '!'", "after the escape"),
        ("a between symmetric 1 and 2", "SYMMETRIC"),
        ("cast(a as decimal(3, 1)) > 1", "CAST to DECIMAL"),
        ("a::json = 1", "CAST to JSON"),
        ("random() > 0.5", "RAND is not a function|RANDOM is not a function"),
        ("a > interval '1' day", "no durations"),
        ("a[1] > 2", "not allowed"),
        ("a > ?", "a value is missing here"),
        ("a > 1e999", "too large"),
        ("round(a, 2, 3) > 1", "not allowed"),
        ("log(a) > 1", "LN"),
        ("a > date '2026-02-30'", "not a date"),
        ("a +", "something is missing after"),
        ("", "missing"),
        ("a = 'x", "never closed"),
        ("regexp_like(a, 'x')", "not a function"),
        ("current_date() > a", "not a function"),
        ("x.y.z > 1", "not the name of a column"),
    ],
)
def test_only_what_is_listed_is_a_predicate(text: str, message: str | None) -> None:
    if message is None:
        assert Predicate.parse(text).text == text
        return
    with pytest.raises(QueryError, match=message):
        Predicate.parse(text)


def test_words_that_sql_reserves_elsewhere_are_columns() -> None:
    text = "lateral > 1 AND user = date AND current_date < timestamp AND left <> first"
    predicate = Predicate.parse(text)
    assert predicate.text == text
    assert predicate.columns == (
        "lateral", "user", "date", "current_date", "timestamp", "left", "first",
    )  # fmt: skip


def test_the_stream_may_qualify_columns() -> None:
    query = parse("DEFINE a AS c.v > PREV(c.v) AND cars.w > 1 PATTERN a WITHIN 1 FROM cars AS c")
    assert str(query.symbols[0].predicate) == "v > PREV(v) AND w > 1"
    assert query.symbols[0].predicate.columns == ("v", "w")
    assert query.symbols[0].predicate.reads_the_past


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed > 1", "did you mean sped"),
        ("name > 1", "cannot mix a string and a whole number"),
        ("name + 1 > 2", "\\+ needs a number"),
        ("sped", "must be true or false"),
        ("ok > 1", "cannot mix a truth value"),
        ("sped % 2 = 1", "whole numbers"),
        ("upper(sped) = 'A'", "UPPER needs a string"),
        ("day = 'today'", "not a date"),
        ("extract(hour from day) = 1", "needs a timestamp"),
        ("cast(sped as string) = '1'", "cannot be cast"),
        ("coalesce(name, 1) = 1", "cannot mix"),
        ("tags = 1", "its type is List"),
        ("day > zoned or noon > zoned", "time zone"),
    ],
)
def test_a_schema_is_checked_at_the_place_in_the_query(text: str, message: str) -> None:
    schema = {
        "sped": pl.Float64(),
        "name": pl.String(),
        "ok": pl.Boolean(),
        "day": pl.Date(),
        "noon": pl.Datetime("us"),
        "zoned": pl.Datetime("us", "UTC"),
        "tags": pl.List(pl.Int64()),
    }
    query = parse(f"FROM x\nDEFINE a AS {text} PATTERN a WITHIN 1")
    predicate = query.symbols[0].predicate
    for bind in (predicate.to_polars, predicate.to_python, predicate.to_spark_sql):
        with pytest.raises(QueryError, match=message) as caught:
            bind(schema)
        assert caught.value.faults[0].line == 2
        assert caught.value.faults[0].column is not None
        assert caught.value.faults[0].column >= 13


def test_a_missing_value_is_neither_above_nor_below() -> None:
    values: list[object] = [9.0, 1.0, None, NAN, INF]
    assert holds_on("x > 8", "x", values) == [True, False, False, False, True]
    assert holds_on("NOT x > 8", "x", values) == [False, True, False, False, False]
    assert holds_on("x <> 8", "x", values) == [True, True, False, False, True]
    assert holds_on("x IS NULL", "x", values) == [False, False, True, True, False]
    assert holds_on("x - x IS NULL", "x", values) == [False, False, True, True, True]


def test_whole_numbers_that_overflow_are_null() -> None:
    values: list[object] = [1, 2**63 - 1, -(2**63)]
    assert holds_on("i + 1 IS NULL", "i", values) == [False, True, False]
    assert holds_on("i * 2 IS NULL", "i", values) == [False, True, True]
    assert holds_on("-(i) IS NULL", "i", values) == [False, False, True]
    assert holds_on("ABS(i) IS NULL", "i", values) == [False, False, True]


def test_division_is_of_floats_and_by_zero_null() -> None:
    values: list[object] = [7, 0, None]
    assert holds_on("i / 2 = 3.5", "i", values) == [True, False, False]
    assert holds_on("(1 / i) IS NULL", "i", values) == [False, True, True]
    assert holds_on("7 % i IS NULL", "i", values) == [False, True, True]
    assert holds_on("i % 3 = -1", "i", [-7, 7, -1]) == [True, False, True]
    assert holds_on("i % -3 = -1", "i", [-7, 7, -1]) == [True, False, True]
    assert holds_on("i % -3 = 1", "i", [-7, 7, -1]) == [False, True, False]


def test_decimals_are_read_as_floats() -> None:
    values: list[object] = [Decimal("1.10"), Decimal("2.50"), None]
    assert holds_on("p * 2 = 5.0", "p", values, pl.Decimal(10, 2)) == [False, True, False]


def test_halves_are_rounded_away_from_zero() -> None:
    values: list[object] = [0.5, -0.5, 2.5, 0.49999999999999994]
    assert holds_on("ROUND(x) = 1 OR ROUND(x) = -1 OR ROUND(x) = 3", "x", values) == [
        True, True, True, False,
    ]  # fmt: skip


def test_roots_powers_and_logarithms_are_null_where_they_are_not_defined() -> None:
    values: list[object] = [4.0, -4.0, 0.0, 1000.0, None, NAN, INF]
    assert holds_on("SQRT(x) = 2", "x", values) == [True] + [False] * 6
    assert holds_on("SQRT(x) IS NULL", "x", values)[:4] == [False, True, False, False]
    assert holds_on("LN(x) IS NULL", "x", values) == [
        False, True, True, False, True, True, False,
    ]  # fmt: skip
    assert holds_on("POWER(x, 2) = 16", "x", values) == [True, True] + [False] * 5
    assert holds_on("POWER(x, 0.5) IS NULL", "x", values)[:4] == [False, True, False, False]
    assert holds_on("POWER(x, -1) > 1e300", "x", values)[:4] == [False, False, True, False]
    assert holds_on("POWER(x, 1001) < -1e300", "x", values)[:4] == [False, True, False, False]
    assert holds_on("EXP(x) > 1e300", "x", values)[:4] == [False, False, False, True]
    assert holds_on("LOG10(x) > 2.99", "x", values)[:4] == [False, False, False, True]


def test_a_power_of_zero_has_the_sign_of_the_zero() -> None:
    values: list[object] = [-0.0, 0.0]
    assert holds_on("POWER(x, -1) < 0", "x", values) == [True, False]
    assert holds_on("POWER(x, -2) > 0", "x", values) == [True, True]


def test_a_timestamp_without_a_zone_is_read_on_the_clock_of_the_column() -> None:
    moments: list[object] = [datetime(2026, 1, 1, h, tzinfo=UTC) for h in (10, 11, 12)]
    dtype = pl.Datetime("us", "Europe/Berlin")
    text = "t >= TIMESTAMP '2026-01-01 12:00:00'"
    assert holds_on(text, "t", moments, dtype) == [False, True, True]
    zoned = "t >= TIMESTAMP '2026-01-01 12:00:00+00:00'"
    assert holds_on(zoned, "t", moments, dtype) == [False, False, True]


def test_equality_is_of_the_canonical_text() -> None:
    left, right = Predicate.parse("(a>8)  AND b"), Predicate.parse("a > 8 and (b) -- both")
    assert left == right
    assert hash(left) == hash(right)
    assert pickle.loads(pickle.dumps(left)) == left
    assert Predicate.parse("a > 8.0 AND b") != left


def test_a_polars_expression_works_embedded_and_says_so_on_spark() -> None:
    expression = pl.col("x") > 70
    predicate = Predicate.from_polars(expression)
    assert predicate == Predicate.from_polars(pl.col("x") > 70)
    assert predicate != Predicate.from_polars(pl.col("x") > 71)
    assert pickle.loads(pickle.dumps(predicate)) == predicate
    frame = pl.DataFrame({"x": [80.0, None, NAN]})
    mask = frame.select(predicate.to_polars(frame.schema)).to_series()
    assert mask.to_list() == [True, False, False]
    assert predicate.to_python(frame.schema) is None
    assert compile_mask([predicate], frame.schema) is None
    with pytest.raises(QueryError, match="Spark cannot run"):
        predicate.to_spark_sql()
    with pytest.raises(QueryError, match="one event"):
        Predicate.from_polars(pl.col("x").shift(1) > 1)
    with pytest.raises(QueryError, match="not true or false"):
        Predicate.from_polars(pl.col("x") + 1).to_polars(frame.schema)
    with pytest.raises(QueryError, match="needs the column x"):
        predicate.to_polars({"y": pl.Int64})


def test_a_constant_predicate_has_a_row_for_every_event() -> None:
    frame = pl.DataFrame({"x": [1, 2, 3]})
    for predicate in (
        Predicate.parse("TRUE"),
        Predicate.parse("COALESCE(1, x) = 1"),
        Predicate.from_polars(pl.lit(True)),
    ):
        mask = frame.select(predicate.to_polars(frame.schema)).to_series()
        assert mask.to_list() == [True, True, True]


def test_spark_sql_never_uses_forms_that_ansi_mode_makes_errors_of() -> None:
    schema = {"a": int, "b": int, "f": float, "s": str}
    text = "a + b > a * 2 - b AND a / b > 1 AND a % b = 1 AND CAST(s AS BIGINT) = 1 AND f > 1"
    sql = Predicate.parse(text).to_spark_sql(schema)
    for form in ("try_add(", "try_multiply(", "try_subtract(", "try_divide(", "try_cast("):
        assert form in sql
    assert "nullif(CAST(`b` AS BIGINT), 0L)" in sql
    assert "nullif(CAST(`f` AS DOUBLE), DOUBLE('NaN'))" in sql
    assert sql.startswith("coalesce(")
    assert "try_add(" in Predicate.parse("a + b > 1").to_spark_sql()


def test_spark_sql_spells_quotes_and_backslashes_by_their_numbers() -> None:
    sql = Predicate.parse("s = 'it''s' OR s LIKE 'a\\%'").to_spark_sql({"s": str})
    assert "concat('it', chr(39), 's')" in sql
    assert "concat('a', chr(92), '%')" in sql


def test_a_missing_key_is_an_error_not_a_null() -> None:
    function = Predicate.parse("a > 1 OR b > 1").to_python({"a": int, "b": int})
    assert function is not None
    with pytest.raises(KeyError, match="b"):
        function({"a": 5}, None)


def test_lag_is_called_prev_here() -> None:
    with pytest.raises(QueryError, match=r"LAG is not a function[\s\S]*did you mean PREV"):
        Predicate.parse("x > LAG(x)")


@pytest.mark.parametrize(
    "text",
    [
        "COALESCE(name, other) <> 'q'",
        "CASE WHEN x > 1 THEN a ELSE b END = 'q'",
        "GREATEST(a, b) > 5",
        "NULLIF(a, b) < 5",
    ],
)
def test_columns_of_unknown_types_are_not_taken_to_be_missing(text: str) -> None:
    assert not Predicate.parse(text).is_never_true
    assert "NULL AS" not in Predicate.parse(text).to_spark_sql()
