"""PieStream as its paper: every match, at the trigger of each single relation."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from experiments.peers import run
from experiments.peers.pattern import Pattern, UnsupportedPatternError, sorted_matches
from piestream.relations import Relation
from tests.experiments import brute


def test_it_has_every_match_at_the_trigger_of_its_single_relations() -> None:
    seen = 0
    for seed in range(800):
        rng = Random(seed)
        symbols = rng.choice((2, 3, 3, 4))
        given = brute.pattern(rng, symbols, precise=seed % 2 == 0)
        times, masks = brute.stream(rng, symbols, rng.randint(5, 40))
        expected = brute.matches(given, times, masks, "alone")
        result = run("piestream-paper", given, times, masks, skip_repeats=seed % 3 == 0)
        found = [tuple(row) for row in sorted_matches(result.matches).tolist()]
        assert found == expected, (seed, given)
        seen += len(expected)
    assert seen > 500


def test_a_complete_group_gains_nothing() -> None:
    times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
    group = Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS
    result = run("piestream-paper", Pattern(2, ((0, 1, group),), 9), times, masks)
    assert result.matches.tolist() == [[3, 1, 2]]


def test_every_automaton_steps_at_every_event_and_partial_results_are_stored() -> None:
    # Two overlaps and two more, joined with one meets: 0 and 1 overlap twice, 2 comes once.
    times = np.arange(12)
    masks = np.array([1, 3, 2, 0, 1, 3, 2, 4, 0, 0, 0, 0])
    chain = ((0, 1, Relation.OVERLAPS | Relation.STARTS), (1, 2, Relation.MEETS))
    result = run("piestream-paper", Pattern(3, chain, 100), times, masks)
    assert result.matches.tolist() == [[7, 4, 5, 7]]
    assert result.counters["steps"] == 3 * len(times)
    assert result.counters["pairs"] == 3
    two_more = (*chain, (2, 3, Relation.BEFORE))
    result = run("piestream-paper", Pattern(4, two_more, 100), times, masks)
    assert (result.count, result.counters["partial_results"]) == (0, 1)


def test_what_has_left_the_window_is_freed() -> None:
    times, masks = brute.stream(Random(3), 3, 4000)
    chain = ((0, 1, Relation.BEFORE), (1, 2, Relation.OVERLAPS | Relation.CONTAINS))

    def peak(window: int, events: int) -> int:
        given = Pattern(3, chain, window)
        result = run("piestream-paper", given, times[:events], masks[:events], keep=False)
        return int(result.counters["peak_stored"])

    assert peak(50, 4000) < 1.5 * peak(50, 1000)
    assert peak(10_000, 4000) > 5 * peak(50, 4000)


def test_one_symbol_is_no_pair() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(UnsupportedPatternError, match="two symbols"):
        run("piestream-paper", Pattern(1, (), 9), nothing, nothing)
