"""ISEQ: matches of finished intervals, in all three forms; its restrictions and its index path."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from itertools import combinations, pairwise
from operator import or_
from random import Random

import numpy as np
import pytest

from experiments.peers import PEERS, Matcher, run
from experiments.peers.forms import EVENTS
from experiments.peers.parts.restrictions import (
    AT_MOST,
    LESS,
    closure,
    comparisons,
    join_steps,
    longest_path,
)
from experiments.peers.pattern import Pattern, sorted_matches
from piestream.relations import ALLEN, Relation
from tests.experiments import brute

FORMS = ("naive", "ordered", "indexed", "ibp")


def test_all_forms_have_every_match_when_it_is_complete() -> None:
    seen = 0
    for seed in range(1000):
        rng = Random(seed)
        symbols = rng.choice((1, 2, 3, 3, 4))
        given = brute.pattern(rng, symbols, durations=seed % 4 == 0)
        times, masks = brute.stream(rng, symbols, rng.randint(5, 40))
        expected = brute.matches(given, times, masks, "completion")
        for form in FORMS:
            result = run("iseq", given, times, masks, form=form)
            found = [tuple(row) for row in sorted_matches(result.matches).tolist()]
            assert found == expected, (seed, form, given)
        seen += len(expected)
    assert seen > 400


def test_intervals_that_end_together_are_matched() -> None:
    # The literal trigger rule (no construction if another end is bounded by it) finds nothing.
    times, masks = np.array([1, 2, 5]), np.array([1, 3, 0])
    given = Pattern(2, ((0, 1, Relation.FINISHED_BY),), 9)
    for form in FORMS:
        assert run("iseq", given, times, masks, form=form).matches.tolist() == [[5, 1, 2]]


def test_an_entry_outlives_the_one_that_it_points_at() -> None:
    # b points at the newest a, which leaves the window first only if starts and ends disagree;
    # here every a that b may use leaves, and b must leave with them.
    times = np.array([0, 1, 2, 3, 20, 21, 22])
    masks = np.array([1, 0, 2, 0, 4, 0, 0])
    chain = ((0, 1, Relation.BEFORE), (1, 2, Relation.BEFORE))
    within = run("iseq", Pattern(3, chain, 21), times, masks, form="indexed")
    assert within.matches.tolist() == [[21, 0, 2, 20]]
    beyond = run("iseq", Pattern(3, chain, 18), times, masks, form="indexed")
    assert beyond.count == 0
    assert beyond.counters["cascaded"] > 0


def test_starts_that_are_known_drop_more() -> None:
    counts: dict[str, Counter[str]] = {form: Counter() for form in FORMS}
    chain = ((0, 1, Relation.OVERLAPS), (1, 2, Relation.CONTAINS), (2, 3, Relation.BEFORE))
    given = Pattern(4, chain, 60)
    for seed in range(20):
        times, masks = brute.stream(Random(seed), 4, 300)
        for form in FORMS:
            counts[form].update(run("iseq", given, times, masks, form=form).counters)
    assert counts["ibp"]["dropped"] > counts["indexed"]["dropped"] > 0
    assert counts["ibp"]["dropped_starts"] > 0 == counts["indexed"]["dropped_starts"]
    assert counts["ibp"]["probes"] < counts["naive"]["probes"]


def test_stack_pointers_save_probes_where_ends_are_ordered() -> None:
    chain = ((0, 1, Relation.OVERLAPS), (1, 2, Relation.OVERLAPS))
    given = Pattern(3, chain, 400)
    naive = indexed = 0
    for seed in range(10):
        times, masks = brute.stream(Random(seed), 3, 1000)
        naive += run("iseq", given, times, masks, form="naive").counters["probes"]
        indexed += run("iseq", given, times, masks, form="indexed").counters["probes"]
    assert indexed < naive


def test_a_scan_is_over_at_the_first_entry_that_is_too_early() -> None:
    # Windows hold some 30 intervals of each symbol, of which one or two can overlap another.
    given = Pattern(4, tuple((at, at + 1, Relation.OVERLAPS) for at in range(3)), 400)
    probes: Counter[str] = Counter()
    for seed in range(10):
        times, masks = brute.stream(Random(seed), 4, 2000)
        for form in FORMS:
            probes[form] += run("iseq", given, times, masks, form=form).counters["probes"]
    assert probes["ordered"] < probes["naive"] / 3
    assert probes["ibp"] <= probes["indexed"] <= probes["ordered"]


def test_a_cascade_follows_a_purge_through_symbols() -> None:
    # The only a leaves the window; b needs it, c needs b, and d never comes.
    times = np.array([0, 1, 2, 3, 4, 5, 6, 30, 31])
    masks = np.array([1, 0, 2, 0, 4, 0, 16, 0, 16])
    before = ((0, 1, Relation.BEFORE), (1, 2, Relation.BEFORE), (2, 3, Relation.BEFORE))
    for form in FORMS:
        match = PEERS["iseq"].prepare(Pattern(4, before, 29), form=form).match
        purged = Matcher(match, EVENTS).over(times, masks)()  # e is no symbol, but moves the clock
        assert (purged.counters["cascaded"], purged.counters["peak_stored"]) == (2, 3), form
        held = run("iseq", Pattern(4, before, 31), times, masks, form=form)
        assert held.counters["cascaded"] == 0, form


def test_comparisons_express_exactly_the_82_convex_sets() -> None:
    convex = 0
    examples = {relation: tuple(comparisons(relation)) for relation in ALLEN}
    signs = {
        relation: {(of_x, of_y): sign for of_x, of_y, sign in found}
        for relation, found in examples.items()
    }
    for size in range(1, 14):
        for chosen in combinations(ALLEN, size):
            found = comparisons(reduce(or_, chosen))
            agree = [r for r in ALLEN if all(signs[r][a, b] in sign for a, b, sign in found)]
            assert set(chosen) <= set(agree)
            convex += len(agree) == size
    assert convex == 82


def test_restrictions_imply_others_through_a_third_symbol() -> None:
    given = Pattern(3, ((0, 1, Relation.MEETS), (1, 2, Relation.FINISHES)), 9)
    implied = closure(given)
    end_of_0, end_of_1, start_of_2, end_of_2 = 1, 3, 4, 5
    assert implied[end_of_0, end_of_2] == LESS
    assert implied[end_of_1, end_of_2] == implied[end_of_2, end_of_1] == AT_MOST
    assert implied[start_of_2, end_of_0] == LESS


def test_the_index_path_goes_through_ends_and_with_punctuations_through_starts() -> None:
    given = Pattern(3, ((0, 1, Relation.OVERLAPS), (1, 2, Relation.CONTAINS)), 9)
    implied = closure(given)
    assert longest_path(implied, punctuated=False) in ([1, 3], [5, 3])
    path = longest_path(implied, punctuated=True)
    assert all(implied[a, b] == LESS for a, b in pairwise(path))
    assert len({endpoint // 2 for endpoint in path}) == 3


def test_joins_follow_constraints_and_the_index_path_where_it_leads() -> None:
    for seed in range(60):
        given = brute.pattern(Random(seed), 5)
        order, _ = join_steps(given, longest_path(closure(given), punctuated=True))
        for steps in order.tolist():
            for at in range(1, 5):
                assert set(given.neighbours(steps[at])) & set(steps[:at]), (seed, given)
    star = Pattern(3, ((0, 1, Relation.AFTER | Relation.MEETS), (0, 2, Relation.OVERLAPPED_BY)), 9)
    implied = closure(star)
    assert longest_path(implied, punctuated=False) == [5, 1]  # the end of 2, the end of 0
    order, pointer = join_steps(star, [5, 1])
    assert (order[0].tolist(), pointer[0].tolist()) == ([0, 2, 1], [-1, 1, -1])
    assert pointer[1:].tolist() == [[-1, -1, 1], [-1, -1, -1]]


def test_an_unknown_form_is_refused() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(ValueError, match="naive, ordered, indexed, ibp"):
        run("iseq", Pattern(1, (), 9), nothing, nothing, form="fast")
