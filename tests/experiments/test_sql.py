"""SQL and Polars joins: the same matches, all at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from experiments.peers import run
from experiments.peers.duckdb_sql import duckdb_query
from experiments.peers.parts.interval_sql import row_pattern_engines
from experiments.peers.pattern import Pattern, sorted_matches
from piestream.relations import Relation
from tests.experiments import brute


@pytest.mark.parametrize(
    ("name", "rule"),
    [("duckdb", "completion"), ("duckdb-trigger", "sets"), ("polars", "completion")],
)
def test_it_has_every_match(name: str, rule: str) -> None:
    seen = 0
    for seed in range(90):
        rng = Random(seed)
        symbols = rng.choice((1, 2, 3, 3, 4))
        given = brute.pattern(rng, symbols, durations=seed % 3 == 0, precise=seed % 2 == 0)
        times, masks = brute.stream(rng, symbols, rng.randint(20, 40))
        expected = brute.matches(given, times, masks, rule)
        found = run(name, given, times, masks)
        assert found.count == len(expected)
        rows = [tuple(row) for row in sorted_matches(found.matches).tolist()]
        assert rows == expected, (seed, given)
        seen += len(expected)
    assert seen > 40


@pytest.mark.parametrize("name", ["duckdb", "duckdb-trigger", "polars"])
def test_counting_counts_what_keeping_keeps(name: str) -> None:
    given = Pattern(2, ((0, 1, Relation.BEFORE | Relation.OVERLAPS),), 40)
    times, masks = brute.stream(Random(8), 2, 200)
    kept, counted = (run(name, given, times, masks, keep=keep) for keep in (True, False))
    assert counted.count == kept.count > 10
    assert len(counted.matches) == 0


def test_what_the_alternatives_share_is_said_as_inequalities_and_changes_nothing() -> None:
    given = Pattern(2, ((0, 1, Relation.MEETS | Relation.OVERLAPS),), 40)
    with_shared, without = duckdb_query(given), duckdb_query(given, shared=False)
    assert "s0.te < s1.te\n" in with_shared
    assert "s0.te < s1.te\n" not in without
    times, masks = brute.stream(Random(9), 2, 200)
    both = [run("duckdb", given, times, masks, shared=shared).matches for shared in (True, False)]
    assert len(both[0]) > 5
    assert np.array_equal(both[0], both[1])


def test_no_engine_here_has_row_patterns() -> None:
    # If this fails, one of them has learnt MATCH_RECOGNIZE: then it is a method to add.
    assert row_pattern_engines() == {"duckdb": False, "polars": False}
