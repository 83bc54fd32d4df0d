"""Every folder in ``tests/stream_cases``: as frames, row by row, and by the oracle.

A comment of the query says what the case is about; `tests.stream_folders` says what is in a folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests import stream_folders
from tests.stream_folders import StreamCase

CASES = sorted(path.parent for path in stream_folders.CASES.glob("*/query.sql"))


def _plain(case: StreamCase, rows: Any) -> list[dict[str, Any]]:
    if isinstance(rows, pl.DataFrame):
        return case.clock.plain_frame(rows) if rows.width else []
    return [dict(row) for row in rows]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_frames_give_the_rows_of_a_case(folder: Path) -> None:
    case = stream_folders.read(folder)
    frames = {name: case.frame(name) for name in case.inputs}
    found = case.query.run(frames, ties=case.ties, at_end=case.at_end)
    assert stream_folders.differs(case, _plain(case, found)) is None


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_rows_pushed_one_by_one_give_the_rows_of_a_case(folder: Path) -> None:
    case = stream_folders.read(folder)
    query = case.query
    schema = {name: case.frame(name).schema for name in case.inputs}
    session = query.open(schema=schema, ties=case.ties)
    found: list[dict[str, Any]] = []
    for number, (_, name, row) in enumerate(case.arrivals()):
        given: Any = row if case.clock.kind.startswith("int") else case.frame(name, [row])
        found += _plain(case, session.push(given, stream=name))
        if number % 3 == 2:
            session = query.open(state=session.snapshot())
    found += _plain(case, session.close(at_end=case.at_end))
    assert stream_folders.differs(case, found) is None


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_oracle_gives_the_rows_of_a_case(folder: Path) -> None:
    case = stream_folders.read(folder)
    assert stream_folders.differs(case, case.expected()) is None


def test_a_sequence_of_instants_is_a_pattern_of_intervals_of_one_tick() -> None:
    """ISEQ on point events is a sequence operator: here an instant is an interval of one tick."""
    case = stream_folders.read(stream_folders.CASES / "iseq_9_sequence_of_points")
    rows = case.inputs["points"].to_dicts()
    found = case.query.run(pl.DataFrame(rows))
    of = {kind: [row["ts"] for row in rows if row["type"] == kind] for kind in "ABC"}
    sequences = {(a, b, c) for a in of["A"] for b in of["B"] for c in of["C"] if a < b < c}
    assert set(found.select("a_ts", "b_ts", "c_ts").rows()) == sequences
    assert len(found) == len(sequences)


def test_restrictions_of_endpoints_are_sets_of_relations() -> None:
    """ISEQ's R1 and R2: each restriction names one pair, and is the same as its relations."""
    head = "FROM ev FROM ts TO te DEFINE a AS k = 1, b AS k = 2, c AS k = 3 PATTERN"
    wide = "before; meets; overlaps; finished-by; contains"

    def query(pattern: str) -> ps.Query:
        return ps.query(f"{head} {pattern} WITHIN 30")

    first = query(f"a {wide} b AND b {wide} c")
    assert query("a.ts < b.ts AND b.ts < c.ts") == first
    assert query("a.ts < b.ts < c.ts") == first
    second = "a.ts < b.ts AND b.ts < a.te AND a.te < b.te AND b.ts < c.ts < b.te < c.te"
    assert query(second) == query("a overlaps b AND b overlaps c")
