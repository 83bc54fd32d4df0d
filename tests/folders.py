"""Case folders: a query, its events and its rows, as files that a person can read and edit.

``tests/cases/<name>/`` holds ``query.sql``, ``events.csv``, ``matches.csv`` and, where the
defaults do not do, ``options.json`` with ``types`` of columns (Polars names), ``ties``, ``time``
(the kind of clock) and ``why`` (what the case is about).
"""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from piestream.language.parts import Aggregate, DurationOf, Endpoint, RelationOf, Return
from tests.clock import Clock
from tests.engines import Rows, parse
from tests.scenario import Scenario, Stream, Where
from tests.truth import parsed

__all__ = ["CASES", "Case", "differs", "read", "table", "write"]

CASES = Path(__file__).parent / "cases"

_TYPES = {
    "Boolean": pl.Boolean(),
    "Int16": pl.Int16(),
    "Int64": pl.Int64(),
    "UInt64": pl.UInt64(),
    "Float64": pl.Float64(),
    "String": pl.String(),
}


@dataclass(frozen=True)
class Case:
    """A folder as it was read; ``matches`` are the cells of ``matches.csv``, its header first."""

    name: str
    text: str
    stream: Stream
    matches: list[list[str]]


def read(folder: Path) -> Case:
    """A case from its folder."""
    options: dict[str, Any] = {}
    if (folder / "options.json").exists():
        options = json.loads((folder / "options.json").read_text())
    text = (folder / "query.sql").read_text()
    clock = Clock(options.get("time", "int"), options.get("unit"))
    types = {name: _TYPES[word] for name, word in options.get("types", {}).items()}
    time = options.get("time_column", "ts")
    if clock.dtype != pl.Int64():
        types[time] = pl.String()
    frame = pl.read_csv(folder / "events.csv", schema_overrides=types)
    if clock.dtype == pl.Date():
        frame = frame.with_columns(pl.col(time).str.to_date().to_physical().cast(pl.Int64))
    elif clock.dtype != pl.Int64():
        unit: Any = getattr(clock.dtype, "time_unit", None)
        zone = getattr(clock.dtype, "time_zone", None)
        moments = pl.col(time).str.to_datetime(time_unit=unit, time_zone=zone)
        frame = frame.with_columns(moments.to_physical())
    with (folder / "matches.csv").open(newline="") as lines:
        matches = list(csv.reader(lines))
    rows = tuple(frame.to_dicts())
    truth = {name: parsed(predicate) for name, predicate in predicates(text).items()}
    where, source = _where(text, clock), parse(text).streams[0]
    sequence = "ROW" if source.row_order else source.sequence
    stream = Stream(
        rows, frame.schema, truth, clock, options.get("ties", "error"), time, where, sequence
    )
    return Case(folder.name, text, stream, matches)


_BOUNDS = re.compile(
    r"(?:\s+AT\s+(?:LEAST|MOST)\s+\d+(?:\s+[a-z]+)?"
    r"|\s+BETWEEN\s+\d+(?:\s+[a-z]+)?\s+AND\s+\d+(?:\s+[a-z]+)?"
    r"|\s+BRIDGING\s+\d+(?:\s+[a-z]+)?)+$",
    re.IGNORECASE | re.DOTALL,
)


#: A comma between two definitions, not inside brackets.
_BETWEEN = re.compile(r",(?![^()]*\))")
#: The duration of a window of values; the oracle reads it in beats, which a folder's clock counts.
_LENGTH = re.compile(
    r"\bOVER (\d+)\b(?! EVENTS)(?: (?!AND\b|OR\b|AT\b|BETWEEN\b|UNTIL\b)[a-z]+)?", re.IGNORECASE
)


def predicates(text: str) -> dict[str, str]:
    """The texts of the predicates in a query, as the oracle reads them.

    >>> predicates("FROM x DEFINE a AS n > 8 AT LEAST 5 s, b AS p -- why\\nPATTERN a meets b")
    {'a': 'n > 8', 'b': 'p'}
    """
    text = re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = re.search(r"\bDEFINE\b(.*?)\bPATTERN\b", text, re.IGNORECASE | re.DOTALL)
    if found is None:
        raise ValueError("the query has no DEFINE before a PATTERN")
    named = {}
    for definition in _BETWEEN.split(found[1]):
        name, predicate = re.split(r"\s+AS\s+", definition.strip(), maxsplit=1, flags=re.IGNORECASE)
        named[name] = _LENGTH.sub(r"OVER {\1}", " ".join(_BOUNDS.sub("", predicate).split()))
    return named


#: What a condition on matches reads: a function of one symbol or of two, or an endpoint.
_ITEM = re.compile(
    r"(?P<function>[A-Z]+)\((?P<x>\w+)(?:\.(?P<column>\w+)|,\s*(?P<y>\w+))?\)"
    r"|(?P<symbol>\w+)\.(?P<which>ts|te)\b"
)


def _where(text: str, clock: Clock) -> Where | None:
    """The condition on matches, with what it reads; None if the query has none."""
    text = re.sub(r"--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    clause = re.search(r"\bWHERE\b(.*?)(?:\b(?:EMIT|RETURN|ONCE|LIMIT)\b|$)", text, re.DOTALL)
    if clause is None:
        return None
    items: list[Return] = []

    def named(found: re.Match[str]) -> str:
        name, of = f"item{len(items)}", found["x"]
        if found["symbol"]:
            items.append(Endpoint(found["symbol"], "ts" if found["which"] == "ts" else "te", name))
        elif found["function"] == "DURATION":
            items.append(DurationOf(of, name))
        elif found["function"] == "RELATION":
            items.append(RelationOf(of, found["y"], name))
        else:
            items.append(Aggregate(found["function"], of, found["column"], name))
        return name

    condition = _ITEM.sub(named, clause[1])
    if clock.unit is not None:  # lengths, in ticks
        condition = re.sub(
            rf"(\d+) {clock.unit}\b", lambda n: str(clock.beats(int(n[1]))), condition
        )
    return Where(parsed(condition), tuple(items))


def table(rows: Rows, query: Any, stream: Stream) -> list[list[str]]:
    """Rows as the cells of ``matches.csv``, with a header; times as the events have them."""
    times = {"detected_at", "completed_at"}
    times |= {item.alias for item in query.returns if getattr(item, "which", None)}
    cells = [list(rows[0])] if rows else []
    for row in rows:
        cells.append([_cell(value, name in times, stream.clock) for name, value in row.items()])
    return cells


def _cell(value: Any, is_time: bool, clock: Clock) -> str:
    if value is None:
        return ""
    if is_time and clock.dtype != pl.Int64():
        return str(clock.native(value).isoformat())
    return str(value)


def differs(expected: list[list[str]], found: list[list[str]], keys: int = 0) -> str | None:
    """What is different between two tables; the first ``keys`` columns are the partition's."""
    if not found:
        return None if len(expected) <= 1 else f"no rows; expected {expected[1:]}"
    if expected[0] != found[0]:
        return f"columns {found[0]}, expected {expected[0]}"
    # Only the order within a partition is part of the contract: a stable sort by the key.
    left = sorted(expected[1:], key=lambda row: row[:keys])
    right = sorted(found[1:], key=lambda row: row[:keys])
    for place in range(max(len(left), len(right))):
        wanted = left[place] if place < len(left) else None
        got = right[place] if place < len(right) else None
        if wanted is None or got is None or not all(map(_alike, wanted, got)):
            return f"row {place}: expected {wanted}, found {got} (all found: {right})"
    return None


def _alike(left: str, right: str) -> bool:
    if left == right:
        return True
    try:
        return math.isclose(float(left), float(right), rel_tol=1e-9)
    except ValueError:
        return False


def write(folder: Path, scenario: Scenario, why: str = "") -> None:
    """Writes a scenario as a case, with the oracle's rows as what is right."""
    folder.mkdir(parents=True, exist_ok=True)
    stream, query = scenario.stream, scenario.query()
    (folder / "query.sql").write_text(scenario.text())
    frame = stream.frame()
    frame.write_csv(folder / "events.csv")
    cells = table(stream.matches(query), query, stream)
    if not cells:
        at = "completed_at" if query.emit.value == "COMPLETION" else "detected_at"
        phase = ["phase"] if query.emit.value == "BOTH" else []
        cells = [[*scenario.keys, at, *phase, *(item.alias for item in query.returns)]]
    with (folder / "matches.csv").open("w", newline="") as lines:
        csv.writer(lines, lineterminator="\n").writerows(cells)
    options: dict[str, Any] = {
        "types": {name: str(dtype) for name, dtype in stream.schema.items() if name != "ts"}
    }
    if why:
        options["why"] = why
    if scenario.clock != Clock():
        options |= {"time": scenario.clock.kind, "unit": scenario.clock.unit}
    if scenario.ties != "error":
        options["ties"] = scenario.ties
    (folder / "options.json").write_text(json.dumps(options, indent=2) + "\n")
