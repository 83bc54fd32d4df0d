"""Many random cases of silences that may not be there where the input ends, over one or two streams.

``python -m tests.closed_silences 0 1000`` holds these seeds against the oracle with a closed input, each in one way
in; with ``open`` behind it, where what is open stays open.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from piestream.language.absence_waits import UNLESS_CLOSED, wait_texts
from piestream.language.parts import Emit
from piestream.relations import ALL_NAMES
from tests.bridged_absences import drawn_group, tried, with_cases
from tests.many_cases import ManyCases
from tests.scenario import Clause, Definition
from tests.stream_scenario import CombinedScenario, StreamSpec
from tests.truth import column, literal

__all__ = ["closed_silences", "main"]

_NAMES = [name for name in ALL_NAMES if name not in ("followed-by", "follows")]
_KINDS = ("events", "events", "known", "identified", "rows")


def closed_silences(seed: int, cases: int = 60, at_end: str = "close") -> ManyCases | None:
    """The cases of a seed; None where its query is refused."""
    rng = Random(f"closed silences {seed}")
    query = _query(rng).having(at_end=at_end)
    return with_cases(query, rng, cases)


def _query(rng: Random) -> CombinedScenario:
    """A query of random parts; it may be refused."""
    present = ["a", "b"][: rng.choice((1, 1, 2))]
    absent = ["c", "d"][: rng.choice((1, 1, 1, 2))]
    is_sequenced = rng.random() < 0.3
    streams = [StreamSpec("s0", max_gap=rng.choice((None, None, 2)), is_sequenced=is_sequenced)]
    if rng.random() < 0.6:
        kind = rng.choice(_KINDS)
        streams.append(StreamSpec("s1", kind, is_sequenced=is_sequenced and kind == "events"))
    elif is_sequenced:  # nothing else has an instant at the end of a gap
        streams = [replace(streams[0], max_gap=None)]
    of_events = [number for number, stream in enumerate(streams) if stream.kind == "events"]
    silent = {rng.choice(absent), *rng.choices((*absent, *present), k=rng.choice((0, 0, 1)))}
    definitions = []
    for number, name in enumerate((*present, *absent)):
        least, most = rng.choice((None, None, None, 2, 4)), rng.choice((None, None, None, 5))
        if name in silent:
            length = rng.choice((1, 2, 3, 5, 9))
            most = None if most is None else length + most
            one = Definition(name, literal(True), least, most, silence=length)
            definitions.append((rng.choice(of_events), one))
        else:
            one = Definition(name, column(f"b{number}"), least, most)
            definitions.append((number % len(streams), one))
    if len({stream for stream, _ in definitions}) < len(streams):
        return _query(rng)
    clauses = []
    if len(present) == 2:
        clauses = [Clause("a", "b", tuple(rng.sample(_NAMES, rng.choice((2, 3, 9, 13)))))]
    return CombinedScenario(
        streams=tuple(streams),
        definitions=tuple(rng.sample(definitions, len(definitions))),
        clauses=tuple(clauses),
        within=rng.choice((4, 8, 30, 30)),
        emit=rng.choice((Emit.TRIGGER, Emit.TRIGGER, Emit.COMPLETION, Emit.BOTH)),
        keys=("k",),
        absences=tuple((n, tuple(drawn_group(rng, n, present, _NAMES))) for n in absent),
        name="closed silences",
    )


def _said_wrongly(many: ManyCases, at_end: str) -> Iterator[str]:
    """What is said of matches that can never be reported in time, although some are."""
    if any(many.expected.values()):
        for _, text in wait_texts(many.drawn.query):
            if at_end == "open" or UNLESS_CLOSED not in text:
                yield text


def main(first: int, end: int, at_end: str = "close") -> int:
    """Try these seeds; gives the number of faults."""
    return tried(
        range(first, end),
        lambda seed, cases: closed_silences(seed, cases, at_end),
        lambda many: _said_wrongly(many, at_end),
    )


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), *sys.argv[3:4]) > 0)
