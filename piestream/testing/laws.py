"""The laws: what every query keeps on every stream, as functions to call in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

import polars as pl

from piestream.expressions.durations import DurationLike
from piestream.language.model import Query
from piestream.testing.arrivals import Arrivals, Frames, pieces

if TYPE_CHECKING:
    from piestream.language.options import Ties

__all__ = [
    "assert_partitions_are_independent",
    "assert_same_however_cut",
    "assert_same_in_any_order",
    "assert_survives_restoring",
]


def assert_same_however_cut(
    query: Query, frame: Frames, seed: int = 0, *, ties: Ties = "error"
) -> None:
    """A session gives the rows of a run over the whole frame, however the stream is cut.

    Both know that a silence is over from later events of other partitions. Of a query over several
    streams, ``frame`` is a mapping of their names to frames.
    """
    arrivals = Arrivals(query, frame, ties)
    session = query.open(ties=ties, schema=arrivals.schema)
    found: list[pl.DataFrame] = []
    for part in pieces(arrivals.rows, Random(seed)):
        found += arrivals.pushed(session, part)
    _check(query, arrivals.expected, [*found, session.close()], f"cut with seed {seed}")


def assert_same_in_any_order(
    query: Query, frame: Frames, seed: int = 0, *, lateness: DurationLike | None = None
) -> None:
    """Events that come in disorder, but within ``lateness``, change nothing.

    Left out, it is 5 ticks of an integer time column, 5 s of timestamps and 5 days of dates.
    """
    rng = Random(seed)
    arrivals = Arrivals(query, frame)
    length, rows = arrivals.delayed(lateness, rng)
    session = query.open(lateness=length, schema=arrivals.schema)
    found: list[pl.DataFrame] = []
    for part in pieces(rows, rng):
        found += arrivals.pushed(session, part)
    _check(query, arrivals.expected, [*found, session.close()], f"order of seed {seed}")


def assert_survives_restoring(query: Query, frame: Frames, seed: int = 0) -> None:
    """A session that is stored and opened again after every push gives the same rows."""
    arrivals = Arrivals(query, frame)
    session = query.open(schema=arrivals.schema)
    found: list[pl.DataFrame] = []
    for part in pieces(arrivals.rows, Random(seed)):
        found += arrivals.pushed(session, part)
        session = query.open(state=session.snapshot())
    _check(query, arrivals.expected, [*found, session.close()], f"restored, seed {seed}")


def assert_partitions_are_independent(query: Query, frame: Frames) -> None:
    """Each partition has the matches that it has alone.

    It does not hold for queries with MAX GAP, SILENCE, NOT or BRIDGING: by events of other partitions it is
    known that time has passed.
    """
    if not query.partition_by or _waits(query):
        raise ValueError(
            "this law is about queries with PARTITION BY, and without MAX GAP, SILENCE, NOT and BRIDGING"
        )
    alone = [query.run(part) for part in _partitions(query, frame)]
    _check(query, query.run(frame), alone, "each partition alone")


def _waits(query: Query) -> bool:
    """Whether something is known because time has passed, in a query or in one in brackets."""
    inner = (stream.query for stream in query.streams if stream.query is not None)
    return (
        any(stream.max_gap is not None for stream in query.streams)
        or any(symbol.bridging is not None for symbol in query.symbols)
        or query.has_silences
        or bool(query.absences)
        or any(map(_waits, inner))
    )


def _partitions(query: Query, frames: Frames) -> Iterable[Frames]:
    """The rows of each partition, of all streams."""
    keys = list(query.partition_by)
    if not isinstance(frames, Mapping):
        return frames.partition_by(keys)
    every = pl.concat([frame.select(keys) for frame in frames.values()], how="vertical_relaxed")
    return [
        {
            name: frame.filter(*(pl.col(n).eq_missing(v) for n, v in key.items()))
            for name, frame in frames.items()
        }
        for key in every.unique(maintain_order=True).to_dicts()
    ]


def _check(query: Query, expected: pl.DataFrame, found: Sequence[pl.DataFrame], how: str) -> None:
    """The same rows in the same order within each partition; across partitions no order counts.

    Where intervals come ready-made, several may start together, and which is the first is not said.
    """
    any_order = any(s.is_ready_made and s.silence is None for s in query.streams)
    wanted, got = _by_key(query, [expected]), _by_key(query, found)
    for key in [*wanted, *(key for key in got if key not in wanted)]:
        one, other = wanted.get(key, []), got.get(key, [])
        same = sorted(one) == sorted(other) if any_order else one == other
        if not same:
            raise AssertionError(
                f"{how}: partition {key} gave\n  {other}\nand not\n  {one}\nof the query\n{query}"
            )


def _by_key(query: Query, frames: Sequence[pl.DataFrame]) -> dict[str, list[str]]:
    """Rows as text (a float is as exact as its text, and a NULL equals a NULL) by partition."""
    parts: dict[str, list[str]] = {}
    width = len(query.partition_by)
    for frame in frames:
        for row in frame.iter_rows():
            parts.setdefault(repr(row[:width]), []).append(repr(row[width:]))
    return parts
