"""NOT (...) over several streams where several events of a partition have one time."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

import piestream as ps
from tests.stream_scenario import sequenced_scenario
from tests.stream_shrink import disagreement
from tests.two_streams import rows_of_one_and_two

NOTS = (
    "a AND NOT (c after a AND c.ts - a.te <= 2)",
    "a AND NOT (c after; overlapped-by a AND c.ts - a.ts < 2)",
    "a AND NOT (c intersects a)",
    "a AND NOT (c before; meets a AND a.ts - c.te <= 1)",
)


def test_two_streams_of_the_same_instants_are_as_one() -> None:
    rng = Random("absences")
    given = 0
    for pattern in NOTS:
        define = f"DEFINE a AS {{}}x, c AS {{}}y PATTERN {pattern} WITHIN 9 EMIT ON BOTH"
        given += sum(rows_of_one_and_two(rng, define, 14, 0.3) for _ in range(8))
    assert given > 30


def _ticks(*rows: tuple[int, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["t", "q", "x"], orient="row")


def test_rows_lie_before_all_events_of_their_times() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH jobs FROM began TO ended KNOWN AT START "
        "DEFINE a AS s.x, job AS jobs PATTERN a AND NOT (job {} a AND job.te - a.ts <= 3) "
        "WITHIN 9 RETURN a.ts".format("met-by")
    )
    ticks = _ticks((1, 1, True), (2, 1, False), (2, 2, False), (9, 1, False))
    jobs = pl.DataFrame({"began": [2], "ended": [4]})
    assert query.run({"s": ticks, "jobs": jobs}).rows() == [(2, 1)]  # a ends at an event of 2
    inside = ps.query(str(query).replace("met-by", "overlapped-by"))
    assert inside.run({"s": ticks, "jobs": jobs}).rows() == []


def test_a_row_may_still_come_at_the_time_of_an_event() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH jobs FROM began TO ended DEFINE a AS s.x, job AS jobs "
        "PATTERN a AND NOT (job after a AND job.te - a.te <= 3) WITHIN 9 RETURN a.ts"
    )
    ticks = _ticks((1, 1, True), (2, 1, False), (5, 1, False), (9, 1, False))
    for began, ended, wanted in ((3, 5, []), (2, 5, []), (3, 6, [(5, 1)])):
        jobs = pl.DataFrame({"began": [began], "ended": [ended]})
        found = query.run({"s": ticks, "jobs": jobs}).rows()
        assert found == ([(5, 1)] if began == 2 else wanted), (began, ended)


LATE = (
    "FROM s ORDER BY t, q WITH (FROM s0 ORDER BY t, q DEFINE x AS x BRIDGING 2 PATTERN x WITHIN {within}) AS m "
    "DEFINE a AS s.x, m AS m PATTERN a AND NOT ({group}) WITHIN 99 RETURN a.ts, a.te"
)


@pytest.mark.parametrize(
    ("group", "others", "wanted"),
    [
        # it may have begun at 6, so it becomes known by 12
        ("m after a AND m.ts - a.te <= 4", [], [(12, 1, 2)]),
        ("m after a AND m.ts - a.te <= 4", [(4, 1, True), (5, 2, False)], []),
        ("m overlapped-by a", [], [(8, 1, 2)]),  # what begins at 2 does so before a ends
        ("m overlapped-by a", [(2, 7, True), (5, 1, False)], []),
        ("m met-by a", [], [(2, 1, 2)]),  # nothing begins at an event that is not the first of 2
        ("m overlaps a", [], [(7, 1, 2)]),  # what begins at 1 does so before a
        ("m overlaps a", [(1, 7, True), (2, 8, False)], []),
    ],
)
def test_what_becomes_known_late_is_waited_for_beside_events_of_one_time(
    group: str, others: list[tuple[int, int, bool]], wanted: list[tuple[int, int, int]]
) -> None:
    query = ps.query(LATE.format(within=6, group=group))
    ticks = _ticks((1, 1, True), (1, 2, True), (2, 1, True), (2, 2, False), (20, 1, False))
    other = _ticks((0, 0, False), *others, (20, 1, False))
    assert query.run({"s": ticks, "s0": other}).rows() == wanted
    session = query.open(schema={"s": ticks.schema, "s0": other.schema})
    found = []
    for time in range(20):
        for name, frame in (("s", ticks), ("s0", other)):
            for row in frame.filter(pl.col("t") == time).iter_slices(1):
                found += session.push(row, stream=name).rows()
        session = query.open(state=session.snapshot())
        found += session.advance(time).rows()
        assert found == [row for row in wanted if row[0] < time]
    assert found == wanted


def test_of_what_becomes_known_late_the_latest_instants_are_kept() -> None:
    query = ps.query(LATE.format(within=6, group="m after a AND m.ts - a.te <= 4"))
    session = ps.query(str(query).replace("s0", "s")).open()
    rng = Random("kept")
    sizes = []
    for first in range(0, 4_000, 1_000):
        rows = [(first + n // 3, n % 3, rng.random() < 0.3) for n in range(3_000)]
        session.push(_ticks(*rows))
        session._stream.compact()
        sizes.append(len(session.snapshot()))
    assert max(sizes[1:]) < 1.5 * sizes[0] + 1_000


def test_no_warning_where_no_time_lies_between_the_ends_of_what_is_there() -> None:
    group = "m overlapped-by a"  # of an a that begins and ends at 1 it is known at once
    query = ps.query(LATE.format(within=20, group=group).replace("WITHIN 99", "WITHIN 9"))
    ticks = _ticks((1, 1, True), (1, 2, False), (2, 1, False))
    assert query.run({"s": ticks, "s0": ticks.with_columns(x=False)}).rows() == [(1, 1, 1)]
    plain = str(query).replace(", q", "").replace("WITHIN 9\n", "WITHIN 9\n")
    with pytest.warns(ps.ResultWarning, match="no match can be reported in time"):
        ps.query(plain).run({"s": ticks[1:], "s0": ticks[1:]})


@pytest.mark.parametrize(
    "kinds", [("events",), ("known", "events"), ("identified", "events"), ("rows", "events")]
)
@pytest.mark.parametrize("engine", ["frame", "session", "restored", "disordered"])
def test_an_engine_says_what_the_oracle_says(
    engine: str, kinds: tuple[str, ...], few_seeds: list[int]
) -> None:
    for seed in few_seeds[:4]:
        drawn = sequenced_scenario(seed, kinds)
        why = disagreement(engine, drawn, seed)
        assert why is None, f"{engine} on {drawn}\n{why}"
