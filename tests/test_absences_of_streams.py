"""NOT (...) beside several streams: what may not be there is of whatever stream, as the rest is."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import piestream as ps
from tests.bridged_absences import bridged_absences
from tests.many_cases import disagreements
from tests.many_late_absences import WAYS, late_absences
from tests.many_late_absences import disagreement as late_disagreement
from tests.oracle.streams import matches
from tests.stream_scenario import CombinedScenario, absent_scenario
from tests.stream_shrink import disagreement

#: The kinds of streams that the symbols of a match have.
_KINDS = {
    "events": ("events",),
    "silences": ("silences", "events"),
    "known": ("known", "events"),
    "identified": ("identified", "events"),
    "rows": ("rows", "events"),
    "queries": ("query", "events"),
}

DOORS = ps.query(
    "FROM doors ORDER BY ts WITH badges ORDER BY ts PARTITION BY k "
    "DEFINE opens AS doors.open, badge AS badges.shown "
    "PATTERN opens AND NOT (badge intersects; met_by; after opens AND badge.ts - opens.ts <= 10) "
    "WITHIN 99 RETURN opens.ts"
)


def _doors(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["k", "ts", "open"], orient="row")


def _badges(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["k", "ts", "shown"], orient="row")


def test_an_event_of_another_stream_may_be_missing() -> None:
    doors = _doors(("x", 1, True), ("x", 3, False), ("y", 2, True), ("y", 4, False))
    badges = _badges(("x", 11, True), ("y", 13, True))
    assert DOORS.run({"doors": doors, "badges": badges}).rows() == [("y", 12, 2)]


def test_time_that_goes_on_in_any_stream_decides() -> None:
    session = DOORS.open()
    doors = _doors(("x", 1, True), ("x", 3, False))
    assert session.push(doors, stream="doors").is_empty()
    assert session.push(_badges(("y", 11, False)), stream="badges").is_empty()  # x may come yet
    session = DOORS.open(state=session.snapshot())
    assert session.push(_badges(("y", 12, False)), stream="badges").rows() == [("x", 11, 1)]


def test_a_silence_during_which_something_does_not_come() -> None:
    query = ps.query(
        "FROM s ORDER BY ts WITH checks ORDER BY ts PARTITION BY k "
        "DEFINE quiet AS SILENCE OF s LONGER THAN 5, seen AS checks.seen "
        "PATTERN quiet AND NOT (seen intersects quiet AND seen.ts - quiet.ts <= 8) WITHIN 99 "
        "RETURN quiet.ts"
    )
    events = pl.DataFrame({"k": ["x", "y", "x"], "ts": [1, 2, 30]})
    for at, wanted in ((8, [("y", 10, 2)]), (10, [("x", 9, 1), ("y", 10, 2)])):
        checks = pl.DataFrame({"k": ["x", "x"], "ts": [at, at + 1], "seen": [True, False]})
        found = query.run({"s": events, "checks": checks})
        assert found.sort("k").rows() == wanted


def test_rows_of_intervals_and_matches_of_a_query_are_of_a_match() -> None:
    absence = "PATTERN a AND NOT (c after a AND c.ts - a.te <= 5) WITHIN 99 RETURN a.ts, a.te"
    events = pl.DataFrame(
        {"ts": [7, 8, 21, 22, 24, 50], "p": [False, True, False, True, False, False]}
    )
    rows = pl.DataFrame({"began": [1, 10], "ended": [3, 12]})
    for known in ("", " KNOWN AT START"):
        query = ps.query(
            f"FROM iv FROM began TO ended{known} WITH ev ORDER BY ts "
            f"DEFINE a AS iv, c AS ev.p {absence}"
        )
        assert query.run({"iv": rows, "ev": events}).rows() == [(17, 10, 12)]
    inner = "(FROM ev DEFINE x AS p PATTERN x WITHIN 99 EMIT ON COMPLETION RETURN x.ts) AS m"
    query = ps.query(f"FROM {inner} WITH ev ORDER BY ts DEFINE a AS m, c AS ev.p {absence}")
    assert query.run(events).rows() == [(29, 22, 24)]


FALLS = ps.query(
    "FROM prices ORDER BY ts WITH news ORDER BY ts WITH (FROM prices MATCH_RECOGNIZE (ORDER BY ts "
    "MEASURES LAST(d.p) AS low PATTERN (u d{1,5}) DEFINE d AS d.p < PREV(d.p))) AS falls "
    "DEFINE fall AS falls, during AS news.flag, later AS news.flag "
    "PATTERN fall AND NOT (during intersects fall) AND NOT (later after fall AND later.ts - fall.te <= 4) "
    "WITHIN 99 RETURN fall.ts, fall.te"
)


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (2, [(17, 9, 13)]),  # in the first one
        (7, [(11, 1, 7), (17, 9, 13)]),  # where that ends
        (8, [(17, 9, 13)]),  # soon after it, and before the second one
        (9, []),  # soon after the first one, and in the second one
        (12, [(11, 1, 7)]),
        (17, [(11, 1, 7)]),
        (18, [(11, 1, 7), (17, 9, 13)]),
    ],
)
def test_matches_of_a_row_pattern_are_given_if_something_is_absent(
    at: int, wanted: list[tuple[int, ...]]
) -> None:
    times = [1, 3, 5, 7, 9, 11, 13, 15, 30]
    prices = pl.DataFrame({"ts": times, "p": [5, 4, 3, 6, 7, 5, 8, 9, 9]})
    shown = [0, at, at + 1, 40]
    news = pl.DataFrame({"ts": shown, "flag": [time == at for time in shown]})
    frames = {"prices": prices, "news": news}
    assert FALLS.run(frames).rows() == wanted
    schema = {name: frame.schema for name, frame in frames.items()}
    for length in (1, 5, 20):
        session = FALLS.open(schema=schema, lateness=length - 1)
        found = []
        for since in range(0, 41, length):
            for name, frame in frames.items():
                piece = frame.filter(pl.col("ts").is_between(since, since + length - 1))
                found += session.push(piece, stream=name).rows()
            session = FALLS.open(state=session.snapshot(), lateness=length - 1)
        assert found == wanted


def test_a_row_that_is_known_at_its_start_may_be_absent() -> None:
    query = ps.query(
        "FROM jobs FROM began TO ended KNOWN AT START "
        "DEFINE a AS jobs, again AS jobs PATTERN a AND NOT (again intersects a) WITHIN 99 "
        "RETURN a.ts, a.te"
    )
    rows = pl.DataFrame({"began": [1, 3, 20, 25, 25, 40], "ended": [5, 9, 22, 28, 28, 41]})
    assert query.run(rows).rows() == [(22, 20, 22), (41, 40, 41)]
    session = query.open()
    assert session.push(rows[2:3]).is_empty()
    session = query.open(state=session.snapshot())
    assert session.advance(22).is_empty()
    assert session.advance(23).rows() == [(22, 20, 22)]


def test_what_comes_at_its_end_may_have_begun_long_ago() -> None:
    query = ps.query(
        "FROM ev ORDER BY ts WITH jobs FROM began TO ended ID id "
        "DEFINE a AS ev.p, job AS jobs PATTERN a "
        "AND NOT (job.te > a.ts AND job.te - a.te <= 5) WITHIN 99 RETURN a.ts"
    )
    columns = {"began": pl.Int64(), "ended": pl.Int64(), "id": pl.Int64()}
    session = query.open(schema={"ev": {"ts": pl.Int64(), "p": pl.Boolean()}, "jobs": columns})

    def found(stream: str, *rows: tuple[int, int | None, int] | tuple[int, bool]) -> list[object]:
        schema = columns if stream == "jobs" else ["ts", "p"]
        return session.push(pl.DataFrame(rows, schema=schema, orient="row"), stream=stream).rows()

    assert found("jobs", (1, None, 1)) == []
    assert found("ev", (10, True), (12, False)) == []
    assert found("jobs", (3, 18, 2)) == [(17, 10)]
    assert found("ev", (30, True), (31, False)) == []
    assert found("jobs", (1, 36, 1)) == []
    assert session.advance(99).is_empty()


def test_a_match_of_a_query_may_be_absent() -> None:
    inner = "(FROM ev DEFINE x AS q PATTERN x WITHIN 99 EMIT ON COMPLETION RETURN x.ts) AS m"
    query = ps.query(
        f"FROM ev ORDER BY ts WITH {inner} DEFINE a AS ev.p, c AS m "
        "PATTERN a AND NOT (c.te > a.ts AND c.te - a.te <= 5) WITHIN 99 RETURN a.ts"
    )
    events = pl.DataFrame({"ts": [1, 4, 5, 6, 20, 30, 50]}).with_columns(
        p=pl.col("ts").is_in([4, 20]), q=pl.col("ts") < 6
    )
    assert query.run(events).rows() == [(35, 20)]


def test_a_silence_is_absent_once_the_next_event_has_come_in_time() -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS p, quiet AS SILENCE LONGER THAN 5 "
        "PATTERN a AND NOT (quiet after a AND quiet.ts - a.te <= 10) WITHIN 99 RETURN a.ts"
    )
    ways: dict[tuple[int, ...], list[tuple[int, int]]] = {
        (5, 8, 11, 14, 20, 22): [(14, 1)],  # what begins at 11 is none
        (5, 12, 14, 20, 22): [],
        (5, 8, 12, 17): [(17, 1)],
        (5, 8, 12, 18): [],
    }
    for times, expected in ways.items():
        events = pl.DataFrame({"ts": [1, 2, *times]}).with_columns(p=pl.col("ts") == 1)
        assert query.run(events).rows() == expected
        session = query.open()
        found = []
        for event in events.iter_slices(1):
            found += session.push(event).rows()
            session = query.open(state=session.snapshot())
        assert found + session.close().rows() == expected


@pytest.mark.parametrize("kinds", _KINDS)
@pytest.mark.parametrize("engine", ["frame", "disordered restored"])
def test_every_way_in_says_what_the_oracle_says(
    engine: str, kinds: str, fewest_seeds: list[int]
) -> None:
    for seed in fewest_seeds[:2]:
        _check(engine, absent_scenario(seed, _KINDS[kinds]), seed)


@pytest.mark.parametrize("kinds", ["events", "rows", "known", "silences"])
def test_every_way_in_closes_what_is_open_as_the_oracle_does(
    kinds: str, fewest_seeds: list[int]
) -> None:
    for seed in fewest_seeds[:2]:
        _check("frame", absent_scenario(seed, _KINDS[kinds]).having(at_end="close"), seed)


@pytest.mark.parametrize(
    ("later", "wanted"),
    [
        ([(5, True), (7, False)], []),  # the run goes on from 1 to 7
        ([(5, True), (7, False), (9, True)], [("x", 9, 6)]),  # to 30
        ([(6, True), (7, False)], [("x", 6, 6)]),  # another one
    ],
)
def test_an_interrupted_run_of_another_stream_may_be_missing(
    later: list[tuple[int, bool]], wanted: list[tuple[str, int, int]]
) -> None:
    query = ps.query(
        "FROM doors ORDER BY ts WITH badges ORDER BY ts PARTITION BY k "
        "DEFINE opens AS doors.open, badge AS badges.shown BRIDGING 3 "
        "PATTERN opens AND NOT (badge overlaps opens) WITHIN 99 RETURN opens.ts"
    )
    doors = _doors(("x", 6, True), ("x", 8, False))
    badges = _badges(*(("x", *row) for row in [(1, True), (2, False), *later, (30, False)]))
    assert query.run({"doors": doors, "badges": badges}).rows() == wanted
    session = query.open(schema={"doors": doors.schema, "badges": badges.schema})
    found = []
    for time in range(31):
        for name, frame in (("doors", doors), ("badges", badges)):
            found += session.push(frame.filter(pl.col("ts") == time), stream=name).rows()
        session = query.open(state=session.snapshot())
    assert found + session.close().rows() == wanted


@pytest.mark.parametrize(
    ("way", "at_end"),
    [("frame", "open"), ("frame", "close"), ("session", "close"), ("disordered restored", "open")],
)
def test_interrupted_runs_are_judged_as_the_oracle_does(
    way: str, at_end: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    rows = 0
    for seed in seeds_in_all(24):
        many = bridged_absences(seed, 12, at_end)
        if many is not None:
            assert not disagreements(many, way, seed), many.drawn.text()
            rows += sum(map(len, many.expected.values()))
    assert rows


def test_the_scenarios_are_worth_trying() -> None:
    assert any(_leaves_out_matches(seed) for seed in range(30))


def _leaves_out_matches(seed: int) -> bool:
    """Whether the absences of a scenario leave out some of its matches."""
    drawn = absent_scenario(seed, _KINDS["events"])
    names = set(drawn.symbols)
    kept = tuple((n, d) for n, d in drawn.definitions if d.name in names)
    if {n for n, _ in kept} != set(range(len(drawn.streams))):
        return False
    return drawn.having(definitions=kept, absences=()).expected() != drawn.expected()


def _check(engine: str, drawn: CombinedScenario, seed: int) -> None:
    why = disagreement(engine, drawn, seed)
    if why is not None:
        pytest.fail(f"\n{engine} on {drawn}\n{why}\n", pytrace=False)


@pytest.mark.filterwarnings("ignore::piestream.ResultWarning")
@pytest.mark.parametrize(("first", "is_sequenced"), [(0, False), (300, False), (0, True)])
def test_what_becomes_known_late_is_waited_for_neither_too_short_nor_too_long(
    first: int, is_sequenced: bool
) -> None:
    rows = queries = 0
    for seed in range(first, first + 40):
        late = late_absences(seed, 8, is_sequenced=is_sequenced)
        if late is not None:
            for way in WAYS:
                assert late_disagreement(late, way, seed) is None
            rows += len(matches(late.query, late.inputs()))
            queries += 1
    assert queries >= 10
    assert rows > 50


def _late(inner: str, group: str) -> ps.Query:
    return ps.query(
        f"FROM s ORDER BY ts WITH {inner} AS j DEFINE a AS s.a, c AS j "
        f"PATTERN a AND NOT ({group}) WITHIN 99 RETURN a.ts"
    )


_BRIDGED = "(FROM s ORDER BY ts DEFINE x AS x BRIDGING 2 PATTERN x WITHIN 6)"
_ROWS = "s MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (X Y?) WITHIN 6 DEFINE X AS x, Y AS y)"


@pytest.mark.parametrize(
    ("inner", "group", "reported"),
    [
        (_BRIDGED, "c contains; overlaps a", 8),  # it began less than 6 ago, before 2
        (
            "(FROM s ORDER BY ts DEFINE x AS x BRIDGING 2, y AS z PATTERN x overlaps y WITHIN 6 OF y)",
            "c overlaps a",
            9,
        ),  # it ended less than 6 ago, before 3
        (_ROWS, "c meets a", 8),
        (_BRIDGED, "c after a AND c.ts - a.te <= 4", 13),
    ],
)
def test_what_may_become_known_late_is_waited_for_so_long(
    inner: str, group: str, reported: int
) -> None:
    query = _late(inner, group)
    events = pl.DataFrame({"ts": [1, 2, 3, 4, 20], "a": [False, True, False, False, False]})
    rows = events.with_columns(x=False, y=False, z=False)
    assert query.run({"s": rows}).rows() == [(reported, 2)]
    session = query.open()
    assert session.push(rows[:4], stream="s").is_empty()
    session = query.open(state=session.snapshot())
    assert session.advance(reported).is_empty()
    assert session.advance(reported + 1).rows() == [(reported, 2)]


def test_of_what_becomes_known_late_it_is_told_that_it_is_excluded() -> None:
    query = _late(_BRIDGED, "c meets a")
    events = pl.DataFrame(
        {"ts": [1, 2, 3, 4, 20], "x": [True, *[False] * 4], "a": [False, True, *[False] * 3]}
    )
    assert query.run({"s": events}).is_empty()
    texts = [miss.text for miss in query.why_not({"s": events}).near_misses]
    assert "c [1, 2) is what NOT (c meets a) excludes; without it it matches" in texts
    assert "so late" in query.explain().section("Absences")
