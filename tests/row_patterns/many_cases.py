"""Many random cases of row patterns for the price of a few.

What a case costs is to read and bind its query and to make frames of its rows. So one query gets many
partitions, each with rows of its own: a case is a partition. ``python -m tests.row_patterns.many_cases
0 1000`` holds the queries of these seeds against the oracle, half of them with conditions over the
match; a run that ends goes on at the seed printed last.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any
from unittest.mock import patch

import polars as pl

import piestream as ps
from piestream.engine import row_calls
from tests.row_patterns.randoms import Case, random_case, random_rows, with_what_holds
from tests.row_patterns.test_laws import expected_rows, given_rows

__all__ = ["disagreements", "disagreements_soon", "many_cases", "way_of"]

#: Partitions of one query, which are cases.
_CASES = 60
_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}
#: The most rows of a case; an oracle that tries all ways has to come to an end.
_ROWS, _ROWS_WITH_MEMORY = 10, 8
#: So long the processor may work on a query.
_MOST_SECONDS = 8.0


def many_cases(seed: int, memory: bool, most: int = _CASES) -> list[Case]:
    """The cases of a seed, which have one query."""
    size = _ROWS_WITH_MEMORY if memory else _ROWS
    first = random_case(seed, size, memory)
    cases = [first]
    for number in range(1, most):
        rows = random_rows(Random(f"{seed} {memory} {number}"), size)
        cases.append(Case(first.query, with_what_holds(first.query, rows) if memory else rows))
    return cases


def _events(cases: list[Case]) -> list[dict[str, Any]]:
    """The rows of all cases in order of time; the key is the number of the case."""
    events = [event for key, case in enumerate(cases) for event in case.events(key)]
    return sorted(events, key=lambda event: event["t"])


def _frame(cases: list[Case], random: Random) -> pl.DataFrame:
    """All at once, of which the loops keep a few rows at a time, with pauses."""
    at_once, work = random.choice([1, 2, 3, 1 << 12]), random.choice([1, 10, 1 << 18])
    events = _events(cases)
    random.shuffle(events)
    frame = pl.DataFrame(events, schema=_TYPES)
    with patch.multiple(row_calls, _ROWS_AT_ONCE=at_once, _PAUSE_WORK=work):
        return cases[0].query.run(frame, threads=random.choice([1, 2]))


def _session(cases: list[Case], random: Random) -> pl.DataFrame:
    """Piece by piece, with snapshots between them."""
    rest = pl.DataFrame(_events(cases), schema=_TYPES)
    session = cases[0].query.open(schema=_TYPES)
    found = [session.push(rest[:0])]
    while len(rest):
        size = random.choice([1, 5, 40])
        if random.random() < 0.2:
            session = cases[0].query.open(state=session.snapshot())
        found.append(session.push(rest[:size]))
        rest = rest[size:]
    last = session.close()
    return pl.concat([*found, last] if isinstance(last, pl.DataFrame) else found)


def _event(cases: list[Case], random: Random) -> pl.DataFrame:
    session = cases[0].query.open(schema=_TYPES)
    found = [row for event in _events(cases) for row in session.push(event)] + session.close()
    empty = cases[0].query.run(pl.DataFrame(schema=_TYPES))
    return pl.DataFrame(found, schema=empty.schema) if found else empty


_WAYS: Mapping[str, Callable[[list[Case], Random], pl.DataFrame]] = {
    "frame": _frame, "session": _session, "event": _event,
}  # fmt: skip
#: How many of twenty queries take each way.
_WEIGHTS = {"frame": 14, "session": 4, "event": 2}


def disagreements(cases: list[Case], way: str, seed: int) -> list[str]:
    """In which cases of a seed a way in says otherwise than the oracle."""
    found = _WAYS[way](cases, Random(f"{seed} {way}"))
    faults = []
    for key, case in enumerate(cases):
        given = given_rows(case, found.filter(pl.col("k") == key))
        expected = expected_rows(case)
        if given != expected:
            faults.append(f"seed {seed}, {way}, case {key}: {given} instead of {expected}")
    return faults


class _TooManyWaysError(Exception):
    """The oracle, which tries all ways, takes too long for a query."""


def _stop(*_: object) -> None:
    raise _TooManyWaysError


def disagreements_soon(cases: list[Case], way: str, seed: int) -> list[str] | None:
    """In which cases a way in says otherwise than the oracle; None if that would take too long."""
    before = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_SECONDS)
    try:
        return disagreements(cases, way, seed)
    except _TooManyWaysError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def way_of(seed: int) -> str:
    """The way in that a seed takes."""
    ways = [way for way, weight in _WEIGHTS.items() for _ in range(weight)]
    return Random(f"{seed} way").choice(ways)


def main(first: int, end: int) -> None:
    """Try the queries of these seeds, and say how far it got."""
    began = time.monotonic()
    counts: Counter[str] = Counter()
    for seed in range(first, end):
        memory, way = seed % 2 == 1, way_of(seed)
        cases = many_cases(seed, memory)
        try:
            faults = disagreements_soon(cases, way, seed)
        except (ps.QueryError, ps.StreamError, AssertionError) as error:
            faults = [f"seed {seed}, {way}: {type(error).__name__}: {error}"]
        if faults is None:
            counts["queries left out"] += 1
            continue
        for fault in faults[:3]:
            print(f"{fault}\n{cases[0].query}", flush=True)
        counts["with memory" if memory else "of one row"] += len(cases)
        counts["disagreements"] += len(faults)
        if seed % 20 == 19 or seed == end - 1:
            said = ", ".join(f"{number:,} {what}" for what, number in counts.items())
            print(f"up to seed {seed}: {said}, {time.monotonic() - began:,.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
