"""An explanation shows what is in the compiled query, the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import piestream as ps
from piestream.expressions.durations import Duration
from piestream.plan.binding import bind
from piestream.show import explain, keeping
from piestream.show.keeping import KeepTime

GOLDEN = Path(__file__).with_name("aggressive_driving.txt")

AGGRESSIVE_DRIVING = """
FROM CarSensors PARTITION BY car_id ORDER BY ts MAX GAP 30 s
DEFINE a AS accel > 8 AT LEAST 5 s,
       s AS speed > 70 BETWEEN 4 s AND 30 s,
       c AS (lateral > 0.5) OR (lateral < -0.5),
       d AS accel < -9
PATTERN a meets; overlaps; starts; during s
    AND s contains; overlaps; finished_by c
    AND c overlaps; meets; before d
    AND a before d
WITHIN 5 minutes
RETURN FIRST(s.car_id) AS id, AVG(s.speed) AS avg_speed, s.ts, s.te, RELATION(a, s) AS how
"""


def without_sizes(text: str) -> str:
    """How many words the state takes is the engine's to change."""
    return re.sub(r"\d+ words \([\d,]+ bytes\)", "… words", text)


def test_the_aggressive_driver_explained() -> None:
    """If this changes on purpose, print the new text and read it before it becomes the golden."""
    assert without_sizes(str(explain(ps.query(AGGRESSIVE_DRIVING)))) == GOLDEN.read_text()


def test_it_is_the_same_from_the_query_and_every_time() -> None:
    query = ps.query(AGGRESSIVE_DRIVING)
    assert query.explain() == explain(ps.query(str(query)))
    assert str(query.explain()) == str(query.explain())


def test_equal_predicates_are_shown_once_with_all_their_symbols() -> None:
    query = ps.query(
        "FROM t ORDER BY t DEFINE a AS x > 1, b AS (x>1) AT LEAST 3, c AS y > 1 AT MOST 4 "
        "PATTERN a meets c AND c before b WITHIN 9"
    )
    assert explain(query).section("Predicates").splitlines() == [
        "1: x > 1",
        "   a: valid from its start",
        "   b: valid once it is known to last 3",
        "2: y > 1",
        "   c: valid at its end, if it lasted at most 4",
    ]


def test_completion_makes_every_interval_wait_for_its_end() -> None:
    query = ps.query(
        "FROM t ORDER BY t DEFINE a AS x > 1 AT LEAST 3 PATTERN a WITHIN 9 EMIT ON COMPLETION"
    )
    shown = explain(query).section("Predicates")
    assert "a: valid at its end, if it lasted at least 3" in shown


def test_relations_that_the_others_rule_out_are_named() -> None:
    query = ps.query(
        "FROM t ORDER BY t DEFINE a AS x > 1, b AS y > 1, c AS z > 1 "
        "PATTERN a before b AND b before c AND a before; meets c WITHIN 9"
    )
    assert explain(query).section("Implied") == "a before c (meets: never in a match)"


def test_what_is_not_implied_is_not_said() -> None:
    query = ps.query(
        "FROM t ORDER BY t DEFINE a AS x > 1, b AS y > 1, c AS z > 1 "
        "PATTERN a overlaps b AND a overlaps c WITHIN 9"
    )
    implied = explain(query).section("Implied")
    assert implied.startswith("b ")
    assert implied.endswith(" c")
    chain = ps.query("FROM t DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 9")
    with pytest.raises(KeyError):
        explain(chain).section("Implied")


def test_the_words_of_an_interval_are_those_of_the_compiled_query() -> None:
    text = (
        "FROM t ORDER BY t DEFINE a AS x > 1, b AS y = 'on' PATTERN a overlaps; before b WITHIN 9 "
        "EMIT ON BOTH RETURN MIN(a.x), COUNT(b.y), FIRST(b.y) AS first_y"
    )
    query = ps.query(text)
    schema = {"t": pl.Int64(), "x": pl.Int32(), "y": pl.String()}
    interval_words = bind(query, schema).compiled.interval_words
    for shown in (explain(query), explain(query, schema)):
        state = shown.section("State")
        for name, words in zip("ab", interval_words, strict=True):
            assert f"an interval of {name}: {words} words" in state
        assert "a match from its trigger to its completion" in state


def test_a_minimum_duration_bounds_how_many_intervals_live() -> None:
    query = ps.query("FROM t DEFINE a AS x > 1 AT LEAST 10 s PATTERN a WITHIN 1 min")
    assert "at most 7 of them that can be in a match" in explain(query).section("State")


def test_the_state_says_how_long_each_symbol_is_kept_and_why() -> None:
    query = ps.query("""
        FROM v ORDER BY ts MAX GAP 30 s
        WITH doses FROM a TO b ID number
        WITH (FROM v DEFINE l AS s < 90 PATTERN l WITHIN 1 h) AS low
        PARTITION BY p
        DEFINE f AS v.temp > 38, d AS doses.drug = 'x', h AS low, g AS v.temp > 39
        PATTERN d during; overlaps f AND h during f AND g during f
        WITHIN 6 h EMIT ON BOTH
    """)
    bound = (
        "is kept 6 h from its start: WITHIN 6 h, from the earliest start of a match to its report"
    )
    ended = "  an open one until an event ends it, or a silence of more than 30 s: MAX GAP"
    lines = explain(query).section("State").splitlines()
    assert lines[:8] == [
        f"f {bound}", ended,
        f"d {bound}", "  one that has begun until the row with its end comes, by its number",
        f"h {bound}",
        f"g {bound}", ended,
        "a partition is freed when nothing of it is kept any more",
    ]  # fmt: skip
    assert lines[9] == "  and, to be complete, for the ends of all its intervals"
    assert (
        "pairs of runs: none; an interval holds its lowest and highest partner for each constraint"
        in lines
    )
    assert "pairs f, d; f, h: each that is decided, until either can be in no match" in lines


def test_a_stream_without_max_gap_is_told_what_would_bound_an_open_interval() -> None:
    state = explain(ps.query("FROM s DEFINE a AS x > PREV(x) PATTERN a WITHIN 9")).section("State")
    assert "however late that comes: MAX GAP would bound it" in state
    assert "a partition is never freed: PREV reads its latest event" in state


def test_a_bound_that_a_clause_adds_is_told_with_the_least_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")

    def distance(query: ps.Query, symbol: object) -> Iterator[KeepTime]:
        yield KeepTime(Duration(4, in_ticks=True), "b.ts - a.ts <= 4", "from its start to b")

    monkeypatch.setattr(keeping, "BOUNDS", (*keeping.BOUNDS, distance))
    assert list(keeping.keep_lines(query))[:2] == [
        "a is kept 4 ticks from its start: b.ts - a.ts <= 4, from its start to b",
        "  and no longer than 9 ticks from its start: WITHIN 9, from the earliest start of a match to "
        "its report",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "FROM t DEFINE time AS time > 1, predicate AS predicate > 1 "
        "PATTERN time meets predicate WITHIN 9 s RETURN MAX(time.time), MIN(predicate.predicate)",
        "FROM t PARTITION BY k ORDER BY t UNIT ms DEFINE a AS x > 1 AT LEAST 5 s "
        "PATTERN a WITHIN 9 min MAX GAP 300 ms RETURN COUNT(a), FIRST(a.k), STDDEV(a.t) AS spread",
        "FROM t DEFINE a AS s LIKE 'x%' AND PREV(s) IS NULL, b AS s LIKE 'x%' AND PREV(s) IS NULL "
        "PATTERN a followed_by b WITHIN 9",
    ],
)
def test_any_query_can_be_explained_without_its_input(text: str) -> None:
    text = text.replace(" MAX GAP 300 ms", "").replace("UNIT ms", "UNIT ms MAX GAP 300 ms")
    query = ps.query(text)
    assert str(query) in explain(query).section("Query")


def test_in_a_notebook_it_is_escaped() -> None:
    query = ps.query("FROM t DEFINE a AS x < 1 PATTERN a WITHIN 9")
    assert "x &lt; 1" in explain(query)._repr_html_()


def test_a_diagram_for_each_constraint() -> None:
    shown = explain(ps.query(AGGRESSIVE_DRIVING))
    assert shown.diagrams("mermaid").count("```mermaid\nstateDiagram-v2\n") == 4
    assert shown.diagrams("dot").count("digraph pair {") == 4
    assert "### a before d\n" in shown.diagrams("mermaid")


def test_a_kind_of_diagram_that_is_not_there_is_refused() -> None:
    one = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9").explain()
    with pytest.raises(ValueError, match=r"'mermaid' or 'dot', not 'svg'.* dot -Tsvg"):
        one.diagrams("svg")


def test_an_absence_is_told_with_what_bounds_it() -> None:
    text = (
        "FROM s DEFINE a AS x > 1, b AS y > 1, c AS z > 1 AT LEAST 2 s "
        "PATTERN a before b AND NOT (c after a AND c before b) WITHIN 60 s"
    )
    found = ps.query(text).explain()
    assert "c: absent: only what lasts at least 2 s counts" in found.section("Predicates")
    assert "a c that has not begun must begin before b.ts - 2 s" in found.section("Absences")
    assert "c is kept 58 s after its end: WITHIN 1 min, as its NOT" in found.section("State")
    assert "c" not in found.section("Example").replace("satisfies", "").split()


DOORS = """
    FROM doors PARTITION BY door ORDER BY t UNIT s
    DEFINE opens AS state = 'open', closed AS state = 'closed' AT LEAST 2 s
    PATTERN opens AND NOT (closed after opens AND closed.ts - opens.te <= 10 s)
    WITHIN 1 min EMIT ON BOTH {}
"""


def test_it_is_told_until_when_an_absence_is_waited_for_and_what_that_costs() -> None:
    told = explain(ps.query(DOORS.format("LIMIT 3")))
    assert told.section("Absences").splitlines()[1:] == [
        "  a closed that has not begun can begin no later than opens.te + 10 s",
        "  if none has begun by then, this is decided then, whether an event comes or not",
        "  one that has begun is waited for until its endpoints, or time alone, rule it out",
        "  if it is certain to satisfy this, the match is gone at once",
        "a match is reported once all else of it is known and no closed can satisfy this any more",
    ]
    lines = told.section("State").splitlines()
    at = lines.index("a partition is freed when nothing of it is kept any more")
    assert lines[at + 1 : at + 5] == [
        "  but for those of which LIMIT has counted a match",
        "a match waits for opens to be valid",
        "  then until no interval can satisfy a NOT (…) any more",
        "  and, to be complete, for the ends of all its intervals",
    ]
    assert any(line.startswith("a match that waits for what may not be there: ") for line in lines)
    assert any("30 of them that can count" in line for line in lines)
    assert not any(line.startswith("pairs") for line in lines)


def test_what_keeps_a_partition_is_told() -> None:
    def freed(definition: str, rest: str = "") -> list[str]:
        query = ps.query(f"FROM s ORDER BY t DEFINE a AS {definition} PATTERN a WITHIN 9 {rest}")
        lines = explain(query).section("State").splitlines()
        at = next(n for n, line in enumerate(lines) if line.startswith("a partition is"))
        return [line for line in lines[at : at + 2] if not line.startswith("a partition: ")]

    is_freed = "a partition is freed when nothing of it is kept any more"
    assert freed("MAX(x) OVER 5 EVENTS > 1") == [
        "a partition is never freed: MAX(x) OVER 5 EVENTS reads its latest events"
    ]
    assert freed("MAX(x) OVER 5 > 1") == [is_freed]
    assert freed("x > 1 UNTIL x < 0") == [is_freed, "  and UNTIL has come"]
    assert freed("x > 1", "COOLDOWN 5") == [is_freed, "  and COOLDOWN is over"]


def test_pairs_of_bridged_runs_are_kept_and_wait_until_their_ends_are_known() -> None:
    told = explain(
        ps.query(
            "FROM s ORDER BY t DEFINE a AS x > 1 BRIDGING 3, b AS y > 1 "
            "PATTERN a before b AND b.ts - a.te <= 5 WITHIN 9"
        )
    )
    assert told.section("Constraints").splitlines()[-1] == (
        "  b.ts - a.te <= 5: certain at b.ts, once it is known where a ended"
    )
    assert "pairs a, b: each that is decided, until either can be in no match" in (
        told.section("State").splitlines()
    )


def test_what_events_of_one_time_are_is_told() -> None:
    told = explain(ps.query("FROM s ORDER BY t, seq DEFINE a AS x > 1 PATTERN a WITHIN 9"))
    assert told.section("Order").splitlines()[0] == "events of one time come in the order of seq"
    several = ps.query(
        "FROM s ORDER BY t, seq WITH r FROM b TO e DEFINE a AS s.x > 1, i AS r "
        "PATTERN a during i WITHIN 9"
    )
    lines = explain(several).section("Order").splitlines()
    assert lines[0] == "events of s of one time come in the order of seq"
    assert lines[-1] == "rows of intervals start and end before all events of that time"
    assert "1: s, events, in order of t, seq" in explain(several).section("Streams")


@pytest.mark.parametrize(
    ("known", "told", "reported"),
    [
        ("", "from the instant on at which c is known", 12),
        (" KNOWN AT START", "overlaps: decided at a.te", 9),
    ],
)
def test_pairs_of_rows_are_decided_once_the_rows_are_known(
    known: str, told: str, reported: int
) -> None:
    query = ps.query(
        f"FROM ev ORDER BY ts WITH iv FROM began TO ended{known} DEFINE a AS ev.p, c AS iv "
        "PATTERN a overlaps c WITHIN 30"
    )
    said = str(query.explain().section("Constraints"))
    assert told in said
    assert "no automaton; decided from" in said
    events = pl.DataFrame({"ts": [1, 5, 9, 20], "p": [False, True, False, False]})
    found = query.run({"ev": events, "iv": pl.DataFrame({"began": [6], "ended": [12]})})
    assert found["detected_at"].to_list() == [reported]


def test_symbols_and_streams_are_told_as_they_are_known() -> None:
    query = ps.query(
        "FROM s WITH iv FROM began TO ended WITH ARCHIVE 'lake' AS old DEFINE a AS s.x > 1, c AS iv, "
        "b AS old.x > 2 PATTERN b before a AND a overlaps c WITHIN 30"
    )
    found = query.explain()
    assert "3: old, events; the archive lake has those of before" in str(found.section("Streams"))
    said = str(found.section("Predicates"))
    assert "c: valid once it is known" in said
    assert "a: valid from its start" in said
    absent = ps.query(
        "FROM s DEFINE a AS x > 1, c AS y > 1 AT LEAST 3 BETWEEN 2 AND 5 EVENTS "
        "PATTERN a AND NOT (c during a) WITHIN 9"
    )
    assert (
        "c: absent: only what lasts at least 3 and has at least 2 and at most 5 events counts"
        in str(absent.explain().section("Predicates"))
    )
