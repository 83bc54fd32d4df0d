"""The engines: every way to put events into a query and get its rows out.

Each takes a query and a stream and gives rows with times in ticks. All of them must say the same
as the oracle, row for row and in the same order within a partition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Any

import polars as pl

from piestream.language.model import Query
from tests.scenario import Stream

__all__ = [
    "ENGINES",
    "Plan",
    "Rows",
    "by_partition",
    "difference",
    "draw",
    "first_difference",
    "play",
    "run",
    "shuffled",
]

Rows = list[dict[str, Any]]


@lru_cache(maxsize=4096)
def parse(text: str) -> Query:
    """The parser's query; imported late, so that the oracle can be tested without it."""
    from piestream.language import parse as parse_query

    query: Query = parse_query(text)
    return query


@dataclass(frozen=True)
class Plan:
    """How a session is fed: everything that chance decides, so that a failure can be seen again."""

    order: tuple[int, ...]  # positions in the stream, in order of arrival
    pushes: tuple[int, ...]  # how many events in each push
    as_frames: bool = True  # or one dictionary at a time
    restored: frozenset[int] = field(default_factory=frozenset)  # after which pushes
    lateness: int = 0  # in beats
    on_late: str = "error"
    typed: bool = False  # the types of the columns are given beforehand


def arrival(stream: Stream, lateness: int, rng: Random) -> tuple[int, ...]:
    """An order of arrival in which no event is later than the lateness allows."""
    ticks = stream.clock.beats(lateness) if lateness else 0
    times = [row[stream.time] for row in stream.rows]
    # Events of one time keep their order: which of two ties is the first is not to change.
    delays = {time: rng.randint(0, ticks) for time in sorted(set(times))}
    if stream.ties == "error" and stream.sequence != "ROW":
        due = [time + rng.randint(0, ticks) for time in times]
    else:
        due = [time + delays[time] for time in times]
    return tuple(
        sorted(range(len(times)), key=lambda position: (due[position], stream.instant(position)))
    )


def cuts(length: int, rng: Random) -> tuple[int, ...]:
    """The sizes of the pushes that a stream is cut into; some may be empty."""
    at = sorted(rng.randint(0, length) for _ in range(rng.randint(0, 6)))
    edges = [0, *at, length]
    return tuple(after - before for before, after in pairwise(edges))


def draw(name: str, stream: Stream, rng: Random) -> Plan:
    """The plan of a session engine for a stream."""
    length = len(stream.rows)
    lateness = rng.randint(1, 8) if name.startswith("disordered") else 0
    order = tuple(sorted(range(length), key=stream.instant))
    if lateness:
        order = arrival(stream, lateness, rng)
    as_frames = not name.startswith("event") or not all(
        stream.clock.held_by_dictionaries(row[stream.time]) for row in stream.rows
    )
    pushes = (1,) * length if name.startswith("event") else cuts(length, rng)
    restored: frozenset[int] = frozenset()
    if "restored" in name:
        restored = frozenset(k for k in range(len(pushes)) if rng.random() < 0.4)
    # Where the first event lacks a value, its type must be given.
    lacking = any(value is None for row in stream.rows[:1] for value in row.values())
    typed = name.startswith("event") and (lacking or rng.random() < 0.5)
    return Plan(order, pushes, as_frames, restored, lateness, typed=typed)


def play(query: Any, stream: Stream, plan: Plan, at_end: str = "open") -> list[Rows]:
    """Feeds a session by a plan: the rows that each push gave, and last those of ``close``."""
    options: dict[str, Any] = {"ties": stream.ties, "on_late": plan.on_late}
    if plan.lateness:
        beats = stream.clock.text(plan.lateness)
        options["lateness"] = beats if stream.clock.unit else int(beats)
    if plan.typed:
        options["schema"] = stream.frame([]).schema
    session = query.open(**options)
    given, at = [], 0
    for number, size in enumerate(plan.pushes):
        rows = [stream.rows[position] for position in plan.order[at : at + size]]
        at += size
        if plan.as_frames:
            given.append(plain(session.push(stream.frame(rows)), stream))
        else:
            for row in rows:
                given.append(plain(session.push(stream.event(row)), stream))
        if number in plan.restored:
            session = query.open(state=session.snapshot())
    given.append(plain(session.close(at_end=at_end), stream))
    return given


def plain(rows: Any, stream: Stream) -> Rows:
    """Rows as dictionaries with times in ticks, whatever kind they came in."""
    if isinstance(rows, pl.DataFrame):
        return stream.clock.plain_frame(rows)
    if not isinstance(rows, list):
        raise TypeError(f"rows came back as {type(rows).__name__}")
    return [{name: stream.clock.plain(value) for name, value in row.items()} for row in rows]


def run(name: str, query: Any, stream: Stream, rng: Random) -> tuple[Rows, object]:
    """What an engine gives, and how it was run."""
    return ENGINES[name](name, query, stream, rng)


def _oracle(name: str, query: Any, stream: Stream, rng: Random) -> tuple[Rows, object]:
    return stream.matches(query), None


def _frame(name: str, query: Any, stream: Stream, rng: Random) -> tuple[Rows, object]:
    rows = shuffled(stream, rng)
    return plain(query.run(stream.frame(rows), ties=stream.ties), stream), rows


def shuffled(stream: Stream, rng: Random) -> list[Mapping[str, Any]]:
    """The events in another order, where their times and numbers alone order them."""
    order = list(range(len(stream.rows)))
    if stream.ties == "error":
        rng.shuffle(order)  # a bounded frame is sorted by the engine
    if stream.sequence == "ROW":
        places = {row[stream.time]: rng.random() for row in stream.rows}
        order.sort(key=lambda position: (places[stream.rows[position][stream.time]], position))
    return [stream.rows[position] for position in order]


def _session(name: str, query: Any, stream: Stream, rng: Random) -> tuple[Rows, object]:
    plan = draw(name, stream, rng)
    return [row for rows in play(query, stream, plan) for row in rows], plan


Engine = Callable[[str, Any, Stream, Random], tuple[Rows, object]]

ENGINES: Mapping[str, Engine] = {
    "oracle": _oracle,
    "frame": _frame,
    "session": _session,
    "event": _session,
    "restored": _session,
    "event restored": _session,
    "disordered": _session,
    "disordered restored": _session,
}


# Comparing rows


def by_partition(rows: Rows, keys: Sequence[str]) -> dict[tuple[Any, ...], Rows]:
    """The rows of each partition, in the order in which they came."""
    parts: dict[tuple[Any, ...], Rows] = {}
    for row in rows:
        parts.setdefault(tuple(row[name] for name in keys), []).append(row)
    return parts


def difference(expected: Rows, found: Rows, keys: Sequence[str] = ()) -> str | None:
    """What is different between two results, partition by partition; None if nothing is."""
    found_of = first_difference(expected, found, keys)
    return None if found_of is None else found_of[1]


def first_difference(
    expected: Rows, found: Rows, keys: Sequence[str] = ()
) -> tuple[tuple[Any, ...], str] | None:
    """The first partition of which two results say different things, and these."""
    wanted, got = by_partition(expected, keys), by_partition(found, keys)
    for key in [*wanted, *(key for key in got if key not in wanted)]:
        left, right = wanted.get(key, []), got.get(key, [])
        for place in range(max(len(left), len(right))):
            first = left[place] if place < len(left) else None
            second = right[place] if place < len(right) else None
            if not _same_row(first, second):
                return key, (
                    f"partition {key}: {len(left)} rows expected, {len(right)} found; row {place}:"
                    f"\n  expected {first}\n  found    {second}"
                )
    return None


def _same_row(left: dict[str, Any] | None, right: dict[str, Any] | None) -> bool:
    if left is None or right is None or list(left) != list(right):
        return False
    return all(_same(left[name], right[name]) for name in left)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    return type(left) is type(right) and bool(left == right)
