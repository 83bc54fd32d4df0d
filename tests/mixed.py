"""Random scenarios in which everything that a query can say is mixed with everything else.

``mixed(seed)`` is a scenario over one stream, ``mixed_streams(seed)`` one over several streams, rows of
intervals, silences, queries in brackets and row patterns. ``python -m tests.mixed 0 1000`` holds these
seeds against the oracle in all ways in; ``python -m tests.pairs 0 1000`` says what was met with what.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from random import Random

from piestream.expressions.diagnostics import QueryError
from tests import engines
from tests.engines import ENGINES, Rows, difference, parse
from tests.randoms import in_sequence, random_scenario
from tests.scenario import Scenario
from tests.shares import MIXED

__all__ = ["is_taken", "mixed"]

#: Of so many scenarios without a match, one is kept.
_KEPT_WITHOUT = 0.15


@lru_cache(maxsize=4096)
def mixed(seed: int, on_spark: bool = False) -> Scenario:
    """The scenario of a seed, always the same."""
    rng = Random(f"mixed {seed}")
    while True:
        drawn = random_scenario(rng, name=f"mixed {seed}", absences=0.4, shares=MIXED)
        drawn = drawn.having(has_lets=rng.random() < 0.5)
        if rng.random() < 0.45 and drawn.clock.kind != "ns":
            apart = in_sequence(drawn, rng, on_spark)
            if is_taken(apart.text()):
                drawn = apart.having(had_matches=bool(apart.expected()))
        if not drawn.had_matches and rng.random() > _KEPT_WITHOUT:
            continue
        if is_taken(drawn.text()):
            return drawn


def is_taken(text: str) -> bool:
    """Whether the language takes what a query combines; a query may be wrong in no other way."""
    try:
        parse(text)
    except QueryError as error:
        if " yet" not in str(error):
            raise
        return False
    return True


def disagreement(seed: int, engine: str) -> str | None:
    """What an engine says of a seed otherwise than the oracle; at the end what is open may be closed."""
    drawn, rng = mixed(seed), Random(f"{seed} {engine}")
    at_end = rng.choice(("open", "close"))
    if engine.startswith("event") and drawn.clock.kind in ("ns", "ms"):
        at_end = "open"  # a tick later than an event: Python's datetimes have ticks of their own
    try:
        query = parse(drawn.text())
        if engine == "frame":
            rows = drawn.stream.frame(engines.shuffled(drawn.stream, rng))
            given = query.run(rows, ties=drawn.ties, at_end=at_end)
            found, plan = engines.plain(given, drawn.stream), "query.run"
        else:
            plan = engines.draw(engine, drawn.stream, rng)
            batches = engines.play(query, drawn.stream, plan, at_end)
            found = [row for rows in batches for row in rows]
    except Exception as error:
        return f"{engine}, at_end={at_end!r}, on {drawn}\n{type(error).__name__}: {error}"
    why = difference(expected(seed, at_end), found, drawn.keys)
    return None if why is None else f"{engine}, at_end={at_end!r}, on {drawn}\n{plan}\n{why}"


@lru_cache(maxsize=64)
def expected(seed: int, at_end: str) -> Rows:
    """The oracle's rows of a seed."""
    return mixed(seed).expected(at_end=at_end)


def main(first: int, end: int) -> None:
    """Try the scenarios of these seeds, and say how far it got."""
    began, tried, faults = time.monotonic(), 0, 0
    for seed in range(first, end):
        for engine in [name for name in ENGINES if name != "oracle"]:
            why = disagreement(seed, engine)
            tried, faults = tried + 1, faults + (why is not None)
            if why is not None:
                print(f"SEED {seed}\n{why}\n", flush=True)
                break
        if seed % 100 == 99 or seed == end - 1:
            seconds = time.monotonic() - began
            print(
                f"up to seed {seed}: {tried:,} runs, {faults} faults, {seconds:.0f} s", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
