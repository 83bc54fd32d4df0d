"""Which symbols may end last: against random intervals that are in the relations."""

from __future__ import annotations

from random import Random

import pytest

from piestream.automata import may_end_last
from piestream.relations import ALLEN, Relation, relation_of


def test_who_is_inside_another_one_does_not_end_last() -> None:
    assert may_end_last(2, [(0, 1, Relation.DURING)]) == [1]
    assert may_end_last(2, [(0, 1, Relation.FINISHES)]) == [0, 1]


def test_an_end_before_a_start_is_before_its_end_too() -> None:
    chain = [(0, 1, Relation.BEFORE | Relation.MEETS), (1, 2, Relation.OVERLAPS | Relation.STARTS)]
    assert may_end_last(3, chain) == [2]


def test_what_relations_leave_open_is_not_ruled_out() -> None:
    either = Relation.BEFORE | Relation.AFTER
    assert may_end_last(3, [(0, 1, either), (1, 2, Relation.MEETS)]) == [0, 2]


def test_followed_by_is_before() -> None:
    assert may_end_last(2, [(0, 1, Relation.FOLLOWED_BY)]) == [1]


@pytest.mark.parametrize("seed", range(20))
def test_whoever_ends_last_in_some_intervals_may(seed: int) -> None:
    rng = Random(seed)
    for _ in range(50):
        n = rng.randint(2, 5)
        spans = []
        for _ in range(n):
            start = rng.randint(0, 8)
            spans.append((start, start + rng.randint(1, 8)))
        constraints = []
        for y in range(1, n):
            x = rng.randrange(y)
            allowed = relation_of(*spans[x], *spans[y])
            for relation in rng.sample(ALLEN, rng.randint(0, 3)):
                allowed |= relation
            constraints.append((x, y, allowed))
        latest = max(end for _, end in spans)
        last = {s for s, (_, end) in enumerate(spans) if end == latest}
        assert last <= set(may_end_last(n, constraints))
