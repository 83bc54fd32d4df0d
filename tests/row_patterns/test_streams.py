"""Row patterns as streams of larger queries: what is written, what is known when, what is refused."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import piestream as ps

_V = """MATCH_RECOGNIZE (MEASURES LAST(UP.price) - STRT.price AS gain PATTERN (STRT DOWN+ UP+) WITHIN 20
        DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price)) AS v"""
_TICKS = pl.DataFrame(
    {
        "ts": range(1, 9),
        "price": [9, 7, 5, 6, 10, 12, 11, 10],
        "volume": [1, 1, 20, 20, 20, 20, 20, 1],
    }
)


def _query(pattern: str, rest: str = "PATTERN m WITHIN 100") -> ps.Query:
    """A query over the matches m of a row pattern over t, whose conditions are columns."""
    conditions = ", ".join(
        f"{name} AS {name.lower()}"
        for name in "ABC"
        if name in pattern.split("WITHIN")[0].removeprefix("PATTERN")
    )
    return ps.query(
        f"FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n, CLASSIFIER() AS last {pattern} "
        f"DEFINE {conditions}) AS p DEFINE m AS p {rest}"
    )


def _rows(letters: str, step: int = 1) -> pl.DataFrame:
    """A row for each letter, which says what holds of it."""
    return pl.DataFrame(
        {
            "ts": range(0, step * len(letters), step),
            **{name: [name == letter for letter in letters] for name in "abc"},
        }
    )


def test_a_v_shape_that_overlaps_high_volume_is_one_query() -> None:
    query = ps.query(
        f"FROM ticks ORDER BY ts WITH ticks {_V} DEFINE fall AS v.gain > 0, busy AS ticks.volume > 10 "
        "PATTERN fall overlaps busy WITHIN 60 RETURN fall.gain, fall.ts, fall.te, busy.ts"
    )
    expected = [(7, 3, 1, 7, 3)]
    assert query.run(_TICKS).rows() == expected
    session = query.open()
    found = [row for event in _TICKS.to_dicts() for row in session.push(event)]
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize(
    "clauses",
    [
        "MEASURES COUNT(*) AS n PATTERN (S D+) WITHIN 10 DEFINE D AS D.price < S.price",
        "MEASURES LAST(D.price) AS n PATTERN (S D+) WITHIN 10 DEFINE D AS volume > 5",
    ],
)
def test_columns_that_a_row_pattern_alone_reads_are_there_beside_another_reader(
    clauses: str,
) -> None:
    query = ps.query(
        f"FROM ticks ORDER BY ts WITH ticks MATCH_RECOGNIZE ({clauses}) AS v DEFINE a AS v, "
        "busy AS ticks.volume > 10 PATTERN a before; overlaps; contains; finished-by busy WITHIN 60"
    )
    expected = query.run(_TICKS).rows()
    assert expected
    session = query.open()
    events = [*_TICKS.to_dicts(), {"ts": 99, "price": 99, "volume": 1}]
    found = [tuple(row.values()) for event in events for row in session.push(event)]
    assert found[: len(expected)] == expected


def test_a_row_pattern_in_brackets_and_beside_a_name_are_one_stream() -> None:
    inside = f"(FROM ticks {_V.removesuffix(' AS v')}) AS v"
    rest = "PARTITION BY sym DEFINE a AS v.gain > 0, b AS ticks.x > 1 PATTERN a before b WITHIN 9"
    queries = [
        ps.query(f"FROM ticks ORDER BY ts UNIT s WITH {stream} {rest}")
        for stream in (f"ticks {_V}", inside)
    ]
    assert queries[0] == queries[1] == ps.query(str(queries[0]))
    rows = queries[0].streams[1].query
    assert rows is not None
    assert rows.partition_by == ("sym",)
    assert (rows.streams[0].order_by, rows.streams[0].time_unit) == ("ts", "s")
    assert [stream.name for stream in queries[0].inputs] == ["ticks"]


def test_a_match_counts_from_the_row_at_which_it_is_certain() -> None:
    query = _query("PATTERN (A (B B C)?) WITHIN 50")
    end_before = [("abba", 3, 0, 1), ("aba", 2, 0, 1), ("abbca", 4, 0, 4)]
    for letters, detected, start, end in end_before:
        (first, *_) = query.run(_rows(letters)).rows()
        assert first == (detected, start, end), letters


def test_a_match_counts_from_the_end_of_within_where_that_decides() -> None:
    query = _query("PATTERN (A (B+ C)?) WITHIN 5")
    expected = [(5, 0, 1)]
    rows = pl.concat([_rows("abb"), _rows("c").with_columns(ts=pl.lit(40, pl.Int64))])
    assert query.run(rows).rows() == expected
    session = query.open(schema={"t": rows.schema})
    assert not len(session.push(rows[:3]))
    assert not len(session.advance(5))
    assert session.advance(6).rows() == expected


def test_a_match_that_is_known_late_meets_what_began_after_it_and_what_it_touched() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A (B B C)?) WITHIN 50 "
        "DEFINE A AS a, B AS b, C AS c) AS p WITH u ORDER BY ts DEFINE m AS p, x AS u.x > 0 "
        "PATTERN m before; meets; overlaps x WITHIN 9 RETURN RELATION(m, x) AS how, x.ts"
    )
    u = pl.DataFrame({"ts": [0, 1, 2, 3, 4], "x": [0, 1, 0, 1, 1]})
    found = query.run({"t": _rows("abba"), "u": u}).rows()
    assert found == [(3, "meets", 1), (3, "before", 3)]
    session = query.open(schema={"t": _rows("a").schema, "u": u.schema})
    given = []
    for time in range(5):
        for name, rows in (("t", _rows("abba")), ("u", u)):
            given.append(session.push(rows.filter(pl.col("ts") == time), stream=name))
    assert [row for frame in given for row in frame.rows()] == found


def test_what_is_open_at_the_end_stays_so_unless_it_is_closed() -> None:
    query = _query("PATTERN (A B*) WITHIN 50")
    rows = _rows("abb")
    assert query.run(rows).rows() == []
    assert query.run(rows, at_end="close").rows() == [(2, 0, 2)]
    assert query.run(_rows("a"), at_end="close").rows() == [(1, 0, 1)]
    ended = _query("PATTERN (A B* $) WITHIN 50")
    assert ended.run(rows).rows() == []
    assert ended.run(rows, at_end="close").rows() == [(2, 0, 2)]


def test_matches_without_rows_are_no_intervals_but_have_numbers() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES MATCH_NUMBER() AS n PATTERN (A{,3}) "
        "DEFINE A AS a) AS p DEFINE m AS p PATTERN m WITHIN 9 RETURN m.n, m.ts, m.te"
    )
    assert query.run(_rows("bbaab")).rows() == [(4, 3, 2, 4)]


def test_a_measure_that_reads_rows_to_come_is_waited_for() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES NEXT(LAST(ts), 3) AS later PATTERN (A) "
        "DEFINE A AS a) AS p DEFINE m AS p PATTERN m WITHIN 9 RETURN m.later, m.te"
    )
    assert query.run(_rows("abbb")).rows() == [(3, 3, 1)]


def test_a_query_over_matches_of_a_row_pattern_is_a_stream_in_turn() -> None:
    inner = str(_query("PATTERN (A (B B C)?) WITHIN 50", "PATTERN m WITHIN 100 RETURN m.n"))
    query = ps.query(f"FROM ({inner}) AS q DEFINE x AS q.m_n > 0 PATTERN x WITHIN 100")
    assert query.run(_rows("abba")).rows() == [(3, 0, 1)]


def test_rows_of_many_partitions_stay_apart() -> None:
    query = ps.query(
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A+) WITHIN 9 "
        "DEFINE A AS a) AS p PARTITION BY k DEFINE m AS p PATTERN m WITHIN 9 RETURN m.n"
    )
    one, other = _rows("aab"), _rows("aba")
    rows = pl.concat([one.with_columns(k=pl.lit(1)), other.with_columns(k=pl.lit(2))]).sort("ts")
    assert sorted(query.run(rows).rows()) == [(1, 2, 2), (2, 1, 1)]


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        (
            "MEASURES COUNT(*) AS n PATTERN (A+)",
            "nothing bounds how long a match of p may stay open",
        ),
        ("MEASURES COUNT(*) AS n PATTERN (B (A B){2,}?)", "can go on for ever"),
        ("ALL ROWS PER MATCH PATTERN (A) WITHIN 5", "ALL ROWS PER MATCH gives more than one row"),
    ],
)
def test_what_is_no_interval_or_has_no_bound_is_refused(clauses: str, message: str) -> None:
    conditions = "A AS a, B AS b" if "B" in clauses.replace("BY", "") else "A AS a"
    text = (
        f"FROM t MATCH_RECOGNIZE (ORDER BY ts {clauses} DEFINE {conditions}) AS p DEFINE m AS p "
        "PATTERN m WITHIN 9"
    )
    with pytest.raises(ps.QueryError, match=message):
        ps.query(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM t {} DEFINE m AS n > 1 PATTERN m WITHIN 9", "have no name"),
        (
            "FROM t FROM a TO b WITH t {} AS p DEFINE m AS p PATTERN m WITHIN 9",
            "stream of intervals",
        ),
        ("FROM p {} AS p DEFINE m AS p PATTERN m WITHIN 9", "made of itself"),
        ("FROM t {} AS p PARTITION BY k, j DEFINE m AS p PATTERN m WITHIN 9", "no column j"),
    ],
)
def test_a_stream_that_a_row_pattern_cannot_be_is_refused(text: str, message: str) -> None:
    rows = "MATCH_RECOGNIZE (PARTITION BY k MEASURES COUNT(*) AS n PATTERN (A) DEFINE A AS x > 1)"
    with pytest.raises(ps.QueryError, match=message):
        ps.query(text.format(rows))


def test_explain_says_when_its_matches_are_known() -> None:
    text = _query("PATTERN (A B?)").explain().section("streams")
    assert "matches of a row pattern, known when certain" in text


def test_a_query_in_brackets_without_any_row_gives_nothing() -> None:
    query = ps.query(
        "FROM a ORDER BY t WITH (FROM b ORDER BY t DEFINE x AS v > 1 PATTERN x WITHIN 9) AS m "
        "PARTITION BY k DEFINE p AS a.v > 1, y AS m PATTERN p before y WITHIN 9"
    )
    types: dict[str, Any] = {"t": pl.Int64, "v": pl.Int64, "k": pl.String}
    rows = pl.DataFrame({"t": [1, 2], "v": [2, 0], "k": ["x", "x"]})
    assert query.run({"a": rows, "b": pl.DataFrame(schema=types)}).rows() == []


def test_the_builder_makes_the_query_of_the_text() -> None:
    rows = (
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A) DEFINE A AS x > 1)"
    )
    built = ps.pattern(ps.define("m", "n > 0", stream=ps.stream("p", rows))).within(9)
    query = built.partition_by("k").query
    assert query == ps.query(
        f"FROM ({rows}) AS p PARTITION BY k DEFINE m AS p.n > 0 PATTERN m WITHIN 9"
    )
    assert query == ps.query(str(query))
