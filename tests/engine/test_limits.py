"""ONCE PER, NO OVERLAP, COOLDOWN and LIMIT: what is left out, what is remembered, what it costs."""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.engine.stream import Stream
from piestream.plan.binding import bind
from tests import oracle
from tests.clock import Clock

#: a, b and c by turns, with an event of none between: 666 intervals of each.
TURNS = pl.DataFrame({"ts": range(4_000), "turn": [number % 6 for number in range(4_000)]})


def chain(limits: str) -> ps.Query:
    return ps.query(f"""
        FROM s ORDER BY ts
        DEFINE a AS turn = 0, b AS turn = 2, c AS turn = 4
        PATTERN a before b AND b before c
        WITHIN 10000 {limits}
        RETURN a.ts, b.ts, c.ts
    """)


def run(limits: str) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of the chain, and how many steps it took to find them."""
    query = chain(limits)
    stream = Stream(bind(query, TURNS.schema), lateness=None)
    rows = stream.process(TURNS).rows()
    return rows, stream.detector.work.steps


def test_of_very_many_matches_with_one_interval_only_the_first_is_looked_for() -> None:
    rows, steps = run("ONCE PER c")  # of 49 million
    assert rows == [(ts, 0, 2, ts) for ts in range(4, 4_000, 6)]
    assert steps < 4 * len(rows)


def test_intervals_that_were_given_are_not_entered_again() -> None:
    rows, steps = run("ONCE PER b")
    assert rows == [(ts, 0, ts - 2, ts) for ts in range(4, 4_000, 6)]
    assert steps < 8 * len(rows)


@pytest.mark.parametrize("limits", ["COOLDOWN 100", "NO OVERLAP", "LIMIT 5"])
def test_what_comes_too_early_or_too_much_is_not_looked_for(limits: str) -> None:
    rows, steps = run(limits)
    assert rows
    assert steps < 4 * max(len(rows), 5)


def test_a_cooldown_includes_its_end() -> None:
    frame = pl.DataFrame({"ts": [0, 1, 5, 6, 10, 11, 12, 13], "x": [1, 0, 1, 0, 1, 0, 1, 0]})
    text = "FROM s ORDER BY ts DEFINE a AS x = 1 PATTERN a WITHIN 9"
    found = {n: ps.query(f"{text} COOLDOWN {n} RETURN a.ts").run(frame)["a_ts"] for n in (0, 4, 5)}
    assert {n: list(starts) for n, starts in found.items()} == {
        0: [0, 5, 10, 12],
        4: [0, 5, 10],
        5: [0, 10],
    }


def session_of(query: ps.Query, **options: Any) -> ps.Session:
    return query.open(schema={"ts": pl.Int64, "k": pl.String, "x": pl.Int64}, **options)


@pytest.mark.parametrize(
    ("limits", "later", "rows"),
    [("LIMIT 1", 10**9, 0), ("COOLDOWN 1000", 900, 0), ("COOLDOWN 1000", 10**9, 1)],
)
def test_a_partition_is_remembered_as_long_as_it_counts(limits: str, later: int, rows: int) -> None:
    query = ps.query(f"""
        FROM s PARTITION BY k ORDER BY ts DEFINE a AS x = 1 PATTERN a WITHIN 5 {limits}
    """)
    session = session_of(query)
    assert len(session.push({"ts": 0, "k": "one", "x": 1})) == 1
    session.push({"ts": 1, "k": "one", "x": 0})
    for ts in range(2, 200):  # time goes on, and what is dead is forgotten
        session.push({"ts": ts, "k": "another", "x": 0})
        session.advance(ts)
    session = query.open(state=session.snapshot())
    assert len(session.push({"ts": later, "k": "one", "x": 1})) == rows


def test_what_was_given_leaves_with_the_window() -> None:
    query = ps.query("""
        FROM s PARTITION BY k ORDER BY ts DEFINE a AS x = 1, b AS x = 2 PATTERN a before b WITHIN 50
        ONCE PER a, b
    """)
    session = session_of(query)
    sizes = []
    for ts in range(0, 40_000, 2):
        session.push({"ts": ts, "k": "one", "x": (ts // 2) % 4})
        if ts % 4_000 == 0:
            sizes.append(session.statistics.state_bytes)
    assert max(sizes[2:]) <= 2 * sizes[1]


def test_pairs_of_what_is_barred_stay_where_a_snapshot_has_them() -> None:
    """No match that overlaps the last one is given, but its intervals are held for as long as ever."""
    query = ps.query(
        "FROM s ORDER BY t DEFINE m AS p, b AS q, c AS r "
        "PATTERN m.te <= c.ts + 5 AND b.ts - c.te < 14 WITHIN 10000 NO OVERLAP"
    )
    session = query.open()
    found = []
    for t, p, q, r in ((1, 1, 1, 0), (3, 1, 0, 1), (4, 0, 0, 0), (12, 0, 1, 0), (13, 1, 1, 1)):
        row = {"t": [t], "p": [bool(p)], "q": [bool(q)], "r": [bool(r)]}
        found += session.push(pl.DataFrame(row)).rows()
        session = query.open(state=session.snapshot())
    assert [row[0] for row in found] == [3, 12]


def test_they_judge_what_where_lets_pass() -> None:
    query = chain("WHERE b.ts > 100 ONCE PER c LIMIT 3")
    frame = TURNS[:130]
    expected = [(ts, 0, 104, ts) for ts in range(106, 124, 6)]
    assert query.run(frame).rows() == expected
    session = query.open(schema=frame.schema)
    found = []
    for piece in frame.iter_slices(7):
        found += session.push(piece).rows()
        session = query.open(state=session.snapshot())
    assert found == expected


def test_each_partition_has_its_own() -> None:
    frame = pl.DataFrame({"ts": range(8), "k": list("xyxyxyxy"), "x": [1, 1, 0, 0, 1, 1, 0, 0]})
    query = ps.query("""
        FROM s PARTITION BY k ORDER BY ts DEFINE a AS x = 1 PATTERN a WITHIN 9 LIMIT 1 RETURN a.ts
    """)
    expected = [("x", 0, 0), ("y", 1, 1)]
    for threads in (1, 2):
        assert query.run(frame, threads=threads).rows() == expected


def test_completions_follow_what_was_given() -> None:
    frame = pl.DataFrame({"ts": range(6), "x": [1, 1, 0, 1, 0, 0]})
    query = ps.query("""
        FROM s ORDER BY ts DEFINE a AS x = 1 PATTERN a WITHIN 9 EMIT ON BOTH COOLDOWN 3
    """)
    assert query.run(frame).rows() == [(0, "trigger", 0, None), (2, "completion", 0, 2)]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_given_is_what_judging_all_matches_gives(seed: int) -> None:
    rng = Random(seed)
    columns = {name: [rng.randint(0, 9) for _ in range(60)] for name in "xyz"}
    frame = pl.DataFrame({"ts": sorted(rng.sample(range(120), 60)), **columns})
    how = [
        "; ".join(rng.sample(["before", "meets", "overlaps", "contains", "after"], 2))
        for _ in range(2)
    ]
    limits = [f"ONCE PER {rng.choice('abc')}", "NO OVERLAP", "COOLDOWN 5", "LIMIT 4"]
    text = f"""
        FROM s ORDER BY ts DEFINE a AS x > 3, b AS y > 4, c AS z > 5
        PATTERN {rng.choice(["a {} b AND b {} c", "c {} b AND b {} a"]).format(*how)}
        WITHIN 80
    """
    query = ps.query(text + " ".join(rng.sample(limits, rng.randint(1, 2))))
    rows = ps.query(text).run(frame).rows(named=True)
    starts = [{s: row[f"{s}_ts"] for s in "abc"} for row in rows]
    reported = [
        oracle.Reported(row["detected_at"], at, row) for row, at in zip(rows, starts, strict=True)
    ]
    expected = [one.match for one in oracle.given(query, Clock(), reported)]
    assert query.run(frame).rows(named=True) == expected
