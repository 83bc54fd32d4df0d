"""Case folders of queries over several streams: a query, a CSV file an input, and its rows.

``tests/stream_cases/<name>/`` holds ``query.sql``, a CSV file for each stream named after it, and
``matches.csv``, whose rows are sorted when they are compared. Times are whole numbers of ticks, empty
cells are NULL. ``options.json`` is there where the defaults do not do: ``types`` of columns by stream
(Polars names), ``time`` (the kind of clock) and ``unit``, ``ties``, and ``why``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import piestream as ps
from tests import folders
from tests.clock import Clock
from tests.oracle import streams as stream_oracle
from tests.stream_scenario import CombinedScenario
from tests.truth import Expression, literal, parsed

__all__ = ["CASES", "StreamCase", "differs", "read", "write"]

CASES = Path(__file__).parent / "stream_cases"


@dataclass(frozen=True)
class StreamCase:
    """A folder as it was read; ``matches`` are the cells of ``matches.csv``, its header first."""

    name: str
    text: str
    inputs: Mapping[str, pl.DataFrame]  # times in ticks
    matches: Sequence[Sequence[str]]
    clock: Clock
    ties: str
    at_end: str = "open"

    @property
    def query(self) -> ps.Query:
        """The query."""
        return ps.query(self.text)

    def frame(self, name: str, rows: Sequence[Mapping[str, Any]] | None = None) -> pl.DataFrame:
        """An input, or some of its rows, as a user has it."""
        frame = self.inputs[name]
        if rows is not None:
            frame = pl.DataFrame([dict(row) for row in rows], schema=frame.schema, orient="row")
        return frame.with_columns(pl.col(_times(self.query)[name]).cast(self.clock.dtype))

    def arrivals(self) -> list[tuple[int, str, dict[str, Any]]]:
        """All rows, each with the instant at which it becomes known and its input, in that order."""
        query = self.query
        found = [
            (_instant(query, name, row), name, row)
            for name, frame in self.inputs.items()
            for row in frame.to_dicts()
        ]
        return sorted(found, key=lambda one: one[0])

    def expected(self) -> list[dict[str, Any]]:
        """The oracle's rows."""
        rows = {name: frame.to_dicts() for name, frame in self.inputs.items()}
        until = max((_last_instant(self.query, *arrival) for arrival in self.arrivals()), default=0)
        truth = _truth(self.query, self.text)
        told = stream_oracle.Inputs(rows, truth, self.clock, self.ties, until, at_end=self.at_end)
        return stream_oracle.matches(self.query, told)

    def cells(self, rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
        """Rows as cells, with the header of ``matches.csv``."""
        header = list(self.matches[0])
        for row in rows:
            if list(row) != header:
                raise ValueError(f"columns {list(row)}, expected {header}")
        return [header, *(["" if v is None else str(v) for v in row.values()] for row in rows)]


def differs(case: StreamCase, rows: Sequence[Mapping[str, Any]]) -> str | None:
    """What is different between the rows of a case and these; None if nothing is."""
    wanted, found = [list(row) for row in case.matches], case.cells(rows)
    if len(wanted) != len(found):
        return f"{len(wanted) - 1} rows expected, {len(found) - 1} found: {found[1:]}"
    return folders.differs([wanted[0], *sorted(wanted[1:])], [found[0], *sorted(found[1:])])


def read(folder: Path) -> StreamCase:
    """A case from its folder."""
    options: dict[str, Any] = {}
    if (folder / "options.json").exists():
        options = json.loads((folder / "options.json").read_text())
    types = options.get("types", {})
    inputs = {}
    for file in sorted(folder.glob("*.csv")):
        if file.stem != "matches":
            schema = {name: getattr(pl, word)() for name, word in types.get(file.stem, {}).items()}
            inputs[file.stem] = pl.read_csv(file, schema_overrides=schema)
    with (folder / "matches.csv").open(newline="") as lines:
        matches = list(csv.reader(lines))
    clock = Clock(options.get("time", "int"), options.get("unit"))
    text = (folder / "query.sql").read_text()
    ties, at_end = options.get("ties", "error"), options.get("at_end", "open")
    return StreamCase(folder.name, text, inputs, matches, clock, ties, at_end)


def write(folder: Path, drawn: CombinedScenario, why: str = "") -> None:
    """Writes a scenario as a case, with the oracle's rows as what is right."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "query.sql").write_text(drawn.text() + "\n")
    types = {}
    for name, stream in drawn.inputs.items():
        frame = drawn.frame(name).with_columns(
            pl.col(t).to_physical().cast(pl.Int64) for t in stream.times
        )
        frame.write_csv(folder / f"{name}.csv")
        types[name] = {column: str(dtype) for column, dtype in frame.schema.items()}
    rows = drawn.expected()
    query = drawn.query
    at = "completed_at" if query.emit.value == "COMPLETION" else "detected_at"
    phase = ["phase"] if query.emit.value == "BOTH" else []
    header = [*drawn.keys, at, *phase, *(item.alias for item in query.returns)]
    cells = [["" if v is None else str(v) for v in row.values()] for row in rows]
    with (folder / "matches.csv").open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows([header, *sorted(cells)])
    options: dict[str, Any] = {"types": types}
    if why:
        options["why"] = why
    if drawn.clock != Clock():
        options |= {"time": drawn.clock.kind, "unit": drawn.clock.unit}
    if drawn.ties != "error":
        options["ties"] = drawn.ties
    if drawn.at_end != "open":
        options["at_end"] = drawn.at_end
    (folder / "options.json").write_text(json.dumps(options, indent=2) + "\n")


def _times(query: ps.Query) -> dict[str, list[str]]:
    """The columns of time of each input."""
    return {
        str(one.name): [str(one.start), str(one.end)] if one.is_ready_made else [str(one.order_by)]
        for one in query.inputs
    }


def _instant(query: ps.Query, name: str, row: Mapping[str, Any]) -> int:
    """When a row becomes known."""
    stream = next(one for one in query.inputs if one.name == name)
    if not stream.is_ready_made:
        return int(row[str(stream.order_by)])
    begins = stream.known_at_start or row[str(stream.end)] is None
    return int(row[str(stream.start if begins else stream.end)])


def _last_instant(query: ps.Query, known: int, name: str, row: Mapping[str, Any]) -> int:
    """The last instant of which a row tells: the end of an interval that is known at its start."""
    stream = next(one for one in query.inputs if one.name == name)
    return int(row[str(stream.end)]) if stream.known_at_start else known


def _truth(query: ps.Query, text: str) -> dict[str, Any]:
    """The predicates of the symbols, as the oracle reads them, and those of the queries inside."""
    if query.rows is not None:
        conditions = text[text.index("DEFINE") : text.rindex(")")] + " PATTERN"
        return {n: parsed(one) for n, one in folders.predicates(conditions).items()}
    outside, inside = _apart(text)
    names = [str(stream.name) for stream in query.streams]
    found: dict[str, Any] = {}
    for name, predicate in folders.predicates(outside).items():
        found[name] = _expression(names, predicate)
    for stream in query.streams:
        if stream.query is not None:
            found[str(stream.name)] = _truth(stream.query, inside[str(stream.name)])
    return found


def _expression(names: Sequence[str], predicate: str) -> Expression:
    if predicate in names:
        return literal(True)
    return parsed(re.sub(rf"\b({'|'.join(names)})\.", "", predicate))


def _apart(text: str) -> tuple[str, dict[str, str]]:
    """A query's text without the queries in brackets, and these by the names they are given.

    Row patterns are queries too, whether they stand in brackets or behind the name of a stream.

    >>> _apart("FROM (FROM x DEFINE a AS (p) PATTERN a WITHIN 1) AS q DEFINE b AS q PATTERN b")
    ('FROM  DEFINE b AS q PATTERN b', {'q': 'FROM x DEFINE a AS (p) PATTERN a WITHIN 1'})
    """
    text = re.sub(r"--[^\n]*", " ", text)
    inside: dict[str, str] = {}
    begins = r"\(\s*FROM\b", r"\w+\s+MATCH_RECOGNIZE\s*\("
    while (found := _first(begins, text)) is not None:
        is_bare = text[found.start()] != "("
        depth, at = 1, found.end() if is_bare else found.start() + 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        named = re.compile(r"\s*AS\s+(\w+)", re.IGNORECASE).match(text, at)
        if named is None:
            raise ValueError(f"a query in brackets has no name: {text[found.start() : at]}")
        whole = text[found.start() : at]
        inside[named[1]] = f"FROM {whole}" if is_bare else whole[1:-1]
        text = text[: found.start()] + text[named.end() :]
    return text, inside


def _first(patterns: Sequence[str], text: str) -> re.Match[str] | None:
    """Where the first of the patterns is found that is there at all."""
    found = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
    return next((one for one in found if one is not None), None)
