"""Distances between endpoints: when they are certain, what they cost, and what is kept of them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.engine.stream import Stream
from piestream.plan.binding import bind

HEAD = "FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN "


def events(a: str, b: str, times: range | list[int] | None = None) -> pl.DataFrame:
    """Events at which predicates hold where there is a 1."""
    of = {"x": [5 * int(held) for held in a], "y": [5 * int(held) for held in b]}
    return pl.DataFrame({"t": list(times or range(1, len(a) + 1)), **of})


def reported(pattern: str, frame: pl.DataFrame, tail: str = "WITHIN 99") -> list[Any]:
    return ps.query(HEAD + f"{pattern} {tail}").run(frame).rows()


@pytest.mark.parametrize(
    ("distance", "at"),
    [
        ("b.ts - a.ts <= 2", 3),  # both have started
        ("b.ts - a.ts < 2", None),
        ("b.ts - a.te <= 0", 3),  # a ends later than now
        ("b.ts - a.te < -2", 6),  # a ends more than 2 after b's start: once 2 have passed
        ("a.te - b.ts > 2", 6),
        ("a.te - b.ts >= 2", 6),  # 5 is no event
        ("a.te - b.ts >= 4", 7),
        ("a.te - b.ts > 4", 7),  # a goes on, so it ends later than that
        ("a.te - b.te > 3", 7),
        ("a.te - b.te > 4", 8),
        ("a.te - b.te <= 5", 9),
        ("b.te - a.te >= -5", 9),
        ("a.te - b.te = 5", 9),
        ("a.te - b.te BETWEEN 4 AND 5", 9),
        ("a.te - b.te > 5", None),
    ],
)
def test_a_distance_is_decided_at_the_first_event_at_which_it_is_certain(
    distance: str, at: int | None
) -> None:
    frame = events("111111" + "10", "001000" + "00", [1, 2, 3, 4, 6, 7, 8, 9])
    found = reported(distance, frame)
    assert [row[0] for row in found] == ([] if at is None else [at])


def test_the_relations_of_a_pair_and_its_distances_must_both_hold() -> None:
    frame = events("1100000000", "0001001001")
    assert [row[3] for row in reported("a before b", frame)] == [4, 7, 10]
    assert [row[3] for row in reported("a before b AND b.ts - a.te <= 4", frame)] == [4, 7]
    assert reported("a meets b AND b.ts - a.te <= 4", frame) == []


def test_time_that_passes_without_events_of_the_partition_decides_nothing() -> None:
    query = ps.query(HEAD + "a.te - b.te >= 3 WITHIN 99 RETURN a.ts, b.te")
    session = query.open()
    for time, (x, y) in enumerate([(5, 0), (5, 5), (5, 0)], 1):
        assert session.push({"t": time, "x": x, "y": y}) == []
    assert session.advance(50) == []
    found = session.push({"t": 51, "x": 5, "y": 0})
    assert [(row["detected_at"], row["b_te"]) for row in found] == [(51, 3)]


@pytest.mark.parametrize("comparison", ["<= 9", ">= 9"])
def test_pairs_leave_with_their_intervals(comparison: str) -> None:
    """Pending pairs too: the state does not grow with the stream."""
    query = ps.query(HEAD + f"a before b AND b.te - a.ts {comparison} WITHIN 30")
    x = [5 * (n % 3 == 0) for n in range(3_000)]
    frame = pl.DataFrame({"t": range(3_000), "x": x, "y": [*x[1:], 0]})
    stream = Stream(bind(query, frame.schema), lateness=0)
    sizes = []
    for piece in frame.iter_slices(500):
        stream.process(piece)
        sizes.append(stream.detector.pool.size)
    assert sizes[1] == sizes[-1]


def test_partners_out_of_reach_are_not_looked_at() -> None:
    """Before and after with a distance are a range of partners, whatever the window holds."""
    frame = pl.DataFrame({"t": range(4_000), "x": [5, 0] * 2_000, "y": [0, 5] * 2_000})
    query = ps.query(HEAD + "a before b AND b.ts - a.te BETWEEN 50 AND 60 WITHIN 3000")
    stream = Stream(bind(query, frame.schema), lateness=0)
    found = len(stream.process(frame))
    assert found == pytest.approx(2_000 * 6, rel=0.1)
    work = stream.detector.work
    assert work.visits + work.steps < 4 * found


def test_intervals_that_come_ready_made_have_distances_from_what_is_known_of_them() -> None:
    query = ps.query(
        "FROM s ORDER BY t WITH r FROM u TO v DEFINE a AS x > 1, b AS r "
        "PATTERN a intersects b AND b.te - a.ts >= 4 WITHIN 99 RETURN a.ts, b.te"
    )
    frames = {
        "s": pl.DataFrame({"t": [1, 2, 3, 9], "x": [0, 5, 5, 0]}),
        "r": pl.DataFrame({"u": [1], "v": [7]}),
    }
    assert query.run(frames).rows() == [(7, 2, 7)]
    known = ps.query(str(query).replace("TO v", "TO v KNOWN AT START"))
    assert known.run(frames).rows() == [(2, 2, 7)]


def test_an_impossible_query_is_refused_by_the_builder_too() -> None:
    a, b = ps.define("a", "x > 1"), ps.define("b", "y > 1")
    pattern = a.before(b) & (b.ts - a.te < "5 s") & (b.ts - a.ts > "1 min") & (a.te - b.ts < "1 h")
    assert str(ps.pattern(pattern).within("1 h")).count(" - ") == 3
    short = ps.define("a", "x > 1", at_most="20 s")
    clash = short.before(b) & (b.ts - short.te < "5 s") & (b.ts - short.ts > "1 min")
    with pytest.raises(ps.QueryError, match="no intervals can satisfy together"):
        _ = ps.pattern(clash).within("1 h").query
