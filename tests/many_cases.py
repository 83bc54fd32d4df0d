"""Many random cases of queries over several streams for the price of a few.

What a case costs is to read and bind its query and to make frames of its rows. So one query gets many
partitions, each with rows of its own: a case is a partition. ``python -m tests.many_cases 0 1000``
holds the scenarios of these seeds against the oracle; a run that ends goes on at the seed printed last.
With the names of kinds behind it, of `DRAWS`, it tries these only: ``… 0 1000 absent silent``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from piestream.errors import SchemaError
from piestream.expressions.diagnostics import QueryError
from tests import randoms
from tests.engines import Rows, by_partition, difference
from tests.oracle import TieError, TooManyMatchesError
from tests.stream_scenario import (
    ENGINES,
    KINDS,
    CombinedScenario,
    StreamSpec,
    absent_scenario,
    combined_scenario,
    sequenced_scenario,
    silence_in_sequence,
    silence_scenario,
    sorted_rows,
)

__all__ = [
    "DRAWS",
    "WAYS",
    "ManyCases",
    "cases_of",
    "disagreements",
    "many_cases",
    "moved",
    "together",
]

#: Partitions of one query, which are cases.
_CASES = 40
#: The ways in, by how many of twenty scenarios take them, and the most cases that these then have.
WAYS = {"frame": (13, 60), "session": (3, 30), "disordered restored": (3, 20), "event": (1, 5)}
#: Streams beside events.
_BESIDE = ("events", "rows", "identified", "known")


def _of(kinds: tuple[str, ...]) -> Callable[[int], CombinedScenario]:
    return lambda seed: combined_scenario(seed, kinds)


#: What is tried, by its name: the scenario of a seed.
DRAWS: Mapping[str, Callable[[int], CombinedScenario]] = {
    **{name: _of(kinds) for name, kinds in KINDS.items()},
    "absent": lambda seed: absent_scenario(seed, _BESIDE),
    "absent rows": lambda seed: absent_scenario(seed, ("known",)),
    "absent in sequence": lambda seed: sequenced_scenario(seed, _BESIDE),
    "silent": lambda seed: silence_scenario(seed, _BESIDE),
    "silent in sequence": lambda seed: silence_in_sequence(seed, _BESIDE),
    "absent silent": lambda seed: absent_scenario(seed, ("silences", *_BESIDE)),
    "absent silent in sequence": lambda seed: silence_in_sequence(seed, _BESIDE, is_absent=True),
}


@dataclass(frozen=True)
class ManyCases:
    """A query with the rows of many partitions, and what the oracle says of each."""

    drawn: CombinedScenario
    expected: Mapping[str, Rows]  # by the number of the case


def many_cases(seed: int, kinds: str, most: int = _CASES) -> ManyCases | None:
    """The cases of a seed; None where its query cannot be partitioned so."""
    return cases_of(DRAWS[kinds](seed), Random(f"{seed} {kinds} cases"), most)


def cases_of(base: CombinedScenario, rng: Random, most: int = _CASES) -> ManyCases | None:
    """The cases of a scenario; None where its query cannot be partitioned so."""
    inner = [stream.query for stream in base.streams if stream.query is not None]
    if not all(isinstance(query, CombinedScenario) for query in inner):
        return None  # of a row pattern
    try:
        base = _partitioned(base)
        _ = base.query
    except (QueryError, SchemaError):
        return None
    cases = [_changed(base, number, rng) for number in range(most)]
    instants = [s.last_instant(row) for one in cases for s in one.inputs.values() for row in s.rows]
    until = max(instants, default=0)
    expected: dict[str, Rows] = {}
    for number, one in enumerate(cases):
        try:
            expected[str(number)] = one.expected(until)
        except (TieError, TooManyMatchesError):
            continue
    kept = [one for number, one in enumerate(cases) if str(number) in expected]
    return ManyCases(together(kept), expected) if kept else None


def _partitioned(drawn: CombinedScenario) -> CombinedScenario:
    """A scenario with the partition column by which cases are told apart."""
    if "k" in drawn.keys:
        return drawn
    streams = tuple(
        replace(s, query=_partitioned(s.query)) if isinstance(s.query, CombinedScenario) else s
        for s in drawn.streams
    )
    returns = tuple(r for r in drawn.returns if getattr(r, "column", None) != "k")
    return drawn.having(keys=("k", *drawn.keys), streams=streams, returns=returns)


def _changed(base: CombinedScenario, number: int, rng: Random) -> CombinedScenario:
    """A case: the rows as they are, or some of them, at other times and with other values."""
    inputs = base.inputs
    times = {
        row[name]
        for stream in inputs.values()
        for row in stream.rows
        for name in stream.times
        if row[name] is not None
    }
    at = moved(times, base.clock.beats(1), rng)
    left_out = rng.choice((0.0, 0.0, 0.1, 0.3, 0.6))
    altered = rng.choice((0.0, 0.05, 0.2, 0.5))
    changed = {
        name: replace(stream, rows=tuple(_changed_rows(stream, at, number, left_out, altered, rng)))
        for name, stream in inputs.items()
    }
    return _with_inputs(base, changed)


def moved(times: Collection[int], beat: int, rng: Random) -> dict[int, int]:
    """Other times in the order of these, or most often at other distances of so many ticks."""
    beat = max(1, beat)
    if not times or rng.random() >= 0.7:
        return {t: t for t in times}
    steps = rng.choice(((1,), (1, 1, 2), (1, 2, 5), (1, 1, 1, 12)))
    found, at = {}, min(times)
    for t in sorted(times):
        found[t] = at
        at += rng.choice(steps) * beat
    return found


def _changed_rows(
    stream: StreamSpec, times: Mapping[int, int], number: int, left_out: float, altered: float,
    rng: Random,
) -> Iterator[Mapping[str, Any]]:  # fmt: skip
    gone: dict[Any, bool] = {}  # both rows of an interval are left out, or neither
    values: dict[Any, dict[str, Any]] = {}
    for place, row in enumerate(stream.rows):
        who = row.get("id", -1 - place)
        if gone.setdefault(who, rng.random() < left_out):
            continue
        others = [n for n in row if n not in (*stream.times, "k", "n2", "id", "seq")]
        if who not in values:
            values[who] = {n: randoms._value(rng, n) for n in others if rng.random() < altered}
        at = {n: None if row[n] is None else times[row[n]] for n in stream.times}
        yield {**row, **values[who], **at, "k": f"{number}:{row['k']}"}


def _with_inputs(base: CombinedScenario, inputs: Mapping[str, StreamSpec]) -> CombinedScenario:
    """The scenario with other rows in its inputs."""
    return base.having(
        streams=tuple(
            replace(s, query=_with_inputs(s.query, inputs))
            if isinstance(s.query, CombinedScenario)
            else inputs[s.name]
            for s in base.streams
        )
    )


def together(cases: Sequence[CombinedScenario]) -> CombinedScenario:
    """One scenario with the rows of all."""
    inputs = {
        name: replace(stream, rows=tuple(row for one in cases for row in one.inputs[name].rows))
        for name, stream in cases[0].inputs.items()
    }
    return _with_inputs(cases[0], inputs)


def disagreements(many: ManyCases, engine: str, seed: int) -> list[str]:
    """In which cases of a seed an engine says otherwise than the oracle."""
    found = ENGINES[engine](many.drawn, Random(f"{seed} {engine}"))
    got: dict[str, Rows] = {number: [] for number in many.expected}
    for row in found:
        got[row["k"].split(":")[0]].append(row)
    faults = []
    for number, wanted in many.expected.items():
        keys = many.drawn.keys
        one = [r for rows in by_partition(wanted, keys).values() for r in sorted_rows(rows)]
        two = [r for rows in by_partition(got[number], keys).values() for r in sorted_rows(rows)]
        why = difference(one, two, keys)
        if why is not None:
            faults.append(f"seed {seed}, {engine}, case {number}: {why}")
    return faults


def main(first: int, end: int, *of: str) -> None:
    """Try the scenarios of these seeds, of all kinds or of some, and say how far it got."""
    began, cases, matches = time.monotonic(), 0, 0
    ways = [way for way, (weight, _) in WAYS.items() for _ in range(weight)]
    for seed in range(first, end):
        rng = Random(f"{seed} way")
        kinds, engine = rng.choice(of or [*KINDS]), rng.choice(ways)
        many = many_cases(seed, kinds, WAYS[engine][1])
        if many is not None:
            try:
                faults = disagreements(many, engine, seed)
            except Exception as error:
                faults = [f"seed {seed}, {engine}: {type(error).__name__}: {error}"]
            for fault in faults:
                print(f"{kinds}, {fault}\n{many.drawn.text()}", flush=True)
            cases += len(many.expected)
            matches += sum(map(len, many.expected.values()))
        if seed % 20 == 19 or seed == end - 1:
            seconds = time.monotonic() - began
            print(
                f"up to seed {seed}: {cases:,} cases, {matches:,} rows, {seconds:,.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
