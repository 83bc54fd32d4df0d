"""Many random cases of queries over one stream for the price of a few.

What a case costs is to read and bind its query and to make frames of its rows. So one query gets many
partitions, each with rows of its own: a case is a partition. A scenario of many cases is a scenario as
any other, so that every law of one holds of many at once. ``python -m tests.many_of_one_stream 0 1000``
holds the scenarios of these seeds against the oracle; a run that ends goes on at the seed printed last.
With the names of draws behind it, of `DRAWS`, it tries these only: ``… 0 1000 mixed sequence``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

from piestream.compiled.interpreted import INTERPRETED
from tests import randoms
from tests.engines import ENGINES, difference, parse, run
from tests.many_cases import moved
from tests.mixed import mixed
from tests.oracle import TooManyMatchesError
from tests.scenario import Scenario

__all__ = [
    "BATCHES", "DRAWS", "cases_for", "cases_in", "disagreement", "many_cases", "of_partition",
]  # fmt: skip

#: Single events, and what takes longer, are tried on so many cases.
_FEW = 4
#: Partitions of one query, which are cases, and the most rows of all; interpreted loops take long.
_CASES, _ROWS = (2 if INTERPRETED else 60), 2_000

#: The ways in that take many rows at once; single events, pushed one by one, take long.
BATCHES = ("frame", "session", "restored", "disordered", "disordered restored")

#: A case with more matches, in the window or not, is left out, for the oracle tries them all.
_MOST = 400

#: What is tried, by its name: the scenario of a seed.
DRAWS: Mapping[str, Callable[[int], Scenario]] = {
    "times": randoms.scenario,
    "sequence": randoms.sequenced,
    "absent in sequence": randoms.absent_in_sequence,
    "mixed": mixed,
}


@lru_cache(maxsize=256)
def many_cases(seed: int, draw: str = "times", most: int = _CASES) -> Scenario:
    """The scenario of a seed with the rows of many cases, the first of which are its own."""
    base, rng = DRAWS[draw](seed), Random(f"{seed} {draw} cases")
    keys = base.keys if "k" in base.keys else ("k", *base.keys)
    cases = [[dict(row) for row in base.rows]]
    cases += (_changed(base, number, rng) for number in range(1, min(most, _most_cases(base))))
    until = max((row["ts"] for rows in cases for row in rows), default=0)
    kept, expected = [], []
    for rows in cases:
        try:
            expected += base.having(keys=keys, rows=tuple(rows)).expected(until=until, most=_MOST)
        except TooManyMatchesError:
            continue
        kept += rows
    kept.sort(key=lambda row: row["ts"])
    drawn = base.having(keys=keys, rows=tuple(kept), name=f"{base.name} with many cases")
    if kept and kept[-1]["ts"] == until:
        vars(drawn)["_expected"] = expected  # what the property would find again
    return drawn


def _most_cases(base: Scenario) -> int:
    """Fewer of long cases, and of many symbols, of which the oracle tries every combination."""
    many = max(0, len(base.definitions) - 3)
    return _ROWS // max(1, len(base.rows)) // 3**many


def cases_for(engine: str, seed: int, draw: str = "times") -> Scenario:
    """The scenario of a seed with as many cases as a way in, or the oracle, takes in a moment."""
    return many_cases(seed, draw, _CASES if engine in BATCHES else _FEW)


def _changed(base: Scenario, number: int, rng: Random) -> list[dict[str, Any]]:
    """The rows of a case: those that there are, or some of them, at other times and with other values."""
    times = moved({row["ts"] for row in base.rows}, base.clock.beats(1), rng)
    left_out = rng.choice((0.0, 0.0, 0.1, 0.3, 0.6))
    altered = rng.choice((0.0, 0.05, 0.2, 0.5))
    others = [name for name in base.schema if name not in ("ts", "k", "n2", "seq")]
    rows = []
    for row in base.rows:
        if rng.random() >= left_out:
            values = {n: randoms._value(rng, n) for n in others if rng.random() < altered}
            rows.append({**row, **values, "ts": times[row["ts"]], "k": f"{number}:{row['k']}"})
    return rows


def cases_in(drawn: Scenario) -> int:
    """The number of cases of a scenario: of partitions."""
    return len({tuple(row[name] for name in drawn.keys) for row in drawn.rows})


def of_partition(drawn: Scenario, key: tuple[Any, ...]) -> Scenario:
    """The scenario with the rows of one partition alone, which a message can show."""
    rows = (row for row in drawn.rows if tuple(row[name] for name in drawn.keys) == key)
    return drawn.having(rows=tuple(rows))


def disagreement(drawn: Scenario, engine: str) -> str | None:
    """What an engine says of a scenario otherwise than the oracle, if anything."""
    found, plan = run(engine, parse(drawn.text()), drawn.stream, Random(f"{drawn.name} {engine}"))
    why = difference(drawn.expected(), found, drawn.keys)
    return None if why is None else f"{engine} on {drawn.name}\n{drawn.text()}{why}\n{plan}"


def main(first: int, end: int, *of: str) -> None:
    """Try the scenarios of these seeds, and say how far it got."""
    began, cases, rows = time.monotonic(), 0, 0
    ways = [name for name in ENGINES if name != "oracle"]
    for seed in range(first, end):
        rng = Random(f"{seed} way")
        draw, engine = rng.choice(of or [*DRAWS]), rng.choice(ways)
        drawn = cases_for(engine, seed, draw)
        try:
            fault = disagreement(drawn, engine)
        except Exception as error:
            fault = f"{engine} on {drawn.name}\n{drawn.text()}{type(error).__name__}: {error}"
        if fault is not None:
            print(fault, flush=True)
        cases, rows = cases + cases_in(drawn), rows + len(drawn.expected())
        if seed % 20 == 19 or seed == end - 1:
            seconds = time.monotonic() - began
            print(
                f"up to seed {seed}: {cases:,} cases, {rows:,} rows, {seconds:,.0f} s", flush=True
            )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
