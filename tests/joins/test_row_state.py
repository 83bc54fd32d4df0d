"""What is held of intervals that come as rows, after each instant: intervals, pairs, waiting matches.

The worked example is ISEQ's second one (DEBS 2011): its purges, and what its dropping on the fly comes
to here, where no partial match is stored and what can complete no match is never looked at.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

import piestream as ps
from tests.joins.row_state import steps
from tests.joins.rows import Given, Scene, batch_of, detector_of, rows_of

_SOONER_END = "before; meets; overlaps; starts; during"  # x.te < y.te
_ANY_BUT_MET_BY = (  # x.ts < y.te
    "before; meets; overlaps; finished-by; contains; starts; equals; started-by; during; finishes; "
    "overlapped-by"
)
#: In order of arrival: symbol, start, end.
_TRACE = [
    ("b", 3, 6), ("d", 6, 10), ("b", 9, 11), ("c", 4, 12), ("a", 7, 14), ("d", 9, 15), ("a", 8, 16),
]  # fmt: skip
_ROWS = [Given(start, end, symbol, "end") for symbol, start, end in _TRACE]


def _example(known: str, emit: str = "COMPLETION") -> Scene:
    """ISEQ's Example 2: ``a.ts < b.te < c.te < d.te``; at 35 the clock goes on."""
    rows = [replace(row, known=known) for row in _ROWS]
    instants = {35, *(row.end or 0 for row in rows)}
    if known == "start":
        instants |= {row.start for row in rows}
    clauses = (f"a {_ANY_BUT_MET_BY} b", f"b {_SOONER_END} c", f"c {_SOONER_END} d")
    return Scene(clauses, 29, {}, sorted(instants), rows, "abcd", emit)


def test_after_each_row_of_the_example_so_many_are_held() -> None:
    """Before is no stored pair; c with the two b that ended before it is, and so on."""
    found = {step.time: (step.matches, *step.counts) for step in steps(_example("end"))}
    assert found == {
        6: (0, 1, 0, 0),
        10: (0, 2, 0, 0),  # d needs a c that ended before it, and there is none
        11: (0, 3, 0, 0),
        12: (0, 4, 2, 0),
        14: (0, 5, 3, 0),
        15: (1, 6, 4, 0),  # the second d with c; the first is in no pair
        16: (1, 7, 5, 0),
        35: (0, 5, 2, 0),
    }


@pytest.mark.parametrize("known", ["end", "start"])
def test_the_clock_purges_what_began_before_the_window_with_its_pairs(known: str) -> None:
    before, after = list(steps(_example(known)))[-2:]
    assert before.kept == {
        "a": [(7, 14), (8, 16)], "b": [(3, 6), (9, 11)], "c": [(4, 12)], "d": [(6, 10), (9, 15)],
    }  # fmt: skip
    assert after.kept == before.kept | {"b": [(9, 11)], "c": []}
    assert not any(after.retired.values())
    # a with b is what is left: all pairs of c went with it.
    assert sorted(map(len, after.pairs)) == [0, 0, 2]
    assert {(9, 7), (9, 8)} in after.pairs


def test_what_can_complete_no_match_is_not_looked_at() -> None:
    """ISEQ drops it when it comes; here it is held until it leaves the window, and is passed over.

    Before the example come 300 d that end before every c, and then 40 c.
    """
    hopeless = [Given(2 * t, 2 * t + 1, "d", "end") for t in range(300)]
    rest = [Given(650 + n, 705, "c", "end") for n in range(40)]
    rest += [replace(row, start=row.start + 700, end=(row.end or 0) + 700) for row in _ROWS]
    alone, late = _of_rows(rest), _of_rows([*hopeless, *rest])
    assert [_work(scene)[1] for scene in (alone, late)] == [2, 2]
    # To look at each d from each c would be 12,000.
    assert _work(late)[0] - _work(alone)[0] <= 8 * len(hopeless)


def _of_rows(rows: list[Given]) -> Scene:
    times = sorted({row.end for row in rows if row.end is not None})
    return replace(_example("end"), rows=rows, times=times, within=10_000)


def _work(scene: Scene) -> tuple[int, int]:
    """The steps and visits of a scene, and its matches."""
    binding, detector = detector_of(scene)
    found = detector.detect(batch_of(scene, binding, 0, len(scene.times), rows_of(scene)))
    return detector.work.steps + detector.work.visits, len(found)


def test_matches_wait_for_the_last_of_their_ends() -> None:
    """With rows of beginnings both matches are decided at 12; they are complete at 15 and 16."""
    found = {step.time: (step.matches, step.waiting) for step in steps(_example("start", "BOTH"))}
    assert {time: counts for time, counts in found.items() if counts != (0, 0)} == {
        12: (2, 2), 14: (0, 2), 15: (1, 1), 16: (1, 0),
    }  # fmt: skip


def test_an_interval_retires_that_only_a_waiting_match_holds() -> None:
    rows = [Given(1, 50, "a", "start"), Given(2, 4, "b", "start"), Given(30, 31, "b", "start")]
    scene = Scene(("a contains b",), 10, {}, [1, 2, 4, 30, 31, 50, 51], rows, "ab", "BOTH")
    found = {step.time: (step.kept["a"], step.retired["a"], step.waiting) for step in steps(scene)}
    assert found[4] == ([(1, None)], [], 1)
    assert found[30] == found[31] == ([], [(1, None)], 1)
    assert found[50][2] == 0
    assert found[51] == ([], [], 0)


# -- rows of beginnings whose ends never come ------------------------------------------------------
_ENDLESS = """FROM ev FROM ts TO te ID id DEFINE a AS kind = 'a', b AS kind = 'b'
    PATTERN a {} b WITHIN 40 EMIT ON {} RETURN a.ts, b.ts"""


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION"])
@pytest.mark.parametrize("relations", ["overlaps", "overlaps; finished-by; contains", "before"])
def test_state_is_bounded_by_the_window_where_nothing_ever_ends(relations: str, emit: str) -> None:
    """Each instant brings the beginning of an a and of a b; one in five ends, two ticks later."""
    held = []
    session = ps.query(_ENDLESS.format(relations, emit)).open(
        schema={"id": pl.Int64, "kind": pl.String, "ts": pl.Int64, "te": pl.Int64}
    )
    for first in range(0, 2_000, 100):
        session.push(_beginnings(first, first + 100))
        statistics = session.statistics
        size = statistics.state_bytes + len(session.snapshot())
        held.append((statistics.live_intervals, size))
    # Some 80 begin in a window; rings and rows that may still end have room for twice as many.
    assert max(intervals for intervals, _ in held) <= 4 * 80
    # A snapshot is packed, and also has the beginnings that wait for their ends.
    assert max(size for _, size in held[10:]) <= 1.1 * max(size for _, size in held[2:5])


def _beginnings(first: int, end: int) -> pl.DataFrame:
    rows = []
    for t in range(first, end):
        for number, kind in ((2 * t, "a"), (2 * t + 1, "b")):
            rows.append((number, kind, t, None))
            if t % 5 == 2 and t - 2 >= first:
                rows.append((number - 4, kind, t - 2, t))
    schema = {"id": pl.Int64, "kind": pl.String, "ts": pl.Int64, "te": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")
