"""The strategies and laws that users can import."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import piestream as ps
from piestream import testing


def hold_the_laws(query: ps.Query, frame: Any, seed: int) -> None:
    testing.assert_same_however_cut(query, frame, seed)
    testing.assert_same_in_any_order(query, frame, seed)
    testing.assert_survives_restoring(query, frame, seed)


@settings(max_examples=25, deadline=None)
@given(testing.queries(), testing.events(), st.integers(0, 99))
def test_the_laws_hold_of_what_the_strategies_draw(
    query: ps.Query, frame: pl.DataFrame, seed: int
) -> None:
    hold_the_laws(query, frame, seed)


@settings(max_examples=8, deadline=None)
@given(
    testing.queries(sequenced=True, partitioned=True),
    testing.events(sequenced=True, partitions=2),
    st.integers(0, 99),
)
def test_the_laws_hold_of_events_of_one_time(
    query: ps.Query, frame: pl.DataFrame, seed: int
) -> None:
    assert query.streams[0].sequence == "seq"
    hold_the_laws(query, frame, seed)


@settings(max_examples=8, deadline=None)
@given(
    testing.queries("abc", streams=("u", "v")),
    st.fixed_dictionaries({"u": testing.events("ac"), "v": testing.events("b")}),
    st.integers(0, 99),
)
def test_the_laws_hold_of_several_streams(
    query: ps.Query, frames: dict[str, pl.DataFrame], seed: int
) -> None:
    hold_the_laws(query, frames, seed)


def test_queries_are_drawn_with_everything_or_with_what_is_asked_for() -> None:
    words = {
        "distances": r"\.t[se] - ",
        "limits": "PER |OVERLAP|COOLDOWN|LIMIT",
        "WITHIN OF": r"\d OF ",
    }
    texts: list[str] = []

    @settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @given(testing.queries())
    def draw_everything(query: ps.Query) -> None:
        texts.append(str(query))

    @settings(max_examples=20, deadline=None, derandomize=True, database=None)
    @given(testing.queries(using=["NOT"]))
    def draw_some(query: ps.Query) -> None:
        assert not re.search("SILENCE|GAP|AT LEAST|OVER|BRIDGING|UNTIL|WHERE", str(query))

    draw_everything()
    draw_some()
    for thing in testing.THINGS:
        assert any(re.search(words.get(thing, thing), text) for text in texts), thing


INTERVALS = pl.DataFrame(
    {"k": [1, 2, 1, 1, 2], "s": [1, 2, 3, 4, 5], "e": [4, 3, 9, 6, 8], "x": [1, 1, 2, 3, 2]}
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("FROM t FROM s TO e PARTITION BY k DEFINE a AS x = 1, b AS x > 1 PATTERN a precedes b WITHIN 9", 2),
        ("FROM t FROM s TO e KNOWN AT START DEFINE a AS x = 1, b AS x = 3 PATTERN a meets b WITHIN 9", 1),
        ("FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY s MEASURES A.x AS x PATTERN (A B) DEFINE B AS x > A.x)", 2),
        ("FROM (FROM t PARTITION BY k ORDER BY s DEFINE a AS x = 1 PATTERN a WITHIN 9) AS q PARTITION BY k DEFINE b AS q PATTERN b WITHIN 9", 2),
        ("FROM t ORDER BY s, ROW DEFINE a AS x > 1 PATTERN a WITHIN 9", 1),
    ],
)  # fmt: skip
def test_the_laws_take_queries_of_every_kind(text: str, rows: int) -> None:
    query = ps.query(text)
    assert len(query.run(INTERVALS)) == rows
    for seed in range(3):
        hold_the_laws(query, INTERVALS, seed)
    if query.partition_by:
        testing.assert_partitions_are_independent(query, INTERVALS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: testing.queries(using=["BRIDGES"]), "did you mean BRIDGING"),
        (lambda: testing.queries("a", streams=("u", "v")), "a symbol for each of its streams"),
        (
            lambda: testing.assert_same_however_cut(SEVERAL, INTERVALS),
            "the query reads several streams, u, v",
        ),
        (
            lambda: testing.assert_same_however_cut(SEVERAL, {"u": INTERVALS}),
            "the query reads v, too: give a frame for each stream",
        ),
        (
            lambda: testing.assert_same_in_any_order(SEVERAL, {"u": INTERVALS, "v": 1}),
            "the laws take Polars frames, not int for v",
        ),
        (
            lambda: testing.assert_survives_restoring(
                ps.query("FROM u ORDER BY s WITH ARCHIVE 'p' AS old ORDER BY s "
                         "DEFINE a AS u.x > 1, b AS old.x > 1 PATTERN b before a WITHIN 9"),
                {"u": INTERVALS},
            ),
            "old is in an archive",
        ),
        (
            lambda: testing.assert_partitions_are_independent(
                ps.query("FROM t PARTITION BY k ORDER BY s DEFINE a AS x > 1 BRIDGING 3 PATTERN a WITHIN 9"),
                INTERVALS,
            ),
            "without MAX GAP, SILENCE, NOT and BRIDGING",
        ),
    ],
)  # fmt: skip
def test_what_a_strategy_or_a_law_does_not_take_is_said(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        call()


SEVERAL = ps.query(
    "FROM u ORDER BY s WITH v ORDER BY s "
    "DEFINE a AS u.x > 1, b AS v.x > 1 PATTERN a before b WITHIN 9"
)


@settings(max_examples=25, deadline=None)
@given(
    testing.queries(
        "ab", partitioned=True, using={*testing.THINGS} - {"MAX GAP", "SILENCE", "NOT", "BRIDGING"}
    ),
    testing.events("ab", partitions=3, columns={"v": st.integers(0, 9)}),
)
def test_the_laws_hold_of_partitions(query: ps.Query, frame: pl.DataFrame) -> None:
    assert frame.columns == ["t", "k", "a", "b", "v"]
    testing.assert_same_however_cut(query, frame, 1)
    testing.assert_partitions_are_independent(query, frame)


class _Forgetful:
    """A query whose sessions forget the first match."""

    def __init__(self, query: ps.Query) -> None:
        self.query = query

    def __str__(self) -> str:
        return str(self.query)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.query, name)

    def open(self, **options: Any) -> Any:
        session = self.query.open(**options)
        push = session.push
        session.push = lambda rows: push(rows)[1:]
        return session


@pytest.mark.parametrize(
    "law",
    [
        testing.assert_same_however_cut,
        testing.assert_same_in_any_order,
        testing.assert_survives_restoring,
    ],
)
def test_a_broken_law_is_reported_with_the_query(law: Any) -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1, 2, 30], "x": [5, 0, 0]})
    law(query, frame)
    with pytest.raises(AssertionError, match="DEFINE a AS x > 1"):
        law(_Forgetful(query), frame, 0)


def test_a_law_is_not_asserted_where_it_does_not_apply() -> None:
    query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    with pytest.raises(ValueError, match="PARTITION BY"):
        testing.assert_partitions_are_independent(query, pl.DataFrame({"t": [1], "x": [5]}))
