"""Bounds on the number of an interval's events: when they are known, in every way of input."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import piestream as ps

#: Runs of 4, 1, 2 and an open one of 3 events, at uneven times.
TIMES = [1, 2, 3, 9, 10, 20, 21, 30, 31, 32, 40, 41, 50]
HOLDS = [1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1]
FRAME = pl.DataFrame({"ts": TIMES, "a": [bool(v) for v in HOLDS]})


def query(bounds: str, rest: str = "", gap: str = "") -> ps.Query:
    return ps.query(
        f"FROM s ORDER BY ts {gap} DEFINE a AS a {bounds} PATTERN a WITHIN 99 {rest} RETURN a.ts"
    )


def in_every_way(one: ps.Query, frame: pl.DataFrame = FRAME) -> list[tuple[Any, ...]]:
    """The rows of a run, which sessions give too: in pieces, event by event, restored, disordered."""
    rows = one.run(frame).rows()
    for size in (1, 2, 3, 5):
        for restored in (False, True):
            session = one.open(schema=frame.schema)
            found = []
            for first in range(0, len(frame), size):
                found += session.push(frame[first : first + size]).rows()
                if restored:
                    session = one.open(state=session.snapshot())
            found += session.close().rows()
            assert found == rows, (size, restored)
    session = one.open(schema=frame.schema)
    found = [tuple(m.values()) for event in frame.to_dicts() for m in session.push(event)]
    found += [tuple(m.values()) for m in session.close()]
    assert found == rows
    session = one.open(schema=frame.schema, lateness=100)
    session.push(frame.reverse())
    assert session.close().rows() == rows
    return rows


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("AT LEAST 1 EVENT", [(1, 1), (20, 20), (30, 30), (40, 40)]),
        ("AT LEAST 2 EVENTS", [(2, 1), (31, 30), (41, 40)]),  # at the second event, not later
        ("AT LEAST 3 EVENTS", [(3, 1), (50, 40)]),
        ("AT LEAST 4 EVENTS", [(9, 1)]),
        ("AT LEAST 5 EVENTS", []),
        ("AT MOST 1 EVENT", [(21, 20)]),  # at its end
        ("AT MOST 2 EVENTS", [(21, 20), (32, 30)]),
        ("BETWEEN 2 AND 4 EVENTS", [(10, 1), (32, 30)]),
        ("AT LEAST 5 AT LEAST 2 EVENTS", [(9, 1), (50, 40)]),  # whichever comes last
        ("AT LEAST 1 AT LEAST 3 EVENTS", [(3, 1), (50, 40)]),
        ("AT LEAST 2 EVENTS AT MOST 5", [(32, 30)]),
        ("AT MOST 3 EVENTS AT LEAST 2", [(32, 30)]),
    ],
)
def test_a_bound_is_known_at_the_earliest_event(
    bounds: str, expected: list[tuple[int, ...]]
) -> None:
    assert in_every_way(query(bounds)) == expected


def test_completion_waits_for_the_end_and_counts_all_events() -> None:
    assert in_every_way(query("AT LEAST 2 EVENTS", "EMIT ON COMPLETION")) == [(10, 1), (32, 30)]
    both = in_every_way(query("AT LEAST 4 EVENTS", "EMIT ON BOTH"))
    assert both == [(9, "trigger", 1), (10, "completion", 1)]


def test_the_end_of_a_silence_is_no_event() -> None:
    """A silence longer than 5 ends [1..3], and nine is a run of its own: three events and one."""
    assert in_every_way(query("AT LEAST 4 EVENTS", gap="MAX GAP 5")) == []
    found = in_every_way(query("BETWEEN 3 AND 3 EVENTS", gap="MAX GAP 5"))
    assert found == [(8, 1)]
    assert in_every_way(query("AT MOST 1 EVENT", gap="MAX GAP 5")) == [(10, 9), (21, 20)]


def test_daily_prices_know_a_weekend_from_three_falling_days() -> None:
    days = ["2026-01-01", "2026-01-02", "2026-01-05", "2026-01-06", "2026-01-07", "2026-01-08"]
    frame = pl.DataFrame({"day": days, "close": [9.0, 8.0, 7.5, 7.0, 7.2, 7.1]}).with_columns(
        pl.col("day").str.to_date()
    )
    falling = (
        "FROM prices DEFINE falling AS close < PREV(close) AT LEAST {} PATTERN falling "
        "WITHIN 30 d RETURN falling.ts"
    )
    by_days = ps.query(falling.format("3 d")).run(frame)
    assert by_days["detected_at"].dt.weekday().to_list() == [1]  # a Monday after two events
    by_events = ps.query(falling.format("3 EVENTS")).run(frame)
    assert by_events["detected_at"].cast(pl.String).to_list() == ["2026-01-06"]


def test_partitions_count_for_themselves() -> None:
    frame = pl.DataFrame({"ts": range(60), "k": [n % 3 for n in range(60)], "a": [True] * 60})
    one = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a AT LEAST 12 EVENTS PATTERN a WITHIN 99"
    )
    expected = [(k, 33 + k, k, None) for k in range(3)]
    assert one.run(frame).sort("k").rows() == expected
    session = one.open()
    found = [session.push(frame[first : first + 7]) for first in range(0, 60, 7)]
    assert pl.concat(found).sort("k").rows() == expected


def test_the_builder_says_the_same_as_the_text() -> None:
    a = ps.define("a", "a", at_least="5 s", at_least_events=3)
    b = ps.define("b", "b", at_least_events=2, at_most_events=9)
    built = ps.pattern(a.before(b)).within("1 h").query
    text = str(built)
    assert "a AS a AT LEAST 5 s AT LEAST 3 EVENTS" in text
    assert "b AS b BETWEEN 2 AND 9 EVENTS" in text
    assert ps.query(text) == built
    assert built != ps.pattern(ps.define("a", "a", at_least="5 s").before(b)).within("1 h").query
    explained = str(built.explain())
    assert "a: valid once it is known to last 5 s and to have 3 events" in explained
    assert "b: valid at its end, if it had at least 2 and at most 9 events" in explained
    for wrong in (-1, 2.5, True, "3"):
        with pytest.raises(ps.QueryError, match="at_least_events of a is a whole number"):
            ps.define("a", "a", at_least_events=wrong)


def test_ready_made_intervals_have_no_events_to_count() -> None:
    with pytest.raises(ps.QueryError, match="come ready-made and have no events to count"):
        ps.query(
            "FROM v ORDER BY t WITH i FROM a TO b DEFINE x AS v.x > 1, y AS i AT LEAST 2 EVENTS "
            "PATTERN x during y WITHIN 60"
        )


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ("AT LEAST 2.5 EVENTS", "2.5 is not a number of events"),
        ("AT MOST 0 EVENTS", "every interval of a has an event"),
        ("BETWEEN 5 AND 3 EVENTS", "at least 5 events and at most 3, which no interval can"),
        ("AT LEAST 3 EVENTS AT LEAST 4 EVENTS", "AT LEAST is given twice for a"),
        ("AT LEAST 3 EVNTS", "did you mean EVENTS?"),
        ("AT LEAST 3 ROWS", "write AT LEAST 3 EVENTS"),
    ],
)
def test_what_is_wrong_with_a_bound_is_said(bounds: str, message: str) -> None:
    with pytest.raises(ps.QueryError) as raised:
        query(bounds)
    assert message in str(raised.value)


def test_the_end_of_the_input_is_no_event() -> None:
    """One that begins with the last event is open behind it for a tick: it has one event."""
    frame = pl.DataFrame({"ts": [1, 2, 3], "a": [True] * 3, "b": [False, False, True]})
    text = "FROM s ORDER BY ts DEFINE a AS a {}, b AS b {} PATTERN a {} b WITHIN 9"
    both = "overlaps; before; meets; contains; finished-by; during; starts; equals"
    for of_a, of_b, rows in (
        ("", "AT LEAST 1 EVENT", 1),
        ("", "AT LEAST 2 EVENTS", 0),
        ("", "AT MOST 1 EVENT", 1),
        ("AT LEAST 3 EVENTS", "", 1),
        ("AT LEAST 4 EVENTS", "", 0),
        ("BETWEEN 3 AND 3 EVENTS", "", 1),
    ):
        query = ps.query(text.format(of_a, of_b, both) + " EMIT ON TRIGGER")
        assert query.run(frame, at_end="close").height == rows, (of_a, of_b)
        session = query.open(schema=frame.schema)
        found = sum(session.push(frame[k : k + 1]).height for k in range(3))
        assert found + session.close(at_end="close").height == rows, (of_a, of_b)
