"""Patterns over bits: what they take from a query, and what they refuse."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from experiments.peers import PEERS, run
from experiments.peers.pattern import Pattern, UnsupportedPatternError, sorted_matches
from experiments.streams import bits
from piestream.expressions.durations import Duration
from piestream.language import parse
from piestream.language.model import Query
from piestream.language.parts import Constraint, Endpoint, Source, Symbol
from piestream.relations import Relation


def query(**changes: object) -> Query:
    clauses: dict[str, object] = {
        "symbols": (
            Symbol("a", "p", at_least=Duration(2_000_000_000)),  # type: ignore[arg-type]
            Symbol("b", "q", at_most=Duration(7, in_ticks=True)),  # type: ignore[arg-type]
        ),
        "constraints": (Constraint("a", "b", Relation.MEETS),),
        "within": Duration(60_000_000_000),
        "returns": (Endpoint("a", "ts", "a_ts"),),
    }
    return Query(**(clauses | changes))  # type: ignore[arg-type]


def test_a_query_becomes_a_pattern_in_ticks() -> None:
    assert Pattern.of(query(), 1_000_000) == Pattern(
        2, ((0, 1, Relation.MEETS),), 60_000, at_least=(2000, 0), at_most=(None, 7)
    )


def test_what_the_other_methods_do_not_know_is_refused() -> None:
    same = (Symbol("a", "p"), Symbol("b", "p"))  # type: ignore[arg-type]
    with pytest.raises(UnsupportedPatternError, match="equal predicates"):
        Pattern.of(query(symbols=same), 1)
    with pytest.raises(UnsupportedPatternError, match="MAX GAP"):
        Pattern.of(query(streams=(Source(max_gap=Duration(1, in_ticks=True)),)), 1)
    with pytest.raises(UnsupportedPatternError, match="one stream"):
        Pattern.of(query(streams=(Source("s"), Source("t"))), 1)
    with pytest.raises(UnsupportedPatternError, match="WHERE"):
        Pattern.of(parse("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE MAX(a.x) > 2"), 1)


def test_constraints_of_one_pair_are_intersected_whichever_way_round() -> None:
    given = Pattern(
        2,
        ((0, 1, Relation.MEETS | Relation.OVERLAPS), (1, 0, Relation.MET_BY | Relation.AFTER)),
        9,
    )
    assert given.constraints == ((0, 1, Relation.MEETS),)
    assert given.relation_matrix().tolist() == [[0, Relation.MEETS], [Relation.MET_BY, 0]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, (), 9), "n_symbols is 0"),
        ((3, ((0, 1, Relation.MEETS),), 9), r"symbols \[2\]"),
        ((2, ((0, 0, Relation.MEETS),), 9), "two different"),
        ((2, ((0, 1, Relation.MEETS), (0, 1, Relation.BEFORE)), 9), "no relation is left"),
        ((2, ((0, 1, Relation.MEETS),), -1), "window is -1"),
        ((2, ((0, 1, Relation.MEETS),), 9, (1,)), "at_least has 1"),
    ],
)
def test_what_is_wrong_with_a_pattern_is_said(arguments: tuple[object, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pattern(*arguments)  # type: ignore[arg-type]


def test_a_frame_of_booleans_becomes_masks() -> None:
    frame = pl.DataFrame({"ts": [3, 5], "a": [True, None], "b": [1, 1], "c": [False, True]})
    times, masks = bits(frame)
    assert (times.tolist(), masks.tolist()) == ([3, 5], [0b011, 0b110])
    assert bits(frame, ["c"])[1].tolist() == [0, 1]
    with pytest.raises(ValueError, match="increase strictly"):
        bits(frame.reverse())


@pytest.mark.parametrize("name", ["tpstream", "piestream-paper", "iseq", "duckdb", "polars"])
def test_what_is_no_sorted_partition_is_refused(name: str) -> None:
    given = Pattern(2, ((0, 1, Relation.MEETS),), 9)
    with pytest.raises(ValueError, match="increase strictly"):
        run(name, given, np.array([1, 1]), np.array([1, 2]))
    with pytest.raises(ValueError, match="2 times and 1 masks"):
        run(name, given, np.array([1, 2]), np.array([1]))


@pytest.mark.parametrize("name", ["tpstream", "tpstream-published", "iseq"])
def test_methods_of_allens_relations_refuse_the_precise_ones(name: str) -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(UnsupportedPatternError, match="followed-by"):
        run(name, Pattern(2, ((0, 1, Relation.FOLLOWED_BY),), 9), nothing, nothing)
    wider = Pattern(2, ((0, 1, Relation.FOLLOWED_BY | Relation.BEFORE),), 9)
    times, masks = np.arange(4), np.array([1, 0, 2, 0])
    assert run(name, wider, times, masks).count == 1


@pytest.mark.parametrize("name", ["tpstream-published", "piestream-paper"])
def test_methods_without_durations_refuse_them(name: str) -> None:
    given = Pattern(2, ((0, 1, Relation.MEETS),), 9, at_least=(1, 0))
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(UnsupportedPatternError, match="durations"):
        run(name, given, nothing, nothing)


def test_an_unknown_name_lists_the_known_ones() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(KeyError, match="piestream-paper"):
        run("esper", Pattern(2, ((0, 1, Relation.MEETS),), 9), nothing, nothing)


@pytest.mark.parametrize("name", [name for name in PEERS if name != "java"])
def test_an_empty_stream_has_no_matches(name: str) -> None:
    if reason := PEERS[name].missing_here():
        pytest.skip(reason)
    nothing = np.zeros(0, dtype=np.int64)
    result = run(name, Pattern(2, ((0, 1, Relation.MEETS),), 9), nothing, nothing)
    assert (result.count, result.matches.shape) == (0, (0, 3))
    assert sorted_matches(result.matches) is result.matches
