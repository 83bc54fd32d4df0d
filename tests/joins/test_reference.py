"""The reference says what the oracle says, which is slower and obvious."""

from __future__ import annotations

from random import Random

import pytest

import piestream as ps
from piestream.relations import ALL_NAMES
from tests import oracle
from tests.joins.reference import expected
from tests.joins.streams import Pattern, noise
from tests.truth import column

SHAPES = (("ab",), ("ab", "bc"), ("ab", "bc", "ac"), ("ab", "ac", "ad"))
BOUNDS = ("", "", "AT LEAST 3", "AT MOST 4", "AT LEAST 2 AT MOST 5")


def drawn(seed: int) -> Pattern:
    """A small pattern of any relations."""
    rng = Random(seed)
    clauses = []
    for x, y in rng.choice(SHAPES):
        names = rng.sample(ALL_NAMES, rng.choice((1, 3, 6)))
        clauses.append(f"{x} {'; '.join(['overlaps', 'followed-by', *names])} {y}")
    pattern = Pattern(
        tuple(clauses),
        within=rng.choice((5, 12, 1000)),
        emit=rng.choice(("TRIGGER", "COMPLETION", "BOTH")),
    )
    bounds = {name: rng.choice(BOUNDS) for name in pattern.symbols}
    shared = {"b": "a"} if rng.random() < 0.2 else {}
    if not shared and "c" in pattern.symbols and rng.random() < 0.3:
        shared = {"c": "a"}
    least = sum(int(b.split()[2]) for b in bounds.values() if "LEAST" in b)
    found = pattern.having(bounds=bounds, columns=shared, within=max(pattern.within, least))
    try:
        _ = found.query
    except ps.QueryError:  # the window is too short for what has to last
        return found.having(within=1000)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_it_says_what_the_oracle_says(seed: int) -> None:
    pattern = drawn(seed)
    frame = noise(seed, pattern.symbols, 30, (0.3,), (1, 1, 2))
    truth = {name: column(pattern.columns.get(name, name)) for name in pattern.symbols}
    wanted = oracle.matches(pattern.query, frame.to_dicts(), truth, most=20_000)
    assert expected(pattern.query, frame) == [tuple(row.values()) for row in wanted]
