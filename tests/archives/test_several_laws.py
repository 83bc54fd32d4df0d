"""A query over several streams, some of them archives, gives what it gives on all their rows."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.archives import several
from piestream.archives.closer import Rows, rows_of_rarest
from piestream.archives.several import rows_of_inputs
from piestream.language.options import FileOptions
from tests.archives.streams import (
    KINDS,
    archived,
    assert_same_rows,
    checked,
    drawn_of,
    selecting,
    tiled,
)
from tests.stream_scenario import silence_in_sequence

#: So many seeds are tried, and more until every kind of stream has been read in part.
_SEEDS = 30
#: Reads an archive of intervals in part, which few do; tried first.
_OF_INTERVALS = 87
#: What is seen to be read in part.
_IN_PART = {"of intervals", "inside", "silent", "absent", "of the past"}


@pytest.fixture(autouse=True)
def _select() -> Iterator[None]:
    with selecting():
        yield


def test_silences_beside_events_of_one_time_are_those_of_all_inputs_as_frames(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    less = 0
    for seed in seeds_in_all(_SEEDS // 4):
        rng = Random(f"archives in sequence {seed}")
        drawn = silence_in_sequence(seed, KINDS)
        frames = tiled(drawn, rng)
        try:
            expected = drawn.query.run(frames)
        except (ps.TieError, pl.exceptions.PolarsError, OverflowError):
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = archived(drawn, frames, Path(folder), rng)
            chosen = rows_of_inputs(drawn.query, given, FileOptions())
            less += any(len(chosen[name]) < len(frames[name]) for name in frames)
            found = drawn.query.run(given)
        assert_same_rows(found, expected, drawn)
    assert less


def test_the_rows_are_those_of_all_inputs_as_frames(
    monkeypatch: pytest.MonkeyPatch, seeds_in_all: Callable[[int], list[int]]
) -> None:
    done: Counter[str] = Counter()
    looked: list[Rows | None] = []

    def looking(*given: Any) -> Rows | None:
        looked.append(rows_of_rarest(*given))
        return looked[-1]

    monkeypatch.setattr(several, "rows_of_rarest", looking)
    least, most = len(seeds_in_all(_SEEDS)), seeds_in_all(20 * _SEEDS)
    for tried, seed in enumerate([_OF_INTERVALS, *most]):
        if tried >= least and done.keys() >= _IN_PART:
            break
        done += checked(drawn_of(seed), Random(f"archives {seed}")) or Counter()
    assert done["less"] > tried // 8
    assert tried < len(most), done  # else something is never read in part
    assert any(rows is not None and rows.keys is not None for rows in looked)
