"""SILENCE LONGER THAN where several events of a partition have one time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs
from piestream.engine.instant_numbers import InstantNumbers
from piestream.engine.instants import merged
from tests.diagnosis.laws import stream_faults
from tests.diagnosis.test_streams import _partitions
from tests.stream_scenario import (
    ENGINES,
    KINDS,
    CombinedScenario,
    has_absent_silence,
    silence_in_sequence,
    sorted_rows,
    told_as_time_passes,
)
from tests.stream_shrink import disagreement

HOT = (
    "FROM s ORDER BY t, {} DEFINE hot AS x, q AS SILENCE LONGER THAN 5 "
    "PATTERN hot intersects; before; meets; met-by; after q WITHIN 90 "
    "RETURN hot.ts, hot.te, q.ts, q.te, RELATION(hot, q) AS how"
)
BESIDE = ("events", "rows", "identified", "known")


def _events(*rows: tuple[int, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["t", "q", "x"], orient="row")


def _at(*times: int) -> pl.DataFrame:
    return _events(*((time, number, False) for number, time in enumerate(times)))


def _words(*values: int) -> Any:
    return np.array(values, np.int64)


# -- what is meant ---------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["q", "ROW"])
def test_any_event_of_the_time_of_the_deadline_is_in_time(order: str) -> None:
    query = ps.query(
        f"FROM s ORDER BY t, {order} DEFINE a AS SILENCE LONGER THAN 5 PATTERN a WITHIN 9"
    )
    assert query.run(_at(1, 1, 6, 11, 11)).is_empty()
    assert query.run(_at(1, 1, 7, 12, 12)).rows() == [(6, 1, None)]
    session = query.open()
    session.push(_at(1, 1))
    assert session.push(_at(6)).is_empty()  # another one of 6 is in time, too
    assert session.push(_events((6, 9, True))).is_empty()
    assert session.advance(11).is_empty()
    assert session.advance(12).rows() == [(11, 6, None)]


@pytest.mark.parametrize("order", ["q", "ROW"])
def test_a_silence_starts_and_ends_with_events_not_with_times(order: str) -> None:
    query = ps.query(HOT.format(order))
    before = _events((1, 1, True), (1, 2, False), (1, 3, False), (9, 4, False), (9, 5, True))
    found = query.run(before).rows()
    assert found == [(6, 1, 1, 1, None, "before"), (9, 9, None, 1, 9, "after")]
    meets = _events((1, 1, True), (1, 2, True), (1, 3, False), (9, 4, True), (9, 5, False))
    assert query.run(meets).rows() == [(6, 1, 1, 1, None, "meets"), (9, 9, None, 1, 9, "met-by")]
    overlaps = _events((1, 1, True), (1, 2, True), (9, 4, False), (9, 5, True), (9, 6, False))
    assert query.run(overlaps).rows() == [(6, 1, None, 1, None, None), (9, 9, None, 1, 9, "after")]


def test_a_deadline_lies_behind_all_events_of_its_time_in_all_streams() -> None:
    query = ps.query("""
        FROM beats ORDER BY t, q WITH doors ORDER BY t, q
        DEFINE quiet AS SILENCE OF beats LONGER THAN 5, open AS doors.x
        PATTERN open during; overlapped-by; finishes quiet WITHIN 90
    """)
    beats = _at(1, 1)
    for doors, report in (
        # known to be open, or to have been, when the silence is known, behind all events of 6
        ([(6, 1, True), (6, 2, False)], (6, 1, None, 6, 6)),
        ([(6, 1, True)], (6, 1, None, 6, None)),
        ([(7, 1, True)], (7, 1, None, 7, None)),
    ):
        rows = _events(*doors, (30, 9, False))
        assert query.run({"beats": beats, "doors": rows}).rows() == [report]


def test_a_bridged_run_has_ended_at_the_deadline_of_a_silence() -> None:
    query = ps.query("""
        FROM s ORDER BY t, q DEFINE hot AS x BRIDGING 5, quiet AS SILENCE LONGER THAN 5
        PATTERN hot before; meets quiet WITHIN 90 RETURN hot.te, RELATION(hot, quiet) AS how
    """)
    rows = _events((1, 1, True), (2, 2, False), (2, 3, False), (30, 4, False))
    assert query.run(rows).rows() == [(7, 2, "before")]


def test_nothing_may_come_at_the_time_of_a_deadline_once_it_is_over() -> None:
    query = ps.query("""
        FROM s ORDER BY t, q WITH o ORDER BY t, q
        DEFINE quiet AS SILENCE OF s LONGER THAN 5, on AS o.x
        PATTERN on contains; overlaps; finished-by quiet AND on.te - quiet.ts > 5
        WITHIN 90 RETURN on.ts, quiet.ts
    """)
    found = query.run({"s": _at(1, 20), "o": _events((0, 1, True), (20, 9, False))})
    assert found.rows() == [(6, 0, 1)]  # what is open then ends later than at 6


def test_what_ends_by_max_gap_is_forgotten_beside_events_of_one_time() -> None:
    query = ps.query("""
        FROM s ORDER BY t, q WITH o ORDER BY t, q MAX GAP 3
        DEFINE a AS s.x, b AS o.x PATTERN a contains b WITHIN 9
    """)
    session = query.open()
    came = (("s", (1, 1, True)), ("o", (2, 1, True)), ("s", (30, 2, False)))
    found = [session.push(_events(row), stream=name) for name, row in came]
    session._stream.compact()
    assert pl.concat([*found, session.advance(40)]).rows() == [(5, 1, None, 2, 5)]


def test_the_start_of_a_silence_is_kept_in_a_snapshot() -> None:
    query = ps.query(HOT.format("q"))
    rows = _events((1, 1, True), (1, 2, False), (1, 3, False))
    session = query.open()
    session.push(rows)
    session = query.open(state=session.snapshot())
    found = session.push(_events((9, 4, False))).rows()
    session = query.open(state=session.snapshot())
    found += session.push(_events((9, 5, True), (9, 6, False))).rows()
    found += session.advance(10).rows()
    assert found == [(6, 1, 1, 1, None, "before"), (9, 9, None, 1, 9, "after")]


def test_the_deadline_of_a_silence_that_may_not_be_there_is_an_instant_too() -> None:
    for order in ("t", "t, q"):
        query = ps.query(
            f"FROM s ORDER BY {order} DEFINE q AS SILENCE LONGER THAN 7, a AS x AT LEAST 5 "
            "PATTERN a AND NOT (q contains a) WITHIN 90 RETURN a.ts"
        )
        assert query.run(_events((1, 1, True), (20, 2, True), (21, 3, False))).rows() == [(8, 1)]


def test_rows_of_one_time_in_the_order_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    _events((1, 1, True), (1, 2, False), (1, 3, False), (9, 4, False)).write_csv(path)
    text = HOT.format("ROW").replace("FROM s", f"FROM '{path}'")
    assert ps.query(text).run().rows() == [(6, 1, 1, 1, None, "before")]


def test_rows_stand_in_order_beside_streams_that_nothing_orders() -> None:
    query = ps.query("""
        FROM s ORDER BY t, ROW WITH o ORDER BY t WITH jobs FROM began TO ended
        DEFINE a AS s.x, b AS o.x, job AS jobs PATTERN a during b AND job covers a
        WITHIN 90 RETURN a.ts, a.te, b.ts
    """)
    frames = {
        "s": _events((1, 3, True), (1, 2, False), (1, 1, True), (5, 0, False)),
        "o": _events((1, 0, True), (5, 0, False)),
        "jobs": pl.DataFrame({"began": [0, 1], "ended": [4, 2]}),
    }
    assert query.run(frames).rows() == [
        (2, 1, 1, 1),
        (4, 1, 1, 1),
    ]


def test_numbers_of_instants_count_those_that_are_ordered() -> None:
    lists = [
        (_words(0, 0, 1), _words(3, 3, 3)),
        (_words(0, 1), _words(3, 2)),
        (_words(0), _words(3)),
    ]
    instants = merged(2, lists, [_words(7, 9, 7), None, None], behind=[2])
    assert instants.times.tolist() == [3, 3, 3, 3, 2, 3]
    assert instants.is_over.tolist() == [False, False, False, True, False, False]
    numbers = InstantNumbers()
    shift = numbers.add(instants, _words(4, 5))
    assert (2 * instants.times + shift).tolist() == [6, 7, 9, 11, 4, 7]
    at = numbers.of_times(_words(3, 4, 2), _words(4, 4, 5), _words(9, 9, 9))
    assert at.tolist() == [6, 14, 4]
    counts = InstantNumbers(keeps_times=False)
    assert counts.add(instants, _words(4, 5)).tolist() == shift.tolist()
    assert counts.frame([4])["instants"].to_list() == [[]]


def test_what_is_said_names_the_instants() -> None:
    query = ps.query(HOT.format("q"))
    text = str(query.explain())
    assert "a silence becomes known behind all events of its deadline" in text
    assert "rows of intervals" not in text
    rows = _events((1, 1, True), (1, 2, True), (1, 3, False), (9, 4, True), (9, 5, False))
    why = query.why(query.run(rows).row(0, named=True), rows)
    assert "decided by q being known" in why.waited_for[0]
    assert query.intervals(rows).filter(symbol="q").rows()[0][:4] == ("q", 1, 9, 8)
    assert query.diagnose(rows).pairs[0].of == {"meets": 1, "met-by": 1}
    assert "hot" in str(query.timeline(rows))
    few = ps.query(str(query).replace("THAN 5", "THAN 50"))
    (miss,) = few.why_not(rows).near_misses[:1]
    assert len(miss.query.run(rows))


def test_max_gap_of_several_streams_is_looked_into_beside_events_of_one_time() -> None:
    query = ps.query("""
        FROM s ORDER BY t, q WITH b ORDER BY t, q MAX GAP 3
        DEFINE x AS s.x AT LEAST 7, y AS b.x PATTERN x contains y WITHIN 99
    """)
    rows = {
        "s": _events((0, 1, True), (20, 2, False)).to_dicts(),
        "b": _events((5, 1, True), (5, 2, True), (30, 3, False)).to_dicts(),
    }
    (match,) = query.run(rows)
    assert match["detected_at"] == 8
    why = query.why(match, rows)
    assert [(i.symbol, i.valid_at) for i in why.intervals] == [("x", 8), ("y", 5)]
    assert query.diagnose(rows).pairs[0].of == {"contains": 1}
    found = [(one["symbol"], one["ts"], one["te"]) for one in query.intervals(rows)]
    assert found == [("x", 0, 20), ("y", 5, 8)]


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "is_absent"),
    [*((name, False) for name in KINDS if name != "patterns"), ("events", True), ("known", True)],
)
@pytest.mark.parametrize("engine", ["frame", "session", "event restored", "disordered restored"])
def test_every_way_in_says_what_the_oracle_says(
    engine: str, kinds: str, is_absent: bool, fewest_seeds: list[int]
) -> None:
    # what may not be there takes long to draw: more by ``python -m tests.closed_silences FIRST LAST``
    for seed in fewest_seeds[: 1 if is_absent else 2]:
        drawn = silence_in_sequence(seed, KINDS[kinds], is_absent)
        closed = drawn.having(at_end="close")
        for one in (drawn, closed) if engine == "frame" else (drawn,):
            why = disagreement(engine, one, seed)
            assert why is None, f"\n{engine} on {one}\n{why}"


def test_time_that_passes_without_events_brings_what_the_oracle_says(
    fewest_seeds: list[int],
) -> None:
    for seed in fewest_seeds:
        drawn = silence_in_sequence(seed, KINDS["events"], seed % 4 == 1)
        until, told = told_as_time_passes(drawn, Random(f"{seed} passes"))
        assert sorted_rows(told) == sorted_rows(drawn.expected(until)), f"{drawn}"


@pytest.mark.parametrize("kinds", [("events",), BESIDE], ids=["events", "beside intervals"])
def test_what_looks_into_rows_says_what_the_oracle_says(
    kinds: tuple[str, ...], fewest_seeds: list[int]
) -> None:
    for seed in fewest_seeds:
        drawn = silence_in_sequence(seed, kinds, kinds == ("events",) and seed % 4 == 1)
        assert list(stream_faults(drawn, Random(seed))) == [], str(drawn)
        found = drawn.query.diagnose({name: drawn.frame(name) for name in drawn.inputs})
        partitions = [partition.history for _, partition in _partitions(drawn)]
        for counts in found.symbols:
            name = counts.symbol.name
            assert counts.runs == sum(len(p.all[name]) for p in partitions), f"{drawn}\n{found}"
            assert counts.valid == sum(len(p.valid[name]) for p in partitions), f"{drawn}\n{found}"


def test_an_archive_gives_what_its_rows_as_frames_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    rng = np.random.default_rng(3)
    times = np.sort(rng.choice(6_000, 3_000)) * 3
    rows = pl.DataFrame({"t": times, "q": np.arange(3_000), "x": rng.random(3_000) < 0.01})
    kept = ps.archive(tmp_path / "lake", time="t", key=[], page_rows=100)
    kept.append(rows)
    for sequence in ("q", "ROW"):
        text = HOT.format(sequence).replace("WITHIN 90", "WITHIN 40").replace("THAN 5", "THAN 12")
        for query in (text, f"FROM ({text}) AS y DEFINE a AS y PATTERN a WITHIN 40"):
            found = ps.query(query).run({"s": rows})
            assert len(found) > 10
            given = ps.query(query).run({"s": kept})
            assert given.sort(found.columns).equals(found.sort(found.columns))


def test_the_scenarios_are_worth_trying() -> None:
    def drawn(count: int, is_absent: bool) -> list[CombinedScenario]:
        return [silence_in_sequence(seed, KINDS["events"], is_absent) for seed in range(count)]

    present, absent = drawn(10, False), drawn(2, True)
    assert sum(bool(one.expected()) for one in present) >= 5
    assert all(one.query.is_sequenced and one.query.has_silences for one in present)
    assert all(map(has_absent_silence, absent))
    assert any(stream.by_row for one in (*present, *absent) for stream in one.inputs.values())
    assert set(ENGINES) >= {"frame", "session", "event restored", "disordered restored"}
