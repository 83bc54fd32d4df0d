"""Case folders of queries over several streams: a query, the rows of each input, the result.

``tests/stream_cases/<name>/`` holds ``query.sql``, a CSV file of whole numbers and texts for each
input, and ``matches.csv``. Empty cells are NULL. A comment of the query says what the case is about.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests import stream_oracle
from tests.clock import Clock
from tests.folders import predicates
from tests.truth import Expression, literal, parsed

FOLDER = Path(__file__).parent / "stream_cases"
CASES = sorted(folder for folder in FOLDER.iterdir() if folder.is_dir())


def _inputs(folder: Path) -> dict[str, pl.DataFrame]:
    return {
        file.stem: pl.read_csv(file)
        for file in sorted(folder.glob("*.csv"))
        if file.stem != "matches"
    }


def _expected(folder: Path) -> list[list[str]]:
    with (folder / "matches.csv").open(newline="") as lines:
        return list(csv.reader(lines))


def _cells(rows: list[dict[str, Any]], columns: list[str]) -> list[list[str]]:
    cells = [["" if row[name] is None else str(row[name]) for name in columns] for row in rows]
    return [columns, *sorted(cells)]


def _in_order(expected: list[list[str]]) -> list[list[str]]:
    return [expected[0], *sorted(expected[1:])]


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_frames_give_the_rows_of_a_case(folder: Path) -> None:
    query, expected = ps.query((folder / "query.sql").read_text()), _expected(folder)
    found = query.run(_inputs(folder))
    assert _cells(found.to_dicts(), found.columns) == _in_order(expected)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_rows_pushed_one_by_one_give_the_rows_of_a_case(folder: Path) -> None:
    query, expected = ps.query((folder / "query.sql").read_text()), _expected(folder)
    inputs = _inputs(folder)
    session = query.open(schema={name: frame.schema for name, frame in inputs.items()})
    arrivals = [
        (_instant(query, name, row), name, row)
        for name, frame in inputs.items()
        for row in frame.to_dicts()
    ]
    found: list[dict[str, Any]] = []
    for number, (_, name, row) in enumerate(sorted(arrivals, key=lambda one: one[0])):
        found += session.push(row, stream=name)
        if number % 3 == 2:
            session = query.open(state=session.snapshot())
    found += session.close()
    assert _cells(found, expected[0]) == _in_order(expected)


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_oracle_gives_the_rows_of_a_case(folder: Path) -> None:
    text, expected = (folder / "query.sql").read_text(), _expected(folder)
    query = ps.query(text)
    rows = {name: frame.to_dicts() for name, frame in _inputs(folder).items()}
    until = max(_instant(query, name, row) for name, some in rows.items() for row in some)
    told = stream_oracle.Inputs(rows, _truth(query, text), Clock(), "error", until)
    assert _cells(stream_oracle.matches(query, told), expected[0]) == _in_order(expected)


def _instant(query: ps.Query, name: str, row: dict[str, Any]) -> int:
    """When a row becomes known."""
    stream = next(one for one in query.inputs if one.name == name)
    if not stream.is_ready_made:
        return int(row[str(stream.order_by)])
    begins = stream.known_at_start or row[str(stream.end)] is None
    return int(row[str(stream.start if begins else stream.end)])


def _truth(query: ps.Query, text: str) -> dict[str, Any]:
    """The predicates of the symbols, as the oracle reads them."""
    inner = {s.name: s.query for s in query.streams if s.query is not None}
    outside = re.sub(r"\(FROM.*?\)(?= AS)", " ", text, flags=re.DOTALL)
    found: dict[str, Any] = {}
    for name, predicate in predicates(outside).items():
        found[name] = _expression(query, predicate)
    for name, one in inner.items():
        found[str(name)] = {symbol.name: parsed(str(symbol.predicate)) for symbol in one.symbols}
    return found


def _expression(query: ps.Query, predicate: str) -> Expression:
    names = [str(stream.name) for stream in query.streams]
    if predicate in names:
        return literal(True)
    return parsed(re.sub(rf"\b({'|'.join(names)})\.", "", predicate))


def test_a_sequence_of_instants_is_a_pattern_of_intervals_of_one_tick() -> None:
    """ISEQ on point events is a sequence operator: here an instant is an interval of one tick."""
    text = (FOLDER / "iseq_9_sequence_of_points" / "query.sql").read_text()
    rows = _inputs(FOLDER / "iseq_9_sequence_of_points")["points"].to_dicts()
    found = ps.query(text).run(pl.DataFrame(rows))
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
