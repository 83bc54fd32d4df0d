"""What is wrong with rows, options and conditions is said with its place and what to do."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import polars as pl
import pytest

import piestream as ps

X = pl.DataFrame({"ts": [0, 10], "te": [5, 15]})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"ts": [0, 4], "te": [1, 4]}, "row 2 of y is no interval: ts = 4, te = 4; an interval ends after it begins"),
        ({"ts": [0, 4], "te": [None, 3]}, r"row 1 of y is no interval: te is NULL.*fill_null"),
        ({"ts": [None, 4], "te": [1, 3]}, "row 1 of y is no interval: ts is NULL"),
        ({"ts": [0], "te": [2**63 - 1]}, "row 1 of y: te = 9223372036854775807 is out of the range"),
    ],
)  # fmt: skip
def test_a_row_that_is_no_interval_is_named(frame: dict[str, Any], message: str) -> None:
    with pytest.raises(ps.IntervalError, match=message):
        ps.join(X, pl.DataFrame(frame, schema={"ts": pl.Int64, "te": pl.Int64}), "meets")
    with pytest.raises(ps.IntervalError, match="the frame"):
        ps.merge(pl.DataFrame(frame, schema={"ts": pl.Int64, "te": pl.Int64}))


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"start": [0], "te": [1]}, {}, "y has no column ts, which start names: its columns are start, te"),
        ({"ts": [0], "te": [1], "key": [1]}, {"on": "kei"}, "x has no column kei, which on names"),
        ({"ts": [0.5], "te": [1.5]}, {}, "ts of y has type Float64; a time is an integer"),
        ({"ts": ["a"], "te": ["b"]}, {}, "ts of y has type String"),
        ({"ts": [date(2026, 1, 1)], "te": [date(2026, 1, 2)]}, {}, "ts of x holds integers, ts of y dates"),
        ({"ts": [0], "te": [1]}, {"relation": "ts_x"}, "two columns of the result would be called ts_x"),
        ({"ts": [0], "te": [1], "ts_x": [1]}, {}, "two columns of the result would be called ts_x"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_named(
    frame: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ps.SchemaError, match=message):
        ps.join(X, pl.DataFrame(frame), "meets", **options)


def test_keys_of_types_that_cannot_be_compared_are_refused() -> None:
    x, y = X.with_columns(k=pl.lit(1)), X.with_columns(k=pl.lit("1"))
    with pytest.raises(
        ps.SchemaError, match=r"keys of types Int32 \(k\) and String \(k\) cannot be compared"
    ):
        ps.join(x, y, "meets", on="k")


def test_times_with_and_without_a_zone_are_not_compared() -> None:
    plain = pl.DataFrame({"ts": [datetime(2026, 1, 1)], "te": [datetime(2026, 1, 2)]})
    zoned = plain.select(pl.all().dt.replace_time_zone("UTC"))
    with pytest.raises(
        ps.SchemaError, match="holds times without a zone, ts of y times of a time zone"
    ):
        ps.join(plain, zoned, "meets")


@pytest.mark.parametrize(
    ("relations", "message"),
    [
        ("overlapz", "there is no relation overlapz(.|\n)*did you mean overlaps?"),
        ("overlaps; ; during", "a relation is missing here"),
        ("", "a relation is missing here"),
        ("x overlaps y", "there is no relation x overlaps y"),
    ],
)
def test_unknown_relations_are_shown(relations: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.join(X, X, relations)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "where is empty"),
        ("z.ts - x.te < 5", "the two frames are x and y here; there is no z"),
        ("y.speed - x.te < 5", "y has no endpoint speed"),
        ("y.te - y.ts < 5", "both endpoints are those of y"),
        ("y.ts - x.te < 5 s", "the times are integers, which have no unit"),
        ("y.ts - x.te ~ 5", "~ is no comparison"),
        ("y.ts - x.te != 5", "a distance has one least and one greatest value"),
        ("y.ts - x.te < 5 OR x.ts < y.ts", "OR does not belong here"),
        ("y.ts - x.te < 5 x.ts < y.ts", "x is not a unit of time"),
        ("y.ts - x.te < 9223372036854775807", "longer than any two times are apart"),
        ("y.ts - x.te BETWEEN 1", "AND is missing here"),
        ("y.ts - x.te", "a comparison is missing"),
        ("y - x.te < 5", "y is not an endpoint"),
    ],
)
def test_conditions_that_cannot_be_read_are_shown(where: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message) as caught:
        ps.join(X, X, "before", where=where)
    assert "line 1, column" in str(caught.value)


def test_a_distance_of_times_needs_a_unit() -> None:
    x = pl.DataFrame({"ts": [datetime(2026, 1, 1)], "te": [datetime(2026, 1, 2)]})
    with pytest.raises(ps.QueryError, match="the distance is 5 without a unit"):
        ps.join(x, x, "before", where="y.ts - x.te < 5")
    with pytest.raises(ps.QueryError, match="gap is 5 without a unit"):
        ps.merge(x, gap=5)
    with pytest.raises(ps.QueryError, match="not a whole number of ticks"):
        ps.join(x, x, "before", where="y.ts - x.te < 5 ns")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"how": "outer"}, "how is one of inner, left, semi, anti"),
        ({"nearest": 0}, "nearest is a number of partners from 1 on"),
        ({"nearest": 1, "how": "semi"}, "nearest has no meaning there"),
        ({"relation": "r", "how": "anti"}, "relation has no meaning there"),
        ({"suffixes": "_x"}, "suffixes are two"),
        ({"start": ("ts", "ts", "ts")}, "start is a column's name, or two"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ps.join(X, X, "meets", **options)


def test_pairs_in_one_frame_cannot_be_chosen() -> None:
    with pytest.raises(TypeError, match="of one frame, each row is a pair"):
        ps.relate(X, where="y.ts < x.ts")


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TypeError, match="no DataFrame"):
        ps.join(X, 5, "meets")
    with pytest.raises(ValueError, match="an empty list has no columns"):
        ps.merge([])
