"""A long frame without partitions is worked in pieces: of fewer rows where many matches come."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pytest

import piestream as ps
from experiments.streams import booleans
from piestream.adapters import run as runs
from piestream.engine.stream import Stream

QUERY = ps.query(
    "FROM s ORDER BY ts DEFINE a AS a1, b AS a2, c AS a3 "
    "PATTERN a before b AND b before c WITHIN 300"
)


def test_pieces_follow_the_matches_and_lose_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many matches in the middle of the stream, hardly any before and after."""
    frame = booleans(3, 3_000, 1, situation=(2, 5), gap=(2, 8))
    quiet = ~pl.col("ts").is_between(1_000, 2_000)
    frame = frame.with_columns(pl.when(quiet).then(False).otherwise("a1").alias("a1"))
    whole = QUERY.run(frame)
    monkeypatch.setattr(runs, "CHUNK_ROWS", 400)
    monkeypatch.setattr(runs, "_FIRST_ROWS", 100)
    monkeypatch.setattr(runs, "_LEAST_ROWS", 10)
    monkeypatch.setattr(runs, "_PIECE_MATCHES", 500)
    taken: list[int] = []
    portions = Stream.portions

    def noted(stream: Stream, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        taken.append(len(rows))
        return portions(stream, rows)

    monkeypatch.setattr(Stream, "portions", noted)
    assert QUERY.run(frame).equals(whole)
    assert sum(taken) == len(frame)
    assert taken[0] == 100
    assert 10 <= min(taken[:-1]) < 50
    assert max(taken) == 400
