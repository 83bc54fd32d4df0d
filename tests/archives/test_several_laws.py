"""A query over several streams, some of them archives, gives what it gives on all their rows."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs, several
from piestream.archives.closer import Rows, rows_of_rarest
from piestream.archives.several import rows_of_inputs
from piestream.language.options import FileOptions
from tests.stream_scenario import (
    CombinedScenario,
    StreamSpec,
    absent_scenario,
    combined_scenario,
    silence_in_sequence,
    silence_scenario,
)

_SEEDS = int(os.environ.get("PIESTREAM_ARCHIVE_LAWS", "40"))
#: So many at most, until every kind of stream has been read in part.
_MOST_SEEDS = 10 * _SEEDS
#: Reads an archive of intervals in part, which few do; tried first.
_OF_INTERVALS = 87
_KINDS = ("events", "events", "events", "rows", "rows", "identified", "known", "query")


@pytest.fixture(autouse=True)
def _select(monkeypatch: pytest.MonkeyPatch) -> None:
    """Select however much is to be read: these archives are small."""
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    monkeypatch.setattr(costs, "MOST_COST", 1e9)
    monkeypatch.setattr(several, "LOOKED_AT", 1e9)
    monkeypatch.setattr(os, "fsync", lambda file: None)  # nothing crashes here


def _tiled(drawn: CombinedScenario, rng: Random) -> dict[str, pl.DataFrame]:
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


def _archived(
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


def test_silences_beside_events_of_one_time_are_those_of_all_inputs_as_frames() -> None:
    less = 0
    for seed in range(_SEEDS // 3):
        rng = Random(f"archives in sequence {seed}")
        drawn = silence_in_sequence(seed, _KINDS, seed % 3 == 2)
        frames = _tiled(drawn, rng)
        try:
            expected = drawn.query.run(frames)
        except (ps.TieError, pl.exceptions.PolarsError, OverflowError):
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = _archived(drawn, frames, Path(folder), rng)
            chosen = rows_of_inputs(drawn.query, given, FileOptions())
            less += any(len(chosen[name]) < len(frames[name]) for name in frames)
            found = drawn.query.run(given)
        assert found.schema == expected.schema
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), f"{drawn}"
    assert less


def test_the_rows_are_those_of_all_inputs_as_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    less = of_intervals = inside = silent = absent = of_the_past = 0
    looked: list[Rows | None] = []

    def looking(*given: Any) -> Rows | None:
        looked.append(rows_of_rarest(*given))
        return looked[-1]

    monkeypatch.setattr(several, "rows_of_rarest", looking)
    for tried, seed in enumerate([_OF_INTERVALS, *range(_MOST_SEEDS)]):
        if tried >= _SEEDS and of_intervals and inside and silent and absent and of_the_past:
            break
        rng = Random(f"archives {seed}")
        draw = (combined_scenario, combined_scenario, silence_scenario, absent_scenario)[seed % 4]
        drawn = draw(seed, _KINDS)
        frames = _tiled(drawn, rng)
        query, options = drawn.query, FileOptions(ties=drawn.ties)
        try:
            expected = query.run(frames, ties=drawn.ties)
        except (ps.TieError, pl.exceptions.PolarsError, OverflowError):
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = _archived(drawn, frames, Path(folder), rng)
            chosen = rows_of_inputs(query, given, options)
            fewer = [name for name in frames if len(chosen[name]) < len(frames[name])]
            less += bool(fewer)
            silent += bool(fewer) and query.has_silences
            absent += bool(fewer) and bool(query.absences)
            outside = {stream.name for stream in drawn.streams}
            inside += any(name not in outside for name in fewer)
            of_the_past += any(
                symbol.predicate.reads_the_past and query.stream_of(symbol.name).name in fewer
                for symbol in query.symbols
            )
            of_intervals += any(
                stream.kind != "events" and len(chosen[name]) < len(frames[name])
                for name, stream in drawn.inputs.items()
            )
            found = query.run(given, ties=drawn.ties)
        assert found.schema == expected.schema
        assert sorted(map(repr, found.rows())) == sorted(map(repr, expected.rows())), f"{drawn}"
    assert less > tried // 8
    assert tried < _MOST_SEEDS  # else something is never read in part
    assert any(rows is not None and rows.keys is not None for rows in looked)
