"""What diagnoses say of what may not be there: what it left out, and what would have to change."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from tests.oracle import matches
from tests.truth import column

ROWS = pl.DataFrame(
    {
        "t": [1, 2, 3, 4, 8, 9, 15, 20],
        "a": [True, False, False, True, False, False, False, False],
        "c": [False, False, True, False, False, False, False, False],
    }
)
QUERY = ps.query(
    "FROM s ORDER BY t DEFINE a AS a, c AS c "
    "PATTERN a AND NOT (c after a AND c.ts - a.te <= 4) WITHIN 99"
)


def test_what_an_absence_leaves_out_is_a_step_of_the_funnel() -> None:
    found = QUERY.diagnose(ROWS)
    assert [(f.name, f.written, f.left.number) for f in found.filters] == [
        ("pattern", "", 2),
        ("absence", "NOT (c after a AND c.ts - a.te <= 4)", 1),
        ("window", "WITHIN 99", 1),
    ]
    assert [(s.symbol.name, s.runs) for s in found.symbols] == [("a", 2), ("c", 1)]
    early = QUERY.diagnose(ROWS.head(3))
    assert early.summary.endswith("NOT (c after a AND c.ts - a.te <= 4) leaves out all 1")


def test_a_match_waited_for_its_absence() -> None:
    found = QUERY.why(QUERY.run(ROWS), ROWS)
    assert found.reported_at == 12
    assert [(one.symbol, one.decided_at) for one in found.absences] == [("c", 12)]
    assert found.waited_for == ("NOT (c after a AND c.ts - a.te <= 4) to be decided",)
    assert "ABSENCES" in str(found)


def test_an_absence_that_was_decided_before_is_not_what_was_waited_for() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c before a AND a.ts - c.te < 1) WITHIN 99"
    )
    (first,) = query.run(ROWS.head(2)).rows(named=True)
    found = query.why(first, ROWS)
    assert found.waited_for == ("a to start",)
    assert [one.decided_at for one in found.absences] == [1]


def test_a_shorter_distance_leaves_out_what_is_there() -> None:
    found = QUERY.why_not(ROWS, between=(1, 2))
    assert [miss.text for miss in found.near_misses] == [
        "c.ts - a.te is 1 (NOT: c.ts - a.te <= 4); with c.ts - a.te < 1 it matches",
        "c [3, 4) is what NOT (c after a AND c.ts - a.te <= 4) excludes; without it it matches",
    ]
    for miss in found.near_misses:
        assert len(miss.query.run(ROWS)) == 2


def test_what_is_not_decided_yet_is_said() -> None:
    (miss,) = QUERY.why_not(ROWS.head(2)).near_misses
    assert miss.text.startswith("NOT (c after a AND c.ts - a.te <= 4) is not decided in time")


def test_a_match_is_not_expected_near_what_is_absent() -> None:
    with pytest.raises(
        ValueError, match="near names c, which is absent from a match: its symbols are a"
    ):
        QUERY.why_not(ROWS, near={"c": (3, 4)})


def test_intervals_and_pictures_have_what_is_absent() -> None:
    assert QUERY.intervals(ROWS)["symbol"].to_list() == ["a", "a", "c"]
    assert "1 match" in repr(QUERY.timeline(ROWS))
    assert "NOT (c after a" in QUERY.report(ROWS)


@pytest.mark.parametrize("where", ["", "WHERE COUNT(a) = 1 ONCE PER a LIMIT 3"])
def test_rows_can_be_told_apart_by_what_is_there_alone(where: str) -> None:
    text = "FROM s ORDER BY t DEFINE c AS c, a AS a PATTERN a AND NOT (c during a) WITHIN 9"
    query = ps.query(f"{text} {where}")
    truth = {"a": column("a"), "c": column("c")}
    wanted = matches(query, ROWS.to_dicts(), truth, time="t")
    assert query.run(ROWS).to_dicts() == wanted
    assert len(wanted) == 2
