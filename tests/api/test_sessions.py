"""Sessions: what comes when, what is late, what a refused push leaves behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import piestream as ps

ONE = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
OF_TWO = ps.query(
    "FROM s ORDER BY t WITH r ORDER BY t DEFINE a AS s.x > 1, b AS r.y PATTERN a before b WITHIN 9"
)
KEYED = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
BOTH = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 EMIT ON BOTH")


def event(t: Any, x: Any = 5, **more: Any) -> dict[str, Any]:
    return {"t": t, "x": x, **more}


def starts(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["a_ts"] for row in rows]


def test_a_match_comes_with_the_event_that_makes_it_known() -> None:
    session = BOTH.open()
    assert session.push(event(1)) == [
        {"detected_at": 1, "phase": "trigger", "a_ts": 1, "a_te": None}
    ]
    assert session.push(event(2)) == []
    assert session.push(event(3, 0)) == [
        {"detected_at": 3, "phase": "completion", "a_ts": 1, "a_te": 3}
    ]


def test_an_event_at_the_watermark_is_worked_on_at_once() -> None:
    """But not with ties='last': another event of that time may still come and take its place."""
    session = ONE.open(lateness=2)
    assert session.push(event(5)) == []
    assert starts(session.push(event(7, 0))) == [5]
    kept_last = ONE.open(lateness=2, ties="last")
    assert kept_last.push(event(5)) == []
    assert kept_last.push(event(7, 0)) == []
    assert kept_last.push(event(5, 0)) == []
    assert kept_last.push(event(8, 0)) == []
    assert kept_last.statistics.ties == 1


def test_events_may_come_in_any_order_within_the_lateness() -> None:
    session = ONE.open(lateness=5)
    found = []
    for t, x in ((10, 5), (6, 5), (8, 0), (14, 0), (11, 5), (20, 0)):
        found += session.push(event(t, x))
    found += session.close()
    assert starts(found) == [6, 10]


def test_the_watermark_is_that_of_all_partitions() -> None:
    session = KEYED.open()
    session.push(event(10, k="fast"))
    with pytest.raises(ps.LateEventError, match="k = 'slow', t = 9"):
        session.push(event(9, k="slow"))


def test_a_late_event_is_an_error_or_is_dropped_and_counted() -> None:
    strict = ONE.open(lateness=2)
    strict.push(event(10, 0))
    strict.push(event(8, 0))
    with pytest.raises(ps.LateEventError, match=r"t = 7 is late: 10 was seen.*lateness is 2"):
        strict.push(event(7))
    lenient = ONE.open(lateness=2, on_late="drop")
    lenient.push(event(10, 0))
    assert lenient.push(event(7)) == []
    assert lenient.statistics.late == 1
    assert starts(lenient.close()) == []


def test_within_a_frame_each_row_is_late_or_not_by_the_rows_before_it() -> None:
    session = ONE.open(lateness=2, on_late="drop")
    session.push(pl.DataFrame({"t": [1, 9, 3, 8], "x": [0, 0, 5, 5]}))
    assert session.statistics.late == 1
    assert session.close()["a_ts"].to_list() == [8]


def test_ties_of_a_session() -> None:
    strict = ONE.open()
    strict.push(event(1))
    with pytest.raises(ps.TieError, match="t = 1"):
        strict.push(event(1, 0))
    first = BOTH.open(ties="first")
    first.push(event(1))
    assert first.push(event(1, 0)) == []
    assert first.statistics.ties == 1
    assert [row["a_te"] for row in first.push(event(2, 0))] == [2]


def test_advance_moves_time_on_without_events() -> None:
    silent = ps.query(
        "FROM s ORDER BY t MAX GAP 3 DEFINE a AS x > 1 PATTERN a WITHIN 99 EMIT ON COMPLETION"
    )
    session = silent.open()
    session.push(event(1))
    assert session.advance(4) == []  # not longer than 3 yet
    assert session.advance(5) == [{"completed_at": 4, "a_ts": 1, "a_te": 4}]
    with pytest.raises(ps.LateEventError, match="t = 4"):
        session.push(event(4))
    assert session.push(event(5, 0)) == []


def test_advance_works_on_what_waits() -> None:
    session = ONE.open(lateness=10)
    session.push(event(5))
    assert session.statistics.waiting == 1
    assert starts(session.advance(5)) == [5]
    assert session.statistics.waiting == 0
    with pytest.raises(ps.LateEventError):
        session.push(event(4))


def test_advance_takes_times_of_the_columns_type() -> None:
    query = ps.query(
        "FROM s MAX GAP 1 min DEFINE a AS x > 1 PATTERN a WITHIN 1 h EMIT ON COMPLETION"
    )
    session = query.open()
    noon = datetime(2024, 1, 1, 12)
    session.push(event(noon))
    (row,) = session.advance(noon + timedelta(minutes=2))
    assert row["a_te"] == noon + timedelta(minutes=1)
    with pytest.raises(ps.SchemaError, match="7 is no time of the column t, which holds Datetime"):
        session.advance(7)
    with pytest.raises(ps.SchemaError, match="give all times a zone"):
        session.advance(noon.replace(tzinfo=UTC))


@pytest.mark.parametrize("lateness", ["2 s", timedelta(seconds=2), "2000 ms"])
def test_a_lateness_is_said_as_any_duration(lateness: Any) -> None:
    session = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 1 h").open(lateness=lateness)
    noon = datetime(2024, 1, 1, 12)
    session.push(event(noon, 0))
    session.push(event(noon - timedelta(seconds=2), 0))
    with pytest.raises(ps.LateEventError):
        session.push(event(noon - timedelta(seconds=2, microseconds=1), 0))


def test_a_negative_lateness_is_refused() -> None:
    with pytest.raises(ps.QueryError, match="lateness is negative"):
        ONE.open(lateness=-1).push(event(1))


def test_closing_works_on_what_waits_and_ends_nothing() -> None:
    session = BOTH.open(lateness=5)
    session.push(event(1))
    assert [row["phase"] for row in session.close()] == ["trigger"]
    for use in (session.close, session.snapshot, lambda: session.push(event(9))):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_session_is_a_context() -> None:
    with ONE.open() as session:
        session.push(event(1))
    with pytest.raises(ValueError, match="closed"):
        session.push(event(2))


def test_an_event_that_lacks_a_column_is_refused() -> None:
    session = ONE.open()
    session.push(event(1))
    with pytest.raises(ps.SchemaError, match="no value for the column x"):
        session.push({"t": 2})
    with pytest.raises(ps.SchemaError, match="no column x"):
        session.push(pl.DataFrame({"t": [2]}))
    with pytest.raises(ps.SchemaError, match="column x has type Float64; it had Int64"):
        session.push(pl.DataFrame({"t": [2], "x": [2.5]}))
    assert session.push(event(2, 0)) == []


def test_types_can_be_given_beforehand_or_come_up_late() -> None:
    declared = ONE.open(schema={"t": int, "x": float})
    assert starts(declared.push(event(1, 5))) == [1]
    undeclared = ONE.open()
    assert undeclared.push(event(1, None)) == []
    assert starts(undeclared.push(event(2, 2.5))) == [2]


def test_statistics_count_what_was_seen() -> None:
    session = KEYED.open(lateness=2, on_late="drop", ties="first")
    for t, k in ((1, "u"), (1, "v"), (1, "v"), (9, "u"), (3, "u"), (20, "u")):
        session.push(event(t, k=k))
    seen = session.statistics
    assert (seen.events, seen.late, seen.ties, seen.waiting) == (3, 1, 1, 1)
    assert seen.matches == 2
    assert seen.partitions in (1, 2)  # v has been silent for longer than the window
    assert seen.state_bytes > 0


_REFUSED = {
    "late": {"k": ["u", "u"], "t": [40, 2], "x": [5, 5]},
    "tied": {"k": ["u", "u", "u"], "t": [40, 40, 90], "x": [5, 5, 5]},
    "tied with an earlier one": {"k": ["u", "u"], "t": [9, 40], "x": [0, 5]},
    "without a time": {"k": ["u", "u"], "t": [40, None], "x": [5, 5]},
    "at an end of time": {"k": ["u"], "t": [2**63 - 1], "x": [5]},
    "of other types": {"k": ["u"], "t": [40.0], "x": [5]},
    "without a column": {"k": ["u"], "t": [40]},
}


@pytest.mark.parametrize("refused", _REFUSED.values(), ids=_REFUSED.keys())
def test_a_refused_push_leaves_everything_as_it_was(refused: dict[str, list[Any]]) -> None:
    before = pl.DataFrame({"k": ["u"] * 3, "t": [-50, 8, 9], "x": [0, 5, 0]})
    after = pl.DataFrame({"k": ["u", "u"], "t": [10, 60], "x": [5, 0]})
    untouched, session = KEYED.open(lateness=21), KEYED.open(lateness=21)
    untouched.push(before)
    session.push(before)
    with pytest.raises(ps.StreamError):
        session.push(pl.DataFrame(refused))
    assert session.statistics == untouched.statistics
    assert session.push(after).equals(untouched.push(after))
    assert session.close().equals(untouched.close())
    assert session.statistics == untouched.statistics


def test_a_refused_push_leaves_no_partition_behind() -> None:
    session = KEYED.open()
    session.push(event(1, k="u"))
    with pytest.raises(ps.TieError):
        session.push(pl.DataFrame({"k": ["new", "u"], "t": [1, 1], "x": [5, 5]}))
    assert session.statistics.partitions == 1


def test_a_tie_is_refused_when_it_comes_and_not_when_its_time_has_come() -> None:
    session = ONE.open(lateness=3)
    session.push(event(5, 0))
    with pytest.raises(ps.TieError):
        session.push(event(5, 1))
    assert starts(session.push(event(10))) == []
    assert starts(session.close()) == [10]


def test_a_value_of_another_type_is_refused_by_its_columns_name() -> None:
    session = ONE.open()
    session.push(event(1))
    with pytest.raises(ps.SchemaError, match="column x"):
        session.push(event(2, "five"))


def test_advance_before_the_first_event_moves_time_on_too() -> None:
    session = ONE.open()
    session.advance(10)
    with pytest.raises(ps.LateEventError):
        session.push(event(5))


@pytest.mark.parametrize("time", [None, True, 1.5, "2024-01-01", [], np.datetime64("NaT"), pd.NaT])
@pytest.mark.parametrize("query", [ONE, OF_TWO], ids=["one stream", "two"])
def test_what_is_no_time_is_refused_before_the_first_event_too(query: ps.Query, time: Any) -> None:
    session = query.open()
    with pytest.raises(ps.SchemaError, match="is no time; give a whole number, a date"):
        session.advance(time)
    session.advance(np.int64(3))  # and a time still counts
    session.push(event(4), stream="s" if query is OF_TWO else None)
    with pytest.raises(ps.LateEventError):
        session.push({"t": 2, "x": 5, "y": True}, stream="r" if query is OF_TWO else None)


def test_a_frame_may_have_nothing_but_nulls_in_a_column() -> None:
    session = BOTH.open()
    session.push(pl.DataFrame({"t": [1], "x": [5]}))
    found = session.push(pl.DataFrame({"t": [2], "x": [None]}))
    assert found["a_te"].to_list() == [2]
    assert session.statistics.events == 2
    with pytest.raises(ps.TimeError, match="NULL"):
        session.push(pl.DataFrame({"t": [None], "x": [5]}))


def test_a_column_of_nulls_gets_its_type_from_a_later_frame() -> None:
    session = ONE.open()
    session.push(pl.DataFrame({"t": [1], "x": [None]}))
    assert session.push(pl.DataFrame({"t": [2], "x": [5]}))["a_ts"].to_list() == [2]
    with pytest.raises(ps.SchemaError, match="column x has type String; it had Int64 before"):
        session.push(pl.DataFrame({"t": [3], "x": ["five"]}))


@pytest.mark.parametrize(
    "rest",
    [
        "MAX GAP 9 DEFINE a AS x > -1 PATTERN a WITHIN 99 EMIT ON COMPLETION",
        "DEFINE a AS x > 1, c AS x < -1 PATTERN a AND NOT (c after a AND c.ts - a.ts <= 10) WITHIN 99",
        "DEFINE quiet AS SILENCE LONGER THAN 9 PATTERN quiet WITHIN 99",
        "WITH (FROM s MAX GAP 9 DEFINE g AS x > -1 PATTERN g WITHIN 99) AS inner "
        "DEFINE a AS x > 1, i AS inner PATTERN a starts i WITHIN 99",
    ],
)
def test_closing_takes_time_no_further_than_it_is_known_to_have_come(rest: str) -> None:
    query = ps.query(f"FROM s ORDER BY t PARTITION BY k {rest}")
    for until, rows in ((5, 0), (10, 0), (11, 1)):
        session = query.open(lateness=20)
        session.push([{"t": 0, "k": "u", "x": 5}, {"t": 1, "k": "u", "x": 0}])
        session.advance(2)  # that something may come before 22 does not make it 22
        session = query.open(state=session.snapshot())
        session.push({"t": until, "k": "v", "x": 0})
        assert len(session.close()) == rows
