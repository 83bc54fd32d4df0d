"""What cannot be completed is passed over, and nothing else: pruning never loses a match.

Windows are about as long as intervals, so that what was alive a moment ago often no longer is.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import polars as pl
import pytest

from tests.joins.counting import stream_of
from tests.joins.streams import Pattern, check, noise

NEAR = "meets; overlaps; overlapped-by; met-by; contains; during; starts; equals"
TREES = {
    "chain": ("ab", "bc", "cd", "de", "ef"),
    "star": ("ab", "ac", "ad", "ae"),
    "comb": ("ab", "bc", "cd", "be", "cf"),
    "broom": ("ab", "bc", "cd", "ce", "cf"),
}
#: The words of a tree's edges, in turn: of each scan mode, and mixed.
WORDS = {
    "all": (NEAR,),
    "ends": ("meets; overlaps; overlapped-by; met-by",),
    "nests": ("contains; overlaps; started-by; finished-by", "during; meets; starts; equals"),
    "checked": ("followed-by; overlaps; overlapped-by; follows", "followed-by; contains; overlaps"),
    "mixed": (NEAR, "followed-by; overlaps; starts; meets", "before; overlaps", "contains; meets"),
    "both ends": ("before; overlaps; overlapped-by; met-by", NEAR),
    "ranged": ("before; overlaps", NEAR, "after; meets"),
}
#: A rare last symbol, rare first one, rare middle one, and none; `together` makes them touch.
RATES = {
    "last": (0.4, 0.4, 0.4, 0.4, 0.15, 0.03),
    "first": (0.03, 0.3, 0.4, 0.4),
    "middle": (0.5, 0.5, 0.04, 0.5),
    "even": (0.3,),
}


def tree(shape: str, words: str, within: int, **options: object) -> Pattern:
    clauses = tuple(
        f"{x} {WORDS[words][number % len(WORDS[words])]} {y}"
        for number, (x, y) in enumerate(TREES[shape])
    )
    return Pattern(clauses, within, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("shape", TREES)
def test_trees_lose_no_match_as_the_window_moves(shape: str, words: str, seeds: list[int]) -> None:
    met = 0
    for seed in seeds[: len(seeds) // 2]:
        rng = Random(f"{seed} {shape} {words}")
        within, rows = rng.choice([(8, 500), (13, 500), (22, 300)])
        frame = noise(seed, "abcdef", rows, RATES[rng.choice([*RATES])], together=0.2)
        pattern = tree(shape, words, within)
        met += len(check(pattern, frame, at_least=0))
    assert met or seeds[0]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("shape", TREES)
def test_times_before_zero_are_times_as_others(shape: str, words: str) -> None:
    frame = noise(1, "abcdef", 500, RATES["last"], together=0.2)
    pattern = tree(shape, words, 16)
    wanted = len(check(pattern, frame))
    assert len(check(pattern, frame.with_columns(pl.col("ts") - 10_000))) == wanted


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION"])
@pytest.mark.parametrize("bounds", ["AT LEAST 4", "AT MOST 3", "AT LEAST 2 AT MOST 5"])
@pytest.mark.parametrize("shape", TREES)
def test_intervals_that_count_late_or_not_at_all(shape: str, bounds: str, emit: str) -> None:
    """What is not valid gives no bound; when it becomes valid, its bound propagates to all partners."""
    met = 0
    for seed, (symbols, words) in enumerate([("c", "all"), ("b", "mixed"), ("abcdef", "all")]):
        pattern = tree(shape, words, 16, emit=emit, bounds=dict.fromkeys(symbols, bounds))
        pattern = pattern.having(bounds={s: bounds for s in symbols if s in pattern.symbols})
        frame = noise(seed, "abcdef", 300, (0.3, 0.4, 0.2), (1, 1, 2), together=0.1)
        pattern = pattern.having(within=max(16, 4 * len(pattern.bounds)))
        met += len(check(pattern, frame, at_least=0))
    assert met > 0


@pytest.mark.parametrize("within", [40, 60, 100, 400])
def test_a_long_chain_in_a_window_that_holds_some_of_it(within: int) -> None:
    """Two thousand events: a staircase of overlaps in which now and then a step is missing."""
    names = "abcdefgh"
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for block in range(90):
        zero = 1 + 80 * block
        for place, name in enumerate(names):
            if (block * 7 + place) % 23:
                length = 9 + (block * place) % 13
                spans[name].append((zero + 6 * place, zero + 6 * place + length))
                if block % 3 == place % 3:
                    spans[name].append((zero + 6 * place + length + 1, zero + 6 * place + 26))
    pattern = Pattern(tuple(f"{x} {NEAR} {y}" for x, y in pairwise(names)), within)
    rows = check(pattern, stream_of(spans), at_least=0)
    assert bool(rows) is (within > 40)


@pytest.mark.parametrize("tip", [(0, 3), (1, 9), (7, 9), (18, 21), (40, 43)])
@pytest.mark.parametrize("within", [20, 27, 33, 60])
def test_a_tip_that_comes_early_late_or_too_late(within: int, tip: tuple[int, int]) -> None:
    """Around one long b: an arm whose tip makes the matches, wherever the window begins."""
    spans = {
        "b": [(6, 50)],
        "a": [(8 + 4 * i, 10 + 4 * i) for i in range(10)],
        "x": [(2, 12), (13, 15), (45, 60)],
        "y": [tip],
        "z": [(tip[0] + 1, tip[1] + 2)],
    }
    pattern = Pattern(
        ("b contains a", f"x {NEAR} b", f"y {NEAR}; before x", f"z {NEAR} y"), within, emit="BOTH"
    )
    check(pattern, stream_of(spans), at_least=0, ways=("whole", "restored", "events"))


def test_a_later_bound_replaces_an_earlier_one() -> None:
    """A later partner offers a later start: the old best is outlived by it, not kept."""
    spans = {
        "a": [(1, 60)],
        "b": [(5 * i + 2, 5 * i + 5) for i in range(11)],
        "c": [(5 * i + 4, 5 * i + 6) for i in range(11)],
        "d": [(58, 62)],
    }
    for within, matches in ((58, 0), (59, 11), (100, 11)):
        pattern = Pattern(("a contains b", "b overlaps c", "a overlaps d"), within)
        assert len(check(pattern, stream_of(spans), at_least=0)) == matches
