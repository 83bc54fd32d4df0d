"""SQL and Polars joins: the same matches, all at once."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pytest

from experiments.peers import PEERS, run
from experiments.peers.duckdb_sql import duckdb_query
from experiments.peers.parts.interval_sql import row_pattern_engines
from experiments.peers.pattern import Pattern, sorted_matches
from experiments.streams import Case, of_bits
from experiments.streams.cases import columns_of
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


def test_what_the_alternatives_share_is_said_as_inequalities() -> None:
    text = duckdb_query(Pattern(2, ((0, 1, Relation.MEETS | Relation.OVERLAPS),), 40))
    assert "AND te0 < te1\n" in text
    assert "AND ts0 <= ts1 + 40" in text


@pytest.mark.parametrize("name", ["duckdb", "duckdb-trigger", "polars"])
def test_every_plan_has_every_match(name: str) -> None:
    peer = PEERS[name]
    assert peer.plans is not None
    rule = "sets" if name == "duckdb-trigger" else "completion"
    seen = 0
    for seed in range(40):
        rng = Random(seed)
        given = brute.pattern(rng, rng.choice((2, 3, 4)), durations=seed % 4 == 0)
        times, masks = brute.stream(rng, given.n_symbols, 50)
        expected = brute.matches(given, times, masks, rule)
        for plan in peer.plans(given, False).values():
            found = peer.run(given, times, masks, **plan)
            assert [tuple(row) for row in sorted_matches(found.matches).tolist()] == expected, plan
        seen += len(expected)
    assert seen > 30


@pytest.mark.parametrize("name", ["duckdb", "duckdb-trigger", "polars"])
def test_every_use_of_the_key_finds_what_each_partition_has_by_itself(name: str) -> None:
    peer = PEERS[name]
    assert peer.plans is not None
    given = Pattern(3, ((0, 1, Relation.BEFORE | Relation.OVERLAPS), (1, 2, Relation.BEFORE)), 40)
    streams = [brute.stream(Random(seed), 3, 60) for seed in range(4)]
    alone = sum(run(name, given, times, masks).count for times, masks in streams)
    keys = np.repeat(np.arange(4), 60)
    times, masks = (np.concatenate(of) for of in zip(*streams, strict=True))
    frame = of_bits(given, np.arange(240), masks).frame.with_columns(
        pl.Series("ts", times), pl.Series("key", keys)
    )
    case = Case(given, frame.sort("ts", maintain_order=True), columns_of(given), key="key")
    plans = peer.plans(given, True)
    assert len(plans) == (4 if name == "polars" else 6)
    assert alone > 20
    for plan in plans.values():
        matcher = peer.prepare(given, **plan)
        found = [matcher.over(*case.bits, case.apart)(), matcher.on_frame(case)()]
        assert [each.count for each in found] == [alone, alone], plan


def test_no_engine_here_has_row_patterns() -> None:
    # If this fails, one of them has learnt MATCH_RECOGNIZE: then it is a method to add.
    assert row_pattern_engines() == {"duckdb": False, "polars": False}
