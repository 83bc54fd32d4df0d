"""`Query.why_not` over several streams: what was planted is ranked first, and every change is one."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.diagnosis.rows import in_partition
from tests.diagnosis.planted_streams import appears, is_first, looked_into, planted
from tests.diagnosis.test_streams import _frames, _scenarios
from tests.stream_scenario import KINDS


def test_planted_near_misses_are_ranked_first_and_every_change_makes_a_match() -> None:
    first = total = 0
    for case in planted(24, seed=7):
        found = looked_into(case)
        total += 1
        first += is_first(case, found)
        for miss in found.near_misses:
            rows = None if miss.moved is None else miss.moved.of(case.rows)
            assert appears(case, miss.query, rows), str(found)
    assert first >= 0.99 * total


@pytest.mark.parametrize("kinds", KINDS)
def test_every_change_that_is_named_makes_a_match_in_its_partition(
    kinds: str, few_seeds: list[int]
) -> None:
    for drawn in _scenarios(few_seeds[:10], kinds):
        query, frames = drawn.query, _frames(drawn)
        keys = list(query.partition_by)
        known = [row for f in frames.values() for row in f.select(keys).unique().head(1).to_dicts()]
        for key in known[:1] if keys else [{}]:
            found = query.why_not(frames, partition=key, ties=drawn.ties, at_end=drawn.at_end)
            for miss in found.near_misses:
                rows = frames if miss.moved is None else miss.moved.of(frames)
                matches = miss.query.run(rows, ties=drawn.ties, at_end=drawn.at_end)
                own = matches.filter(in_partition(matches.schema, key))
                assert len(own), f"{drawn}\n{key}\n{miss}"


PUMP = pl.DataFrame(
    {
        "t": [1, 2, 3, 4, 5, 6, 7],
        "x": [0.0, 6.5, 7.5, 0, 0, 0, 0],
        "y": [0, 0, 0, 0, 5, 5, 0],
    }
)
JOBS = pl.DataFrame({"n": [1, 2], "size": [4.0, 6.0], "s": [2, 5], "e": [4, 7]})


def _said(query: str, rows: dict[str, pl.DataFrame], **where: Any) -> list[str]:
    found = ps.query(query).why_not(rows, **where)
    for miss in found.near_misses:
        changed = rows if miss.moved is None else miss.moved.of(rows)
        assert len(miss.query.run(changed)), miss
    return [miss.text for miss in found.near_misses]


def test_a_condition_on_rows_of_intervals() -> None:
    said = _said(
        "FROM jobs FROM s TO e DEFINE a AS jobs.size > 7 PATTERN a WITHIN 99", {"jobs": JOBS}
    )
    assert said == ["jobs.size is 6 (needs > 7) at 5; with jobs.size >= 6.0 it matches"]


def test_an_end_of_a_row() -> None:
    query = """
        FROM pump ORDER BY t WITH jobs FROM s TO e
        DEFINE a AS pump.x > 7, b AS jobs.size > 5 PATTERN a meets b WITHIN 99
    """
    rows = {"pump": PUMP, "jobs": JOBS}
    assert _said(query, rows, near={"a": (3, 4)}) == [
        "a [3, 4) before b [5, 7) (needs meets); with before allowed it matches",
        "a [3, 4) before b [5, 7) (needs meets); with jobs.s = 4 it matches",
    ]
    found = ps.query(query).why_not(rows)
    assert found.near_misses[1].moved is not None
    assert found.near_misses[1].moved.of(rows)["jobs"].rows() == [(1, 4.0, 2, 4), (2, 6.0, 4, 7)]


def test_rows_that_come_twice_are_moved_both() -> None:
    twice = pl.DataFrame({"n": [1, 1], "s": [5, 5], "e": [None, 7]})
    query = """
        FROM pump ORDER BY t WITH jobs FROM s TO e ID n
        DEFINE a AS pump.x > 7, b AS jobs PATTERN a meets b WITHIN 99
    """
    found = ps.query(query).why_not({"pump": PUMP, "jobs": twice})
    (moved,) = (m.moved for m in found.near_misses if m.moved is not None)
    assert moved.of({"jobs": twice})["jobs"]["s"].to_list() == [4, 4]


BRACKETS = """
    FROM pump ORDER BY t
    WITH (FROM pump DEFINE hot AS x > 8 PATTERN hot WITHIN 9 RETURN MAX(hot.x) AS most) AS heat
    DEFINE a AS heat, b AS pump.y > 1 PATTERN a before b WITHIN 99
"""


def test_a_threshold_inside_a_query_in_brackets() -> None:
    said = _said(BRACKETS, {"pump": PUMP})
    assert said[0] == "pump.x reached 7.5 (needs > 8) at 3; with pump.x >= 7.5 it matches"


def test_a_duration_and_a_window_inside_a_query_in_brackets() -> None:
    lasting = BRACKETS.replace("x > 8", "x > 5 AT LEAST 3")
    said = _said(lasting, {"pump": PUMP})
    assert "in heat, hot lasted 2 from 2 (AT LEAST 3); with AT LEAST 2 it matches" in said
    short = """
        FROM pump ORDER BY t
        WITH (FROM pump DEFINE hot AS x > 5, low AS y < 1 PATTERN low contains hot WITHIN 1) AS heat
        DEFINE a AS heat, b AS pump.y > 1 PATTERN a meets b WITHIN 99
    """
    said = _said(short, {"pump": PUMP})
    assert "in heat, the match takes 4 (WITHIN 1); with WITHIN 4 it matches" in said


def test_a_condition_on_what_a_query_in_brackets_returns() -> None:
    query = BRACKETS.replace("x > 8", "x > 5").replace("a AS heat", "a AS heat.most > 9")
    said = _said(query, {"pump": PUMP})
    assert said[0] == "heat.most is 7.5 (needs > 9) at 2; with heat.most >= 7.5 it matches"


def test_limits_count_matches_before_the_stretch() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 1 LIMIT 1")
    found = query.why_not(
        pl.DataFrame({"t": range(0, 99, 3), "x": [5, 0, 0] * 11}), between=(80, 99)
    )
    assert found.matches == 0
    assert [miss.kind for miss in found.near_misses] == ["limits"]
