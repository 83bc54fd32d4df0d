"""The interface of a stream: time that is seen elsewhere, deadlines, emptiness, state as a value."""

from __future__ import annotations

import polars as pl
import pytest

import piestream as ps
from piestream.engine.stream import Stream
from piestream.errors import LateEventError, StateError, TieError
from piestream.plan.binding import bind

SCHEMA = {"ts": pl.Int64(), "k": pl.Int64(), "a": pl.Boolean()}
QUERY = (
    "FROM s PARTITION BY k ORDER BY ts {gap} DEFINE a AS a PATTERN a WITHIN 10 EMIT ON COMPLETION"
)


def stream_of(gap: str = "", lateness: int | None = 0, ties: str = "error") -> Stream:
    binding = bind(ps.query(QUERY.format(gap=gap)), SCHEMA)
    return Stream(binding, lateness=lateness, ties=ties)  # type: ignore[arg-type]


def rows(*events: tuple[int, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(events, schema=SCHEMA, orient="row")


def test_a_stream_is_empty_until_something_comes_and_after_all_of_it_has_gone() -> None:
    stream = stream_of(lateness=3)
    assert stream.is_empty
    assert stream.next_deadline is None
    stream.process(rows((5, 1, True)))
    assert not stream.is_empty  # the event waits
    stream.process(rows((6, 1, False)))
    for now in range(20, 400, 5):
        stream.advance(now)
    assert stream.progress.events == 2
    assert stream.is_empty


@pytest.mark.parametrize(("ties", "deadline"), [("error", 8), ("last", 9)])
def test_an_event_that_waits_is_processed_at_the_deadline(ties: str, deadline: int) -> None:
    stream = stream_of(lateness=4, ties=ties)
    stream.process(rows((8, 1, True)))
    assert stream.next_deadline == deadline
    stream.advance(deadline - 1)
    assert (stream.progress.events, stream.progress.waiting) == (0, 1)
    stream.advance(deadline)
    assert (stream.progress.events, stream.progress.waiting) == (1, 0)


def test_max_gap_ends_an_interval_at_the_deadline() -> None:
    stream = stream_of("MAX GAP 3")
    stream.process(rows((8, 1, True)))
    deadline = stream.next_deadline
    assert deadline == 12
    assert len(stream.advance(deadline - 1)) == 0
    assert stream.advance(deadline).rows() == [(1, 11, 8, 11)]


def test_time_that_is_seen_elsewhere_counts_at_the_next_call() -> None:
    stream = stream_of("MAX GAP 3")
    stream.process(rows((8, 1, True)))
    stream.observe_time(5)
    assert stream.latest == 8
    stream.observe_time(100)
    assert stream.latest == 100
    assert stream.finish().rows() == [(1, 11, 8, 11)]


def test_rows_without_an_order_are_late_by_what_was_seen_before_them() -> None:
    stream = stream_of(lateness=2)
    batch = stream.project(rows((9, 1, True), (20, 1, False), (5, 2, True)))
    stream.process_unordered(batch, seen=10)  # 8 is the watermark
    assert stream.progress.late == 1
    assert stream.progress.events == 1
    assert stream.progress.waiting == 1


def test_progress_is_the_statistics_without_the_size_of_the_state() -> None:
    stream = stream_of()
    stream.process(rows((1, 1, True), (2, 2, True)))
    progress, statistics = stream.progress, stream.statistics
    assert (
        (progress.events, progress.partitions)
        == (2, 2)
        == (
            statistics.events,
            statistics.partitions,
        )
    )
    assert (progress.live_intervals, statistics.live_intervals) == (0, 2)
    assert progress.state_bytes == 0 < statistics.state_bytes


def test_rows_that_are_refused_leave_no_trace() -> None:
    stream = stream_of()
    stream.process(rows((5, 1, True)))
    before = stream.statistics
    for refused, error in (
        (rows((7, 1, True), (7, 1, False)), TieError),
        (rows((8, 1, True), (6, 1, True)), LateEventError),
    ):
        with pytest.raises(error):
            stream.process(refused)
        assert stream.statistics == before
        assert stream.latest == 5


def test_an_exported_state_goes_on_like_the_stream_itself() -> None:
    stream = stream_of("MAX GAP 3", lateness=2)
    stream.process(rows((1, 1, True), (2, 2, True), (3, 1, False), (4, 2, True)))
    restored = Stream.restore_state(stream.binding, stream.export_state())
    assert restored.statistics == stream.statistics
    assert restored.next_deadline == stream.next_deadline
    assert restored.advance(50).rows() == stream.advance(50).rows()
    other = bind(ps.query(QUERY.format(gap="").replace("COMPLETION", "BOTH")), SCHEMA)
    with pytest.raises(StateError, match="laid out otherwise"):
        Stream.restore_state(other, stream.export_state())


def test_a_query_in_brackets_over_no_rows_has_no_matches() -> None:
    query = ps.query(
        "FROM (FROM e ORDER BY ts PARTITION BY k DEFINE a AS p PATTERN a WITHIN 9) AS s0 "
        "WITH o ORDER BY ts PARTITION BY k DEFINE x AS s0, y AS o.p PATTERN x before y WITHIN 9"
    )
    rows = pl.DataFrame({"ts": [1, 2], "k": ["u", "v"], "p": [True, False]})
    assert query.run({"e": rows.clear(), "o": rows}).is_empty()
