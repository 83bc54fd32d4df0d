"""The examples of an explanation are what they say: the engine finds the one and not the other."""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

import piestream as ps
from piestream.language.parts import Constraint
from piestream.show.example import drawn_examples, possible_relations
from tests.engines import parse
from tests.randoms import scenario


def _runs(query: ps.Query, drawn: str) -> int:
    """How many matches a drawn example has: a column for each symbol, true while its bar lasts."""
    bars = {}
    for line in drawn.splitlines():
        name, start, dashes = re.fullmatch(r"  (\S+ *)(?<= )( *├)(─*)┤", line).groups()  # type: ignore[union-attr]
        first = len(name) + len(start) - 1
        bars[name.strip()] = (first, first + len(dashes) + 1)
    times = range(max(end for _, end in bars.values()) + 1)
    frame = pl.DataFrame(
        {"ts": times} | {n: [s <= t < e for t in times] for n, (s, e) in bars.items()}
    )
    symbols = ", ".join(f'"{s.name}" AS "{s.name}"' for s in query.present)
    plain = ps.query(
        f"FROM s ORDER BY ts DEFINE {symbols} PATTERN "
        + " AND ".join(f'"{a.name}" before "{b.name}"' for a, b in _chain(query))
        + " WITHIN 9999"
    )
    return len(replace(plain, constraints=_without_lengths(query)).run(frame))


def _without_lengths(query: ps.Query) -> tuple[Constraint, ...]:
    """Constraints that ask for the relations alone which distances leave: bars have no lengths."""
    left = possible_relations(query, {(c.x, c.y): c.relations for c in query.constraints})
    return tuple(
        replace(c, relations=left.get((c.x, c.y), c.relations), distances=())
        for c in query.constraints
    )


def _chain(query: ps.Query) -> list[tuple[object, object]]:
    return list(zip(query.present, query.present[1:], strict=False))


def test_the_engine_finds_the_one_example_and_not_the_other(few_seeds: list[int]) -> None:
    failing = 0
    for seed in few_seeds:
        query = parse(scenario(seed).text())
        drawn = drawn_examples(query)
        if drawn is None:
            assert len(query.present) == 1, query
            continue
        good, _, bad = drawn.removeprefix("this satisfies the pattern\n").partition("\nthis just")
        assert _runs(query, good) == 1, f"{query}\n{drawn}"
        if bad:
            failing += 1
            assert _runs(query, bad.partition("\n")[2]) == 0, f"{query}\n{drawn}"
    assert failing or few_seeds[0]
