"""What a query asks of its input's columns, and what it says when it does not get it."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import piestream as ps

_TEXT = "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
QUERY = ps.query(_TEXT)
GOOD = pl.DataFrame({"k": ["one"], "t": [1], "x": [5]})


@pytest.mark.parametrize("column", ["k", "t", "x"])
def test_a_missing_column_is_named_with_the_place_that_needs_it(column: str) -> None:
    with pytest.raises(ps.QueryError, match=f"there is no column {column}") as caught:
        QUERY.run(GOOD.drop(column))
    (fault,) = caught.value.faults
    assert fault.line == 1
    assert fault.column is not None
    assert _TEXT[fault.column - 1 :].startswith(column)


def test_all_missing_columns_are_told_at_once() -> None:
    with pytest.raises(ps.QueryError) as caught:
        QUERY.run(GOOD.select("t"))
    assert len(caught.value.faults) == 2


def test_a_near_miss_is_offered() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS sped > 1 PATTERN a WITHIN 9")
    with pytest.raises(ps.QueryError, match="did you mean speed"):
        query.run(pl.DataFrame({"t": [1], "speed": [5]}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["fast"], "cannot mix a string and a whole number"),
        ([True], "cannot mix"),
        ([[1, 2]], "cannot use the column x"),
    ],
)
def test_a_predicate_over_the_wrong_type_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        QUERY.run(GOOD.with_columns(x=pl.Series(values)))


def test_a_number_is_wanted_where_one_is_averaged() -> None:
    query = ps.query(_TEXT + " RETURN AVG(a.k)")
    with pytest.raises(ps.QueryError, match="AVG needs a numeric column; k has type String"):
        query.run(GOOD)


@pytest.mark.parametrize("function", ["FIRST", "LAST", "MIN", "MAX", "COUNT"])
def test_texts_can_be_returned(function: str) -> None:
    frame = GOOD.with_columns(w=pl.Series(["word"]))
    result = ps.query(_TEXT + f" RETURN {function}(a.w) AS r").run(frame)
    assert result["r"].to_list() == [1 if function == "COUNT" else "word"]


def test_null_and_nan_are_missing_values() -> None:
    frame = pl.DataFrame({"t": [1, 2, 3, 4, 5], "x": [2.0, None, 2.0, float("nan"), 2.0]})
    text = "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9"
    assert ps.query(text).run(frame)["a_ts"].to_list() == [1, 3, 5]
    missing = ps.query(text.replace("x > 1", "x IS NULL")).run(frame)
    assert missing["a_ts"].to_list() == [2, 4]
    negated = ps.query(text.replace("x > 1", "NOT x > 1")).run(frame)
    assert negated.height == 0  # NULL is neither: NOT of it is NULL, and NULL is false


def test_aggregates_leave_missing_values_out() -> None:
    frame = pl.DataFrame(
        {"t": [1, 2, 3, 4], "on": [True, True, True, False], "v": [None, 4.0, float("nan"), 9.0]}
    )
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS on PATTERN a WITHIN 9 EMIT ON COMPLETION "
        "RETURN FIRST(a.v), LAST(a.v), SUM(a.v), AVG(a.v), COUNT(a.v), COUNT(a), STDDEV(a.v)"
    )
    assert query.run(frame).row(0)[1:] == (None, None, 4.0, 4.0, 1, 3, None)


def test_aggregates_of_integers_are_exact() -> None:
    big = 2**53
    frame = pl.DataFrame({"t": [1, 2, 3], "on": [True, True, False], "v": [big, 1, 0]})
    text = "FROM s ORDER BY t DEFINE a AS on PATTERN a WITHIN 9 EMIT ON COMPLETION RETURN SUM(a.v)"
    assert ps.query(text).run(frame)["sum_a_v"].to_list() == [big + 1]


def test_dividing_by_zero_is_null_and_so_false() -> None:
    frame = pl.DataFrame({"t": [1, 2], "x": [5, 6]})
    text = "FROM s ORDER BY t DEFINE a AS {} PATTERN a WITHIN 9"
    for nothing in ("x / 0 > 1", "x % 0 = 1", "SQRT(-x) > 0", "LN(x - x) < 9"):
        assert ps.query(text.format(nothing)).run(frame).height == 0
    assert ps.query(text.format("(x / 0) IS NULL")).run(frame).height == 1


# Keys


@pytest.mark.parametrize(
    "keys",
    [
        pl.Series(["a", "b", None, ""]),
        pl.Series([1, 2, None, -(2**63)]),
        pl.Series([2**64 - 1, 0, None, 1], dtype=pl.UInt64),
        pl.Series([1.5, -0.5, None, 3.0]),
        pl.Series([True, False, None, None])[:3],
        pl.Series(["a", "b", None, "c"], dtype=pl.Categorical),
        pl.Series(["a", "b", None, "c"], dtype=pl.Enum(["c", "b", "a"])),
        pl.Series([b"x", b"", None, b"y"]),
        pl.Series([1, 2, None, 3], dtype=pl.Int32).cast(pl.Date),
        pl.Series([1, 2, None, 3]).cast(pl.Datetime("us", "UTC")),
        pl.Series([1, 2, None, 3]).cast(pl.Duration("ms")),
        pl.Series([1, 2, None, 3]).cast(pl.Time),
        pl.Series([{"p": 1, "q": "u"}, {"p": None, "q": "v"}, None, {"p": 1, "q": None}]),
        pl.Series([[1, 2], [3], None, []]),
    ],
    ids=lambda keys: str(keys.dtype),
)
def test_any_type_can_be_a_key(keys: pl.Series) -> None:
    """Each key is a stream of its own: at one time each, which in one stream would be ties."""
    frame = pl.DataFrame({"k": keys, "t": [1] * len(keys), "x": [5] * len(keys)})
    result = QUERY.run(
        pl.concat(
            [
                frame,
                frame.with_columns(pl.lit(2, pl.Int64).alias("t"), pl.lit(0, pl.Int64).alias("x")),
            ]
        )
    )
    assert result.schema["k"] == keys.dtype
    assert sorted(map(str, result["k"].to_list())) == sorted(map(str, keys.to_list()))
    blob_kept = QUERY.open()
    blob_kept.push(frame)
    again = QUERY.open(state=blob_kept.snapshot())
    assert (
        again.push(frame.with_columns(pl.col("t") + 1)).height == 0
    )  # the same keys, still in their runs


def test_a_key_of_nan_is_the_null_key() -> None:
    frame = pl.DataFrame({"k": [float("nan"), None], "t": [1, 2], "x": [5, 5]})
    assert QUERY.run(frame).rows() == [(None, 1, 1, None)]


def test_two_columns_make_a_key() -> None:
    query = ps.query("FROM s PARTITION BY k, l ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame(
        {"k": ["u", "u", None, None], "l": [1, None, 1, None], "t": [1] * 4, "x": [5] * 4}
    )
    found = query.run(frame).select("k", "l").rows()
    assert set(found) == {("u", 1), ("u", None), (None, 1), (None, None)}


def test_many_partitions_are_streams_of_their_own() -> None:
    count = 5_000
    frame = pl.DataFrame({"k": [*range(count)] * 2, "t": [1] * count + [2] * count})
    frame = frame.with_columns(x=pl.lit(5))
    assert QUERY.run(frame)["k"].sort().to_list() == [*range(count)]


class _Thing:
    """Something that no column type holds."""


@pytest.mark.parametrize(
    "query",
    [
        "FROM s PARTITION BY o ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9",
        "FROM s ORDER BY t DEFINE a AS o IS NULL PATTERN a WITHIN 9",
        "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN FIRST(a.o)",
        "FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN COUNT(a.o)",
    ],
)
@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_python_objects_are_refused_where_they_are_read_and_only_there(
    query: str, kind: str
) -> None:
    pd = pytest.importorskip("pandas")
    things = [_Thing(), 3]
    frame = pl.DataFrame({"t": [1, 2], "x": [5, 0], "o": pl.Series(things, dtype=pl.Object)})
    given = frame if kind == "polars" else pd.DataFrame({"t": [1, 2], "x": [5, 0], "o": things})
    with pytest.raises(ps.QueryError, match=r"column o: its type is Object[\s\S]*\^"):
        ps.query(query).run(given)
    assert len(ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").run(given)) == 1
