"""BRIDGING: what is known of a run that may go on, and when."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.errors import StateError
from piestream.expressions.diagnostics import QueryError
from piestream.joins.records import Bridges

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


def test_slices_of_time_refuse_runs_that_may_go_on_from_earlier_ones() -> None:
    pytest.importorskip("pyspark")
    from piestream.plan.binding import bind
    from piestream.spark.slices import cut_slices

    query = ps.query(LEVEL.format(""))
    binding = bind(query, {"k": pl.String(), "ts": pl.Int64(), "a": pl.Boolean()})
    with pytest.raises(QueryError, match="BRIDGING cannot be processed in slices"):
        cut_slices(binding, None, 2)
