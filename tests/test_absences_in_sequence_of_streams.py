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


@pytest.mark.parametrize(
    "kinds", [("events",), ("known", "events"), ("identified", "events"), ("rows", "events")]
)
@pytest.mark.parametrize("engine", ["frame", "session", "restored", "disordered"])
def test_an_engine_says_what_the_oracle_says(
    engine: str, kinds: tuple[str, ...], few_seeds: range
) -> None:
    for seed in few_seeds[:4]:
        drawn = sequenced_scenario(seed, kinds)
        why = disagreement(engine, drawn, seed)
        assert why is None, f"{engine} on {drawn}\n{why}"
