"""Lists of dicts are events too: a list goes in, a list comes out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps

ONE = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN MAX(a.x) AS top")
EVENTS: list[dict[str, Any]] = [
    {"t": 1, "x": 0, "note": "n"},
    {"t": 2, "x": 5, "note": 7},
    {"t": 4, "x": 2.5, "note": None},
]


def refused(what: Any) -> str:
    with pytest.raises(ps.SchemaError) as caught:
        ONE.run(what)
    with pytest.raises(ps.SchemaError) as pushed:
        ONE.open().push(what)
    assert str(pushed.value) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", [list, tuple, iter, lambda events: (e for e in events)])
def test_a_run_and_a_push_take_them_and_give_the_rows_of_the_frame(kind: Any) -> None:
    frame = pl.DataFrame({"t": [1, 2, 4], "x": [0.0, 5.0, 2.5]})
    expected = ONE.run(frame).to_dicts()
    assert expected == [{"detected_at": 2, "top": 5.0}]
    assert ONE.run(kind(EVENTS)) == expected
    assert ONE.open().push(kind(EVENTS)) == expected


def test_a_list_is_pushed_as_its_events_one_by_one_would_be() -> None:
    whole, single = ONE.open(lateness=2), ONE.open(lateness=2)
    events = [{"t": t, "x": t % 3} for t in (3, 2, 5, 4, 9)]
    found = [row for event in events for row in single.push(event)]
    assert whole.push(events) == found
    assert whole.close() == single.close()


def test_a_list_is_refused_whole() -> None:
    session = ONE.open()
    session.push([{"t": 1, "x": 5}])
    before = session.snapshot()
    for faulty in ({"t": 1, "x": 0}, {"t": 3, "x": "five"}, {"t": 3}):
        with pytest.raises(ps.StreamError):
            session.push([{"t": 2, "x": 0}, faulty])
        assert session.snapshot() == before


def test_a_first_push_that_is_refused_leaves_the_types_open() -> None:
    session = ONE.open()
    with pytest.raises(ps.SchemaError, match="event 1 of the list has no value for the column x"):
        session.push([{"t": 1, "x": 5}, {"t": 2}])
    assert session.push([{"t": 1, "x": 5.5}]) == [{"detected_at": 1, "top": 5.5}]


def test_values_of_different_types_are_refused_where_they_are_read() -> None:
    message = refused([{"t": 1, "x": 5}, {"t": 2, "x": "five"}])
    assert message.startswith("column x holds 5 and 'five', which are of different types")
    assert ONE.run([{"t": 1, "x": 5, "n": 1}, {"t": 2, "x": 0, "n": "one"}])


def test_a_missing_value_is_written_none() -> None:
    message = refused([{"t": 1, "x": 5}, {"t": 2}])
    assert "event 1 of the list has no value for the column x" in message
    assert ONE.run([{"t": 1, "x": None}, {"t": 2, "x": 5}]) == [{"detected_at": 2, "top": 5}]


def test_a_column_without_values_gets_its_type_from_a_later_list() -> None:
    session = ONE.open()
    assert session.push([{"t": 1, "x": None}]) == []
    assert session.push([{"t": 2, "x": 5}]) == [{"detected_at": 2, "top": 5}]


def test_a_value_that_does_not_fit_what_came_before_is_named() -> None:
    session = ONE.open()
    session.push([{"t": 1, "x": 5}])
    with pytest.raises(ps.SchemaError, match=r"column x holds Int64, and an event's is 2\.5"):
        session.push([{"t": 2, "x": 0}, {"t": 3, "x": 2.5}])


def test_times_of_many_zones_are_the_same_moments() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    there = timezone(timedelta(hours=5))
    query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 1 h")
    found = query.run(
        [{"t": noon, "x": 0}, {"t": (noon + timedelta(seconds=1)).astimezone(there), "x": 5}]
    )
    assert found[0]["detected_at"] == noon + timedelta(seconds=1)


def test_numbers_of_numpy_are_numbers() -> None:
    assert ONE.run([{"t": np.int64(1), "x": np.float32(5)}]) == [{"detected_at": 1, "top": 5.0}]
    assert ONE.open().push({"t": np.int64(1), "x": np.float64(5)}) == [
        {"detected_at": 1, "top": 5.0}
    ]


def test_a_list_of_something_else_is_refused() -> None:
    for act in (ONE.run, ONE.open().push):
        with pytest.raises(TypeError, match="number 1 of this one is of type tuple"):
            act([{"t": 1, "x": 5}, (2, 0)])


def test_an_empty_list_says_nothing_of_columns() -> None:
    with pytest.raises(ValueError, match="an empty list has no columns"):
        ONE.run([])
    session = ONE.open()
    assert session.push([]) == []
    assert session.push({"t": 1, "x": 5}) == [{"detected_at": 1, "top": 5}]
    assert session.push(iter(())) == []


def test_what_is_meant_is_said_of_paths_and_dicts_of_columns() -> None:
    with pytest.raises(TypeError, match=r"'events\.csv' is no frame; .* FROM 'path'"):
        ONE.run("events.csv")
    with pytest.raises(TypeError, match=r"a dict is no frame: give pl\.DataFrame"):
        ONE.run({"t": [1], "x": [5]})
