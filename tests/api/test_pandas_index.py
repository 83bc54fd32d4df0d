"""The index of a pandas frame: its named levels are columns, and times without a name are too."""

from __future__ import annotations

import pandas as pd
import pytest

import piestream as ps

TIMES = pd.date_range("2026-01-31 12:00", periods=3, freq="s", tz="Europe/Berlin")
COLUMNS = pd.DataFrame({"ts": TIMES, "car": ["p", "p", "p"], "x": [1.0, 9.0, 1.0]})
TEXT = "FROM s PARTITION BY car ORDER BY ts DEFINE a AS x > 8 PATTERN a WITHIN 1 min"
QUERY = ps.query(TEXT)


@pytest.mark.parametrize("index", ["ts", "car", ["car", "ts"]])
def test_the_named_levels_of_an_index_are_columns(index: str | list[str]) -> None:
    expected = QUERY.run(COLUMNS)
    frame = COLUMNS.set_index(index)
    before = frame.copy(deep=True)
    pd.testing.assert_frame_equal(QUERY.run(frame), expected)
    pd.testing.assert_frame_equal(QUERY.open().push(frame), expected)
    pd.testing.assert_frame_equal(frame, before)


def test_a_column_counts_before_a_level_of_the_same_name() -> None:
    frame = COLUMNS.set_index(TIMES.rename("ts") + pd.Timedelta("1 day"))
    assert QUERY.run(frame)["a_ts"].tolist() == [TIMES[1]]


@pytest.mark.parametrize("clause", ["", "ORDER BY index"])
def test_times_in_an_index_without_a_name_are_the_column_index(clause: str) -> None:
    frame = COLUMNS[["x"]].set_axis(TIMES)
    query = ps.query(f"FROM s {clause} DEFINE a AS x > 8 PATTERN a WITHIN 1 min")
    assert query.run(frame)["a_ts"].tolist() == [TIMES[1]]


def test_an_order_by_that_misses_the_index_says_where_the_times_are() -> None:
    frame = COLUMNS[["car", "x"]].set_axis(TIMES)
    with pytest.raises(ps.QueryError, match="no column ts") as caught:
        QUERY.run(frame)
    assert caught.value.faults[0].hint == (
        "index holds times: write ORDER BY index; the columns are index, car, x"
    )


def test_row_numbers_are_no_column() -> None:
    query = ps.query("FROM s ORDER BY index DEFINE a AS x > 8 PATTERN a WITHIN 1 min")
    with pytest.raises(ps.QueryError, match="no column index"):
        query.run(COLUMNS)
