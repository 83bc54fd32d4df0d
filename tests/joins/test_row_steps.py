"""What intervals that come as rows cost: counted in steps, where most of what is held is no partner.

The work may grow as the intervals, their pairs and the matches do, with a logarithm for the orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

import pytest

from experiments.comparisons.iseq_sweeps import Load
from piestream.engine.combined import open_stream
from piestream.plan.combined import bind_combined
from tests.joins.rows import Given, Scene, batch_of, detector_of, rows_of
from tests.joins.test_steps import (
    CHAIN,
    LEAVES,
    STAR,
    chain_of_nests,
    leaves_of_which_one_lives,
    star_whose_leaves_are_dead,
    star_with_a_dead_arm,
)

EVER = 10**9
KINDS = ["end", "start", "both"]
#: For each interval, pair and match, times the logarithm of the number of intervals.
MOST = 4
Spans = Mapping[str, Sequence[tuple[int, int]]]


def work_of(
    clauses: Sequence[str], spans: Spans, kind: str, within: int = EVER
) -> tuple[int, int, int]:
    """How many intervals there are, the steps and visits that they took, and the result rows."""
    rows = [Given(s, e, name, kind) for name, some in spans.items() for s, e in some]
    times = sorted({t for row in rows for t in (row.start, row.end) if t is not None})
    scene = Scene(tuple(clauses), within, {}, times, rows, "".join(spans))
    binding, detector = detector_of(scene)
    found = detector.detect(batch_of(scene, binding, 0, len(times), rows_of(scene)))
    return len(rows), detector.work.steps + detector.work.visits, len(found)


def allowed(intervals: int, pairs: int, matches: int) -> float:
    return MOST * (intervals + pairs + matches) * max(1.0, log2(intervals))


def nested(n: int) -> list[tuple[int, int]]:
    """Each holds the next one."""
    return [(1 + i, 10_000 - i) for i in range(n)]


def beside(n: int, first: int) -> list[tuple[int, int]]:
    return [(first + 4 * i, first + 4 * i + 2) for i in range(n)]


#: Hundreds are held that could be looked at in vain: the constraint, the intervals, and the pairs.
SHAPES = {
    "long ones over short ones": ("a overlaps b", {"a": nested(300), "b": beside(300, 2_000)}, 0),
    "short ones in long ones": (
        "a overlapped-by b",
        {"a": beside(300, 2_000), "b": nested(300)},
        0,
    ),
    "long ones, the shorter met": ("b contains a", {"a": nested(300), "b": beside(300, 2_000)}, 0),
    "equal starts": (
        "a equals b",
        {"a": [(5, 100 + i) for i in range(300)], "b": [(5, 1_100 + i) for i in range(300)]},
        0,
    ),
    "equal ends": (
        "a equals b",
        {"a": [(i + 1, 2_000) for i in range(300)], "b": [(i + 700, 2_000) for i in range(300)]},
        0,
    ),
    "starts of others": (
        "a starts b",
        {
            "a": [(2 * i + 1, 1_000) for i in range(300)],
            "b": [(2 * i + 2, 2_000) for i in range(300)],
        },
        0,
    ),
    "one partner each": (
        "a equals b",
        {"a": [(5, 100 + i) for i in range(300)], "b": [(5, 100 + i) for i in range(300)]},
        300,
    ),
    "one after all": ("a before b", {"a": beside(300, 5), "b": [(3_000, 3_005)]}, 300),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_no_partner_is_not_looked_at(name: str, kind: str) -> None:
    clause, spans, matches = SHAPES[name]
    intervals, work, found = work_of([clause], spans, kind)
    assert found == matches
    assert work <= allowed(intervals, found, found)


def keyed_work(of_rows: str, clause: str, kind: str, n: int) -> tuple[int, int]:
    """The work that pairs of equal values take in a range, of rows and of runs; and the matches."""
    spans = {"a": beside(n, 1), "b": beside(n, 4 * n + 10)}
    times = list(range(1, 9 * n + 20))
    # runs have the value of their first event, and rows the same
    rows = [Given(s, e, x, kind, (s - 1) % 7) for x in of_rows for s, e in spans[x]]
    holds = {
        x: [any(s <= t < e for s, e in spans[x]) for t in times] for x in "ab" if x not in of_rows
    }
    scene = Scene((clause,), EVER, holds, times, rows, of_rows, keys=[("a", "b")])
    binding, detector = detector_of(scene)
    found = detector.detect(batch_of(scene, binding, 0, len(times), rows_of(scene)))
    return detector.work.steps, len(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_rows", ["ab", "a", "b"])
@pytest.mark.parametrize("clause", ["a before b", "b after a"])
def test_ranges_with_a_join_key_cost_the_intervals_that_have_it(
    clause: str, of_rows: str, kind: str
) -> None:
    n = 70
    steps, matches = keyed_work(of_rows, clause, kind, n)
    assert matches == n * n // 7
    assert steps <= 1.2 * matches + 4 * n


DEAD_ENDS = {
    "star": (STAR, star_with_a_dead_arm, 0),
    "leaves": (LEAVES, star_whose_leaves_are_dead, 0),
    "chain": (CHAIN, chain_of_nests, 0),
    "one": (LEAVES, leaves_of_which_one_lives, 300),
}


@pytest.mark.parametrize("kind", ["end", "start"])
@pytest.mark.parametrize("name", DEAD_ENDS)
def test_dead_ends_cost_their_intervals_and_pairs(name: str, kind: str) -> None:
    """As of runs: what lies three symbols away decides whether anything is entered."""
    clauses, stream, matches = DEAD_ENDS[name]
    spans = stream(100)
    intervals, work, found = work_of(clauses, spans, kind)
    assert found == matches
    pairs = sum(
        work_of([clause], {n: spans[n] for n in clause.split() if n in spans}, kind)[2]
        for clause in clauses
        if all(spans[clause.split()[end]] for end in (0, -1))
    )
    assert work <= allowed(intervals, pairs, found)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_entered_where_no_interval_behind_a_range_can_complete(kind: str) -> None:
    """Before each b lies a y; that it overlaps no z decides whether its a and c are combined."""
    spans = star_with_a_dead_arm(100)
    near = [("b contains a", "ab"), ("b contains c", "bc")]
    clauses = [*(clause for clause, _ in near), "b after y", "z overlaps y"]
    intervals, work, found = work_of(clauses, {n: spans[n] for n in "abcyz"}, kind)
    assert found == 0
    pairs = sum(work_of([clause], {n: spans[n] for n in x}, kind)[2] for clause, x in near)
    assert work <= allowed(intervals, pairs, found)


def mixed_work(
    clauses: Sequence[str], spans: Spans, kind: str, of_rows: str, within: int
) -> tuple[int, int, int]:
    """As `work_of`, where the intervals of some symbols come as rows and the others are runs."""
    names = sorted(spans)
    times = sorted({t for some in spans.values() for span in some for t in span} | {0})
    rows = [Given(s, e, x, kind) for x in names if x in of_rows for s, e in spans[x]]
    holds = {}
    for x in names:
        if x not in of_rows:
            starts, ends = {s for s, _ in spans[x]}, {e for _, e in spans[x]}
            open_ = False
            holds[x] = [open_ := t in starts or (open_ and t not in ends) for t in times]
    scene = Scene(tuple(clauses), within, holds, times, rows, of_rows)
    binding, detector = detector_of(scene)
    found = detector.detect(batch_of(scene, binding, 0, len(times), rows_of(scene)))
    return sum(map(len, spans.values())), detector.work.steps + detector.work.visits, len(found)


#: Clauses, intervals, how many matches there are, and a window of less than a block.
Behind = tuple[tuple[str, ...], Spans, int, int]


def one_that_ended_too_late(size: int) -> Behind:
    """What ended before b overlaps nothing; what does so ends in b: no a and c are combined."""
    spans = {name: list(star_with_a_dead_arm(size)[name]) for name in "abcy"} | {"z": []}
    for start, _ in star_with_a_dead_arm(size)["b"]:
        spans["y"].append((start + 2, start + 6))
        spans["z"].append((start + 1, start + 5))
    return ("b contains a", "b contains c", "b after y", "z overlaps y"), spans, 0, 9 * size + 70


def one_that_began_too_early(size: int) -> Behind:
    """What begins after the x in l overlaps nothing; what does so begins before them."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "laxyz"}
    for block in range(3):
        zero = 1 + block * (20 * size + 200)
        spans["l"].append((zero, zero + 18 * size + 100))
        spans["z"].append((zero + 1, zero + 5))
        spans["y"].append((zero + 2, zero + 8))
        spans["a"] += beside_of(size, zero + 10)
        spans["x"] += beside_of(size, zero + 12)
        spans["y"].append((zero + 16 * size, zero + 16 * size + 20))
    return ("l contains a", "l contains x", "x before y", "z overlaps y"), spans, 0, 19 * size + 150


def one_of_many_that_ended_before(size: int) -> Behind:
    """Of many y before b one overlaps a z: it alone is taken, with each a in b."""
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in "abyz"}
    spans["y"] = beside_of(size, 1)
    spans["z"] = [(8 * (size // 2), 8 * (size // 2) + 2)]
    begin = 8 * size + 10
    spans["b"] = [(begin, begin + 8 * size + 20)]
    spans["a"] = beside_of(size, begin + 5)
    return ("b contains a", "b after y", "z overlaps y"), spans, size, EVER


def beside_of(n: int, first: int) -> list[tuple[int, int]]:
    return [(first + 8 * i, first + 8 * i + 3) for i in range(n)]


BEHIND_RANGES = {
    "ended too late": one_that_ended_too_late,
    "began too early": one_that_began_too_early,
    "one of many": one_of_many_that_ended_before,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of_rows", ["all", "y", "b", "by", "az", "xy", "lx"])
@pytest.mark.parametrize("name", BEHIND_RANGES)
def test_what_lies_behind_a_range_is_known_of_each_interval(
    name: str, of_rows: str, kind: str
) -> None:
    clauses, spans, matches, within = BEHIND_RANGES[name](400)
    of_rows = "".join(spans) if of_rows == "all" else of_rows
    of_rows = "".join(x for x in of_rows if x in spans) or "y"
    intervals, work, found = mixed_work(clauses, spans, kind, of_rows, within)
    assert found == matches
    pairs = sum(len(spans[x]) for x in spans)  # each lies in one long interval, or touches one
    assert work <= allowed(intervals, pairs, found)


@pytest.mark.parametrize("tenths", [10, 5, 0])
@pytest.mark.parametrize("length", [6, 14])
def test_a_chain_takes_the_steps_of_its_matches(length: int, tenths: int) -> None:
    """ISEQ's load: intervals of one type overlap, and the longer the chain the fewer complete it."""
    load = Load(length=length, tenths=tenths, windows=6)
    frame = load.frame
    stream = open_stream(bind_combined(load.query, {"ev": frame.schema}), lateness=None)
    found = stream.process_inputs({"ev": frame})
    assert len(found) > 500
    intervals = frame.filter(frame["type"] < length).height
    work = stream.detector.work
    # a match binds a symbol a step, and each candidate is found in a tree of some ten intervals
    assert work.steps <= 8 * len(found) + 4 * length * intervals
    assert work.visits <= 30 * intervals


@pytest.mark.parametrize("kind", ["start", "both"])
def test_the_state_is_that_of_the_window(kind: str) -> None:
    """Ten windows of intervals take no more room than two, though some never end."""
    sizes = []
    for windows in (2, 10):
        rows = [Given(t, t + 3 + t % 40, "ab"[t % 2], kind) for t in range(1, 100 * windows)]
        rows += [Given(3 * t, None, "a", "start") for t in range(1, 30 * windows)]
        times = list(range(1, 100 * windows + 60))
        scene = Scene(("a overlaps b",), 100, {}, times, rows, "ab")
        binding, detector = detector_of(scene)
        known = rows_of(scene)
        for first in range(0, len(times), 50):
            end = min(first + 50, len(times))
            detector.detect(batch_of(scene, binding, first, end, known))
            detector.compact(times[end - 1])
        sizes.append(detector.pool.size)
    assert sizes[1] <= 1.5 * sizes[0]
