"""Up to 64 symbols: the last one has the bit of the sign."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import combinations, pairwise

import pytest

from piestream.plan.binding import bind
from tests.joins.counting import stream_of
from tests.joins.streams import Pattern, check

NAMES = [f"s{number:02d}" for number in range(64)]


def chain(words: str, within: int, **options: object) -> Pattern:
    clauses = tuple(f"{x} {words} {y}" for x, y in pairwise(NAMES))
    return Pattern(clauses, within, **options)  # type: ignore[arg-type]


def staircase(steps: int, missing: Mapping[int, int]) -> dict[str, list[tuple[int, int]]]:
    """In each round the symbols follow each other overlapping; of a round one may be missing."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in NAMES}
    for round_ in range(steps):
        zero = 1 + 400 * round_
        for place, name in enumerate(NAMES):
            if missing.get(round_) != place:
                spans[name].append((zero + 4 * place, zero + 4 * place + 6))
    return spans


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
def test_a_chain_of_64(emit: str) -> None:
    frame = stream_of(staircase(5, {1: 63, 2: 0, 3: 31}))
    rows = check(
        chain("overlaps; meets; contains", 300, emit=emit),
        frame,
        ways=("whole", "cut", "restored", "events"),
    )
    assert len(rows) == (4 if emit == "BOTH" else 2)


@pytest.mark.parametrize("place", [0, 63])
@pytest.mark.parametrize("bounds", ["AT LEAST 3", "AT LEAST 7", "AT MOST 6", "AT MOST 5"])
def test_durations_of_one_of_64(place: int, bounds: str) -> None:
    """A minimum falls due at an event that changes another symbol; what it drops is gone."""
    pattern = chain("overlaps", 300, bounds={NAMES[place]: bounds})
    frame = stream_of(staircase(2, {}))
    rows = check(pattern, frame, at_least=0, ways=("whole", "restored", "events"))
    assert len(rows) == (2 if bounds in ("AT LEAST 3", "AT MOST 6") else 0)


@pytest.mark.parametrize(("centre", "emit"), [(0, "BOTH"), (31, "TRIGGER"), (63, "TRIGGER")])
def test_a_star_of_64(centre: int, emit: str) -> None:
    leaves = [name for name in NAMES if name != NAMES[centre]]
    spans: dict[str, list[tuple[int, int]]] = {NAMES[centre]: [(2, 300), (310, 400)]}
    for place, leaf in enumerate(leaves):
        spans[leaf] = [(3 + place, 90 + place), (305 + place % 7, 390)]
    # one leaf has two intervals inside the centre's first, one reaches over its start
    spans[leaves[5]] = [(1, 20), (30, 40), (50, 60)]
    spans[leaves[62]] = [(10, 20), (30, 290)]
    pattern = Pattern(
        tuple(f"{NAMES[centre]} contains; overlapped-by {leaf}" for leaf in leaves), 1_000, emit
    )
    rows = check(pattern, stream_of(spans), ways=("whole", "restored", "events"))
    assert len(rows) == (12 if emit == "BOTH" else 6)


def all_pairs(words: str, names: list[str], within: int) -> Pattern:
    return Pattern(tuple(f"{x} {words} {y}" for x, y in combinations(names, 2)), within)


@pytest.mark.parametrize("seed", range(3))
def test_all_pairs_of_22(seed: int) -> None:
    """Each start may come before or after the others; all are open together for a while."""
    draw = random.Random(seed)
    names = NAMES[:22]
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for begin in (1, 400):
        starts, ends = draw.sample(range(begin, begin + 60), 22), draw.sample(range(90, 150), 22)
        for name, start, end in zip(names, starts, ends, strict=True):
            spans[name].append((start, begin + end))
    for name in draw.sample(names, 4):
        spans[name].append((300, 310))  # overlaps nothing
    pattern = all_pairs("overlaps; overlapped-by; contains; during", names, 200)
    rows = check(pattern, stream_of(spans), ways=("whole", "cut", "restored", "events"))
    assert len(rows) == 2


def test_the_program_of_all_pairs_of_64_is_small() -> None:
    """11,000 words a symbol: the join orders share what they say of symbols and constraints."""
    pattern = all_pairs("overlaps; before; during", NAMES, 200)
    schema = stream_of({name: [(1, 2)] for name in NAMES}).schema
    compiled = bind(pattern.query, schema).compiled
    assert compiled.program.size < 64 * 11_000
    assert all(len(steps) == 62 for name, steps in compiled.steps.items() if "," in name)
