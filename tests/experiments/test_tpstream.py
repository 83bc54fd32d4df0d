"""TPStream: the corrected form is exact and earliest, the printed one has the faults it has."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import numpy as np
import pytest

from experiments.peers import run
from experiments.peers.parts.tpstream_join import tables_of
from experiments.peers.parts.tpstream_plan import best_orders, initial_selectivities
from experiments.peers.pattern import Ints, Pattern, sorted_matches
from piestream.relations import ALLEN, Relation
from tests.experiments import brute

#: The readings of Algorithm 4, from the letter of it to the one that is right.
READINGS: dict[str, dict[str, object]] = {
    "as printed": {
        "ends_first": False,
        "open_end": "now",
        "unrelated_only": False,
        "deduplicate": False,
    },
    "starts first, ends unknown": {
        "ends_first": False,
        "unrelated_only": False,
        "deduplicate": False,
    },
    "ends first, ends now": {"open_end": "now", "unrelated_only": False, "deduplicate": False},
    "ends first, ends unknown": {"unrelated_only": False, "deduplicate": False},
    "and unrelated only": {"deduplicate": False},
    "and each once": {},
}


def found(
    name: str, given: Pattern, times: Ints, masks: Ints, **options: object
) -> list[tuple[int, ...]]:
    result = run(name, given, times, masks, **options)
    assert result.count == len(result.matches)
    return [tuple(row) for row in sorted_matches(result.matches).tolist()]


def test_corrected_is_exact_and_earliest() -> None:
    seen = 0
    for seed in range(1200):
        rng = Random(seed)
        symbols = rng.choice((1, 2, 2, 3, 3, 4))
        given = brute.pattern(rng, symbols, durations=seed % 5 < 2)
        times, masks = brute.stream(rng, symbols, rng.randint(5, 40))
        expected = brute.matches(given, times, masks)
        assert found("tpstream", given, times, masks) == expected, (seed, given)
        seen += len(expected)
    assert seen > 700


@cache
def faults() -> dict[str, Counter[str]]:
    """What each reading loses, invents and repeats on the same random cases."""
    counts = {name: Counter[str]() for name in READINGS}
    for seed in range(1000):
        rng = Random(seed)
        symbols = rng.choice((2, 3, 4, 4))
        given = brute.pattern(rng, symbols)
        times, masks = brute.stream(rng, symbols, rng.randint(5, 40))
        true = set(brute.matches(given, times, masks, "alone"))
        for name, options in READINGS.items():
            got = Counter(found("tpstream-published", given, times, masks, **options))
            counts[name]["true"] += len(true)
            counts[name]["missing"] += len(true - set(got))
            counts[name]["false"] += len(set(got) - true)
            counts[name]["repeated"] += got.total() - len(got)
            relations = {(x, y): r for x, y, r in given.constraints}
            if len(true - set(got)) and not any(
                r & (Relation.MEETS | Relation.MET_BY) for r in relations.values()
            ):
                counts[name]["missing without meets"] += 1
    return counts


def test_the_letter_of_the_paper_loses_invents_and_repeats_matches() -> None:
    printed = faults()["as printed"]
    assert printed["true"] > 500
    assert printed["missing"] > 50
    assert printed["false"] > 50
    assert printed["repeated"] > 10


def test_starts_before_ends_loses_only_what_meets() -> None:
    starts_first = faults()["starts first, ends unknown"]
    assert starts_first["missing"] > 0
    assert starts_first["missing without meets"] == 0


def test_an_open_interval_that_ends_now_hides_what_it_overlaps() -> None:
    assert faults()["ends first, ends now"]["missing without meets"] > 0


def test_an_unknown_end_leaves_false_matches_of_related_open_intervals() -> None:
    unknown = faults()["ends first, ends unknown"]
    assert unknown["missing"] == 0
    assert unknown["false"] > 0


def test_without_related_open_intervals_only_repeats_are_left() -> None:
    unrelated = faults()["and unrelated only"]
    assert unrelated["missing"] == unrelated["false"] == 0
    assert unrelated["repeated"] > 0


def test_the_faithful_reading_is_exact_each_relation_by_itself() -> None:
    each_once = faults()["and each once"]
    assert each_once["missing"] == each_once["false"] == each_once["repeated"] == 0


def test_printed_reports_what_its_reading_does() -> None:
    rng = Random(5)
    given = brute.pattern(rng, 3)
    times, masks = brute.stream(rng, 3, 200)
    options = READINGS["as printed"] | {"purge_open": False}
    printed = found("tpstream-printed", given, times, masks)
    assert printed == found("tpstream-published", given, times, masks, **options)


def test_what_began_before_the_window_is_not_matched_when_it_ends() -> None:
    # [0, 9) overlaps [5, ...): known at 9, which is 9 after the start.
    times, masks = np.array([0, 5, 9, 12]), np.array([1, 3, 2, 0])
    for window, count in ((9, 1), (8, 0)):
        given = Pattern(2, ((0, 1, Relation.OVERLAPS),), window)
        assert run("tpstream", given, times, masks).count == count
        assert run("tpstream-published", given, times, masks).count == count
        # The text purges the buffers only, before what ends at this instant comes into them.
        unchecked = run("tpstream-published", given, times, masks, purge_open=False)
        assert unchecked.count == 1


def test_a_complete_group_is_known_at_the_later_start_in_the_corrected_form_only() -> None:
    times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
    group = Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS
    given = Pattern(2, ((0, 1, group),), 9)
    assert found("tpstream", given, times, masks) == [(2, 1, 2)]
    assert found("tpstream-published", given, times, masks) == [(3, 1, 2)]


def test_combinations_grow_exponentially_as_published_and_not_when_corrected() -> None:
    def work(symbols: int) -> tuple[int, int]:
        # All overlap the next one and none ends before the last has started.
        times = np.arange(2 * symbols + 1)
        masks = np.array(
            [(1 << at + 1) - 1 for at in range(symbols)]
            + [((1 << symbols) - 1) & ~((1 << at + 1) - 1) for at in range(symbols)]
            + [0]
        )
        chain = tuple((at, at + 1, Relation.OVERLAPS) for at in range(symbols - 1))
        given = Pattern(symbols, chain, 100)
        published = run("tpstream-published", given, times, masks)
        corrected = run("tpstream", given, times, masks)
        assert published.count == corrected.count == 1
        return published.counters["subsets"], corrected.counters["matcher_calls"]

    small, large = work(6), work(12)
    assert large[0] > 30 * small[0]
    assert large[1] < 3 * small[1]


@pytest.mark.parametrize("costs", ["paper", "fixed"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_plans_and_their_adaption_change_no_answer(costs: str, alpha: float) -> None:
    rng = Random(11)
    chain = ((0, 1, Relation.BEFORE), (0, 2, Relation.BEFORE), (1, 2, Relation.BEFORE))
    given = Pattern(3, chain, 60)
    times, masks = brute.stream(rng, 3, 400)
    expected = found("tpstream", given, times, masks)
    result = run("tpstream", given, times, masks, costs=costs, alpha=alpha)
    assert [tuple(row) for row in sorted_matches(result.matches).tolist()] == expected
    assert (result.counters["plans"] > 0) == (alpha > 0)
    assert result.counters["peak_stored"] > 3


def test_the_first_plan_leaves_the_least_selective_join_to_the_last() -> None:
    given = Pattern(3, ((0, 1, Relation.BEFORE), (0, 2, Relation.EQUALS)), 9)
    tables = tables_of(given)
    sizes = np.full(3, 100.0)
    for as_printed in (False, True):
        orders = best_orders(tables, sizes, initial_selectivities(given), as_printed)
        # From 0: the equal one first. From 1 and 2 there is no choice without a cross product.
        assert orders.tolist() == [[0, 2, 1], [1, 0, 2], [2, 0, 1]]


def test_the_initial_selectivities_of_all_relations_add_up_to_one() -> None:
    everything = Relation(sum(ALLEN))
    shares = initial_selectivities(Pattern(2, ((0, 1, everything),), 9))
    assert shares[0, 1] == shares[1, 0] == pytest.approx(1.0, abs=0.03)
