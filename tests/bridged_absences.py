"""Many random cases of NOT beside BRIDGING over one or two streams: small rows, of which much is interrupted.

``python -m tests.bridged_absences 0 1000`` holds these seeds against the oracle, each in one way in, and some with
a closed input; all of them with ``close`` behind it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from piestream.errors import SchemaError
from piestream.expressions.diagnostics import QueryError
from piestream.language.parts import Emit
from piestream.relations import ALL_NAMES
from tests.many_cases import ManyCases, disagreements, together
from tests.oracle.streams import TooManyMatchesError
from tests.scenario import Clause, Definition
from tests.stream_scenario import CombinedScenario, StreamSpec
from tests.truth import column

__all__ = ["bridged_absences", "drawn_group", "main", "tried", "with_cases"]

_NAMES = [*ALL_NAMES]
_KINDS = ("events", "events", "events", "known", "identified", "rows")
#: The ways in, and how many cases these have.
_WAYS = {"frame": 60, "session": 30, "disordered restored": 20, "restored": 20, "event": 6}


def bridged_absences(seed: int, cases: int = 60, at_end: str = "open") -> ManyCases | None:
    """The cases of a seed; None where its query is refused."""
    rng = Random(f"bridged absences {seed}")
    query = _query(rng).having(at_end=at_end)
    return with_cases(query, rng, cases)


def with_cases(query: CombinedScenario, rng: Random, cases: int) -> ManyCases | None:
    """A query with the rows of so many cases; None where it is refused."""
    try:
        _ = query.query
    except (QueryError, SchemaError):
        return None
    drawn = [query.having(streams=tuple(with_rows(query, n, rng))) for n in range(cases)]
    specs = [stream for one in drawn for stream in one.streams]
    until = max(spec.last_instant(row) for spec in specs for row in spec.rows) + rng.choice((0, 3))
    drawn.append(query.having(streams=tuple(passing(query, until))))
    expected = {}
    for number, one in enumerate(drawn):
        try:
            expected[str(number)] = one.expected(until)
        except TooManyMatchesError:
            return None
    return ManyCases(together(drawn), expected)


def _query(rng: Random) -> CombinedScenario:
    """A query of random parts; it may be refused."""
    present = ["a", "b"][: rng.choice((1, 2, 2))]
    absent = ["c", "d"][: rng.choice((1, 1, 1, 2))]
    is_sequenced = rng.random() < 0.3
    streams = [
        StreamSpec("s0", max_gap=rng.choice((None, None, 2, 3)), is_sequenced=is_sequenced),
        StreamSpec("s1", rng.choice(_KINDS), is_sequenced=is_sequenced),
    ]
    if streams[1].kind != "events":
        streams[1] = StreamSpec("s1", streams[1].kind)
    if is_alone := rng.random() < 0.25:  # no other stream has events at the end of a silence
        streams = [replace(streams[0], max_gap=None) if is_sequenced else streams[0]]
    lengths: dict[str, int | None] = {}
    definitions = []
    for number, name in enumerate((*present, *absent)):
        stream = number % 2 if number < 2 else rng.randrange(2)
        if len(present) == 1 and number:
            stream = rng.choice((0, 1, 1))
        if is_alone:
            stream = 0
        of = rng.choice((f"b{number}", f"b{number}", "b0"))
        counted = rng.random() < 0.2
        definition = Definition(name, column(of), at_least=rng.choice((None, None, None, 2)))
        if streams[stream].kind == "events":
            bridging = lengths.setdefault(of, rng.choice((None, 1, 2, 2, 3)))
            if rng.random() < 0.1:
                bridging = rng.choice((None, 1, 3))
            at_most = rng.choice((1, 2, 3)) if counted else None
            definition = Definition(
                name, column(of), definition.at_least, bridging=bridging, at_most_events=at_most
            )
        definitions.append((stream, definition))
    if len({stream for stream, _ in definitions}) < len(streams):
        return _query(rng)
    clauses = []
    if len(present) == 2:
        clauses = [Clause("a", "b", tuple(rng.sample(_NAMES, rng.choice((1, 2, 3, 9, 13)))))]
    drawn = CombinedScenario(
        streams=tuple(streams),
        definitions=tuple(rng.sample(definitions, len(definitions))),
        clauses=tuple(clauses),
        within=rng.choice((4, 8, 30, 30)),
        emit=rng.choice((Emit.TRIGGER, Emit.TRIGGER, Emit.COMPLETION, Emit.BOTH)),
        keys=("k",),
        absences=tuple((name, tuple(drawn_group(rng, name, present, _NAMES))) for name in absent),
        name="bridged absences",
    )
    if any(d.bridging for _, d in definitions):
        return drawn
    return _query(rng)


def drawn_group(rng: Random, name: str, present: list[str], names: list[str]) -> Iterator[Clause]:
    """What a NOT says."""
    for other in rng.sample(present, rng.randint(1, len(present))):
        x, y = rng.choice(((name, other), (other, name)))
        if rng.random() < 0.8:
            yield Clause(x, y, tuple(rng.sample(names, rng.choice((1, 2, 3, 5)))))
        for _ in range(rng.choice((0, 1, 1, 2))):
            sign = rng.choice(("<", "<=", "<=", ">", ">="))
            ends = rng.choice(("ts", "te")), rng.choice(("ts", "te"))
            yield Clause(x, y, distance=(*ends, sign, (rng.randint(-4, 6),)))
    if rng.random() < 0.6:
        distance = rng.choice(("ts", "te")), "te", "<=", (rng.randint(0, 6),)
        yield Clause(rng.choice(present), name, distance=distance)


def with_rows(query: CombinedScenario, case: int, rng: Random) -> Iterator[StreamSpec]:
    """The streams with the rows of a case."""
    key = f"{case}:x"
    steps = rng.choice(((1,), (1, 1, 2), (1, 2, 3), (1, 1, 1, 6)))
    changes = rng.choice((0.25, 0.4, 0.6))
    number = 0
    times = []
    at = rng.randint(0, 3)
    for _ in range(rng.randint(3, 9)):
        times.append(at)
        at += rng.choice(steps)
    for spec in query.streams:
        if spec.kind != "events":
            yield _with_intervals(spec, key, times, rng)
            continue
        rows: list[dict[str, Any]] = []
        state = dict.fromkeys((f"b{n}" for n in range(4)), False)
        for time_ in times:
            if rng.random() < 0.25:
                continue
            for _ in range(rng.choice((1, 1, 2)) if spec.is_sequenced else 1):
                state = {n: held ^ (rng.random() < changes) for n, held in state.items()}
                row = {"k": key, "ts": time_, **state}
                if spec.is_sequenced:
                    number += 1
                    row["seq"] = number
                rows.append(row)
        yield StreamSpec(spec.name, "events", tuple(rows), spec.max_gap, None, spec.is_sequenced)


def _with_intervals(spec: StreamSpec, key: str, times: list[int], rng: Random) -> StreamSpec:
    """A stream of rows of intervals."""
    rows = []
    for number in range(rng.randint(0, 4)):
        began = rng.choice(times)
        row = {"k": key, "began": began, "ended": began + rng.choice((1, 1, 2, 4))}
        row |= {f"b{n}": rng.random() < 0.7 for n in range(4)}
        if spec.kind == "identified":
            row["id"] = number
            if rng.random() < 0.7:
                rows.append({**row, "ended": None})
            if rows and rows[-1] == {**row, "ended": None} and rng.random() < 0.2:
                continue
        rows.append(row)
    return StreamSpec(spec.name, spec.kind, tuple(rows))


def passing(query: CombinedScenario, until: int) -> Iterator[StreamSpec]:
    """The streams with a row of which nothing holds, by which time passes."""
    for spec in query.streams:
        rows = []
        if spec.kind == "events":
            number = {"seq": 1} if spec.is_sequenced else {}
            nothing = {f"b{n}": False for n in range(4)}
            rows = [{"k": f"{len(query.streams) * 1000}:x", "ts": until, **nothing, **number}]
        yield StreamSpec(spec.name, spec.kind, tuple(rows), spec.max_gap, None, spec.is_sequenced)


#: The cases of a seed, of which there are so many.
Draw = Callable[[int, int], ManyCases | None]


def tried(
    seeds: range, draw: Draw, said_wrongly: Callable[[ManyCases], Iterable[str]] = lambda _: ()
) -> int:
    """Try some seeds, each in one way in, and say how far it got; gives the number of faults."""
    began, cases, rows, faults, queries = time.monotonic(), 0, 0, 0, 0
    for seed in seeds:
        way = Random(f"{seed} way").choice(("frame", "frame", *_WAYS))
        many = draw(seed, _WAYS[way])
        if many is None:
            continue
        queries += 1
        try:
            found = [*said_wrongly(many), *disagreements(many, way, seed)]
        except Exception as error:
            found = [f"seed {seed}, {way}: {type(error).__name__}: {error}"]
        for fault in found[:2]:
            print(f"{fault}\n{many.drawn.text()}\n{many.drawn.at_end}", flush=True)
        faults += bool(found)
        cases += len(many.expected)
        rows += sum(map(len, many.expected.values()))
        if queries % 50 == 0:
            seconds = time.monotonic() - began
            print(f"up to seed {seed}: {queries} queries, {cases} cases, {rows} rows, {faults} faults, {seconds:.0f} s", flush=True)  # fmt: skip
    print(f"{queries} queries, {cases} cases, {rows} rows, {faults} faults")
    return faults


def main(first: int, end: int, at_end: str | None = None) -> int:
    """Try these seeds; gives the number of faults."""

    def draw(seed: int, cases: int) -> ManyCases | None:
        closes = Random(f"{seed} end").random() < 0.4
        return bridged_absences(seed, cases, at_end or ("close" if closes else "open"))

    return tried(range(first, end), draw)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), *sys.argv[3:4]) > 0)
