"""Random scenarios over several streams in which everything that a query can say is mixed.

``mixed_streams(seed)`` has events, rows of intervals, silences, queries in brackets and row patterns.
``python -m tests.mixed_streams 0 1000`` holds these seeds against the oracle in all ways in.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import lru_cache, partial
from random import Random

from piestream.expressions.diagnostics import QueryError
from tests import randoms
from tests.mixed import is_taken
from tests.oracle.streams import AmbiguousOrderError, TooManyMatchesError
from tests.scenario import Scenario
from tests.shares import MIXED
from tests.stream_scenario import (
    ENGINES,
    KINDS,
    CombinedScenario,
    StreamSpec,
    _apart,
    _can_match,
    _reads_events,
    _with_silences,
    in_sequence,
)
from tests.stream_shrink import disagreement

__all__ = ["fed", "mixed_streams"]

#: Of so many scenarios without a match, one is kept.
_KEPT_WITHOUT = 0.03


@lru_cache(maxsize=1024)
def mixed_streams(seed: int) -> CombinedScenario:
    """The scenario of a seed, always the same."""
    rng = Random(f"mixed streams {seed}")
    of_order = Random(f"mixed streams {seed} in sequence")
    has_order = of_order.random() < 0.2
    while True:
        kinds = rng.choice([*KINDS.values()])
        base = randoms.random_scenario(rng, absences=0.3, shares=MIXED)
        if len(base.definitions) > 4 or len(base.rows) > 25:
            continue
        try:
            drawn = _drawn(rng, base, kinds)
            has_pattern = drawn is not None and any(s.kind == "pattern" for s in drawn.streams)
            if drawn is not None and has_order and drawn.clock.kind != "ns" and not has_pattern:
                is_silent = any(d.silence is not None for _, d in drawn.definitions)
                drawn = in_sequence(drawn, of_order, (1, 1, 2, 4) if is_silent else (1,))
            if drawn is None or not is_taken(drawn.text()):
                continue
            found = len(drawn.expected())
        except (QueryError, TooManyMatchesError, AmbiguousOrderError):
            continue
        if found <= 400 and (found or rng.random() < _KEPT_WITHOUT):
            return drawn.having(name=f"mixed_streams({seed})")


def _drawn(rng: Random, base: Scenario, kinds: tuple[str, ...]) -> CombinedScenario | None:
    """The streams that a scenario is told apart into, with its condition and limits."""
    is_silent = rng.random() < 0.35
    drawn = (_with_silences if is_silent else _apart)(rng, base, kinds)
    if drawn is None or not _can_match(drawn):
        return None
    drawn = drawn.having(
        streams=tuple(_with_limited_query(rng, stream) for stream in drawn.streams),
        has_lets=rng.random() < 0.5,
        at_end=rng.choice(("open", "open", "close")),
    )
    if {*drawn.symbols} != {*base.symbols}:
        return drawn  # of another scenario: too few symbols for the streams
    drawn = drawn.having(limits=base.limits)
    silent = {d.name for _, d in drawn.definitions if d.silence is not None}
    if base.where is None or any(_reads_events(i, silent) for i in base.where(base.clock).items):
        return drawn
    return drawn.having(where=base.where)


def _with_limited_query(rng: Random, stream: StreamSpec) -> StreamSpec:
    """A stream that is a query, now and then with limits or a condition on its matches."""
    query = stream.query
    if not isinstance(query, CombinedScenario) or rng.random() < 0.5:
        return stream
    query = query.having(limits=randoms._limits(rng, query, MIXED), has_lets=rng.random() < 0.5)
    if rng.random() < 0.4:
        where = partial(randoms._where, rng.random(), query.symbols, query.clauses)
        query = query.having(where=where)
    return replace(stream, query=query)


def fed(engine: str, drawn: CombinedScenario) -> CombinedScenario:
    """The scenario as an engine can run it: a session cannot close what a query in brackets has open."""
    if engine != "frame" and any(stream.query is not None for stream in drawn.streams):
        return drawn.having(at_end="open")
    return drawn


def main(first: int, end: int) -> None:
    """Try the scenarios of these seeds, and say how far it got."""
    began, tried, faults = time.monotonic(), 0, 0
    for seed in range(first, end):
        for engine in ENGINES:
            drawn = fed(engine, mixed_streams(seed))
            try:
                why = disagreement(engine, drawn, seed)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            tried, faults = tried + 1, faults + (why is not None)
            if why is not None:
                print(f"SEED {seed}\n{engine} on {drawn}\n{why}\n", flush=True)
                break
        if seed % 50 == 49 or seed == end - 1:
            seconds = time.monotonic() - began
            print(
                f"up to seed {seed}: {tried:,} runs, {faults} faults, {seconds:.0f} s", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
