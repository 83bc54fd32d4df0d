"""An explanation shows what is in the compiled query, the same every time."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import piestream as ps
from piestream.plan.binding import bind
from piestream.show import explain

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
