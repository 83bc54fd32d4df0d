"""NOT (...) on Spark: deadlines pass in slices of time, and without events of their partition."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests.spark.streams import Player, frame_of, rows_of

QUERIES = {
    "after": "a AND NOT (c after a AND c.ts - a.te <= 10)",
    "long": "a AND NOT (c overlaps; during; before a AND a.ts - c.ts <= 20 AND a.ts - c.te <= 6)",
    "between": "a before b AND NOT (c after a AND c before b) AND NOT (d after b AND d.ts - b.te <= 7)",
}


def _query(pattern: str) -> ps.Query:
    names = [name for name in "abcd" if f"{name} " in pattern or f"{name}." in pattern]
    symbols = ", ".join(f"{n} AS {n}" + " AT LEAST 3" * (n == "c") for n in names)
    return ps.query(
        f"FROM s PARTITION BY k ORDER BY ts DEFINE {symbols} PATTERN {pattern} WITHIN 40"
    )


def _events(seed: int, until: int) -> pl.DataFrame:
    rng = Random(seed)
    rows = []
    for key in range(3):
        at = 0
        while at < until:
            at += rng.choice((1, 2, 5, 5, 17))
            rows.append((key, at, *(rng.random() < 0.4 for _ in "abcd")))
    return pl.DataFrame(rows, schema=["k", "ts", *"abcd"], orient="row").sort("ts", "k")


@pytest.mark.parametrize("name", QUERIES)
def test_slices_of_time_say_what_the_whole_says(spark: Any, name: str) -> None:
    query = _query(QUERIES[name])
    events = _events(1, 3000)
    found = rows_of(query.run(frame_of(spark, events), slices=4)).sort("k", "detected_at", "a_ts")
    wanted = query.run(events).sort("k", "detected_at", "a_ts")
    assert len(wanted) > 5
    assert found.equals(wanted)


def test_a_deadline_passes_in_a_key_that_no_row_comes_to(spark: Any, tmp_path: Path) -> None:
    """By a timeout, in a batch without rows."""
    query = _query("a AND NOT (b after a AND b.ts - a.te <= 10)")
    events = pl.DataFrame(
        [(1, 0, True, False), (2, 0, True, False), (1, 2, False, False), (2, 3, False, True)],
        schema=["k", "ts", "a", "b"],
        orient="row",
    )
    later = pl.DataFrame([(2, 30, False, False)], schema=events.schema, orient="row")
    player = Player(spark, query, events, tmp_path, lateness=3, partitioning="key")
    player.play(events, later)
    assert sorted(player.rows().rows()) == [(1, 12, 0, 2), (2, 13, 0, 3)]


@pytest.mark.parametrize(("until", "count"), [(12, 9), (13, 0)])
def test_a_silence_that_may_not_be_there_ends_with_the_input(
    spark: Any, until: int, count: int
) -> None:
    """It is one if the time of a key in another task has passed its deadline."""
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, quiet AS SILENCE LONGER THAN 5 "
        "PATTERN a AND NOT (quiet finishes a) WITHIN 40 EMIT ON COMPLETION"
    )
    rows = [(key, ts, True) for key in range(9) for ts in (1, 3, 7)]
    events = pl.DataFrame([*rows, (99, until, False)], schema=["k", "ts", "a"], orient="row")
    expected = query.run(events, at_end="close").sort("k")
    assert len(expected) == count
    found = rows_of(query.run(frame_of(spark, events), at_end="close", buckets=8)).sort("k")
    assert found.equals(expected)


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
@pytest.mark.parametrize("until", [400, 6])
def test_what_time_decides_before_the_end_of_the_input_stays_so(
    spark: Any, emit: str, until: int
) -> None:
    """Also where the time is that of a key in another task."""
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c "
        f"PATTERN a AND NOT (c after a AND c.ts - a.ts <= 5) WITHIN 40 EMIT ON {emit}"
    )
    rows = [(key, ts, True, False) for key in range(9) for ts in (1, 3 + key // 8)]
    rows.append((99, until, False, False))
    events = pl.DataFrame(rows, schema=["k", "ts", "a", "c"], orient="row")
    expected = query.run(events, at_end="close")
    assert expected.is_empty() == (until == 6)
    found = rows_of(query.run(frame_of(spark, events), at_end="close", buckets=8))
    assert sorted(found.rows(), key=repr) == sorted(expected.rows(), key=repr)
