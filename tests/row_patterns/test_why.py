"""why of a row pattern: what its rows are, when it was certain, and what it was preferred to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.diagnosis.row_parts import measures
from tests.row_patterns.oracle import Match, matches
from tests.row_patterns.randoms import Case, random_case, row_case

_TYPES = {"k": int, "t": int, "x": int, "name": str, "a": bool, "b": bool, "c": bool}


def _numbered(case: Case) -> ps.Query:
    """The query with the number of the match as its only measure."""
    assert case.query.rows is not None
    rows = replace(case.query.rows, measures=measures("MATCH_NUMBER() AS number"), all_rows=False)
    return replace(case.query, rows=rows)


def _known(query: ps.Query, frame: pl.DataFrame) -> dict[int, int]:
    """When a session gives each match: the number of the row that it is pushed."""
    session = query.open(schema=frame.schema)
    known = {}
    for number, event in enumerate(frame.iter_rows(named=True)):
        for row in session.push(event):
            known[row["number"]] = number
    return known


@pytest.mark.parametrize("memory", [False, True], ids=["of one row", "with memory"])
@pytest.mark.parametrize("one_time", [False, True], ids=["by time", "rows of one time"])
def test_why_tells_the_rows_and_when_a_match_is_given(
    few_seeds: list[int], memory: bool, one_time: bool
) -> None:
    for seed in few_seeds[: 4 if one_time else 2]:
        case = random_case(seed, memory=memory)
        frame = pl.DataFrame(case.events(), schema=_TYPES)
        if one_time:
            case, frame = row_case(seed, memory)
        query = _numbered(case)
        assert query.rows is not None
        found: list[Match] = [m for m in matches(query.rows, case.rows) if m.path]
        if not found:
            continue
        known = _known(query, frame)
        match = found[-1]
        in_order = query.streams[0].row_order
        told = query.why(
            {"k": 0, "number": match.number},
            frame if in_order else frame.sample(fraction=1, shuffle=True, seed=seed),
        )
        times = [row["t"] for row in case.rows]
        orders = [_order(case, frame, n) for n in range(len(times))]
        path = [
            (times[match.first + n], orders[match.first + n], name)
            for n, (name, _) in enumerate(match.path)
        ]
        about = f"seed {seed}: {query}"
        assert [(row.time, row.sequence, row.variable) for row in told.rows] == path, about
        given = known.get(match.number)
        assert told.reported_at == (times[-1] if given is None else times[given]), about
        assert ("the end of the rows" in told.waited_for[0]) == (given is None), about
        if given is not None and given > match.first + len(match.path) - 1:
            assert all(_shown(times[given], orders[given], case) in w for w in told.waited_for), (
                f"{about}: {told.waited_for}"
            )


def _order(case: Case, frame: pl.DataFrame, number: int) -> int | None:
    """What tells a row from others of its time."""
    if case.query.streams[0].row_order:
        return [row["t"] for row in case.rows[: number + 1]].count(case.rows[number]["t"])
    return frame["seq"][number] if "seq" in frame.columns else None


def _shown(time: int, order: int | None, case: Case) -> str:
    name = "row" if case.query.streams[0].row_order else "seq"
    return f"{time}" if order is None else f"{time} ({name} {order})"


PRICES = [12, 17, 19, 21, 25, 12, 15, 20, 24, 25, 19, 15, 25, 25, 14, 12, 14, 24, 23, 22]
TICKER = pl.DataFrame({"symbol": ["ACME"] * 20, "day": range(1, 21), "price": PRICES})


def _v(
    pattern: str = "STRT DOWN+ UP+", more: str = "", up: str = "price > PREV(price)"
) -> ps.Query:
    return ps.query(
        "FROM ticker MATCH_RECOGNIZE (PARTITION BY symbol ORDER BY day MEASURES COUNT(*) AS n, "
        f"FIRST(day) AS first_day {more} PATTERN ({pattern}) "
        f"DEFINE DOWN AS price < PREV(price), UP AS {up})"
    )


def _why(query: ps.Query, number: int) -> Any:
    return query.why(query.run(TICKER)[number], TICKER)


def test_the_values_that_each_condition_read() -> None:
    told = _why(_v("STRT DOWN+ UP", up="UP.price > 1.2 * LAST(DOWN.price)"), 1)
    assert [(r.time, r.variable, r.condition, r.values) for r in told.rows] == [
        (10, "STRT", "TRUE", ""),
        (11, "DOWN", "price < PREV(price)", "price 19, PREV(price) 25"),
        (12, "DOWN", "price < PREV(price)", "price 15, PREV(price) 19"),
        (13, "UP", "UP.price > 1.2 * DOWN.price", "UP.price 25, DOWN.price 15"),
    ]
    assert told.match["symbol"] == "ACME"
    assert [(i.symbol, i.ts, i.te, i.events) for i in told.intervals] == [
        ("STRT", 10, 11, 1),
        ("DOWN", 11, 13, 2),
        ("UP", 13, 14, 1),
    ]


@pytest.mark.parametrize(
    ("query", "number", "waited"),
    [
        (_v(), 0, "11, which is not UP (price > PREV(price)): price 19, PREV(price) 25"),
        (_v("STRT DOWN+ UP+?"), 0, "its last row: whatever comes next, it is the match"),
        (
            _v("STRT DOWN+ UP*"), -1,
            "the end of the rows: the row behind might have been DOWN or UP",
        ),
        (_v("STRT DOWN (UP UP UP UP UP)?", "WITHIN 3"), 0, "the row at 8: WITHIN 3 is over"),
    ],
)  # fmt: skip
def test_what_made_it_certain(query: ps.Query, number: int, waited: str) -> None:
    told = _why(query, number)
    assert told.waited_for == (waited,)
    assert waited in str(told)


def test_what_was_preferred_and_what_was_left_out() -> None:
    told = _why(_v("STRT DOWN+ UP+", "AFTER MATCH SKIP PAST LAST ROW"), 0)
    assert told.choices == (
        "UP+ is greedy: reluctant, the match would be STRT at 5, DOWN at 6, UP at 7",
        "left out, because they begin in it: those at 10 (AFTER MATCH SKIP PAST LAST ROW)",
    )
    told = _why(_v("STRT DOWN+ UP+?"), 1)
    assert told.choices == (
        "behind the match from 5 to 7 the search went on at 8 (AFTER MATCH SKIP PAST LAST ROW)",
        "left out, because they begin in it: those at 11 (AFTER MATCH SKIP PAST LAST ROW)",
    )
    told = _why(_v("STRT (DOWN | UP)+", "MAXIMAL MATCH"), 0)
    assert "MAXIMAL MATCH: it is the longest that begins at its first row" in told.choices
    told = _why(_v("STRT (UP | DOWN | UP UP)"), 0)
    assert (
        "UP | DOWN | (UP UP) is tried from left to right: from right to left, the match would be "
        "STRT at 1, UP from 2 to 3"
    ) in told.choices


def test_all_rows_of_a_match_are_one_match() -> None:
    query = _v(more="ALL ROWS PER MATCH").run(TICKER)
    told = _v(more="ALL ROWS PER MATCH").why(query[2], TICKER)
    assert [row.time for row in told.rows] == [5, 6, 7, 8, 9, 10]
    assert "STRT" in told._repr_html_()


def test_a_match_that_is_none_or_several_is_refused() -> None:
    query = ps.query(
        "FROM ticker MATCH_RECOGNIZE (ORDER BY day MEASURES COUNT(*) AS n PATTERN (A) "
        "DEFINE A AS price > 20)"
    )
    with pytest.raises(ValueError, match=r"9 matches have these values: .* MATCH_NUMBER"):
        query.why({"n": 1}, TICKER)
    with pytest.raises(ValueError, match="this is no match"):
        query.why({"n": 2}, TICKER)


def test_of_a_long_match_the_first_and_the_last_rows_are_printed() -> None:
    rows = pl.DataFrame({"t": range(100), "x": [1] * 100})
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n PATTERN (A+) DEFINE A AS x = 1)"
    )
    told = query.why(query.run(rows), rows)
    assert "100 rows; these are the first and the last 20" in str(told)
    assert len(told.tables["rows"]) == 100


@pytest.mark.parametrize(
    ("pattern", "define", "values", "might"),
    [
        ("A B* C? D", "A AS x = 1, B AS x = 5, C AS x = 7", [1, 5, 1], ""),
        ("A B* C?", "A AS x = 1, B AS x = 5", [1, 5], "B or C"),
        ("A B* C", "A AS x = 1, B AS x = 5", [1, 5], "B or C"),  # and no A
        ("A B+ C?", "A AS x = 1, B AS x = 5 AND COUNT(B.*) <= 1, C AS C.x > B.x", [1, 5], "C"),
        ("A B* C?", "A AS x = 1, B AS x = 5, C AS x > 7 AND x < 3", [1, 5], "B"),
        ("A B+", "A AS x = 1, B AS B.x > A.x OR COUNT(B.*) <= 1", [1, 5], "B"),
    ],
)
def test_at_the_end_of_the_rows_only_variables_that_may_follow_are_named(
    pattern: str, define: str, values: list[int], might: str
) -> None:
    query = ps.query(
        "FROM s MATCH_RECOGNIZE (ORDER BY t MEASURES COUNT(*) AS n "
        f"PATTERN ({pattern}) DEFINE {define})"
    )
    rows = pl.DataFrame({"t": range(len(values)), "x": values})
    (match,) = query.run(rows).head(1).to_dicts()
    (waited,) = query.why(match, rows).waited_for
    if might:
        assert waited == f"the end of the rows: the row behind might have been {might}"
    else:
        assert "might have been" not in waited


@pytest.mark.parametrize(("by", "third"), [("seq", "seq 5"), ("ROW", "row 3")])
def test_rows_of_one_time_are_told_apart(tmp_path: Path, by: str, third: str) -> None:
    rows = pl.DataFrame(
        {"t": [1, 1, 1, 2, 2, 2, 3], "seq": [1, 2, 5, 1, 2, 5, 1], "x": [9, 8, 7, 6, 9, 5, 5]}
    )
    query = ps.query(
        f"FROM s MATCH_RECOGNIZE (ORDER BY t, {by} MEASURES MATCH_NUMBER() AS n "
        "PATTERN (A DOWN+) WITHIN 0 DEFINE DOWN AS x < PREV(x))"
    )
    told = query.why({"n": 1}, rows)
    name, last = third.split()
    sequence = [1, 2, int(last)]
    assert told.tables["rows"].select("time", "sequence", "variable").rows() == [
        *zip([1, 1, 1], sequence, ["A", "DOWN", "DOWN"], strict=True)
    ]
    assert told.choices == (
        f"DOWN+ is greedy: reluctant, the match would be A at 1 ({name} 1), DOWN at 1 ({name} 2)",
        f"left out, because they begin in it: those at 1 ({name} 2) (AFTER MATCH SKIP PAST LAST ROW)",
    )
    # the row at 2 is lower, but too late
    assert told.waited_for == (f"the row at 2 ({name} 1): WITHIN 0 is over",)
    assert told.reported_at == 2
    # at 2 another row could still come in time
    (waited,) = query.why({"n": 2}, rows[:-1]).waited_for
    assert waited == "the end of the rows: the row behind might have been DOWN"
    if by == "seq":
        kept = ps.archive(tmp_path / "lake", time="t", key=[])
        kept.append(rows)
        assert str(query.why({"n": 1}, kept)) == str(told)
