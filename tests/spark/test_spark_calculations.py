"""Calculations in RETURN on Spark: bounded and streaming frames give what one machine gives."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

import piestream as ps
from tests.spark.streams import Player, frame_of, rows_of

EVENTS = pl.DataFrame(
    {
        "k": ["p"] * 8 + ["q"] * 8,
        "t": [datetime(2026, 1, 1, 0, 0, second) for second in range(8)] * 2,
        "x": [0.0, 5.5, 7.0, 0, 0, 0, 0, 0, 2.0, 0, 9.5, 4.5, 0, 0, 0, 0],
        "y": [0, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0],
        "w": list("abcdefghijklmnop"),
        "day": [datetime(2026, 1, 2).date()] * 16,
    }
)
QUERY = ps.query("""
    FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1, d AS y > 1 PATTERN a before d WITHIN 1 min
    EMIT ON COMPLETION
    RETURN MAX(a.x) - MIN(a.x) AS rise, d.ts - a.te AS lag, DURATION(d) / 2 + 1 s AS half,
           FIRST(a.w) || LAST(d.w) AS word, COUNT(a) * 2 AS n, a.te < d.ts AS later,
           CASE WHEN AVG(a.x) > 5 THEN 'big' ELSE 'small' END AS size, LEAST(a.ts, d.ts) AS first,
           COALESCE(FIRST(a.day), LAST(d.day)) AS day
""")


def _sorted(rows: pl.DataFrame) -> list[dict[str, Any]]:
    return rows.sort("k", "completed_at", "rise").to_dicts()


def test_a_bounded_frame_gives_what_one_machine_gives(spark: Any) -> None:
    expected = QUERY.run(EVENTS)
    found = rows_of(QUERY.run(frame_of(spark, EVENTS)))
    assert found.columns == expected.columns
    assert len(expected) == 3
    assert _sorted(found) == _sorted(expected)


def test_a_stream_gives_what_one_machine_gives(spark: Any, tmp_path: Path) -> None:
    player = Player(spark, QUERY, EVENTS[:0], tmp_path)
    parts = [EVENTS.filter(pl.col("t").dt.second().is_between(at, at + 3)) for at in (0, 4)]
    player.play(*parts)
    found = pl.concat([player.rows(), player.flushed()])
    assert _sorted(found.select(QUERY.run(EVENTS).columns)) == _sorted(QUERY.run(EVENTS))
