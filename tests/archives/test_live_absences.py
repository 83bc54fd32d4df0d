"""NOT (…) over live streams and archives: what it gives, in sessions and in runs, in each plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import piestream as ps
from tests.archives import live_randoms
from tests.archives.live_scenarios import all_plans, frame_of

_QUERY = """
FROM (FROM trades ORDER BY ts DEFINE s AS v > 1 PATTERN s WITHIN 9) AS live
WITH (FROM ARCHIVE 'trades' ORDER BY ts DEFINE s AS w > 1 PATTERN s WITHIN 9) AS past
PARTITION BY k DEFINE l AS live, c AS past PATTERN l AND NOT ({}) WITHIN {} RETURN l.ts
"""
_PLANS = [pytest.param(plan, id=f"{plan.order} {plan.cache}") for plan in all_plans()]


def test_random_queries_give_in_each_push_what_all_rows_give(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    for seed in seeds_in_all(4):
        live_randoms.check(seed, all_of_them=seed == 1)


def test_limits_leave_the_same_rows_of_them_in_each_plan_and_in_a_run(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    for seed in seeds_in_all(4):
        live_randoms.check_limits(seed)


def _rows(*rows: tuple[int, int, int], key: str = "x") -> pl.DataFrame:
    """Rows of one key: time, v and w."""
    return frame_of([{"ts": ts, "k": key, "v": v, "w": w} for ts, v, w in rows])


@pytest.fixture
def lake(tmp_path: Path) -> ps.Archive:
    """An archive that begins long before what is pushed."""
    found = ps.archive(tmp_path / "trades", time="ts", key="k")
    found.append(_rows((0, 0, 0), (1, 0, 2), (4, 0, 0), (5, 0, 0)))
    return found


@pytest.mark.parametrize("plan", _PLANS)
def test_time_alone_decides_that_nothing_came(lake: ps.Archive, plan: ps.LivePlan) -> None:
    query = ps.query(_QUERY.format("c after l AND c.te - l.te <= 5", 20))
    session = query.open(archives={"trades": lake}, plan=plan)
    assert not len(session.push(_rows((20, 2, 0), (22, 0, 0))))
    other = [session.push(_rows((time, 0, 0), key="y")).rows() for time in (26, 27, 28, 29)]
    assert other == [[], [], [("x", 27, 20)], []]


@pytest.mark.parametrize("plan", _PLANS)
def test_what_is_absent_may_lie_long_before_the_window(lake: ps.Archive, plan: ps.LivePlan) -> None:
    blocked, free = (
        ps.query(_QUERY.format(f"c before l AND l.ts - c.te <= {length}", 3)) for length in (16, 15)
    )
    rows = _rows((20, 2, 0), (22, 0, 0), (23, 0, 0))
    for query, expected in ((blocked, []), (free, [("x", 22, 20)])):
        session = query.open(archives={"trades": lake}, plan=plan)
        assert session.push(rows).rows() == expected
        assert query.run({"trades": rows}, archives={"trades": lake}).rows() == expected


def test_late_rows_take_nothing_back_and_count_for_what_is_to_come(lake: ps.Archive) -> None:
    query = ps.query(_QUERY.format("c before l AND l.ts - c.te <= 9", 20))
    session = query.open(archives={"trades": lake})
    assert session.push(_rows((20, 2, 0), (22, 0, 0), (23, 0, 0))).rows() == [("x", 22, 20)]
    ps.archive(lake.path).append(_rows((17, 0, 2), (18, 0, 0)))
    assert not len(session.push(_rows((24, 2, 0), (25, 0, 0), (26, 0, 0))))
    assert session.push(_rows((30, 2, 0), (31, 0, 0), (32, 0, 0))).rows() == [("x", 31, 30)]


def test_a_match_of_archives_alone_is_reported_where_nothing_live_came(lake: ps.Archive) -> None:
    text = _QUERY.replace("PATTERN l AND", "PATTERN c AND").replace("RETURN l.ts", "RETURN c.ts")
    query = ps.query(text.format("l after c AND l.te - c.te <= 5", 20))
    for plan in all_plans():
        session = query.open(archives={"trades": lake}, plan=plan)
        assert session.push(_rows((8, 0, 0))).rows() == []
        assert session.push(_rows((9, 0, 2), (10, 0, 0))).rows() == [("x", 9, 1)]
        assert session.push(_rows((11, 2, 0), (12, 0, 0), (30, 0, 0))).rows() == []
        assert session.plan is not None
        is_live_first = session.plan.startswith("live-first")
        assert session.plan.endswith("archives are looked at everywhere") == is_live_first


def test_archives_are_not_looked_at_first_where_matches_have_nothing_of_them(
    lake: ps.Archive,
) -> None:
    query = ps.query(_QUERY.format("c before l AND l.ts - c.te <= 9", 20))
    session = query.open(archives={"trades": lake}, plan="archive-first")
    session.push(_rows((20, 2, 0)))
    assert session.plan is not None
    assert session.plan.startswith("eager")
    assert session.plan.endswith("a match has nothing of an archive")


def test_time_alone_ends_a_bridged_run_of_a_live_stream_in_each_plan(lake: ps.Archive) -> None:
    query = ps.query("""
        FROM (FROM trades ORDER BY ts DEFINE s AS v > 1 BRIDGING 2 PATTERN s WITHIN 12) AS live
        WITH (FROM ARCHIVE 'trades' ORDER BY ts DEFINE s AS v > 1 PATTERN s WITHIN 12) AS past
        PARTITION BY k DEFINE l AS live, a AS past PATTERN l intersects a WITHIN 9 RETURN l.ts, l.te
    """)
    for plan in all_plans():
        session = query.open(archives={"trades": lake}, plan=plan)
        assert not len(session.push(_rows((20, 2, 0), (21, 0, 0))))
        found = [session.push(_rows((time, 0, 0), key="y")).rows() for time in (23, 24, 25)]
        assert found == [[], [("x", 23, 20, 21)], []]
