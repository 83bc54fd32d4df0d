"""Allen's algebra against intervals with small integer endpoints."""

from __future__ import annotations

import random
from itertools import combinations, product

import pytest

from piestream.automata import compose, converse
from piestream.relations import (
    ALLEN,
    ENDPOINT_ORDER,
    RELATIONS_BY_ORDER,
    SETS,
    Relation,
    convex_parts,
    inverse,
    relation_of,
    relations_ordered,
)

R = Relation
# Eight positions: more than the six endpoints of three intervals can fill.
INTERVALS = list(combinations(range(8), 2))


def holds(r: R, xs: int, xe: int, ys: int, ye: int) -> bool:
    """The endpoint column of the contract, word for word."""
    return {
        R.BEFORE: xe < ys,
        R.MEETS: xe == ys,
        R.OVERLAPS: xs < ys < xe < ye,
        R.STARTS: xs == ys and xe < ye,
        R.DURING: ys < xs and xe < ye,
        R.FINISHES: ys < xs and xe == ye,
        R.EQUALS: xs == ys and xe == ye,
        R.AFTER: ye < xs,
        R.MET_BY: ye == xs,
        R.OVERLAPPED_BY: ys < xs < ye < xe,
        R.STARTED_BY: xs == ys and ye < xe,
        R.CONTAINS: xs < ys and ye < xe,
        R.FINISHED_BY: xs < ys and xe == ye,
    }[r]


def test_exactly_one_relation_holds_and_relation_of_names_it() -> None:
    for x in INTERVALS:
        for y in INTERVALS:
            assert [r for r in ALLEN if holds(r, *x, *y)] == [relation_of(*x, *y)]
            assert converse(relation_of(*x, *y)) == relation_of(*y, *x)


def test_comparisons_allow_the_relations_that_agree_with_them() -> None:
    """Also where some comparisons are not known, and where the order is impossible."""
    signs = (-1, 0, 1, None)
    for known in product(signs, repeat=4):
        agree = R(0)
        for x, y in product(INTERVALS, repeat=2):
            there = [(a > b) - (a < b) for a, b in product(x, y)]
            if all(k is None or k == t for k, t in zip(known, there, strict=True)):
                agree |= relation_of(*x, *y)
        assert relations_ordered(*known) == agree, known


def test_the_table_of_loops_holds_the_relation_of_every_order() -> None:
    assert sum(map(bool, RELATIONS_BY_ORDER)) == len(ALLEN)
    for relation, order in ENDPOINT_ORDER.items():
        assert RELATIONS_BY_ORDER[order.number] == relation
        assert ENDPOINT_ORDER[inverse(relation)] == order.seen_from_y()


def test_composition_is_what_intervals_show() -> None:
    seen: dict[tuple[R, R], R] = {(r, s): R(0) for r in ALLEN for s in ALLEN}
    between = {(x, y): relation_of(*x, *y) for x in INTERVALS for y in INTERVALS}
    for x in INTERVALS:
        for y in INTERVALS:
            for z in INTERVALS:
                seen[between[x, y], between[y, z]] |= between[x, z]
    for (r, s), relations in seen.items():
        assert compose(r, s) == relations, (r, s)


def test_some_entries_of_allens_paper() -> None:
    everything = R(sum(ALLEN))
    assert compose(R.BEFORE, R.AFTER) == everything
    assert compose(R.DURING, R.DURING) == R.DURING
    assert compose(R.OVERLAPS, R.OVERLAPS) == R.BEFORE | R.MEETS | R.OVERLAPS
    assert compose(R.MEETS, R.MET_BY) == R.FINISHES | R.FINISHED_BY | R.EQUALS
    assert sum(bin(compose(r, s)).count("1") for r in ALLEN for s in ALLEN) == 409


def test_composition_of_sets_is_the_union_and_turns_round() -> None:
    rng = random.Random(5)
    for _ in range(100):
        left, right = (R(rng.randrange(1, 1 << 15)) for _ in range(2))
        union = R(0)
        for r in R:
            for s in R:
                if r & left and s & right:
                    union |= compose(r, s)
        assert compose(left, right) == union
        assert converse(compose(left, right)) == compose(converse(right), converse(left))
        assert compose(left, R.EQUALS) == converse(converse(left))


def test_precise_forms_count_as_the_wide_ones() -> None:
    assert compose(R.FOLLOWED_BY, R.MEETS) == compose(R.BEFORE, R.MEETS)
    assert converse(R.FOLLOWS) == R.BEFORE


def test_what_is_no_interval_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"y = \[4, 4\)"):
        relation_of(0, 1, 4, 4)


def test_parts_of_relations_are_what_ranges_of_signs_allow() -> None:
    rng = random.Random(7)
    for _ in range(500):
        relations = Relation(sum(r for r in ALLEN if rng.random() < rng.choice((0.3, 0.8))))
        parts = convex_parts(relations)
        assert Relation(sum({r for part in parts for r in ALLEN if r & part})) == relations
        for part in parts:
            orders = [ENDPOINT_ORDER[r] for r in ALLEN if r & part]
            ranges = [range(min(signs), max(signs) + 1) for signs in zip(*orders, strict=True)]
            between = {RELATIONS_BY_ORDER[_number(signs)] for signs in product(*ranges)}
            assert Relation(sum(between)) == part


def _number(signs: tuple[int, ...]) -> int:
    return sum(3**place * (sign + 1) for place, sign in enumerate(reversed(signs)))


def test_sets_that_have_a_name_are_few_parts() -> None:
    assert {name: len(convex_parts(relations)) for name, relations in SETS.items()} == {
        "intersects": 1, "disjoint": 2, "covers": 1, "inside": 1, "precedes": 1, "succeeds": 1,
    }  # fmt: skip
