"""Only the columns that a query reads are converted, of every kind of frame."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import piestream as ps
from piestream.adapters.event_columns import event_types
from piestream.adapters.frames import as_polars
from piestream.expressions.diagnostics import QueryError

QUERY = ps.query(
    "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > PREV(y) PATTERN a WITHIN 9 RETURN MAX(a.z)"
)
UNORDERED = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 d RETURN a.ts")
READ = {"t": [1, 2], "k": ["p", "p"], "x": [1, 5], "y": [2, 2], "z": [3.0, 4.0]}
OTHERS = {f"other{i}": [float(i), None] for i in range(20)}

KINDS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "polars": pl.DataFrame,
    "pandas": pd.DataFrame,
    "pyarrow": pa.table,
    "duckdb": lambda columns: duckdb.from_arrow(pa.table(columns)),
}
kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)


@kinds
def test_only_the_columns_that_a_query_reads_are_converted(make: Callable[..., Any]) -> None:
    columns, _ = as_polars(make(OTHERS | READ), QUERY)
    assert columns.columns == list(READ)


@kinds
def test_a_wide_frame_gives_the_rows_of_a_narrow_one(make: Callable[..., Any]) -> None:
    wide, narrow = make(OTHERS | READ), make(READ)
    expected = pl.from_arrow(pa.table(pl.DataFrame(READ).to_dict(as_series=False)))
    assert isinstance(expected, pl.DataFrame)
    rows = QUERY.run(expected).rows()
    assert rows
    for frame in (wide, narrow):
        assert as_rows(QUERY.run(frame)) == rows
        assert as_rows(QUERY.open().push(frame)) == rows


def as_rows(frame: Any) -> list[Any]:
    if isinstance(frame, pd.DataFrame):
        return [tuple(row) for row in frame.astype(object).itertuples(index=False)]
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return list(frame.fetchall())
    table = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    return table.rows()


def test_of_events_only_the_types_of_columns_that_are_read_are_looked_for() -> None:
    events = pl.DataFrame(OTHERS | READ).to_dicts()
    assert list(event_types(events, QUERY)) == list(READ)


@kinds
def test_a_time_column_that_no_clause_names_is_found_in_a_wide_frame(
    make: Callable[..., Any],
) -> None:
    frame = make(OTHERS | {"x": [1, 5], "day": [date(2026, 1, 1), date(2026, 1, 2)]})
    assert as_rows(UNORDERED.run(frame))[0][-1] in (date(2026, 1, 2), datetime(2026, 1, 2))


@kinds
def test_several_time_columns_are_named_though_nothing_reads_them(make: Callable[..., Any]) -> None:
    day = [date(2026, 1, 1), date(2026, 1, 2)]
    with pytest.raises(QueryError, match=r"several date or datetime columns: day, night"):
        UNORDERED.run(make({"x": [1, 5], "day": day, "other": [1, 2], "night": day}))


@kinds
def test_a_missing_column_is_named_beside_all_that_there_are(make: Callable[..., Any]) -> None:
    without = {name: values for name, values in READ.items() if name != "k"}
    with pytest.raises(QueryError, match="other19"):
        QUERY.run(make(OTHERS | without))
