"""Clashes against brute force over intervals with small integer endpoints."""

from __future__ import annotations

import random
import time
from itertools import combinations, pairwise, permutations

import pytest

from piestream.automata import clash, closure, compose, converse
from piestream.automata.allen import allen_of
from piestream.relations import ALLEN, Relation, relation_of

R = Relation
Pair = tuple[str, str]


def solutions(symbols: str, constraints: dict[Pair, R], stop_at_first: bool = False) -> list[dict]:
    """Every way to place the symbols' intervals, by plain backtracking.

    2n positions show every order that the endpoints of n intervals can have.
    """
    intervals = list(combinations(range(2 * len(symbols)), 2))
    found: list[dict] = []
    wanted = {pair: allen_of(relations) for pair, relations in constraints.items()}

    def place(placed: dict) -> bool:
        if len(placed) == len(symbols):
            found.append(dict(placed))
            return stop_at_first
        symbol = symbols[len(placed)]
        for interval in intervals:
            placed[symbol] = interval
            fits = all(
                relation_of(*placed[x], *placed[y]) & relations
                for (x, y), relations in wanted.items()
                if symbol in (x, y) and x in placed and y in placed
            )
            if fits and place(placed):
                return True
            del placed[symbol]
        return False

    place({})
    return found


def satisfiable(symbols: str, constraints: dict[Pair, R]) -> bool:
    return bool(solutions(symbols, constraints, stop_at_first=True))


def drawn(rng: random.Random, symbols: str, most: int) -> dict[Pair, R]:
    constraints = {}
    for x, y in combinations(symbols, 2):
        if rng.random() < 0.85:
            pair = (x, y) if rng.random() < 0.5 else (y, x)
            constraints[pair] = R(sum(rng.sample(list(R), rng.randint(1, most))))
    return constraints


def assert_minimal(symbols: str, constraints: dict[Pair, R], clashing: tuple[Pair, ...]) -> None:
    assert list(clashing) == [pair for pair in constraints if pair in clashing]
    alone = {pair: constraints[pair] for pair in clashing}
    assert clash(symbols, alone) == clashing
    for left_out in clashing:
        assert clash(symbols, {p: r for p, r in alone.items() if p != left_out}) is None


@pytest.mark.parametrize(("symbols", "most"), [("abc", 1), ("abc", 6), ("abcd", 1)])
def test_exact_for_three_symbols_and_for_single_relations(symbols: str, most: int) -> None:
    """Path consistency decides networks of one relation a pair (Allen 1983, Vilain and Kautz
    1986; pairs without a constraint are kept out by filling them in), and any on three symbols."""
    rng = random.Random(11)
    seen = set()
    for _ in range(120):
        constraints = drawn(rng, symbols, most)
        if len(symbols) > 3:  # a pair left open is no single relation
            for x, y in combinations(symbols, 2):
                if (x, y) not in constraints and (y, x) not in constraints:
                    constraints[x, y] = rng.choice(list(R))
            if rng.random() < 0.5:  # most drawn at random clash: make some that do not
                at = {s: rng.choice(list(combinations(range(6), 2))) for s in symbols}
                constraints = {(x, y): relation_of(*at[x], *at[y]) for x, y in constraints}
        clashing = clash(symbols, constraints)
        seen.add(clashing is None)
        assert (clashing is None) == satisfiable(symbols, constraints), constraints
        if clashing is not None:
            assert_minimal(symbols, constraints, clashing)
            assert not satisfiable(symbols, {pair: constraints[pair] for pair in clashing})
    assert seen == {True, False}


def test_never_a_clash_that_is_not_there_on_four_symbols() -> None:
    rng = random.Random(12)
    clashes = 0
    for _ in range(120):
        constraints = drawn(rng, "abcd", 3)
        clashing = clash("abcd", constraints)
        if clashing is not None:
            clashes += 1
            assert not satisfiable("abcd", constraints), constraints
            assert_minimal("abcd", constraints, clashing)
    assert 10 < clashes < 110


def test_closure_on_three_symbols_is_what_the_solutions_show() -> None:
    rng = random.Random(13)
    narrowed = 0
    for _ in range(60):
        constraints = drawn(rng, "abc", 5)
        implied = closure("abc", constraints)
        ways = solutions("abc", constraints)
        assert (implied is None) == (not ways)
        if implied is None:
            continue
        assert {frozenset(pair) for pair in implied} == {
            frozenset(pair) for pair in combinations("abc", 2)
        }
        for (x, y), relations in implied.items():
            seen = R(0)
            for way in ways:
                seen |= relation_of(*way[x], *way[y])
            assert allen_of(relations) == seen, (constraints, x, y)
            if (x, y) in constraints:
                assert relations & constraints[x, y] == relations
                narrowed += relations != constraints[x, y]
    assert narrowed > 10


def test_closure_keeps_followed_by_as_it_was_written() -> None:
    implied = closure("abc", {("b", "a"): R.FOLLOWS | R.MEETS, ("b", "c"): R.EQUALS,
                              ("a", "c"): R.BEFORE})  # fmt: skip
    assert implied == {("b", "a"): R.FOLLOWS, ("b", "c"): R.EQUALS, ("a", "c"): R.BEFORE}


def test_two_constraints_on_one_pair_and_one_that_allows_nothing() -> None:
    assert clash("ab", {("a", "b"): R.MEETS, ("b", "a"): R.MET_BY}) is None
    both = {("a", "b"): R.MEETS, ("b", "a"): R.BEFORE}
    assert clash("ab", both) == (("a", "b"), ("b", "a"))
    assert closure("ab", both) is None
    nothing = {("a", "b"): R.MEETS, ("b", "c"): R(0)}
    assert clash("abc", nothing) == (("b", "c"),)
    assert closure("abc", nothing) is None


def test_loose_ends_do_not_hide_or_join_a_clash() -> None:
    knot = {("a", "b"): R.BEFORE, ("b", "c"): R.BEFORE, ("c", "a"): R.BEFORE}
    ends = {("x", "a"): R.DURING, ("x", "y"): R.MEETS, ("c", "z"): R.OVERLAPS}
    assert clash("abcxyz", {**ends, **knot}) == tuple(knot)
    assert clash("abcxyz", ends) is None


def test_a_clash_round_a_long_cycle_names_all_of_it() -> None:
    symbols = [f"s{i}" for i in range(64)]
    ring = {(symbols[i], symbols[(i + 1) % 64]): R.MEETS | R.BEFORE for i in range(64)}
    assert clash(symbols, ring) == tuple(ring)


def test_sixty_four_symbols_take_no_time() -> None:
    """A guard against a wrong order of growth, with much room: it takes about 0.03 s."""
    symbols = [f"s{i}" for i in range(64)]
    chain = dict.fromkeys(pairwise(symbols), R.MEETS | R.BEFORE)
    began = time.process_time()
    assert clash(symbols, chain) is None
    implied = closure(symbols, chain)
    assert time.process_time() - began < 3
    assert implied is not None
    assert implied["s0", "s63"] == R.BEFORE


def test_path_consistency_narrows_no_further_where_it_stopped() -> None:
    """Few constraints among many symbols: what one narrowing allows has to be followed up."""
    rng = random.Random(14)
    symbols = "abcdefgh"
    for density in (0.2, 0.3, 0.5) * 5:
        at = {s: rng.choice(list(combinations(range(9), 2))) for s in symbols}
        constraints = {
            (x, y): relation_of(*at[x], *at[y]) | rng.choice(ALLEN) | rng.choice(ALLEN)
            for x, y in combinations(symbols, 2)
            if rng.random() < density
        }
        implied = closure(symbols, constraints)
        assert implied is not None
        both_ways = implied | {(y, x): converse(r) for (x, y), r in implied.items()}
        for x, y, z in permutations(symbols, 3):
            through = compose(both_ways[x, y], both_ways[y, z])
            assert allen_of(both_ways[x, z]) & ~through == 0


@pytest.mark.parametrize(
    ("symbols", "pair", "message"),
    [("ab", ("a", "c"), "'c'"), ("ab", ("a", "a"), "itself"), ("aab", ("a", "b"), "twice")],
)
def test_what_makes_no_sense_is_refused(symbols: str, pair: Pair, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clash(symbols, {pair: R.MEETS})
