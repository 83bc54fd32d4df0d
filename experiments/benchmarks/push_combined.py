"""Rows pushed one by one, and a few at a time, where a query reads more than one stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import piestream as ps
from experiments.benchmarks.common import measured, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.streams import SEED

_COLUMNS = ("reads", "rows_a_push", "pushes", "events", "matches", "push_us", "cpu_s", "cold_cpu_s")
_KEYS = 10
#: How many rows there are before the clock starts: the first ones bind the query and compile its loops.
_BEFORE = 200

_QUERIES = {
    "one stream of events": """
        FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 8, b AS x > 9
        PATTERN a overlaps; before b WITHIN 50""",
    "silences": """
        FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 9, b AS SILENCE LONGER THAN 30
        PATTERN a intersects; before b WITHIN 50""",
    "two streams of events": """
        FROM s ORDER BY t WITH r ORDER BY t PARTITION BY k DEFINE a AS s.x > 9, b AS r.x > 9
        PATTERN a overlaps; before b WITHIN 50""",
    "events and intervals": """
        FROM s ORDER BY t WITH r FROM since TO t PARTITION BY k DEFINE a AS s.x > 9, b AS r.x > 9
        PATTERN a overlaps; before b WITHIN 50""",
}


def pushing(text: str, at_once: int, pushes: int) -> Callable[[], int]:
    """A session that has begun, and so many pushes through it, to its streams in turn."""
    query = ps.query(text)
    rng = Random(SEED)
    names = [stream.name for stream in query.inputs]

    def rows(first: int, number: int) -> list[dict[str, Any]]:
        found = []
        for time in range(first, first + at_once):
            row = {"k": rng.randrange(_KEYS), "t": time, "x": rng.random() * 10}
            interval = query.inputs[number % len(names)].start is not None
            found.append({**row, "since": time - 3} if interval else row)
        return found

    def push(session: Any, number: int, events: list[dict[str, Any]]) -> int:
        given = events[0] if at_once == 1 else events
        return len(session.push(given, stream=names[number % len(names)]))

    total = _BEFORE + pushes
    events = [rows(number * at_once, number) for number in range(total)]
    session = query.open()
    for number in range(_BEFORE):
        push(session, number, events[number])
    state = session.snapshot()

    def through() -> int:
        going_on = query.open(state=state)
        return sum(push(going_on, number, events[number]) for number in range(_BEFORE, total))

    return through


def rows(size: Size) -> Iterator[Row]:
    """A row for each kind of streams, and for each number of rows that come together."""
    pushes = size.of(20, 500, 5_000)
    for reads, text in _QUERIES.items():
        for at_once in (1, 10, 100):
            row = measured(pushing, text, at_once, pushes, size=size, events=pushes * at_once,
                           reads=reads, rows_a_push=at_once, pushes=pushes)  # fmt: skip
            seconds = row.get("cpu_s") or row.get("cold_cpu_s")
            if seconds:
                row["push_us"] = 1e6 * seconds / pushes
            yield row


def conclusions(rows: Rows) -> str:
    """What a push costs, of one row and of more."""
    took: dict[int, list[float]] = {}
    for row in rows:
        if row["reads"] != "one stream of events" and "push_us" in row:
            took.setdefault(row["rows_a_push"], []).append(row["push_us"])
    said = ", ".join(f"{span(each, ' µs')} of {count}" for count, each in took.items())
    return f"**A push** takes, by how many rows it has: {said}."


EXPERIMENT = Experiment(
    "push_combined",
    "Pushing to queries that read several streams",
    "What does `Session.push` cost where a query reads several streams, intervals or silences?",
    "Two symbols, ten keys; rows as dicts, to the streams in turn. CPU time of a warm run, or of the only one.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
