"""What predicates read of earlier events: PREV, windows and UNTIL, by hand."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.adapters.binding import bound
from piestream.engine.past import PastValues

_ALWAYS: dict[Any, str] = {pl.Int64(): "1000000", pl.Date(): "1000 d"}


def true_at(predicate: str, **columns: list[Any]) -> list[Any]:
    """The times at which a predicate is true: of a frame, and of events that come one by one."""
    columns = {"t": list(range(1, 1 + len(next(iter(columns.values()))))), **columns}
    rows = pl.DataFrame(columns, strict=False)
    query = ps.query(
        f"FROM s ORDER BY t DEFINE a AS {predicate} PATTERN a WITHIN {_ALWAYS[rows['t'].dtype]} "
        "EMIT ON BOTH RETURN a.ts, a.te"
    )
    found = query.run(rows).select("phase", "a_ts", "a_te").rows()
    session = query.open(schema=rows.schema)
    single: list[Any] = []
    for event in rows.to_dicts():
        single += session.push(event)
        session = query.open(state=session.snapshot())
    assert sorted(map(str, found)) == sorted(
        str((row["phase"], row["a_ts"], row["a_te"])) for row in single
    ), predicate
    runs = {start: end for _, start, end in sorted(found, key=lambda row: row[0] == "completion")}
    inside = [
        time
        for time in rows["t"]
        if any(start <= time and (end is None or time < end) for start, end in runs.items())
    ]
    return inside


@pytest.mark.parametrize(
    ("predicate", "times"),
    [
        ("PREV(x, 2) = 4", [3, 5]),
        ("PREV(x, 3) IS NULL", [1, 2, 3, 5]),
        ("COUNT(*) OVER 2 EVENTS = 2", [2, 3, 4, 5]),
        ("COUNT(x) OVER 2 EVENTS = 1", [1, 2, 3]),
        ("SUM(x) OVER 2 = 13", [4]),
        ("AVG(x) OVER 3 EVENTS = 7", [5]),
        ("MIN(x) OVER 3 = 4 AND MAX(x) OVER 3 = 4", [1, 2, 3]),
        ("STDDEV(x) OVER 2 EVENTS IS NULL", [1, 2, 3]),
        ("MAX(x) OVER 9 - MIN(x) OVER 9 = 5", [4, 5]),
        ("AVG(x - PREV(x)) OVER 9 IS NOT NULL", [4, 5]),
        ("x = 4 UNTIL x > 6", [1, 2, 3]),
        ("x > 3 UNTIL x >= 9", [1, 2, 3, 5]),
    ],
)
def test_what_earlier_events_make_true(predicate: str, times: list[int]) -> None:
    assert true_at(predicate, x=[4, None, 4, 9, 8]) == times


def test_a_window_is_open_at_its_older_end() -> None:
    assert true_at("COUNT(*) OVER 2 = 2", x=[0, 0, 0]) == [2, 3]
    assert true_at("COUNT(*) OVER 2 = 1", x=[0, 0], t=[5, 7]) == [5, 7]


def test_a_value_that_has_left_the_window_leaves_no_trace() -> None:
    xs = [1e300, math.inf, 1e16, 0.1, 0.2, 0.3, -math.inf, 1.0, 1.0]
    assert true_at("SUM(x) OVER 3 EVENTS = 0.6", x=xs) == [6]  # rounded once
    assert true_at("SUM(x) OVER 9 EVENTS IS NULL", x=xs) == [7, 8, 9]  # both infinities
    assert true_at("SUM(x) OVER 2 EVENTS = 2", x=xs) == [9]


def test_sums_of_whole_numbers_are_exact_and_null_beyond_64_bits() -> None:
    top = 2**63 - 1
    assert true_at(f"SUM(x) OVER 2 EVENTS = {top}", x=[top, 0, top, top, 0]) == [1, 2, 3, 5]
    assert true_at("SUM(x) OVER 2 EVENTS IS NULL", x=[top, 0, top, top, 0]) == [4]


def test_dates_and_timestamps_have_extremes_and_windows_with_units() -> None:
    days = [date(2026, 1, n) for n in (1, 2, 4, 9)]
    seen = [datetime(2026, 1, 1) + timedelta(hours=n) for n in (5, 2, 9, 7)]
    assert true_at("MAX(y) OVER 3 d = y", t=days, y=seen) == [days[0], days[2], days[3]]
    assert true_at("MAX(y) OVER 3 d < TIMESTAMP '2026-01-01 06:00:00'", t=days, y=seen) == days[:2]
    assert true_at("EXTRACT(HOUR FROM MIN(y) OVER 3 d) = 2", t=days, y=seen) == days[1:3]
    with pytest.raises(ps.QueryError, match="cannot mix a timestamp and a whole number"):
        true_at("MAX(y) OVER 3 d > 5", t=days, y=seen)
    with pytest.raises(ps.QueryError, match=r"OVER is 3 without a unit[\s\S]*AVG\(x\)[\s\S]*\^\^"):
        true_at("AVG(x) OVER 3 > 1", t=days, x=[1, 2, 3, 4])


def test_prev_keeps_texts_decimals_and_times() -> None:
    assert true_at("PREV(s, 2) = s", s=["a", "b", "a", None, "a"]) == [3, 5]
    assert true_at("PREV(s) > s", s=[date(2026, 1, 2), date(2026, 1, 1)]) == [2]


def test_a_silence_ends_until_and_empties_no_window() -> None:
    rows = pl.DataFrame({"t": [1, 2, 9, 10], "x": [9, 5, 5, 5]})
    text = "FROM s ORDER BY t MAX GAP 3 DEFINE a AS {} PATTERN a WITHIN 99 EMIT ON COMPLETION"
    assert ps.query(text.format("x > 8 UNTIL x < 2")).run(rows).rows() == [(5, 1, 5)]
    counted = ps.query(text.format("COUNT(*) OVER 20 = 2")).run(rows)
    assert counted.rows() == [(5, 2, 5)]


def test_a_name_of_let_may_be_used_by_several_symbols() -> None:
    text = """
        FROM s ORDER BY t
        LET smooth = AVG(x) OVER 2 EVENTS
        LET change = smooth - PREV(smooth)
        DEFINE up AS change > 0, down AS change < 0 UNTIL smooth > :high PATTERN up before; meets down
        WITHIN 99
    """
    rows = pl.DataFrame({"t": range(1, 7), "x": [1, 3, 5, 1, 1, 9]})
    written = text.replace("LET smooth = AVG(x) OVER 2 EVENTS", "").replace(
        "LET change = smooth - PREV(smooth)", ""
    )
    change = "(AVG(x) OVER 2 EVENTS - PREV(AVG(x) OVER 2 EVENTS))"
    written = written.replace("change", change).replace("smooth", "AVG(x) OVER 2 EVENTS")
    query = ps.query(text, high=4)
    assert query == ps.query(written, high=4)
    assert ps.query(str(query)) == query
    assert query.run(rows).rows() == ps.query(written, high=4).run(rows).rows() != []


def test_a_name_of_let_hides_a_column() -> None:
    query = ps.query("FROM s ORDER BY t LET y = x + 1 DEFINE a AS y > 1 PATTERN a WITHIN 9")
    assert query.run(pl.DataFrame({"t": [1], "x": [1], "y": [0]})).rows() == [(1, 1, None)]


def test_the_builder_says_the_same() -> None:
    lets = {"smooth": "AVG(x) OVER :d", "change": "smooth - PREV(smooth)"}
    hot = ps.define("hot", "smooth > 80", until="smooth < 75", let=lets, parameters={"d": "30 s"})
    up = ps.define("up", "change > 1", let=lets, parameters={"d": "30 s"})
    built = ps.pattern(up.during(hot)).within("1 h").from_("s")
    assert built == ps.query(
        "FROM s LET smooth = AVG(x) OVER 30 s, change = smooth - PREV(smooth) "
        "DEFINE hot AS smooth > 80 UNTIL smooth < 75, up AS change > 1 PATTERN up during hot "
        "WITHIN 1 h"
    )
    assert "LET smooth = AVG(x) OVER 30 s," in str(built)


def test_types_that_come_late_are_those_of_windows_too() -> None:
    text = "FROM s ORDER BY t DEFINE a AS SUM(COALESCE(x, 1)) OVER 3 > 2.5 AND PREV(y) = 'q' PATTERN a "
    session = ps.query(text + "WITHIN 9").open()
    assert session.push({"t": 1, "x": None, "y": None}) == []
    assert session.push({"t": 2, "x": 1.25, "y": "q"}) == []
    assert [row["a_ts"] for row in session.push({"t": 3, "x": 0.5, "y": None})] == [3]


def test_partitions_are_forgotten_when_their_windows_are_empty() -> None:
    text = "FROM s PARTITION BY k ORDER BY t DEFINE a AS AVG(x) OVER {} > 9 PATTERN a WITHIN 5"
    for window, kept in (("10", 2), ("3 EVENTS", 60)):
        session = ps.query(text.format(window)).open(schema={"k": int, "t": int, "x": float})
        for key in range(60):
            session.push([{"k": key, "t": 100 * key + n, "x": 1.0} for n in range(3)])
        session.advance(100_000)
        session.advance(200_000)
        assert session.statistics.partitions <= kept
        assert (session.statistics.partitions == 60) is (kept == 60)


def test_a_damaged_state_of_earlier_events_is_refused() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS SUM(x) OVER 9 > PREV(x, 2) PATTERN a WITHIN 9")
    binding = bound(query, {"t": pl.Int64(), "x": pl.Int64()})
    past = PastValues(binding.past)
    past.make_room(1)
    kept = past.frame([0])
    names = kept.columns
    for name, value in [
        (names[0], [[1, 2]]),  # two times, no values
        (names[3], [[1]]),  # PREV goes back two events
        (names[2], [None]),
    ]:
        broken = kept.with_columns(pl.Series(name, value, dtype=kept.schema[name]))
        with pytest.raises(ValueError, match=r"PREV|window|value"):
            PastValues(binding.past).restore(broken)


def test_windows_may_be_much_longer_than_the_room_that_they_begin_with() -> None:
    for function in ("AVG", "MAX"):
        text = f"FROM s ORDER BY t DEFINE a AS {function}(x) OVER 3000 = 5 PATTERN a WITHIN 9"
        rows = pl.DataFrame({"t": range(9000), "x": [5] * 9000})
        assert ps.query(text).run(rows).rows() == [(0, 0, None)]
        session = ps.query(text).open()
        assert len(session.push(rows[:4000])) == 1
        assert not len(session.push(rows[4000:]))
