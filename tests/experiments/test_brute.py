"""The enumeration that the methods are held against: its decision rules, worked out by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from experiments.peers.pattern import Pattern
from piestream.relations import Relation
from tests.experiments import brute

INSIDE = Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS


@pytest.mark.parametrize(
    ("rule", "reports"), [("sets", [2, 2]), ("alone", [3, None]), ("completion", [4, None])]
)
def test_each_rule_reports_when_it_knows(rule: str, reports: list[int | None]) -> None:
    """Here a is [1, 3) and b [2, 4); all that is known at 2 is that b starts inside of a."""
    given = Pattern(2, ((0, 1, INSIDE),), 100)
    for masks, report in zip(([1, 3, 2, 0], [1, 3]), reports, strict=True):
        times = np.arange(1, len(masks) + 1)
        wanted = [] if report is None else [(report, 1, 2)]
        assert brute.matches(given, times, np.array(masks), rule) == wanted


def test_windows_are_measured_at_the_report() -> None:
    times, masks = np.array([1, 2, 3, 4]), np.array([1, 3, 2, 0])
    given = Pattern(2, ((0, 1, INSIDE),), 2)
    assert brute.matches(given, times, masks) == [(2, 1, 2)]
    assert brute.matches(given, times, masks, "alone") == [(3, 1, 2)]
    assert brute.matches(given, times, masks, "completion") == []


def test_a_pair_waits_for_what_must_last() -> None:
    times, masks = np.array([1, 2, 5, 6]), np.array([1, 3, 3, 0])
    given = Pattern(2, ((0, 1, INSIDE),), 100, at_least=(0, 3))
    assert brute.matches(given, times, masks) == [(5, 1, 2)]
    assert brute.matches(given, times, masks, "alone") == [(6, 1, 2)]


def test_deciding_relation_by_relation_is_never_earlier_and_sometimes_later() -> None:
    later = 0
    for seed in range(60):
        rng = Random(seed)
        given = brute.pattern(rng, 2)
        times, masks = brute.stream(rng, 2, 30)
        given = Pattern(2, given.constraints, 10_000)
        sets = {m[1:]: m[0] for m in brute.matches(given, times, masks)}
        alone = {m[1:]: m[0] for m in brute.matches(given, times, masks, "alone")}
        assert alone.keys() <= sets.keys()
        assert all(sets[starts] <= alone[starts] for starts in alone)
        later += sum(sets[starts] < alone[starts] for starts in alone)
    assert later > 20
