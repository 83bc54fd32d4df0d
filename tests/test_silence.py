"""SILENCE LONGER THAN: from the last event to the next one, known when that is too late to come."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Literal

import polars as pl
import pytest

import piestream as ps
from piestream.archives import costs
from piestream.testing import assert_partitions_are_independent, assert_survives_restoring
from tests.stream_scenario import ENGINES, KINDS, silence_scenario, sorted_rows, told_as_time_passes
from tests.stream_shrink import disagreement

QUIET = (
    "FROM s PARTITION BY k ORDER BY ts DEFINE q AS SILENCE LONGER THAN 5 PATTERN q WITHIN 90 {}"
    "RETURN q.ts, q.te"
)
HOT = (
    "FROM s PARTITION BY k ORDER BY ts{} DEFINE hot AS a, q AS SILENCE LONGER THAN 5 "
    "PATTERN hot contains; overlaps; finished-by; starts; equals; started-by q WITHIN 90 "
    "RETURN hot.ts, hot.te, q.ts, q.te, RELATION(hot, q) AS how"
)


def _events(*rows: tuple[str, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["k", "ts", "a"], orient="row")


def _at(k: str, *times: int) -> pl.DataFrame:
    return _events(*((k, time, False) for time in times))


def test_a_silence_is_reported_with_its_deadline_whoever_lets_time_pass() -> None:
    query = ps.query(QUIET.format(""))
    known = [("x", 8, 3, None)]
    assert query.run(pl.concat([_at("x", 1, 3), _at("y", 20)])).rows() == known
    assert query.run(_at("x", 1, 3, 20)).rows() == [("x", 8, 3, None)]
    session = query.open()
    session.push(_at("x", 1, 3))
    assert session.push(_at("y", 8)).is_empty()  # x may still come at 8
    assert session.advance(9).rows() == known
    assert session.advance(1_000).rows() == [("y", 13, 8, None)]
    assert session.close().is_empty()


def test_an_event_at_the_deadline_is_in_time() -> None:
    query = ps.query(QUIET.format(""))
    assert query.run(_at("x", 1, 6, 11)).is_empty()
    assert query.run(_at("x", 1, 7, 12)).rows() == [("x", 6, 1, None)]


@pytest.mark.parametrize("length", [(1 << 63) - 1, 1 << 63, 1 << 70])
def test_nothing_is_silent_for_longer_than_times_can_say(length: int) -> None:
    text = f"FROM s ORDER BY ts DEFINE q AS SILENCE LONGER THAN {length} PATTERN q WITHIN {length}"
    frame = pl.DataFrame({"ts": [1 << 62, (1 << 62) + 9], "a": [True, True]})
    query = ps.query(text)
    assert query.run(frame).is_empty()
    session = query.open()
    assert session.push(frame).is_empty()
    assert session.advance((1 << 63) - 1).is_empty()


def test_its_end_is_the_next_event_and_nothing_is_silent_before_the_first() -> None:
    query = ps.query(QUIET.format("EMIT ON BOTH "))
    found = query.run(pl.concat([_at("x", 1, 20, 22), _at("y", 19)]))
    assert found.rows() == [("x", 6, "trigger", 1, None), ("x", 20, "completion", 1, 20)]


def test_what_holds_at_the_last_event_goes_on_in_a_silence() -> None:
    query = ps.query(HOT.format(""))
    cools = _events(("x", 1, False), ("x", 2, True), ("x", 4, True), ("x", 30, False))
    assert query.run(cools).rows() == [("x", 9, 2, None, 4, None, None)]
    stays = cools.with_columns(a=pl.col("ts") > 1)
    assert query.run(stays).rows() == [("x", 9, 2, None, 4, None, None)]
    later = ps.query(HOT.format("").replace("RETURN", "EMIT ON COMPLETION RETURN"))
    assert later.run(cools).rows() == [("x", 30, 2, 30, 4, 30, "finished-by")]


def test_max_gap_ends_what_holds_but_not_the_silence() -> None:
    rows = _events(("x", 1, True), ("x", 4, True), ("x", 30, False))
    ended = ps.query(HOT.format(" MAX GAP 3")).run(rows)
    assert ended.rows() == [("x", 9, 1, 7, 4, None, "overlaps")]
    longer = ps.query(HOT.format(" MAX GAP 9")).run(rows)
    assert longer.rows() == [("x", 9, 1, None, 4, None, None)]


def test_what_is_silent_when_the_input_ends_is_open_or_ends_where_it_became_known() -> None:
    query = ps.query(QUIET.format("EMIT ON COMPLETION "))
    rows = pl.concat([_at("x", 1, 3), _at("y", 20)])
    assert query.run(rows).is_empty()
    assert query.run(rows, at_end="close").rows() == [("x", 8, 3, 8)]


def test_a_deadline_costs_what_is_due_and_not_what_there_is() -> None:
    count = 100_000
    session = ps.query(QUIET.format("EMIT ON BOTH ")).open()
    session.push(pl.DataFrame({"k": range(count), "ts": range(count)}))
    session.advance(count)
    before = session._stream._silences.examined
    told = [len(session.advance(time)) for time in range(count + 1, count + 6)]
    assert told == [1] * 5
    assert session._stream._silences.examined - before == 5


def test_a_deadline_that_events_put_off_is_looked_at_now_and_then() -> None:
    session = ps.query(QUIET.format("").replace("THAN 5", "THAN 50")).open()
    for time in range(1, 600, 2):
        session.push({"k": "x", "ts": time, "a": False})
    assert session._stream._silences.examined <= 15
    assert session.advance(700) == [{"k": "x", "detected_at": 649, "q_ts": 599, "q_te": None}]


def test_a_late_event_does_not_undo_a_silence() -> None:
    query = ps.query(QUIET.format("EMIT ON BOTH "))
    session = query.open(lateness=2, on_late="drop")
    session.push(_at("x", 1))
    assert session.push(_at("y", 9)).rows() == [("x", 6, "trigger", 1, None)]
    session.push(_at("x", 4))  # would have been in time at 4
    assert session.push(_at("x", 8)).is_empty()
    assert session.advance(9).rows() == [("x", 8, "completion", 1, 8)]
    assert session.statistics.late == 1


def test_silences_of_one_stream_are_among_the_intervals_of_another() -> None:
    query = ps.query("""
        FROM beats ORDER BY ts
        WITH doors ORDER BY ts
        DEFINE quiet AS SILENCE OF beats LONGER THAN 10 AT MOST 60,
               open AS doors.open
        PATTERN open during quiet
        WITHIN 100
    """)
    frames = {
        "beats": pl.DataFrame({"ts": [0, 5, 10, 50]}),
        "doors": pl.DataFrame({"ts": [12, 15, 55], "open": [True, False, True]}),
    }
    assert query.run(frames).rows() == [(50, 10, 50, 12, 15)]
    session = query.open()
    session.push(frames["beats"][:3], stream="beats")
    assert session.push(frames["doors"][:2], stream="doors").is_empty()
    assert session.push(frames["beats"][3:], stream="beats").is_empty()  # more may come at 50
    assert session.advance(51).rows() == [(50, 10, 50, 12, 15)]


def test_silences_of_different_lengths_may_be_one_and_those_of_one_length_never_are() -> None:
    text = (
        "FROM s ORDER BY ts DEFINE p AS SILENCE LONGER THAN 5, q AS SILENCE LONGER THAN {} "
        "PATTERN p starts; equals; started-by q WITHIN 90"
    )
    rows = pl.DataFrame({"ts": [1, 30, 31]})
    assert ps.query(text.format(7)).run(rows).rows() == [(8, 1, None, 1, None)]
    assert ps.query(text.format(5)).run(rows).is_empty()


def test_a_query_in_brackets_may_have_silences() -> None:
    query = ps.query("""
        FROM s PARTITION BY k ORDER BY ts
        WITH (FROM s DEFINE q AS SILENCE LONGER THAN 5 PATTERN q WITHIN 90) AS gone
        DEFINE hot AS s.a, g AS gone
        PATTERN g meets; overlapped-by; starts; during; finishes; started-by; equals hot
        WITHIN 90 RETURN g.ts, g.te, hot.ts
    """)
    rows = _events(("x", 1, False), ("x", 20, True), ("x", 21, False))
    assert query.run(rows).rows() == [("x", 20, 1, 20, 20)]


def test_partitions_that_are_quiet_for_ever_are_freed_after_they_were_reported() -> None:
    query = ps.query(QUIET.format(""))
    session = query.open()
    keys = [f"k{number}" for number in range(3_000)]
    known = session.push(pl.DataFrame({"k": keys, "ts": range(3_000), "a": False}))
    found = pl.concat([known, session.advance(9_000)])
    assert found.sort("detected_at")["k"].to_list() == keys
    stream = session._stream
    stream.closable = False  # else a session could still end what is open
    stream._compact(9_000)
    assert not stream._partitions.number_of
    assert stream.is_empty


def test_the_builder_says_the_same_and_the_text_comes_back() -> None:
    beats, doors = ps.stream("beats", order_by="ts"), ps.stream("doors", order_by="ts")
    beat = ps.define("beat", "bpm > 3", stream=beats)
    quiet = ps.silence("quiet", "10 s", at_most="1 min", stream=doors)
    built = ps.pattern(beat.contains(quiet)).within("5 min")
    text = """
        FROM beats ORDER BY ts WITH doors ORDER BY ts
        DEFINE beat AS bpm > 3, quiet AS SILENCE OF doors LONGER THAN 10 s AT MOST 60 s
        PATTERN quiet during beat WITHIN 300 s
    """
    assert built.query == ps.query(text)
    assert ps.query(str(built)) == built.query
    assert ps.query(QUIET.format("")) == ps.query(str(ps.query(QUIET.format(""))))


@pytest.mark.parametrize(
    ("defined", "message"),
    [
        ("SILENCE LONGER THAN 0", "must be a silence longer than 0"),
        ("SILENCE LONGER THAN 5 AT MOST 5", "at most 5, which no silence can"),
        ("SILENCE LONGER THAN 5 AT LEAST 3 EVENTS", "has no events to count"),
        ("SILENCE LONGER THAN 5 BRIDGING 4", "there are no runs to bridge"),
        ("SILENCE OF t LONGER THAN 5", "there is no stream t"),
        ("SILENCE LONGER 5", "LONGER THAN is missing behind SILENCE"),
        ("SILENCE LONGER THAN", "LONGER THAN needs a duration"),
        ("SILENCE LONGER THAN 91", "the window of 90 is shorter than q must last: 91"),
    ],
)
def test_what_no_silence_can_be_is_refused(defined: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.query(f"FROM s ORDER BY ts DEFINE q AS {defined} PATTERN q WITHIN 90")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "FROM s ORDER BY ts DEFINE {} PATTERN q WITHIN 9 RETURN AVG(q.x)",
            "has no events to take",
        ),
        ("FROM s ORDER BY ts DEFINE {} PATTERN q WITHIN 9 RETURN q.x", "has no events to take"),
        ("FROM s ORDER BY ts DEFINE {} PATTERN q WITHIN 9 WHERE COUNT(q) > 1", "has no events"),
        ("FROM s ORDER BY ts DEFINE a AS x > 1, {} PATTERN a followed-by q WITHIN 9", "later than"),
        ("FROM s FROM a TO b DEFINE {} PATTERN q WITHIN 9", "has intervals and no events"),
    ],
)
def test_what_cannot_be_said_of_silences_is_refused(text: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.query(text.format("q AS SILENCE LONGER THAN 5"))


def test_a_column_may_be_called_silence() -> None:
    query = ps.query("FROM s ORDER BY ts DEFINE q AS silence > 4 PATTERN q WITHIN 9 RETURN q.ts")
    assert query.run(pl.DataFrame({"ts": [1, 2], "silence": [3, 5]})).rows() == [(2, 2)]


def test_what_looks_into_rows_knows_of_silences() -> None:
    query = ps.query(HOT.format(""))
    rows = _events(("x", 1, True), ("x", 4, True), ("x", 30, False), ("y", 50, True))
    (match,) = query.run(rows).to_dicts()
    assert "SILENCE LONGER THAN 5" in str(query.diagnose(rows))
    assert query.intervals(rows).filter(symbol="q").rows() == [
        ("q", "x", 4, 30, 26, True, None),
        ("q", "x", 30, None, None, True, None),
    ]
    why = query.why(match, rows)
    assert [(one.symbol, one.valid_at) for one in why.intervals] == [("hot", 1), ("q", 9)]
    assert [one.decided_at for one in why.decisions] == [9]
    assert "known 5 ticks after its start" in str(query.explain())
    few = ps.query(HOT.format("").replace("THAN 5", "THAN 40"))
    miss = few.why_not(rows, partition={"k": "x"}).near_misses[0]
    assert miss.text == "q was 26 long from 4 (LONGER THAN 40); with LONGER THAN 25 it matches"
    assert len(miss.query.run(rows)) == 1
    assert "hot" in str(query.timeline(rows, partition={"k": "x"}))


@pytest.mark.parametrize(
    ("seconds", "shorter"), [(20, "19 s"), (2, "1999 ms"), (3_600, "59 min"), (0.25, "249 ms")]
)
@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_a_shorter_silence_is_proposed_in_a_unit_to_read(
    unit: Literal["ns", "us", "ms"], seconds: float, shorter: str
) -> None:
    query = ps.query("FROM s ORDER BY ts DEFINE q AS SILENCE LONGER THAN 2 h PATTERN q WITHIN 9 h")
    start = datetime(2026, 1, 1)
    times = pl.Series([start, start + timedelta(seconds=seconds)], dtype=pl.Datetime(unit))
    rows = pl.DataFrame({"ts": times})
    (miss,) = query.why_not(rows).near_misses
    assert miss.text.endswith(f"with LONGER THAN {shorter} it matches")
    assert len(miss.query.run(rows)) == 1


def test_an_open_silence_ends_with_the_last_instant_of_its_partition_when_it_is_closed() -> None:
    rows = _events(("x", 1, False), ("x", 3, True), ("y", 50, False))
    for gap, last in (("", 8), (" MAX GAP 9", 12)):
        query = ps.query(HOT.format(gap).replace("RETURN", "EMIT ON COMPLETION RETURN"))
        (match,) = query.run(rows, at_end="close").rows()
        assert match[4:6] == (3, last)
        intervals = query.intervals(rows, at_end="close").filter(k="x")
        assert intervals.select("symbol", "ts", "te").rows() == [("hot", 3, last), ("q", 3, last)]


def test_of_an_archive_all_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "LEAST_ROWS", 0)
    rng = Random(3)
    times = sorted(rng.sample(range(20_000), 3_000))
    rows = _events(*((rng.choice("xy"), time, rng.random() < 0.1) for time in times))
    query = ps.query(HOT.format("").replace("THAN 5", "THAN 40"))
    archive = ps.archive(tmp_path / "lake", key="k", time="ts", page_rows=100)
    archive.append(rows)
    found = query.run(rows)
    assert 0 < len(found) < 100
    assert query.run(archive).sort(found.columns).equals(found.sort(found.columns))
    live = ps.query(f"""
        FROM (FROM s DEFINE a AS a PATTERN a WITHIN 90) AS one
        WITH (FROM ARCHIVE '{tmp_path}/lake' AS t DEFINE q AS SILENCE LONGER THAN 40 PATTERN q WITHIN 90) AS other
        DEFINE x AS one, y AS other PATTERN x intersects y WITHIN 90
    """)
    with pytest.raises(ps.QueryError, match="SILENCE beside an archive that is read as rows come"):
        live.open()


def test_the_laws_for_users_hold() -> None:
    query = ps.query(HOT.format(""))
    rng = Random(7)
    rows = _events(*((rng.choice("xy"), 3 * n, rng.random() < 0.4) for n in range(60)))
    assert_survives_restoring(query, rows)
    with pytest.raises(ValueError, match="without MAX GAP, SILENCE, NOT and BRIDGING"):
        assert_partitions_are_independent(query, rows)


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", [name for name in KINDS if name != "patterns"])
@pytest.mark.parametrize("engine", ["frame", "session", "event restored", "disordered restored"])
def test_every_way_in_says_what_the_oracle_says(
    engine: str, kinds: str, fewest_seeds: list[int]
) -> None:
    for seed in fewest_seeds[:2]:
        drawn = silence_scenario(seed, KINDS[kinds])
        closed = drawn.having(at_end="close")
        for one in (drawn, closed) if engine == "frame" else (drawn,):
            why = disagreement(engine, one, seed)
            assert why is None, f"\n{engine} on {one}\n{why}"


def test_time_that_passes_without_events_brings_what_the_oracle_says(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = silence_scenario(seed, KINDS["events"])
        if drawn.clock.kind == "ns":
            continue  # a time of Python has none
        until, told = told_as_time_passes(drawn, Random(f"{seed} passes"))
        expected = drawn.expected(until)
        assert sorted_rows(told) == sorted_rows(expected), f"{drawn}"


def test_the_scenarios_are_worth_trying() -> None:
    drawn = [silence_scenario(seed, KINDS["events"]) for seed in range(10)]
    assert sum(bool(one.expected()) for one in drawn) >= 5
    assert set(ENGINES) >= {"frame", "session"}
