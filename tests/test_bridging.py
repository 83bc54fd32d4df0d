"""BRIDGING: what is known of a run that may go on, and when."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.errors import StateError
from piestream.joins.state_records import Bridges

LEVEL = (
    "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a BRIDGING 5 PATTERN a WITHIN 90 {}RETURN a.te"
)


def _events(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["k", "ts", "a"], orient="row")


def test_that_a_run_has_ended_is_reported_with_its_deadline_whoever_lets_time_pass() -> None:
    query = ps.query(LEVEL.format("EMIT ON COMPLETION "))
    run = _events(("x", 1, True), ("x", 3, False))
    wanted = [("x", 8, 3)]
    assert query.run(pl.concat([run, _events(("x", 20, False))])).rows() == wanted
    assert query.run(pl.concat([run, _events(("y", 20, False))])).rows() == wanted
    assert query.run(pl.concat([run, _events(("x", 8, False))])).rows() == wanted
    session = query.open()
    session.push(run)
    assert session.push(_events(("y", 8, False))).is_empty()  # x may still go on at 8
    assert session.advance(9).rows() == wanted


def test_a_run_at_the_deadline_goes_on() -> None:
    query = ps.query(LEVEL.format("EMIT ON COMPLETION "))
    rows = _events(("x", 1, True), ("x", 3, False), ("x", 8, True), ("x", 9, False))
    assert query.run(rows).is_empty()
    assert query.run(rows, at_end="close").rows() == [("x", 9, 9)]


def test_max_gap_ends_a_run_and_a_later_one_may_still_go_on_with_it() -> None:
    text = LEVEL.replace("ORDER BY ts", "ORDER BY ts MAX GAP 2").format("EMIT ON COMPLETION ")
    near = _events(("x", 1, True), ("x", 8, True), ("x", 9, False), ("x", 30, False))
    assert ps.query(text).run(near).rows() == [("x", 14, 9)]  # silent from 3 on
    far = _events(("x", 1, True), ("x", 9, True), ("x", 10, False), ("x", 30, False))
    assert ps.query(text).run(far).rows() == [("x", 8, 3), ("x", 15, 10)]


def test_the_builder_says_the_same() -> None:
    built = ps.pattern(ps.define("a", "a", bridging=5)).within(90).partition_by("k").order_by("ts")
    assert built.query.symbols == ps.query(LEVEL.format("")).symbols


def test_bridged_symbols_differ_from_others_of_their_predicate() -> None:
    query = ps.query(
        "FROM s DEFINE a AS x BRIDGING 5, b AS x, c AS x BRIDGING 5 PATTERN a contains b AND b before c WITHIN 9"
    )
    a, b, c = query.symbols
    assert query.same_predicate(a, c)
    assert not query.same_predicate(a, b)


def test_a_state_whose_interrupted_runs_cannot_be_is_refused() -> None:
    query = ps.query(LEVEL.format(""))
    session = query.open()
    session.push(_events(("x", 1, True), ("x", 3, False)))
    stream = session._stream
    at = stream.detector.partitions._bridges + Bridges.offset("interrupted")
    stream.detector.partitions.rows[0, at] = 2
    with pytest.raises(StateError, match="damaged"):
        query.open(state=session.snapshot())


def test_a_query_in_brackets_with_bridged_runs_has_matches_that_are_known_late() -> None:
    query = ps.query("""
        FROM s PARTITION BY k ORDER BY ts
        WITH (FROM s PARTITION BY k ORDER BY ts DEFINE a AS a BRIDGING 5 PATTERN a WITHIN 90) AS q
        DEFINE b AS s.a, j AS q PATTERN b starts; equals j WITHIN 90 RETURN j.ts, j.te
    """)
    rows = _events(
        ("x", 1, True), ("x", 2, False), ("x", 3, True), ("x", 4, False), ("x", 30, False)
    )
    assert query.run(rows).rows() == [("x", 9, 1, 4)]


def test_why_says_when_a_run_went_on_and_when_it_is_known_to_have_ended() -> None:
    query = ps.query("""
        FROM s ORDER BY ts DEFINE a AS a BRIDGING 5 AT MOST 9, b AS b PATTERN a contains b WITHIN 90
    """)
    rows = pl.DataFrame(
        {
            "ts": [1, 2, 3, 4, 5, 6, 30],
            "a": [True, False, False, False, True, False, False],
            "b": [False, False, True, False, False, False, False],
        }
    )
    why = query.why(query.run(rows), rows)
    (decision,) = why.decisions
    assert (decision.decided_at, decision.decided_by) == (5, ("a going on",))
    assert (decision.relation, decision.letters) == ("contains", ())
    assert [(i.symbol, i.ts, i.te, i.events, i.valid_at) for i in why.intervals] == [
        ("a", 1, 6, 5, 11),
        ("b", 3, 4, 1, 3),
    ]
    assert why.waited_for == ("a to have ended",)


def test_why_not_proposes_another_distance() -> None:
    rows = pl.DataFrame({"ts": [1, 2, 8, 9, 60], "a": [True, False, True, False, False]})
    query = ps.query("FROM s ORDER BY ts DEFINE a AS a BRIDGING 5 AT LEAST 7 PATTERN a WITHIN 90")
    (longer, *_) = query.why_not(rows).near_misses
    assert (longer.kind, longer.text) == (
        "bridging",
        "a is interrupted for 6 from 2 (BRIDGING 5); with BRIDGING 6 it matches",
    )
    assert len(longer.query.run(rows)) == 1
    query = ps.query("FROM s ORDER BY ts DEFINE a AS a BRIDGING 6 AT MOST 2 PATTERN a WITHIN 90")
    texts = [miss.text for miss in query.why_not(rows).near_misses]
    assert "a is interrupted for 6 from 2 (BRIDGING 6); with BRIDGING 5 it matches" in texts


def test_what_may_still_go_on_is_neither_too_short_nor_short_enough() -> None:
    rows = pl.DataFrame({"t": [1, 2], "x": [5, 0]})

    def valid(bound: str) -> list[bool | None]:
        query = ps.query(
            f"FROM s ORDER BY t DEFINE a AS x > 1 BRIDGING 5 {bound} PATTERN a WITHIN 99"
        )
        found = query.intervals(rows)
        assert found["te"].to_list() == [None]
        return list(found["valid"])

    assert valid("AT LEAST 1") == [True]
    assert valid("AT LEAST 2") == [None]
    assert valid("AT MOST 1") == [None]
    assert valid("AT MOST 1 EVENTS") == [None]


def test_a_run_known_to_have_ended_at_the_end_of_a_row_that_was_announced_is_its_pair() -> None:
    query = ps.query("""
        FROM s PARTITION BY k ORDER BY ts WITH i FROM began TO ended KNOWN AT START
        DEFINE a AS s.a BRIDGING 3, b AS i PATTERN a meets; overlaps b WITHIN 90
    """)
    rows = _events(("x", 1, True), ("x", 4, False), ("x", 9, False))
    spans = pl.DataFrame({"k": ["x"], "began": [4], "ended": [7]})
    assert query.run({"s": rows, "i": spans}).rows() == [("x", 7, 1, 4, 4, 7)]


def test_what_a_quiet_partition_has_forgotten_is_no_end_of_1970() -> None:
    query = ps.query("""
        FROM v ORDER BY ts WITH o ORDER BY ts PARTITION BY k
        DEFINE a AS PREV(v.x) > 1 BRIDGING 1, b AS o.y > 1
        PATTERN a followed_by b WITHIN 20 EMIT ON COMPLETION
    """)
    session, found = query.open(), 0
    for number, at in enumerate(range(-40_000, -22_000, 300)):
        key = "rare" if number % 20 == 19 else "often"
        events = {"ts": [at, at + 1, at + 4, at + 5], "x": [5, 0, 0, 0]}
        found += len(session.push(pl.DataFrame({**events, "k": key}), stream="v"))
        others = {"ts": [at + 7, at + 9], "y": [5, 0]}
        found += len(session.push(pl.DataFrame({**others, "k": key}), stream="o"))
    found += len(session.advance(0))
    assert found == 60


FOLLOWED = """
    FROM s PARTITION BY k ORDER BY ts DEFINE x AS x BRIDGING 20, y AS y{}
    PATTERN x followed-by y WITHIN {}
"""


def _runs(times: list[int], **runs: list[tuple[int, int]]) -> pl.DataFrame:
    held = {
        name: [any(begun <= at < ended for begun, ended in of) for at in times]
        for name, of in runs.items()
    }
    return pl.DataFrame({"k": ["x"] * len(times), "ts": times, **held})


@pytest.mark.parametrize("window", [25, 90])
def test_what_touches_a_gap_counts_though_it_is_forgotten(window: int) -> None:
    """y lasts from 1 to 14; when it is known at 32 that x ended at 12, that is long ago."""
    times = [1, 10, 12, 14, 15, 16, 30, 31, 33, 60]
    rows = _runs(times, x=[(10, 12)], y=[(1, 14), (15, 16), (30, 31)])
    query = ps.query(FOLLOWED.format("", window))
    assert query.run(rows).is_empty()
    session = query.open()
    for row in rows.iter_slices(1):
        assert session.push(row).is_empty()
        session = query.open(state=session.snapshot())


def test_an_interval_that_is_dropped_later_does_not_touch_a_gap_before_it() -> None:
    rows = _runs([1, 10, 12, 15, 16, 18, 30, 33], x=[(10, 12)], y=[(15, 16), (18, 30)])
    found = ps.query(FOLLOWED.format(" AT MOST 2", 90)).run(rows)
    assert found.rows() == [("x", 32, 10, 12, 15, 16)]


def test_what_a_run_turns_out_to_follow_is_named_when_the_match_is_complete() -> None:
    rows = _runs([1, 3, 5, 6, 9], x=[(1, 3)], y=[(5, 6)])
    query = ps.query("""
        FROM s ORDER BY ts DEFINE x AS x BRIDGING 5, y AS y
        PATTERN x before; followed-by; overlaps; finished-by; contains y WITHIN 90
        EMIT ON BOTH RETURN RELATION(x, y) AS how
    """)
    assert query.run(rows).rows() == [(5, "trigger", None), (8, "completion", "followed-by")]


@pytest.mark.parametrize(
    ("pattern", "window", "ended", "found"),
    [
        ("a during b", "5 OF a", 50, (25, 20, 22)),
        ("a during b", "5 OF a, 90 OF b", 50, (25, 20, 22)),
        ("b followed-by a", "5 OF a, 90 OF b", 12, (20, 20, None)),
    ],
)
def test_rows_are_found_as_long_as_their_own_windows_last(
    pattern: str, window: str, ended: int, found: tuple[int | None, ...]
) -> None:
    query = ps.query(f"""
        FROM s ORDER BY ts WITH i FROM began TO ended KNOWN AT START
        DEFINE a AS s.a BRIDGING 3, b AS i PATTERN {pattern} WITHIN {window} RETURN a.ts, a.te
    """)
    rows = _runs([1, 20, 22, 26, 60], a=[(20, 22)])
    spans = pl.DataFrame({"began": [1], "ended": [ended]})
    assert query.run({"s": rows, "i": spans}).rows() == [found]


def test_an_interval_kept_after_its_end_is_no_partner_once_it_is_forgotten() -> None:
    """Its list of pairs is no longer kept: to go on from it did not end, where patterns have cycles."""
    query = ps.query("""
        FROM events ORDER BY t
        DEFINE s AS b1 AT LEAST 4 BRIDGING 2,
        Q AS b3 BRIDGING 1,
        a AS b0 AT LEAST 1 EVENTS BRIDGING 1,
        d AS b5,
        c AS n0 = 2 BRIDGING 5
        PATTERN Q meets; follows; overlapped-by; equals; starts; after; during; finished-by;
            met-by; overlaps s
        AND s starts; meets; finishes; during; followed-by; met-by; started-by; overlapped-by;
            overlaps; follows; contains d
        AND c follows | after | overlapped-by | meets | started-by | equals | finished-by d
        AND c after; finishes; before; followed-by a
        AND c intersects; disjoint; meets; met-by; followed-by; follows Q
        WITHIN 206 OF a, 204 OF s, 2 OF d
    """)
    rows = pl.DataFrame(
        {
            "t": [*range(5), *range(6, 12), *range(13, 22), 23, *range(25, 29), *range(30, 34), 36],
            "b0": [c == "#" for c in "#.######....######..######...."],
            "b1": [c == "#" for c in "....###.......###.....###....."],
            "b3": [c == "#" for c in "#...#....#....#.......#.....##"],
            "b5": [c == "#" for c in ".......#.........#.......#..#."],
            "n0": [
                1,
                1,
                None,
                None,
                None,
                3,
                4,
                2,
                1,
                2,
                0,
                0,
                1,
                0,
                1,
                None,
                None,
                2,
                3,
                3,
                0,
                0,
                0,
                3,
                3,
                2,
                3,
                3,
                1,
                4,
            ],
        }
    )
    assert query.run(rows)["detected_at"].to_list() == [31, 31]
