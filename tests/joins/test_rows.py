"""Intervals that come ready-made, as rows, alone and beside runs: against enumeration.

Random scenes mix symbols of both, rows that are known at their end, at their start and with both
endpoints at their start, equal endpoints, open ends, bounds, windows and all ways to report.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

import piestream as ps
from tests.joins.rows import Given, Scene, expected, found, random_scene

WAYS = ("whole", "pieces", "moved")


def check(scene: Scene, seed: int = 0) -> int:
    """Hold every way against the enumeration; gives how many rows there are."""
    wanted = expected(scene)
    for way in WAYS:
        assert found(scene, way, Random(seed)) == wanted, way
    return len(wanted)


def test_random_scenes(seeds: list[int]) -> None:
    met = 0
    for seed in seeds:
        scene = random_scene(seed)
        if scene is not None:
            met += check(scene, seed)
    assert met or seeds[0]


_RANGES = [
    "before", "after", "before; after", "after; met-by; overlapped-by", "before; during; contains",
    "before; meets; overlaps; starts; during", "before; meets; overlaps; finished-by; contains",
]  # fmt: skip


def test_random_scenes_with_ranges(seeds: list[int]) -> None:
    met = 0
    for seed in seeds:
        scene = random_scene(seed)
        if scene is None:
            continue
        rng = Random(f"ranges {seed}")
        ends = [(clause.split()[0], clause.split()[-1]) for clause in scene.clauses]
        scene = replace(scene, clauses=tuple(f"{x} {rng.choice(_RANGES)} {y}" for x, y in ends))
        try:
            scene.query  # noqa: B018
        except ps.QueryError:  # around a cycle
            continue
        met += check(scene, seed)
    assert met or seeds[0]


def test_random_scenes_with_join_keys(seeds: list[int]) -> None:
    met = 0
    for seed in seeds:
        scene = random_scene(seed)
        if scene is None or len(scene.symbols) < 2:
            continue
        rng = Random(f"keys {seed}")
        pairs = list(combinations(scene.symbols, 2))
        keyed = replace(scene, keys=rng.sample(pairs, rng.randint(1, min(2, len(pairs)))))
        wanted = [row for row in expected(scene) if has_equal_keys(keyed, row)]
        for way in WAYS:
            assert found(keyed, way, Random(seed)) == wanted, (seed, way)
        met += len(wanted)
    assert met or seeds[0]


def has_equal_keys(scene: Scene, row: tuple[object, ...]) -> bool:
    """Whether the first values that a row holds of the symbols of each key are equal, and known."""
    values = row[-5 * len(scene.symbols) - len(scene.clauses) :]
    first = {name: values[5 * n + 2] for n, name in enumerate(scene.symbols)}
    return all(first[x] is not None and first[x] == first[y] for x, y in scene.keys)


def test_a_run_that_is_refused_after_its_window_takes_no_pairs_along() -> None:
    """What it was paired with is in no list any more; to take it back once more never ended."""
    rows = [
        *rows_of("start", (31, 35), (37, 38), (16, 37), (31, 35), (31, 35), symbols="a"),
        *rows_of("start", (16, 31), (12, 37), (12, None), (13, 35), (4, 8), symbols="a"),
    ]
    times = [1, 4, 8, 11, 12, 13, 14, 16, 31, 35, 37, 38]
    holds = {"b": [time in (1, 8, 11, 14, 16, 31, 38) for time in times]}
    bounds = {"a": "AT MOST 6", "b": "AT LEAST 3 AT MOST 9"}
    scene = Scene(
        ("a overlaps; finished-by; contains b",), 9, holds, times, rows, "a", bounds=bounds
    )
    assert check(scene, 2165) == 0


def rows_of(kind: str, *spans: tuple[int, int | None], symbols: str) -> list[Given]:
    return [Given(start, end, symbols, kind) for start, end in spans]


def scene_of(
    *clauses: str, rows: list[Given], of_rows: str = "ab", within: int = 100, **more: object
) -> Scene:
    """A scene with an event at each endpoint."""
    times = sorted({t for row in rows for t in (row.start, row.end) if t is not None})
    return Scene(clauses, within, {}, times, rows, of_rows, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "detected"), [("end", 9), ("start", 7), ("both", 5)], ids=["end", "start", "both"]
)
def test_the_earlier_the_rows_the_earlier_the_match(kind: str, detected: int) -> None:
    """`overlaps` is certain when both have come, when the first has ended, when the second begins."""
    rows = [*rows_of(kind, (2, 7), symbols="a"), *rows_of(kind, (5, 9), symbols="b")]
    scene = scene_of("a overlaps b", rows=rows)
    (row,) = expected(scene)
    assert row[0] == detected
    assert check(scene) == 1


def test_an_open_interval_decides_what_any_end_allows() -> None:
    """At the start of b inside a, whose ends are both to come, the three relations are certain."""
    rows = [*rows_of("start", (2, 7), symbols="a"), *rows_of("start", (5, None), symbols="b")]
    scene = scene_of("a overlaps; finished-by; contains b", rows=rows)
    (row,) = expected(scene)
    assert row[0] == 5
    assert check(scene) == 1


def test_hundreds_that_start_and_end_together() -> None:
    spans = [(3, 8)] * 60
    rows = [
        *rows_of("start", *spans, symbols="a"),
        *rows_of("start", *spans, (3, 9), (2, 8), symbols="b"),
    ]
    assert check(scene_of("a equals b", rows=rows)) == 60 * 60
    assert check(scene_of("a starts b", rows=rows)) == 60
    assert check(scene_of("a finishes b", rows=rows)) == 60


def test_two_symbols_never_bind_the_same_row() -> None:
    rows = rows_of("end", (1, 4), (1, 4), (2, 6), symbols="ab")
    assert check(scene_of("a equals b", rows=rows)) == 2
    within = scene_of("a starts; equals; overlaps; during; contains b", rows=rows)
    assert check(within) == 4


def test_rows_of_unconstrained_symbols_are_not_the_same_either() -> None:
    rows = [
        *rows_of("end", (1, 4), (2, 6), symbols="ac"),
        *rows_of("end", (0, 9), symbols="b"),
    ]
    scene = scene_of("a during b", "b contains c", rows=rows, of_rows="abc")
    assert check(scene) == 2


@pytest.mark.parametrize("kind", ["start", "both"])
def test_nothing_of_either_symbol_touches_the_gap_of_followed_by(kind: str) -> None:
    pair = [*rows_of(kind, (1, 4), symbols="a"), *rows_of(kind, (6, 9), symbols="b")]
    assert check(scene_of("a followed-by b", rows=pair)) == 1
    for touching, symbols in (((2, 5), "a"), ((5, 7), "a"), ((0, 8), "b"), ((5, 6), "b")):
        rows = [*pair, *rows_of(kind, touching, symbols=symbols)]
        scene = scene_of("a followed-by b", rows=rows)
        assert (4, 6) not in [(row[2], row[6]) for row in expected(scene)]
        check(scene)
    beside = [*pair, *rows_of(kind, (6, 8), symbols="a"), *rows_of(kind, (0, 4), symbols="b")]
    assert check(scene_of("a followed-by b", rows=beside)) == 1


def test_what_began_before_the_window_still_touches_the_gap() -> None:
    rows = [
        *rows_of("start", (1, 70), symbols="a"),
        *rows_of("start", (50, 60), (75, 78), symbols="a"),
        *rows_of("start", (64, 66), (80, 82), symbols="b"),
    ]
    scene = scene_of("a followed-by b", rows=rows, within=30)
    ((_, start, *_),) = expected(scene)
    assert start == 75
    check(scene)


def test_refused_durations_are_not_there() -> None:
    rows = [
        *rows_of("start", (1, 3), (1, 9), symbols="a"),
        *rows_of("end", (2, 8), (2, 20), symbols="b"),
    ]
    bounds = {"a": "AT LEAST 4", "b": "AT MOST 10"}
    scene = scene_of("a contains b", rows=rows, bounds=bounds)
    assert check(scene) == 1


def test_a_ring_grows_while_pairs_wait_to_be_inserted() -> None:
    """They are in no bucket yet, when the others are put into those of the larger ring."""
    rows = [
        *rows_of("both", (6, 20), (7, 20), (10, 20), (10, 21), symbols="a"),
        *rows_of("start", *[(10, 15)] * 4, *[(10, 17)] * 4, symbols="b"),
        *rows_of("start", *[(10, 16)] * 4, *[(10, 18)] * 4, symbols="c"),
    ]
    earlier = "a overlaps; finished-by; contains b"
    either = "a overlaps; finished-by; contains; starts; equals; started-by c"
    scene = scene_of(earlier, either, "b starts c", rows=rows, of_rows="abc")
    assert check(scene) == 2 * (4 * 8 + 4 * 4)


def test_partners_of_what_is_refused_may_come_together() -> None:
    """Their pairs are in no list yet, and in no bucket, when room is made for more of them."""
    rows = [
        *rows_of("both", (5, 100), (6, 20), symbols="a"),
        *rows_of("start", *[(10, 15)] * 4, symbols="b"),
        *rows_of("start", *[(10, 16)] * 4, symbols="c"),
    ]
    clauses = [f"a overlaps; finished-by; contains; followed-by {other}" for other in "bc"]
    bounds = {"a": "AT MOST 20"}
    scene = scene_of(*clauses, "b starts c", rows=rows, of_rows="abc", bounds=bounds)
    assert check(scene) == 4 * 4


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
def test_matches_wait_for_ends_that_come_long_after_the_window(emit: str) -> None:
    """What still waits keeps its slot, while ninety come and go behind it."""
    rows = [
        *rows_of("start", (1, 400), symbols="a"),
        *rows_of("start", (2, 4), symbols="b"),
        *(Given(t, t + 2, "ab", "start") for t in range(60, 330, 3)),
    ]
    times = sorted({t for row in rows for t in (row.start, row.end) if t is not None})
    scene = Scene(("a contains b",), 40, {}, times, rows, "ab", emit)
    assert check(scene) == {"TRIGGER": 1, "COMPLETION": 0, "BOTH": 2}[emit]


def test_the_order_of_rows_within_an_instant_says_nothing() -> None:
    scene = random_scene(11)
    assert scene is not None
    wanted = found(scene, "whole", Random(0))
    for seed in range(1, 6):
        assert found(scene, "whole", Random(seed)) == wanted


def test_window_edges_count() -> None:
    rows = [*rows_of("end", (1, 4), symbols="a"), *rows_of("end", (6, 11), symbols="b")]
    for within, matches in ((10, 1), (9, 0)):
        assert check(replace(scene_of("a before b", rows=rows), within=within)) == matches
