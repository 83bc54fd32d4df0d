"""What diagnoses say of what may not be there: what it left out, and what would have to change."""

from __future__ import annotations

from typing import Any

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
    waiting = QUERY.diagnose(ROWS.filter(pl.col("t") != 3).head(2))
    assert waiting.summary == (
        "0 matches: NOT (c after a AND c.ts - a.te <= 4) leaves out all 1; of 1 it is not decided "
        "when the rows end"
    )


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


def _said(query: ps.Query, rows: pl.DataFrame, **where: Any) -> list[str]:
    """What is said of near misses, with each of which there are more matches than before."""
    found = query.why_not(rows, most=20, **where)
    for miss in found.near_misses:
        assert len(miss.query.run(rows)) > len(query.run(rows)), miss
    return [miss.text for miss in found.near_misses]


def test_a_shorter_distance_leaves_out_what_is_there() -> None:
    assert _said(QUERY, ROWS, between=(1, 2)) == [
        "c [3, 4) is excluded: c.ts - a.te is 1 (NOT: c.ts - a.te <= 4); with c.ts - a.te < 1 it "
        "matches",
        "c [3, 4) is what NOT (c after a AND c.ts - a.te <= 4) excludes; without it it matches",
    ]


_LEVELS = ROWS.with_columns(pl.Series("c", [0, 0, 7, 6, 0, 0, 0, 0]))


def _excluded_for(
    definition: str, group: str = "c after; met-by a AND c.ts - a.te <= 4"
) -> set[str]:
    query = ps.query(
        f"FROM s ORDER BY t DEFINE a AS a, c AS c > 2 {definition} "
        f"PATTERN a AND NOT ({group}) WITHIN 99"
    )
    said = _said(query, _LEVELS, between=(1, 2))
    of = "c [3, 8) is excluded: "
    return {text.removeprefix(of) for text in said if text.startswith(of)}


def test_another_threshold_or_length_of_what_is_absent_leaves_it_out() -> None:
    assert _excluded_for("") == {
        "c is c > 2; with c > 7 it matches",
        "c is c > 2; with c >= 0 it matches",  # then it begins before the end of a
        "after a [1, 2) (NOT: met-by; after); with met-by in NOT it matches",
        "c.ts - a.te is 1 (NOT: c.ts - a.te <= 4); with c.ts - a.te < 1 it matches",
    }
    lengths = {
        "AT LEAST 2": "it lasts 5 (AT LEAST 2); with AT LEAST 6 it matches",
        "AT MOST 9": "it lasts 5 (AT MOST 9); with AT MOST 4 it matches",
        "AT LEAST 1 EVENTS": "it has 2 events (AT LEAST 1 EVENTS); with AT LEAST 3 EVENTS it matches",
    }
    for definition, said in lengths.items():
        assert said in _excluded_for(definition)


def test_of_the_next_one_alone_it_is_said_that_it_is_excluded() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS a, c AS c > 2 "
        "PATTERN a AND NOT (c follows; met-by a AND c.ts - a.te <= 9) WITHIN 99"
    )
    rows = ROWS.with_columns(pl.Series("c", [0, 0, 7, 0, 5, 0, 0, 0]))
    said = _said(query, rows, between=(1, 2))
    of = "c [3, 4) is excluded: "  # [8, 9) is not the next one
    assert f"{of}c.ts - a.te is 1 (NOT: c.ts - a.te <= 9); with c.ts - a.te < 1 it matches" in said
    text = "after a [1, 2) (NOT: met-by; follows); with met-by in NOT it matches"
    assert of + text in said


def test_what_is_excluded_is_told_with_how_many_more_there_are() -> None:
    rows = ROWS.with_columns(pl.Series("c", [0, 0, 7, 0, 5, 0, 0, 0]))
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS a, c AS c > 2 AT LEAST 1 "
        "PATTERN a AND NOT (c after a AND c.ts - a.te <= 9) WITHIN 99"
    )
    said = _said(query, rows, between=(1, 2))
    of = "c [3, 4) and 1 more are excluded: "
    assert f"{of}the longest lasts 1 (AT LEAST 1); with AT LEAST 2 it matches" in said
    assert f"{of}c.ts - a.te is 1 (NOT: c.ts - a.te <= 9); with c.ts - a.te < 1 it matches" in said


def test_a_run_of_the_match_itself_is_not_what_is_excluded() -> None:
    rows = ROWS.with_columns(a=pl.Series([True, False, True, False, *[False] * 4]))
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS a, again AS a "
        "PATTERN a AND NOT (again.ts - a.ts <= 4 AND again.ts - a.ts >= 0) WITHIN 99"
    )
    said = _said(query, rows, between=(1, 1))
    assert any(text.startswith("again [3, 4) is excluded: again.ts - a.ts is 2") for text in said)


def test_a_longer_silence_is_proposed_of_one_that_may_not_be_there() -> None:
    query = ps.query(
        "FROM s ORDER BY t DEFINE a AS a, q AS SILENCE LONGER THAN 3 "
        "PATTERN a AND NOT (q after a AND q.ts - a.te <= 4) WITHIN 99"
    )
    assert "q was 4 long from 4 (LONGER THAN 3); with LONGER THAN 4 it matches" in _said(
        query, ROWS, between=(1, 1)
    )


def test_what_is_not_decided_yet_is_said() -> None:
    (miss,) = QUERY.why_not(ROWS.head(2)).near_misses
    assert miss.text == (
        "NOT (c after a AND c.ts - a.te <= 4) is not decided when the rows end: if nothing more comes, "
        "it is at 6; without it it matches"
    )
    short = ps.query(str(QUERY).replace("WITHIN 99", "WITHIN 3"))
    assert _said(short, ROWS, between=(4, 4)) == [
        "NOT (c after a AND c.ts - a.te <= 4) is not decided before 12 (WITHIN 3); without it it "
        "matches",
        "the match takes 8 (WITHIN 3); with WITHIN 8 it matches",
    ]


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


@pytest.mark.parametrize("order", ["t", "t, q"])
def test_what_is_in_brackets_is_said_to_exclude_a_match(order: str) -> None:
    query = ps.query(
        f"FROM s ORDER BY {order} WITH (FROM s ORDER BY {order} DEFINE x AS x > 1, z AS z > 1 "
        "PATTERN x AND NOT (z after; met-by x AND z.ts - x.te <= 2) WITHIN 3) AS m "
        "DEFINE a AS s.y > 1, m AS m PATTERN a AND NOT (m after a AND m.ts - a.te <= 4) WITHIN 99"
    )
    rows = pl.DataFrame({"t": [1, 2, 5, 6, 7, 12], "y": [5, 0, 0, 0, 0, 0]})
    rows = rows.with_columns(q=1, x=pl.Series([0, 0, 5, 0, 0, 0]), z=0)
    texts = [miss.text for miss in query.why_not(rows).near_misses]
    assert "m [5, 6) is excluded: x is s.x > 1; with s.x > 5 it matches" in texts
    without = rows.with_columns(x=0)
    why = query.why(query.run(without), without)
    assert "WAITED LAST FOR" in str(why)
    assert "NOT (m after a AND m.ts - a.te <= 4)            9" in str(why)
