"""Closed difference bounds against brute force over small integers."""

from __future__ import annotations

from itertools import combinations, product
from random import Random

import pytest

from piestream.automata.differences import Bound, clashing_parts, close
from piestream.relations import ALLEN, Relation, relation_of

Intervals = dict[str, tuple[int, int]]


def drawn(
    rng: Random, symbols: str, most: int
) -> tuple[dict[tuple[str, str], Relation], list[Bound]]:
    relations = {
        pair: Relation(sum(rng.sample(ALLEN, rng.choice((1, 2, 4, 9)))))
        for pair in combinations(symbols, 2)
        if rng.random() < 0.7
    }
    bounds = []
    for number in range(rng.randint(1, 4)):
        x, y = rng.sample(symbols, 2) if rng.random() < 0.8 else rng.choice(symbols) * 2
        ends = rng.choice(("ts", "te")), rng.choice(("ts", "te"))
        if x == y and ends[0] == ends[1]:
            continue
        length = rng.randint(-most, most)
        bounds.append(Bound((x, ends[0]), (y, ends[1]), length, rng.random() < 0.3, number))
    return relations, bounds


def keeps(
    placed: Intervals,
    relations: dict[tuple[str, str], Relation],
    bounds: list[Bound],
    instants: int = 1,  # of each time
) -> bool:
    def at(end: tuple[str, str]) -> int:
        return placed[end[0]][end[1] == "te"] // instants

    for bound in bounds:
        difference = at(bound.end) - at(bound.since)
        if difference > bound.most or (bound.is_strict and difference == bound.most):
            return False
    return all(relation_of(*placed[x], *placed[y]) & r for (x, y), r in relations.items())


def placements(symbols: str, last: int) -> list[Intervals]:
    spans = list(combinations(range(last + 1), 2))
    return [
        dict(zip(symbols, chosen, strict=True)) for chosen in product(spans, repeat=len(symbols))
    ]


@pytest.mark.parametrize("instants", [1, 2], ids=["times", "events of one time"])
def test_nothing_that_intervals_can_do_is_refused_or_narrowed_away(instants: int) -> None:
    every = placements("abc", 5)
    rng = Random(1)
    met = refused = 0
    for _ in range(120):
        relations, bounds = drawn(rng, "abc", 4 // instants)
        held = [one for one in every if keeps(one, relations, bounds, instants)]
        found = close("abc", relations, bounds, has_equal_times=instants > 1)
        met += bool(held)
        refused += found is None
        if not held:
            continue
        assert found is not None, (relations, bounds)
        for x, y in found.relations:
            assert all(relation_of(*one[x], *one[y]) & found.relations[x, y] for one in held)
        for (x, of_x), (y, of_y) in product(product("abc", ("ts", "te")), repeat=2):
            most = found.most((x, of_x), (y, of_y))
            if most is not None:
                for one in held:
                    end, since = one[x][of_x == "te"], one[y][of_y == "te"]
                    difference = end // instants - since // instants
                    assert difference < most[0] or (difference == most[0] and not most[1])
    assert met > 30
    assert refused > 20


def test_two_symbols_are_refused_exactly_if_no_intervals_keep_what_is_said() -> None:
    """Between whole numbers there are others: fifths are as many as two intervals need."""
    steps = 5
    every = placements("ab", 2 * steps + 2)
    rng = Random(2)
    met = 0
    for _ in range(80):
        relations, bounds = drawn(rng, "ab", 1)
        scaled = [Bound(b.end, b.since, b.most * steps, b.is_strict, b.part) for b in bounds]
        possible = any(keeps(one, relations, scaled) for one in every)
        assert (close("ab", relations, bounds) is not None) is possible, (relations, bounds)
        met += possible
    assert 20 < met < 75


def test_the_parts_that_clash_are_as_few_as_may_be() -> None:
    rng = Random(3)
    clashes = 0
    for _ in range(60):
        relations, bounds = drawn(rng, "abcd", 3)
        found = clashing_parts("abcd", relations, bounds)
        assert (found is None) is (close("abcd", relations, bounds) is not None)
        if found is None:
            continue
        clashes += 1
        for left_out in found:
            rest = [part for part in found if part != left_out]
            kept = {pair: relations[pair] for pair in relations if pair in rest}
            assert close("abcd", kept, [b for b in bounds if b.part in rest]) is not None
    assert clashes > 10


@pytest.mark.parametrize("length", [1 << 62, 1 << 80])
def test_a_length_beyond_all_times_bounds_nothing(length: int) -> None:
    bounds = [Bound(("a", "te"), ("b", "ts"), length), Bound(("b", "te"), ("a", "ts"), -length)]
    found = close("ab", {}, bounds[:1])
    assert found is not None
    assert found.most(("a", "te"), ("b", "ts")) is None
    assert close("ab", {}, bounds) is not None


def test_bounds_add_up_along_a_chain() -> None:
    relations = {("a", "b"): Relation.BEFORE, ("b", "c"): Relation.MEETS}
    bounds = [Bound(("b", "te"), ("a", "te"), 7, True), Bound(("c", "te"), ("c", "ts"), 3)]
    found = close("abc", relations, bounds)
    assert found is not None
    assert found.most(("c", "te"), ("a", "te")) == (10, True)
    assert found.relations["a", "c"] == Relation.BEFORE
    assert found.most(("a", "te"), ("b", "ts")) == (0, True)


def test_a_sum_too_large_for_a_bound_makes_nothing_impossible() -> None:
    """Distances of years in nanoseconds: whole numbers have no room for their sums."""
    days = 24 * 60 * 60 * 10**9
    bounds = []
    for x, y in ("ab", "bc", "cd"):
        bounds.append(Bound((y, "ts"), (x, "ts"), 800 * days))
        bounds.append(Bound((x, "ts"), (y, "ts"), -700 * days))
    found = close("abcd", {}, bounds)
    assert found is not None
    assert found.most(("b", "ts"), ("a", "ts")) == (800 * days, False)
    most = found.most(("d", "ts"), ("a", "ts"))
    assert most is None or most[0] >= 3 * 800 * days
    least = found.most(("a", "ts"), ("d", "ts"))
    assert least is None or least[0] >= -3 * 800 * days
    assert close("ab", {}, [*bounds[:1], Bound(("a", "ts"), ("b", "ts"), -801 * days)]) is None


def test_bounds_of_decades_in_nanoseconds_are_bounds() -> None:
    decades = 30 * 365 * 24 * 3600 * 10**9
    found = close("ab", {}, [Bound(("b", "ts"), ("a", "te"), decades)])
    assert found is not None
    assert found.most(("b", "ts"), ("a", "te")) == (decades, False)
    assert found.most(("a", "te"), ("b", "ts")) is None
    assert found.most(("b", "te"), ("a", "ts")) is None
