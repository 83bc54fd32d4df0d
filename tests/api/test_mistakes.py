"""What people get wrong at first, and that the error says what to do instead."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import piestream as ps
from piestream.adapters.frames import as_kind

QUERY = ps.query("FROM s ORDER BY ts DEFINE a AS x > 8 PATTERN a WITHIN 60 s")
NOON = datetime(2026, 1, 31, 12)
BATCH = pa.record_batch({"ts": [1], "x": [9.0]})


@pytest.mark.parametrize(
    ("times", "hint"),
    [
        (["2026-01-31 12:00"], "str.to_datetime() in Polars, pd.to_datetime"),
        ([1.5], "cast(pl.Int64)"),
        ([time(12)], "add the date"),
        ([timedelta(hours=12)], "count it from an instant"),
        ([[NOON, NOON]], "many rows are a frame"),
        ([None], "every event needs a time"),
    ],
)
def test_a_time_column_of_another_type_says_how_to_make_times_of_it(
    times: list[Any], hint: str
) -> None:
    with pytest.raises(ps.QueryError, match="the time column ts has type") as caught:
        QUERY.run(pl.DataFrame({"ts": times, "x": [9.0]}))
    assert hint in str(caught.value.faults[0].hint)


def test_periods_say_how_to_make_times_of_them() -> None:
    frame = pd.DataFrame({"ts": pd.period_range("2026-01", periods=1, freq="D"), "x": [9.0]})
    with pytest.raises(ps.QueryError, match="to_timestamp"):
        QUERY.run(frame)


@pytest.mark.parametrize("name", ["x", "the x"])
def test_texts_that_may_be_numbers_say_how_they_are_read(name: str) -> None:
    frame = pl.DataFrame({"ts": [NOON], name: ["9.5"]})
    text = f'FROM s DEFINE a AS "{name}" > 8 PATTERN a WITHIN 60 s'
    with pytest.raises(ps.QueryError, match="holds a string") as caught:
        ps.query(text).run(frame)
    advice = str(caught.value.faults[0].hint).split("; ")[1].split(" reads")[0]
    assert len(ps.query(text.replace(f'"{name}"', advice)).run(frame)) == 1


def test_an_input_without_columns_says_that_there_are_none() -> None:
    with pytest.raises(ps.QueryError) as caught:
        QUERY.run(pl.DataFrame())
    assert [fault.hint for fault in caught.value.faults] == ["the input has no columns at all"] * 2


@pytest.mark.parametrize(
    ("thing", "instead"),
    [
        (np.zeros((2, 2)), "pl.DataFrame"),
        (BATCH, "from_batches"),
        (pa.Table.from_batches([BATCH]).to_reader(), "read_all"),
        (pd.Series({"ts": NOON, "x": 9.0}), "to_dict"),
        ('{"ts": 1, "x": 9}', "json.loads"),
        (b'{"ts": 1, "x": 9}', "json.loads"),
        (None, "give a Polars, pandas"),
    ],
)
def test_what_is_neither_frame_nor_event_says_how_to_make_one_of_it(
    thing: object, instead: str
) -> None:
    with pytest.raises(TypeError, match=r"is no (DataFrame|frame)") as caught:
        QUERY.open().push(thing)
    assert instead in str(caught.value)


def test_columns_of_one_name_are_named() -> None:
    frame = pd.DataFrame([[NOON, 9.0, 1.0]], columns=["ts", "x", "x"])
    with pytest.raises(ps.SchemaError, match=r"different names.*'x' 2 times"):
        QUERY.run(frame)


def test_a_schema_of_other_words_says_which_are_known() -> None:
    with pytest.raises(TypeError, match="schema gives columns Polars types, or int, float"):
        QUERY.open(schema={"ts": "datetime", "x": "float"})


@pytest.mark.parametrize("path", ["drivers.sql", Path("queries") / "drivers"])
def test_a_path_is_no_query(path: Any) -> None:
    with pytest.raises(ps.QueryError, match=r"is a path.*\n.*read_text\(\)"):
        ps.query(path)


@pytest.mark.parametrize("missing", [pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64("NaT")])
def test_what_pandas_and_numpy_call_missing_is_missing(missing: object) -> None:
    events = [{"ts": NOON, "x": 9.0}, {"ts": NOON + timedelta(seconds=1), "x": missing}]
    completed = ps.query(f"{QUERY} EMIT ON COMPLETION")
    for push in (_at_once, _one_by_one):
        assert [row["a_te"] for row in push(completed, events)] == [events[1]["ts"]]


@pytest.mark.parametrize(
    "moment",
    [np.datetime64(NOON), np.datetime64(NOON).astype("datetime64[ns]"), pd.Timestamp(NOON)],
)
def test_times_of_numpy_and_pandas_are_times(moment: Any) -> None:
    for push in (_at_once, _one_by_one):
        assert [row["a_ts"] for row in push(QUERY, [{"ts": moment, "x": 9.0}])] == [NOON]


def test_nanoseconds_are_refused_rather_than_lost() -> None:
    moment = np.datetime64(NOON).astype("datetime64[ns]") + np.timedelta64(1, "ns")
    with pytest.raises(ps.SchemaError, match="000000001"):
        QUERY.open().push({"ts": moment, "x": 9.0})


def _at_once(query: ps.Query, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query.run(events)
    return rows


def _one_by_one(query: ps.Query, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    session = query.open()
    return [row for event in events for row in session.push(event)]


@pytest.mark.parametrize("zone", [None, UTC])
def test_times_with_a_zone_beside_others_say_what_to_do(zone: timezone | None) -> None:
    session = QUERY.open()
    session.push({"ts": NOON.replace(tzinfo=zone), "x": 9.0})
    other = NOON.replace(tzinfo=UTC if zone is None else None)
    with pytest.raises(ps.SchemaError, match=r"give all times a zone, .* or none of them"):
        session.push({"ts": other + timedelta(seconds=1), "x": 9.0})


def test_pandas_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # importing it fails then
    with pytest.raises(ImportError, match=r"pip install 'piestream\[pandas\]'"):
        as_kind("pandas", pl.DataFrame({"ts": [1]}))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('DEFINE a AS k = "on" PATTERN a WITHIN 60 s', "single quotes: 'on'"),
        ('DEFINE a AS "X" > 8 PATTERN a WITHIN 60 s', "did you mean x? a text stands in single"),
        (
            "LET m = 2 * x DEFINE a AS m > 8 PATTERN a WITHIN 60 s RETURN FIRST(a.m)",
            "a name of LET",
        ),
    ],
)
def test_names_that_are_no_columns_say_what_they_may_be(text: str, hint: str) -> None:
    with pytest.raises(ps.QueryError, match="there is no column") as caught:
        ps.query(f"FROM s ORDER BY ts {text}").run(
            pl.DataFrame({"ts": [NOON], "x": [9.0], "k": "on"})
        )
    assert hint in str(caught.value.faults[0].hint)


def test_the_unit_of_a_tick_is_declared_of_the_time_column_that_there_is() -> None:
    query = ps.query("FROM s ORDER BY tick MAX GAP 5 s DEFINE a AS x > 8 PATTERN a WITHIN 60 s")
    with pytest.raises(ps.QueryError) as caught:
        query.run(pl.DataFrame({"tick": [1], "x": [9.0]}))
    assert {"`ORDER BY tick UNIT s`" in str(fault.hint) for fault in caught.value.faults} == {True}


def test_events_of_one_time_are_told_to_name_the_column_that_orders_them() -> None:
    frame = pl.DataFrame({"ts": [NOON, NOON], "x": [9.0, 9.0]})
    with pytest.raises(ps.TieError, match="ORDER BY ts, seq takes all of them"):
        QUERY.run(frame)
    assert len(ps.query(str(QUERY).replace("ts", "ts, n")).run(frame.with_row_index("n"))) == 1


def test_a_comparison_of_a_value_in_the_builder_is_a_text() -> None:
    a = ps.define("a", "x > 8")
    with pytest.raises(TypeError, match=r'\.where\("MAX\(a\.x\) > 9"\)'):
        assert a.max("x") > 9
    with pytest.raises(ps.QueryError, match="sequence='n'"):
        ps.pattern(a).within("60 s").order_by("ts", "n")


def test_rows_without_a_stream_name_one_that_is_no_archive(tmp_path: Path) -> None:
    ps.archive(tmp_path / "past", time="ts").append(pl.DataFrame({"ts": [1], "x": [9.0]}))
    found = "DEFINE a AS x > 8 PATTERN a WITHIN 60) AS"
    query = ps.query(
        f"FROM (FROM live ORDER BY ts {found} l WITH (FROM ARCHIVE '{tmp_path}/past' ORDER BY ts "
        f"{found} p DEFINE b AS l, c AS p PATTERN c before b WITHIN 99"
    )
    with pytest.raises(ValueError, match=r'run\({"live": rows, …}\)'):
        query.open().push([{"ts": 1, "x": 9.0}])
