"""What looks into row patterns says what the oracle says: stretches of variables, and the funnel."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import groupby
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.language.row_patterns import Skip, SkipMode
from piestream.show.matches import with_endpoints
from tests.row_patterns.oracle import matches
from tests.row_patterns.randoms import Case, random_case

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}


def _frame(case: Case) -> pl.DataFrame:
    return pl.DataFrame(case.events(), schema=_TYPES)


def stretches(case: Case, closes: bool) -> list[tuple[Any, ...]]:
    """Variable, start, end and number of rows of each stretch of one variable in a match."""
    rows = case.query.rows
    assert rows is not None
    times = [row["t"] for row in case.rows]
    found = []
    for match in matches(rows, case.rows):
        for variable, group in groupby(enumerate(match.path), key=lambda one: one[1][0]):
            places = [match.first + place for place, _ in group]
            start, behind = times[places[0]], places[-1] + 1
            end = times[behind] if behind < len(times) else None
            if end is None and closes:
                end = times[-1] + (len(places) == 1)
            found.append((variable, start, end, len(places)))
    return sorted(found, key=repr)


def test_intervals_are_the_stretches_of_each_variable(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed)
        if not case.rows:
            continue
        for at_end in ("open", "close"):
            found = case.query.intervals(_frame(case), at_end=at_end)
            got = sorted(found.select("symbol", "ts", "te", "events").rows(), key=repr)
            assert got == stretches(case, at_end == "close"), f"seed {seed}: {case.query}"


def test_the_funnel_counts_what_the_oracle_finds(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        case = random_case(seed)
        rows = case.query.rows
        assert rows is not None
        found = case.query.diagnose(_frame(case))
        held = Counter(name for row in case.rows for name in row["holds"])
        matched = Counter(n for match in matches(rows, case.rows) for n, _ in match.path)
        assert [(c.symbol.name, c.runs, c.valid) for c in found.symbols] == [
            (name, held[name], matched[name]) for name in rows.variables
        ], f"seed {seed}: {case.query}"
        every = replace(rows, skip=Skip(SkipMode.TO_NEXT_ROW))
        left = {"pattern": len(matches(replace(every, within=None), case.rows))}
        left |= {"window": len(matches(every, case.rows)), "skip": len(matches(rows, case.rows))}
        assert all(one.left.number == left[one.name] for one in found.filters), f"seed {seed}"
        assert found.matches.number == left["skip"]


def _query(pattern: str, more: str = "") -> ps.Query:
    return ps.query(
        f"FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n {more} PATTERN ({pattern}) "
        "DEFINE A AS x = 1, B AS x > 5)"
    )


@pytest.mark.parametrize(
    ("query", "values", "summary"),
    [
        (_query("A B"), [1, 6, 1, 7], "2 matches"),
        (_query("A B"), [], "0 matches: there are no events"),
        (_query("A B"), [1, 2], "0 matches: B (x > 5) never holds; x is from 1 to 2"),
        (_query("A B"), [6, 1], "0 matches: A begins at 1 of the rows, but A B at none"),
        (_query("A B", "WITHIN 0"), [1, 6], "0 matches: WITHIN 0 leaves out all 1"),
    ],
)
def test_the_summary_says_where_the_rows_went(
    query: ps.Query, values: list[int], summary: str
) -> None:
    frame = pl.DataFrame({"t": range(len(values)), "x": values}, schema={"t": int, "x": int})
    assert query.diagnose(frame).summary == summary


def test_the_pattern_is_counted_as_it_grows() -> None:
    found = _query("A B+ A").diagnose(pl.DataFrame({"t": range(6), "x": [1, 6, 1, 1, 7, 2]}))
    assert found.tables["pattern"].rows() == [("A", 3), ("A B+", 2), ("A B+ A", 1)]
    assert "AFTER MATCH SKIP PAST LAST ROW" in str(found)
    assert "AFTER MATCH SKIP PAST LAST ROW" in found._repr_html_()


def test_a_time_line_has_a_lane_for_each_variable() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES COUNT(*) AS n "
        "AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ (C D)?) WITHIN 50 "
        "DEFINE A AS x > 0, B AS x > 1, C AS x = 0, D AS x > 8)"
    )
    rows = pl.DataFrame({"k": [1] * 8, "t": range(8), "x": [1, 2, 2, 0, 0, 1, 2, 2]})
    shown = query.timeline(
        pl.concat([rows, rows.with_columns(k=2 * pl.col("k"), x=0 * pl.col("x"))])
    )
    scene = shown.scene
    assert repr(shown) == "<Timeline of A, B, C, D in k = 1: 8 intervals, 4 matches>"
    bars = [(bar.symbol, bar.start, bar.end, bar.is_open, bar.row) for bar in scene.bars]
    assert bars[:4] == [
        ("A", 0, 1, False, 0),
        ("B", 1, 3, False, 0),
        ("A", 1, 2, False, 0),
        ("B", 2, 3, False, 1),
    ]
    assert bars[-1] == ("B", 7, 7, True, 0)
    # certain when no D comes, or at the end
    assert [(match.start, match.reported) for match in scene.matches] == [
        (0, 4),
        (1, 4),
        (5, 7),
        (6, 7),
    ]
    assert [line.name for line in scene.columns] == ["x"]
    assert "matches" in shown.html()
    message = r"let MEASURES give FIRST\(A.t\) AS A_ts, NEXT\(LAST\(A.t\), 1\) AS A_te, .*LAST\(t\) AS last"
    with pytest.raises(ValueError, match=message):
        query.timeline(rows, query.run(rows))
    told = with_endpoints(query)
    given = told.timeline(rows, told.run(rows)).scene
    assert [(match.start, match.end) for match in given.matches] == [(0, 3), (1, 3), (5, 7), (6, 7)]
    assert [i.symbol for i in given.matches[0].intervals] == ["A", "B"]  # and no row of C


def test_a_report_lists_the_matches_with_their_rows() -> None:
    """The key is called as a column of what intervals gives, as in tables of prices."""
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY t MEASURES COUNT(*) AS n, B.x AS x "
        "PATTERN (A B+) DEFINE A AS x = 0, B AS x > 1 AND B.x > A.x)"
    )
    rows = pl.DataFrame({"symbol": ["p"] * 6, "t": range(6), "x": [0, 2, 3, 0, 4, 1]})
    page = query.report(pl.concat([rows, rows.with_columns(symbol=pl.lit("q"))]))
    assert "<title>t: 4 matches</title>" in page
    assert "condition" in page  # of the funnel
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert data["symbols"] == ["A", "B"]
    assert [column["name"] for column in data["columns"]] == ["x"]
    assert [match["cells"] for match in data["matches"]] == [
        ["p", "3", "3"], ["p", "2", "4"], ["q", "3", "3"], ["q", "2", "4"],
    ]  # fmt: skip
    assert data["matches"][0]["around"]["bars"] == [
        [0, 3, 4, 1, "3 to 4"], [1, 4, 5, 1, "4 to 5"], [0, 0, 1, 0, "0 to 1"], [1, 1, 3, 0, "1 to 3"],
    ]  # fmt: skip
    assert "There is none." in query.report(rows.with_columns(x=0))


@pytest.mark.parametrize(("format", "said"), [("trace", '"name": "B"'), ("mne", "0.003, 0.002, A")])
def test_matches_are_exported_with_the_times_of_their_variables(format: Any, said: str) -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY t UNIT ms PATTERN (A+ B) DEFINE A AS x = 0, B AS x > 1 "
        "MEASURES FIRST(A.t) AS begins, NEXT(LAST(A.t)) AS first_b, FIRST(B.t) AS b, "
        "NEXT(LAST(B.t)) AS behind, LAST(t) AS last)"
    )
    rows = pl.DataFrame({"t": range(6), "x": [0, 2, 3, 0, 0, 2]})
    assert said in query.export(query.run(rows), format)
    other = ps.query(str(query).replace("LAST(t) AS last", "COUNT(*) AS n"))
    with pytest.raises(ValueError, match=r"let MEASURES give LAST\(t\) AS last$"):
        other.export(other.run(rows), format)
    every = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY t ALL ROWS PER MATCH PATTERN (A) DEFINE A AS x = 0)"
    )
    with pytest.raises(ps.QueryError, match="an export takes a row for each match"):
        every.export(every.run(rows), format)


def test_a_condition_that_reads_other_rows_holds_of_no_number_of_rows() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A B) "
        "DEFINE A AS x = 1, B AS B.x > A.x + 4)"
    )
    found = query.diagnose(pl.DataFrame({"t": range(4), "x": [1, 6, 1, 3]}))
    assert found.tables["variables"].rows() == [
        ("A", "x = 1", 2, 1),
        ("B", "B.x > A.x + 4", None, 1),
    ]
    assert "holds of no row by itself" in str(found)
    none = query.diagnose(pl.DataFrame({"t": range(2), "x": [1, 2]}))
    assert none.summary == "0 matches: A begins at 1 of the rows, but A B at none"
