"""Work is O(runs + pairs + matches) on patterns without cycles: counted in steps, not in time.

The streams are made so that many partial matches exist which nothing completes: what would complete
them lies three symbols away, or has left the window.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from experiments.streams import booleans
from tests.joins.counting import Spans, counted, counted_frame

#: So many steps and visits for each run, pair and match: a match of n symbols takes n - 1 steps,
#: fewer where matches share bindings, and each pair propagates a bound at most once.
MOST = 4
SMALL, LARGE = 40, 400
BETWEEN_NEIGHBOURS = "meets;overlaps;overlapped-by;starts;started-by;contains"
COLUMNS = [f"a{number}" for number in range(1, 7)]


def beads(count: int, begin: int, pitch: int, length: int) -> list[tuple[int, int]]:
    """``count`` short intervals in a row."""
    return [(begin + i * pitch, begin + i * pitch + length) for i in range(count)]


def star_with_a_dead_arm(size: int, blocks: int = 3) -> Spans:
    """``b`` contains many ``a`` and many ``c``; of its arm x, y, z the tip never occurs."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "abcxyz"}
    for block in range(blocks):
        zero = 1 + block * (10 * size + 100)
        end = zero + 8 * size + 40
        spans["y"].append((zero, zero + 4))
        spans["x"].append((zero + 2, zero + 8))
        spans["b"].append((zero + 6, end))
        spans["a"] += beads(size, zero + 10, 8, 3)
        spans["c"] += beads(size, zero + 11, 8, 3)
    return spans


STAR = ("b contains a", "b contains c", "x overlaps b", "y overlaps x", "z overlaps y")


def star_whose_leaves_are_dead(size: int, blocks: int = 3) -> Spans:
    """As before, but it is behind each ``c`` that nothing lies: d, e are there, f never occurs."""
    spans = dict(star_with_a_dead_arm(size, blocks))
    spans = {name: list(spans[name]) for name in "abc"} | {"d": [], "e": [], "f": []}
    for start, end in spans["c"]:
        spans["d"].append((start + 1, end + 1))
        spans["e"].append((start + 2, end + 2))
    return spans


LEAVES = ("b contains a", "b contains c", "c overlaps d", "d overlaps e", "e overlaps f")


def chain_of_nests(size: int, blocks: int = 3) -> Spans:
    """a during b, b overlaps c, c contains d: the many ``a`` meet the many ``d``; g is missing."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "abcdefg"}
    for block in range(blocks):
        zero = 1 + block * (20 * size + 200)
        middle = zero + 8 * size + 20
        end = middle + 8 * size + 60
        spans["b"].append((zero, middle + 10))
        spans["a"] += beads(size, zero + 5, 8, 3)
        spans["c"].append((middle, end))
        spans["d"] += beads(size, middle + 20, 8, 3)
        spans["e"].append((end - 10, end + 10))
        spans["f"].append((end + 5, end + 15))
    return spans


CHAIN = (
    "a during b",
    "b overlaps c",
    "c contains d",
    "c overlaps e",
    "e overlaps f",
    "f overlaps g",
)


def arm_that_expires(size: int, blocks: int = 3) -> Spans:
    """The arm is whole, and a few matches are found; then its tip leaves the window, not ``b``."""
    later = {
        name: [(start + 10 * size, end + 10 * size) for start, end in pairs]
        for name, pairs in star_with_a_dead_arm(size, blocks).items()
    }
    return {**later, "z": [(start - 9 * size, start + 2) for start, _ in later["y"]]}


def window_of_the_expiring_arm(size: int) -> int:
    """So long that ``b`` stays in it to its end, and the tip for some fifteen beads."""
    return 9 * size + 80


def leaves_of_which_one_lives(size: int, blocks: int = 3) -> Spans:
    """Only the first ``c`` of each ``b`` has all that lies behind it: every ``a`` makes a match."""
    spans = dict(star_whose_leaves_are_dead(size, blocks))
    firsts = [spans["e"][block * size] for block in range(blocks)]
    return {**spans, "f": [(start + 1, end + 1) for start, end in firsts]}


EVER = 10**9
DEAD_ENDS = {
    "star": (STAR, star_with_a_dead_arm, lambda size: EVER),
    "leaves": (LEAVES, star_whose_leaves_are_dead, lambda size: EVER),
    "chain": (CHAIN, chain_of_nests, lambda size: EVER),
    "expired": (STAR, arm_that_expires, window_of_the_expiring_arm),
    "one": (LEAVES, leaves_of_which_one_lives, lambda size: EVER),
}


@pytest.mark.parametrize("name", DEAD_ENDS)
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_dead_ends_cost_their_intervals_and_pairs(name: str, size: int) -> None:
    clauses, stream, within = DEAD_ENDS[name]
    count = counted(clauses, stream(size), within(size))
    assert count.work <= MOST * count.found
    # what has to be avoided is there: every one of the many meets every other of the many
    assert count.blind_steps >= size * size


def test_an_arm_lives_until_its_tip_leaves_the_window() -> None:
    """The stream of the case above has matches, and ends that would be found without the window."""
    stream = arm_that_expires(SMALL)
    bitten = counted(STAR, stream, window_of_the_expiring_arm(SMALL))
    whole = counted(STAR, stream, EVER)
    assert 0 < bitten.matches < whole.matches == 3 * SMALL * SMALL
    assert bitten.work < whole.work


def test_one_living_leaf_is_found_among_the_dead() -> None:
    count = counted(LEAVES, leaves_of_which_one_lives(LARGE), EVER)
    assert count.matches == 3 * LARGE


@pytest.mark.parametrize("events", [4_000, 40_000])
@pytest.mark.parametrize("shape", ["chain", "star", "tree"])
@pytest.mark.parametrize("rare", [1, 50])
def test_random_streams_cost_what_they_hold(shape: str, rare: int, events: int) -> None:
    """The last symbol is as frequent as the others, or occurs once in fifty times."""
    ends = {
        "chain": ["ab", "bc", "cd", "de", "ef"],
        "star": ["ab", "ac", "ad", "ae", "af"],
        "tree": ["ab", "bc", "bd", "de", "df"],
    }[shape]
    clauses = [f"{x} {BETWEEN_NEIGHBOURS} {y}" for x, y in ends]
    frame = booleans(6, events, seed=3, ratios=(rare, rare, rare, rare, rare, 1))
    count = counted_frame(clauses, frame.rename(dict(zip(COLUMNS, "abcdef", strict=True))), 10_000)
    assert count.found > events // 60  # there is something to do
    assert count.work <= MOST * count.found


def nest_beside_ranges(size: int, blocks: int = 3) -> Spans:
    """x contains many a and many e; after it, and before it, lie many c, each with its d and w.

    Of the arm c, d, f the tip never occurs, nor does that of w, v.
    """
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "aecdfvwx"}
    for block in range(blocks):
        zero = 1 + block * (20 * size + 100)
        end = zero + 8 * size + 20
        spans["x"].append((zero, end))
        spans["a"] += beads(size, zero + 4, 8, 3)
        spans["e"] += beads(size, zero + 5, 8, 3)
        spans["c"] += beads(size, end + 10, 8, 3)
        spans["d"] += beads(size, end + 12, 8, 3)
        spans["w"] += beads(size, end + 11, 8, 3)
    return spans


def nest_beside_expiring_ranges(size: int, blocks: int = 3) -> Spans:
    """As before, but one long d, v and f make the first c whole until they leave the window."""
    spans = dict(nest_beside_ranges(size, blocks))
    later = {
        name: [(start + 10 * size, end + 10 * size) for start, end in pairs]
        for name, pairs in spans.items()
    }
    first = spans["c"][0][0] + 10 * size
    return {**later, "d": [(first + 2, first + 20 * size)], "f": [(3, first + 3)]}


NEST = ("x contains a", "x contains e")
RANGES = {
    "before": ("a before c", "c overlaps d", "d overlaps f"),
    "after": ("a after c", "c overlaps d", "d overlaps f"),
    "or meets": ("a before;meets c", "c overlaps d", "d overlaps f"),
    "or after": ("a before;after c", "c overlaps d", "d overlaps f"),
    "in a row": ("a before c", "c before d", "d overlaps f"),
    "to and fro": ("a before c", "d before c", "d overlaps f"),
    "two": ("a before c", "c overlaps d", "a before w", "w overlaps v"),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("size", [SMALL, 2 * SMALL])
def test_dead_ends_behind_ranges_are_not_entered(name: str, size: int) -> None:
    count = counted((*NEST, *RANGES[name]), nest_beside_ranges(size, 1), EVER)
    assert count.matches == 0
    assert count.steps <= count.runs
    assert count.work <= MOST * count.found
    assert count.blind_steps >= size * size


@pytest.mark.parametrize("name", ["before", "or meets"])
def test_what_lies_behind_ranges_leaves_the_window(name: str) -> None:
    """What made the first c whole leaves the window while x, its a and e are in it."""
    clauses = (*NEST, *RANGES[name][:2], "d overlapped-by f")
    stream = nest_beside_expiring_ranges(SMALL, 1)
    whole = counted(clauses, stream, EVER)
    bitten = counted(clauses, stream, 18 * SMALL)
    assert whole.matches == SMALL * SMALL > bitten.matches == 0
    assert bitten.steps <= bitten.runs < whole.blind_steps


@pytest.mark.parametrize("seed", range(12))
def test_random_trees_with_ranges_enter_nothing_in_vain(seed: int) -> None:
    """Whatever the constraints: a match takes a step a symbol, and each interval may die once."""
    draw = random.Random(seed)
    words = ["before", "after", "before;meets", "before;after", "overlaps;before", "contains",
             "during;overlapped-by"]  # fmt: skip
    names = "abcdef"[: draw.randint(3, 6)]
    clauses = []
    for number, symbol in enumerate(names[1:], 1):
        ends = draw.sample([symbol, draw.choice(names[:number])], 2)
        clauses.append(f"{ends[0]} {draw.choice(words)} {ends[1]}")
    ratios = tuple(draw.choice((1, 1, 60)) for _ in names)
    frame = booleans(len(names), 2_000, seed=seed, ratios=ratios)
    frame = frame.rename(dict(zip(COLUMNS, names, strict=False)))
    count = counted_frame(clauses, frame, 300)
    assert count.steps <= len(clauses) * count.matches + count.runs
    assert count.visits <= MOST * (count.runs + count.pairs)


@pytest.mark.parametrize("within", [500, 5_000, 50_000])
def test_before_costs_its_matches_whatever_the_window(within: int) -> None:
    frame = booleans(3, 60_000, seed=5).rename(dict(zip(COLUMNS[:3], "abc", strict=True)))
    count = counted_frame(["a before b", "b overlaps c"], frame, within)
    # the ranges of `before` are not entered as pairs, so they do not count as found
    assert count.steps <= 2 * count.matches + count.runs
    assert count.visits <= count.runs


@pytest.mark.parametrize("held", [6, 8, 10])
def test_a_chain_of_before_enters_nothing_that_it_cannot_complete(held: int) -> None:
    """Eight intervals one after the other, where the window holds so many."""
    row = beads(60, 4, 4, 2)
    chain = [f"{x} before {y}" for x, y in pairwise("abcdefgh")]
    count = counted(chain, dict.fromkeys("abcdefgh", row), 4 * held - 2)
    assert (count.matches == 0) == (held < 8)
    assert count.steps <= 7 * count.matches + 2 * count.runs
    assert count.visits == 0
    assert count.blind_steps > 3 * count.steps


def test_a_rare_beginning_of_befores_is_looked_for_once() -> None:
    """Two branches of befores, of which the first symbol of one is rare."""
    frame = booleans(5, 20_000, seed=8, ratios=(1, 20, 20, 20, 20))
    frame = frame.rename(dict(zip(COLUMNS[:5], "abcde", strict=True)))
    count = counted_frame(["a before b", "b before c", "c before e", "d before e"], frame, 1_000)
    assert count.matches > 0
    assert count.steps <= 4 * count.matches
    assert count.blind_steps > 3 * count.steps
