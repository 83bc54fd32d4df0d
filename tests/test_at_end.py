"""What is open when an input ends: it stays so, or ends at its partition's last event."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.compiled.constants import INT64_MAX
from tests import engines
from tests.engines import Rows, by_partition, difference, first_difference, parse, plain
from tests.many_of_one_stream import DRAWS, cases_for, many_cases
from tests.scenario import Scenario
from tests.test_laws import report

_COMPLETE = "FROM s PARTITION BY k ORDER BY t DEFINE {} PATTERN {} WITHIN 100 EMIT ON COMPLETION"


def _closable(seed: int) -> Scenario:
    drawn = cases_for("frame", seed, "mixed" if seed % 4 == 3 else "times")
    return drawn.having(name=f"{drawn.name} at the end")


def _fail(engine: str, drawn: Scenario, why: str, key: tuple[Any, ...] | None = None) -> None:
    pytest.fail(report(engine, drawn, f"at_end='close': {why}", key), pytrace=False)


def _closed(engine: str, drawn: Scenario) -> Rows:
    """What a way in says of a scenario whose input ends."""
    query, stream, rng = parse(drawn.text()), drawn.stream, Random(f"{drawn.name} {engine}")
    if engine == "frame":
        rows = stream.frame(engines.shuffled(stream, rng))
        return plain(query.run(rows, ties=stream.ties, at_end="close"), stream)
    plan = engines.draw(engine, stream, rng)
    return [row for rows in engines.play(query, stream, plan, at_end="close") for row in rows]


@pytest.mark.parametrize("draw", DRAWS)
def test_every_way_in_closes_what_is_open_as_the_oracle_does(
    draw: str, fewest_seeds: list[int]
) -> None:
    for seed in fewest_seeds:
        alone, many = DRAWS[draw](seed), many_cases(seed, draw)
        ways = ["frame", "session", "disordered restored"]
        if alone.clock.kind not in ("ns", "ms"):  # of Python's datetimes none is a tick later
            ways.append("event")
        for drawn in (alone, many):
            expected = drawn.expected(at_end="close")
            for engine in ways if drawn is alone else ways[:3]:
                found = _closed(engine, drawn)
                if (of := first_difference(expected, found, drawn.keys)) is not None:
                    _fail(engine, drawn, of[1], of[0])


def test_closing_only_adds_rows_and_the_statistics_count_them(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    added = 0
    for seed in seeds_in_all(40):
        drawn = _closable(seed)
        query, frame = parse(drawn.text()), drawn.stream.frame()
        ordered = frame.sort("ts", maintain_order=True)
        session = query.open(ties=drawn.ties)
        rows = plain(session.push(ordered), drawn.stream) + plain(session.close(), drawn.stream)
        closed = plain(query.run(frame, ties=drawn.ties, at_end="close"), drawn.stream)
        before = by_partition(rows, drawn.keys)
        for key, all_rows in by_partition(closed, drawn.keys).items():
            kept = before.pop(key, [])
            why = difference(kept, all_rows[: len(kept)])
            if why is not None:
                _fail("frame", drawn, why)
        assert not before
        assert session.statistics.incomplete == len(closed) - len(rows), str(drawn)
        added += len(closed) - len(rows)
    assert added


def test_every_trigger_of_a_closed_input_is_completed(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = _closable(seed).reporting_both()
        rows = parse(drawn.text()).run(drawn.stream.frame(), ties=drawn.ties, at_end="close")
        phases = rows["phase"].value_counts().rows()
        assert len({count for _, count in phases}) <= 1, str(drawn)


# What an end is


def _frame(**columns: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"k": ["p"] * len(columns["t"])} | columns)


def test_an_open_interval_ends_at_the_last_event_of_its_partition() -> None:
    query = ps.query(_COMPLETE.format("a AS x > 0", "a") + " RETURN a.ts, a.te, COUNT(a), SUM(a.x)")
    frame = pl.DataFrame({"k": list("pppqq"), "t": [1, 5, 9, 2, 20], "x": [1, 2, 4, 0, 0]})
    assert query.run(frame).is_empty()
    # the last event is one of the run's, and counts
    assert query.run(frame, at_end="close").rows() == [("p", 9, 1, 9, 3, 7)]


def test_a_run_of_one_event_ends_one_tick_later() -> None:
    query = ps.query(_COMPLETE.format("a AS x > 0", "a"))
    assert query.run(_frame(t=[7], x=[1]), at_end="close").rows() == [("p", 8, 7, 8)]


def test_two_intervals_that_share_the_last_event_overlap() -> None:
    """The end is an instant behind the last event, though it is written with its time."""
    frame = _frame(t=[1, 5, 9], x=[1, 1, 1], y=[0, 0, 1])
    for relation, rows in (("overlaps", [("p", 10, 1, 9, 9, 10)]), ("meets", [])):
        query = ps.query(_COMPLETE.format("a AS x > 0, b AS y > 0", f"a {relation} b"))
        assert query.run(frame, at_end="close").rows() == rows


def test_a_duration_is_judged_by_the_end_that_is_given() -> None:
    frame = _frame(t=[1, 5, 9], x=[1, 1, 1])
    for bound, found in (("AT LEAST 8", 1), ("AT LEAST 9", 0), ("AT MOST 8", 1), ("AT MOST 7", 0)):
        query = ps.query(_COMPLETE.format(f"a AS x > 0 {bound}", "a"))
        assert len(query.run(frame, at_end="close")) == found, bound


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        # both are open at the last event
        ("b.te - a.ts = 6", 1),
        ("b.te - a.ts < 6", 0),
        ("b.te - a.ts >= 7", 0),
        ("b.te - a.ts <= 6 AND a finished-by b", 1),
        # c has ended there
        ("b.te - c.ts <= 6", 1),
        ("b.te - c.ts < 6", 0),
        ("c.te - b.ts <= 1 AND b.te - c.ts <= 6 AND c overlaps b", 1),
    ],
)
def test_a_distance_is_judged_by_the_end_that_is_given(pattern: str, found: int) -> None:
    """An end is later than the last event as long as another one can come, and then is at its time."""
    predicates = {"a": "x > 0", "b": "y > 0", "c": "z > 0"}
    symbols = ", ".join(f"{s} AS {p}" for s, p in predicates.items() if f"{s}." in pattern)
    query = ps.query(_COMPLETE.format(symbols, pattern))
    frame = _frame(t=[1, 6, 7], x=[1, 1, 1], y=[0, 1, 1], z=[1, 1, 0])
    assert len(query.run(frame, at_end="close")) == found
    session = query.open()
    given = len(session.push(frame)) + len(session.close(at_end="close"))
    assert given == found


def test_what_max_gap_ended_is_not_ended_again() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY t MAX GAP 5 DEFINE a AS x > 0 PATTERN a WITHIN 99 "
        "EMIT ON COMPLETION"
    )
    frame = pl.DataFrame({"k": ["p", "q", "q"], "t": [1, 3, 40], "x": [1, 0, 1]})
    assert query.run(frame, at_end="close").sort("k").rows() == [("p", 6, 1, 6), ("q", 41, 40, 41)]


def test_a_time_behind_which_there_is_none_is_refused() -> None:
    query = ps.query(_COMPLETE.format("a AS x > 0", "a"))
    with pytest.raises(ps.StreamError, match="shift the times"):
        query.run(_frame(t=[INT64_MAX - 1], x=[1]), at_end="close")


def test_an_end_that_there_is_not_is_refused() -> None:
    session = ps.query(_COMPLETE.format("a AS x > 0", "a")).open()
    with pytest.raises(ValueError, match="at_end is one of 'open', 'close'"):
        session.close(at_end="shut")  # type: ignore[arg-type]
    session.close()


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
def test_what_max_gap_has_ended_stays_ended_where_the_end_of_the_input_ends_a_bridged_run(
    emit: str,
) -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY t MAX GAP 2 DEFINE a AS x = 1 BRIDGING 5, "
        f"b AS x = 2 AT LEAST 2 PATTERN a meets b WITHIN 100 EMIT ON {emit} RETURN a.te, b.te"
    )
    rows = [("p", 20, 1), ("p", 22, 2), ("q", 25, 0)]  # b has lasted for 2 at 24, which is over
    frame = pl.DataFrame(rows, schema=["k", "t", "x"], orient="row")
    found = query.run(frame, at_end="close")
    assert set(found[:, 1]) == {24}
    assert set(found.select("a_te", "b_te").rows()) == {(22, 24)}
    assert len(found) == (2 if emit == "BOTH" else 1)


@pytest.mark.parametrize(("dtype", "last"), [(pl.Int8, 127), (pl.UInt16, 65535)])
def test_an_end_that_the_time_column_cannot_hold_is_told(dtype: Any, last: int) -> None:
    rows = pl.DataFrame({"t": pl.Series([last - 3, last], dtype=dtype), "x": [0, 5]})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 EMIT ON BOTH")
    assert len(query.run(rows)) == 1
    with pytest.raises(ps.StreamError, match=f"a time of the result is {last + 1}, more than"):
        query.run(rows, at_end="close")
