"""`Query.why_not` ranks what was planted first, and what it names makes the match appear."""

from __future__ import annotations

import re
from datetime import datetime
from random import Random
from typing import Any

import polars as pl
import pytest

import piestream as ps
from tests.diagnosis.planted import appears, is_first, looked_into, planted


def test_planted_near_misses_are_ranked_first_and_every_change_makes_a_match() -> None:
    first = total = 0
    for case in planted(40, seed=7):
        found = looked_into(case)
        total += 1
        first += is_first(case, found)
        assert all(appears(case, miss.query) for miss in found.near_misses), str(found)
    assert first >= 0.99 * total


def _said(definitions: str, pattern: str = "a", rest: str = "WITHIN 99", **where: Any) -> list[str]:
    rows = pl.DataFrame(
        {
            "t": [1, 2, 3, 4, 5, 6, 7],
            "x": [0.0, 6.5, 7.5, 0, 0, 0, 0],
            "y": [0, 0, 0, 0, 5, 5, 0],
        }
    )
    query = ps.query(f"FROM s ORDER BY t DEFINE {definitions} PATTERN {pattern} {rest}")
    found = query.why_not(rows, **where)
    for miss in found.near_misses:
        assert len(miss.query.run(rows)), miss
    return [miss.text for miss in found.near_misses]


def test_a_threshold_that_is_missed() -> None:
    assert _said("a AS x > 8")[0] == "x reached 7.5 (needs > 8) at 3; with x >= 7.5 it matches"
    assert _said("a AS 8 <= x")[0] == "x reached 7.5 (needs >= 8) at 3; with x >= 7.5 it matches"
    assert _said("a AS x BETWEEN 7.75 AND 9")[0] == (
        "x reached 7.5 (needs >= 7.75) at 3; with x >= 7.5 it matches"
    )
    assert _said("a AS NOT (x < 8)")[0] == "a is x < 8; with x < 7.5 it matches"


def test_a_threshold_that_is_met_too_long() -> None:
    said = _said("a AS x > 6, b AS y > 1", "a before b", "WITHIN 99", between=(3, 6))
    assert said[0] == "a is x > 6; with x > 6.5 it matches"


def test_a_duration_that_is_missed() -> None:
    assert _said("a AS x > 5 AT LEAST 3")[0] == (
        "a lasted 2 from 2 (AT LEAST 3); with AT LEAST 2 it matches"
    )
    said = _said("a AS x > 5 AT MOST 1")
    assert "a lasted 2 from 2 (AT MOST 1); with AT MOST 2 it matches" in said
    assert _said("a AS x > 5 AT LEAST 3 EVENTS")[0] == (
        "a had 2 events from 2 (AT LEAST 3 EVENTS); with AT LEAST 2 EVENTS it matches"
    )


def test_a_window_that_is_too_short() -> None:
    said = _said("a AS x > 5, b AS y > 1", "a before b", "WITHIN 2")
    assert "the match takes 3 (WITHIN 2); with WITHIN 3 it matches" in said


def test_a_relation_that_is_not_allowed() -> None:
    said = _said("a AS x > 5, b AS y > 1", "a meets b")
    assert (
        "a [2, 4) before b [5, 7) (needs meets); with before allowed it matches" in said
    )  # the threshold of x that a would have to pass at 4 is far away


def test_where_a_match_is_expected_counts() -> None:
    assert (
        _said("a AS x > 8", between=(1, 2))
        == [
            "x reached 6.5 (needs > 8) at 2; with x >= 6.5 it matches",
            "x reached 0 (needs > 8) at 1; with x >= 0.0 it matches",
        ][:1]
    )
    assert _said("a AS x > 8", near={"a": (5, 6)})[0].startswith("x reached 0 (needs > 8) at 1")


def test_a_match_that_is_there_is_said() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    found = query.why_not([{"t": 1, "x": 5}])
    assert (found.matches, found.near_misses) == (1, ())
    assert "there is a match" in str(found)


def test_where_no_single_change_helps_that_is_said() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x = 1 AND y = 2 PATTERN a WITHIN 9")
    found = query.why_not([{"t": 1, "x": 5, "y": 5}])
    assert "no single change" in str(found)
    assert "no single change" in found._repr_html_()


def test_partitions_and_times_are_those_of_the_rows() -> None:
    query = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 9 PATTERN a WITHIN 9 s")
    rows = pl.DataFrame({"k": ["p", "q"], "t": ["2026-01-01 10:00:00"] * 2, "x": [5.0, 8.0]})
    rows = rows.with_columns(pl.col("t").str.to_datetime())
    found = query.why_not(rows, partition={"k": "p"}, between=("2026-01-01", "2026-01-02"))
    assert [miss.text for miss in found.near_misses] == [
        "x reached 5 (needs > 9) at 2026-01-01 10:00:00; with x >= 5.0 it matches"
    ]
    assert "x reached 5" in found._repr_html_()
    with pytest.raises(ps.SchemaError, match="k is missing"):
        query.why_not(rows)
    with pytest.raises(ValueError, match="two times"):
        query.why_not(rows, partition={"k": "p"}, between=("2026-01-01",))
    with pytest.raises(ValueError, match="ends before it begins"):
        query.why_not(rows, partition={"k": "p"}, between=("2026-01-02", "2026-01-01"))
    with pytest.raises(ValueError, match="its symbols are a"):
        query.why_not(rows, partition={"k": "p"}, near={"b": ("2026-01-01", "2026-01-02")})


DATED = pl.DataFrame(
    {"k": ["p", "q"], "t": [datetime(2026, 1, 1), datetime(2026, 1, 2)], "x": [0, 0]}
)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"partition": {"k": "z"}}, "there are no rows of the partition k = z: k is p or q"),
        ({"partition": {"k": 7}}, "k is a column of String, and 7 is none of its values"),
        ({"between": (1, 2)}, "between is 1 and 2, but the times in t are dates and times"),
        ({"near": {"a": (1, 2)}}, "near['a'] is 1 and 2, but the times in t are dates and times"),
        (
            {"between": ("then", "now")},
            "between is 'then' and 'now': write times as in '2026-01-31",
        ),
    ],
)
def test_a_place_that_is_none_is_refused(where: dict[str, Any], said: str) -> None:
    query = ps.query("FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9 s")
    with pytest.raises(ValueError, match=re.escape(said)):
        query.why_not(DATED, **{"partition": {"k": "p"}, **where})
    with pytest.raises(ValueError, match="k = z: there are no rows at all"):
        query.why_not(DATED.clear(), partition={"k": "z"})
    numbered = ps.query("FROM s ORDER BY x DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ValueError, match="the times in x are whole numbers"):
        numbered.why_not(DATED.head(1), between=("1", "2"))


@pytest.mark.parametrize("gap", [1, 3])
def test_an_interruption_that_breaks_a_run_is_bridged(gap: int) -> None:
    x = [3] * 5 + [0] * gap + [3] * 5 + [0] * 9
    rows = pl.DataFrame({"t": range(len(x)), "x": x})
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 2 AT LEAST 10 PATTERN a WITHIN 99")
    found = query.why_not(rows, between=(0, 3))
    texts = {miss.text: miss for miss in found.near_misses}
    miss = texts[f"a is interrupted for {gap} from 5; with BRIDGING {gap} it matches"]
    assert miss.kind == "bridging"
    assert len(miss.query.run(rows)) == 1
    rows = pl.DataFrame({"t": range(20), "x": [3] * 2 + [0] * 5 + [3] * 5 + [0] * 8})
    kinds = [miss.kind for miss in query.why_not(rows, between=(0, 3)).near_misses]
    assert "bridging" not in kinds  # nobody takes two runs for one that lie so far apart


def test_what_goes_on_at_the_time_of_its_end_could_go_on_later() -> None:
    rows = pl.DataFrame({"t": [1, 1, 1, 1, 4, 4, 9], "x": [3, 0, 3, 0, 3, 0, 0]})
    query = ps.query(
        "FROM s ORDER BY t, ROW DEFINE a AS x > 2 AT LEAST 3 BRIDGING 0 PATTERN a WITHIN 9"
    )
    found = {miss.text: miss for miss in query.why_not(rows, between=(0, 5)).near_misses}
    miss = found["a is interrupted for 3 from 1 (BRIDGING 0); with BRIDGING 3 it matches"]
    assert len(miss.query.run(rows)) == 1


def _without_a_job(job: tuple[int, int], absence: str, order: str = "ts") -> list[tuple[str, str]]:
    """What is proposed where a job must not be: of which kind, and with which a match appears."""
    query = ps.query(
        f"FROM ev ORDER BY {order} WITH jobs FROM began TO ended KNOWN AT START "
        f"DEFINE a AS ev.p, job AS jobs PATTERN a AND NOT ({absence}) WITHIN 30"
    )
    events = pl.DataFrame(
        {"ts": [1, 5, 9, 20], "p": [False, True, False, False], "q": [0, 1, 2, 3]}
    )
    jobs = pl.DataFrame({"began": [job[0], 40], "ended": [job[1], 41], "id": [7, 8]})
    rows = {"ev": events, "jobs": jobs}
    found = query.why_not(rows, between=(5, 9), most=9)
    for miss in found.near_misses:
        changed = rows if miss.moved is None else miss.moved.of(rows)
        assert len(miss.query.run(changed)) == 1, miss.text
    return [(miss.kind, miss.text.split("; ")[-1]) for miss in found.near_misses]


@pytest.mark.parametrize(
    ("job", "absence", "moved"),
    [
        ((6, 12), "job intersects a", ["jobs.began = 9"]),
        ((6, 8), "job during a AND job.te - a.ts <= 3", ["jobs.began = 5", "jobs.ended = 9"]),
        ((10, 12), "job after a AND job.ts - a.te <= 2", ["jobs.began = 9"]),
        ((11, 15), "job after a AND job.te - a.te <= 7", ["jobs.began = 9", "jobs.ended = 17"]),
    ],
)
def test_a_row_that_may_not_be_there_might_begin_or_end_elsewhere(
    job: tuple[int, int], absence: str, moved: list[str]
) -> None:
    found = _without_a_job(job, absence)
    assert [text for kind, text in found if kind == "endpoint"][: len(moved)] == [
        f"with {one} it matches" for one in moved
    ]


@pytest.mark.parametrize(
    ("job", "absence", "moved"),
    [
        ((6, 12), "job intersects a", ["jobs.began = 10"]),
        ((6, 8), "job during a AND job.te - a.ts <= 3", ["jobs.began = 5", "jobs.ended = 9"]),
        ((10, 12), "job after a AND job.ts - a.te <= 2", ["jobs.began = 9"]),
    ],
)
def test_among_events_of_one_time_it_is_tried_where_else(
    job: tuple[int, int], absence: str, moved: list[str]
) -> None:
    found = _without_a_job(job, absence, "ts, q")
    assert [text for kind, text in found if kind == "endpoint"] == [
        f"with {one} it matches" for one in moved
    ]


_GROUPS = (
    "job intersects a", "job during; starts a", "job after a AND job.ts - a.te <= 3",
    "job before; meets a AND a.ts - job.te <= 3", "job overlaps; contains; finished-by a",
    "job.te - a.ts BETWEEN 0 AND 4", "job during a AND a.te - job.ts <= 3",
)  # fmt: skip


def _moved_law(seed: int) -> int:
    """Apply each change that is named, and find the match; how many endpoints were moved."""
    rng = Random(f"moved {seed}")
    order = rng.choice(["ts, q", "ts, ROW", "ts"])
    times = sorted(rng.choices(range(12), k=rng.randint(4, 9)))
    if order == "ts":
        times = sorted({*times})
    first = rng.randrange(len(times))
    held = [first <= place <= first + rng.randint(0, 3) for place in range(len(times))]
    events = pl.DataFrame({"ts": times, "q": range(len(times)), "p": held})
    starts = [rng.randint(0, 12) for _ in range(rng.choice([1, 1, 2, 3]))]
    jobs = pl.DataFrame({"n": range(len(starts)), "began": starts})
    jobs = jobs.with_columns(ended=pl.Series([at + rng.randint(1, 5) for at in starts]))
    query = ps.query(
        f"FROM ev ORDER BY {order} WITH jobs FROM began TO ended KNOWN AT START DEFINE a AS ev.p, "
        f"job AS jobs PATTERN a AND NOT ({rng.choice(_GROUPS)}) WITHIN 40 EMIT ON COMPLETION"
    )
    rows, at_end = {"ev": events, "jobs": jobs}, rng.choice(["open", "close"])
    found = query.why_not(rows, most=30, at_end=at_end)
    for miss in found.near_misses:
        changed = rows if miss.moved is None else miss.moved.of(rows)
        assert len(miss.query.run(changed, at_end=at_end)), (seed, miss.text)
    return sum(miss.moved is not None for miss in found.near_misses)


def test_with_each_change_of_rows_that_may_not_be_there_the_match_is_there() -> None:
    assert sum(map(_moved_law, range(16)))
