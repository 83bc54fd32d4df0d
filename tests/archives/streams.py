"""Queries over several streams, most of them archives, held against what they give on all rows as frames.

``python -m tests.archives.streams 0 1000`` does so with these seeds, and says what was read in part.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import polars as pl

import piestream as ps
from piestream.archives import cores, costs, planning, several
from piestream.archives.several import rows_of_inputs
from piestream.language.model import Query
from piestream.language.options import FileOptions
from tests.stream_scenario import (
    CombinedScenario,
    StreamSpec,
    absent_scenario,
    combined_scenario,
    silence_scenario,
)

__all__ = ["KINDS", "archived", "assert_same_rows", "checked", "drawn_of", "selecting", "tiled"]

KINDS = ("events", "events", "events", "rows", "rows", "identified", "known", "query")


@contextmanager
def selecting() -> Iterator[None]:
    """Select however much is to be read: these archives are small."""
    with ExitStack() as changed:
        for module, name, value in (
            (costs, "LEAST_ROWS", 0),
            (costs, "MOST_COST", 1e9),
            (several, "LOOKED_AT", 1e9),
            (planning, "LOOKED_AT", 0.5),
            (cores, "_LEAST_SHARE", 1),
            (costs, "_RUN", 0),
            (costs, "_RUN_BY_KEY", 0),
            (os, "fsync", lambda file: None),  # nothing crashes here
        ):
            changed.enter_context(patch.object(module, name, value))
        yield


def drawn_of(seed: int) -> CombinedScenario:
    """The scenario of a seed, of one or another kind."""
    draw = (combined_scenario, combined_scenario, silence_scenario, absent_scenario)[seed % 4]
    drawn = draw(seed, KINDS)
    return sharing(drawn, Random(f"sharing {seed}")) if seed % 3 == 0 else drawn


def sharing(drawn: CombinedScenario, rng: Random) -> CombinedScenario:
    """The same where streams in brackets read what another stream of events reads, too."""
    outside = [one for one in drawn.streams if one.kind == "events"]
    given = {one.name: one for one in outside}
    streams = []
    for one in drawn.streams:
        if isinstance(one.query, CombinedScenario):
            inner = one.query
            own = tuple(_as_one_of(s, list(given.values()), rng) for s in inner.streams)
            one = replace(one, query=inner.having(streams=own))
            given |= {s.name: s for s in own if s.kind == "events"}
        streams.append(one)
    return drawn.having(streams=tuple(streams))


def _as_one_of(stream: StreamSpec, others: Sequence[StreamSpec], rng: Random) -> StreamSpec:
    """A stream with the name and the rows of one of others, if there is one."""
    others = [one for one in others if one.is_sequenced == stream.is_sequenced]
    if not others or stream.kind != "events":
        return stream
    chosen = rng.choice(others)
    return replace(stream, name=chosen.name, rows=chosen.rows)


def tiled(drawn: CombinedScenario, rng: Random) -> dict[str, pl.DataFrame]:
    """The rows of all streams again and again; in most repetitions events without values, or none."""
    times = [row[t] for s in drawn.inputs.values() for row in s.rows for t in s.times if row[t]]
    length = max(times, default=0) - min(times, default=0) + drawn.clock.beats(1)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in drawn.inputs}
    offset = 0
    for number in range(rng.randint(1, 8)):
        is_quiet = rng.random() < 0.6
        for name, stream in drawn.inputs.items():
            kept = rng.random() < 0.7
            found[name] += [
                _shifted(stream, drawn, row, offset, number, is_quiet)
                for row in stream.rows
                if kept and (stream.kind == "events" or not is_quiet)
            ]
        offset += length + drawn.clock.beats(rng.choice([0, 1, 5, 50, 500]))
    return {name: drawn.frame(name, rows) for name, rows in found.items()}


def _shifted(
    stream: StreamSpec, drawn: CombinedScenario, row: Any, offset: int, number: int, is_quiet: bool
) -> dict[str, Any]:
    known = (*stream.times, *drawn.keys, "id", "seq")
    changed = {name: None if is_quiet and name not in known else v for name, v in row.items()}
    for time in stream.times:
        if changed[time] is not None:
            changed[time] += offset
    if "id" in changed:
        changed["id"] += 1000 * number
    return changed


def archived(
    drawn: CombinedScenario, frames: dict[str, pl.DataFrame], folder: Path, rng: Random
) -> dict[str, Any]:
    """The inputs, most of them as archives."""
    given: dict[str, Any] = dict(frames)
    for name, stream in drawn.inputs.items():
        if rng.random() < 0.8 and frames[name][stream.times[0]].null_count() == 0:
            key = rng.choice([None, list(drawn.keys) or None])
            lake = ps.archive(
                folder / name, time=stream.times[0], key=key,
                page_rows=rng.choice([1, 2, 5]), file_rows=rng.choice([5, 40]),
            )  # fmt: skip
            size = rng.choice([3, 20, 1000])
            for first in range(0, len(frames[name]) or 1, size):
                lake.append(frames[name][first : first + size])
            if rng.random() < 0.5:
                lake.compact()
            given[name] = lake
    return given


def checked(drawn: CombinedScenario, rng: Random) -> Counter[str] | None:
    """What was read in part, of a query that gives the same; None where it cannot be run."""
    frames = tiled(drawn, rng)
    query, options = drawn.query, FileOptions(ties=drawn.ties)
    try:
        expected = query.run(frames, ties=drawn.ties)
    except (ps.TieError, pl.exceptions.PolarsError, OverflowError):
        return None
    with tempfile.TemporaryDirectory() as folder:
        given = archived(drawn, frames, Path(folder), rng)
        chosen = rows_of_inputs(query, given, options)
        found = query.run(given, ties=drawn.ties)
    assert_same_rows(found, expected, drawn)
    fewer = [name for name in frames if len(chosen[name]) < len(frames[name])]
    return Counter(dict.fromkeys(_kinds(drawn, query, fewer), 1)) + Counter(some=len(expected) > 0)


def assert_same_rows(found: pl.DataFrame, expected: pl.DataFrame, drawn: Any) -> None:
    """Assert that two results are the same, in whatever order."""
    assert found.schema == expected.schema
    assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), f"{drawn}"


def _kinds(drawn: CombinedScenario, query: Query, fewer: list[str]) -> Iterator[str]:
    """What is seen to be read in part, if not all rows of some inputs are read."""
    if not fewer:
        return
    yield "less"
    if query.has_silences:
        yield "silent"
    if query.absences:
        yield "absent"
    outside = {stream.name for stream in drawn.streams}
    if any(name not in outside for name in fewer):
        yield "inside"
    read = Counter(_leaves(query))
    if any(read[name] > 1 for name in fewer):
        yield "shared"
    if any(
        symbol.predicate.reads_the_past and query.stream_of(symbol.name).name in fewer
        for symbol in query.symbols
    ):
        yield "of the past"
    if any(drawn.inputs[name].kind != "events" for name in fewer):
        yield "of intervals"


def _leaves(query: Query) -> Iterator[str]:
    """The names of the streams of rows that a query reads, each as often as it is read."""
    for stream in query.streams:
        if stream.query is not None:
            yield from _leaves(stream.query)
        elif stream.silence is None:
            yield str(stream.name)


def main(first: int, last: int) -> None:
    """Hold the scenarios of some seeds against what they give on frames."""
    found: Counter[str] = Counter()
    with selecting():
        for seed in range(first, last):
            outcome = checked(drawn_of(seed), Random(f"archives {seed}"))
            found["run"] += outcome is not None
            found += outcome or Counter()
            if seed % 20 == 19:
                print(seed, dict(found), flush=True)
    print(dict(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
