"""Events of one time: ORDER BY ts, seq and ORDER BY ts, ROW."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from functools import lru_cache
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.language.draft import StreamDraft
from piestream.language.parts import DurationOf, Endpoint, Source
from piestream.language.streams import inherited
from tests import engines
from tests.diagnosis.planted import looked_into as planted_misses
from tests.diagnosis.planted import planted
from tests.diagnosis.test_stream_why import with_ids
from tests.diagnosis.test_streams import _frames as looked_into
from tests.engines import difference, parse, play
from tests.randoms import sequenced
from tests.row_patterns.randoms import row_case
from tests.row_patterns.test_diagnosis import stretches
from tests.row_patterns.test_laws import expected_rows, given_rows
from tests.scenario import Scenario
from tests.stream_scenario import ENGINES as STREAM_ENGINES
from tests.stream_scenario import CombinedScenario, StreamSpec, combined_scenario, sorted_rows
from tests.test_laws import report
from tests.two_streams import rows_of_one_and_two


def test_the_parser_says_what_the_scenario_says(few_seeds: list[int]) -> None:
    for seed in few_seeds:
        drawn = sequenced(seed)
        query = parse(drawn.text())
        assert query.streams == drawn.query().streams
        assert parse(str(query)) == query


def on_time(drawn: Scenario, order: list[int], lateness: int) -> list[int]:
    """Of events in the order in which they come, those that are not late: row by row."""
    kept: list[int] = []
    latest = None
    worked_on: dict[object, tuple[int, int]] = {}
    for position in order:
        row, instant = drawn.rows[position], drawn.stream.instant(position)
        key = tuple(row[name] for name in drawn.keys)
        watermark = None if latest is None else latest - lateness
        if watermark is not None and instant[0] < watermark:
            continue
        if key in worked_on and instant < worked_on[key]:
            continue
        kept.append(position)
        latest = instant[0] if latest is None else max(latest, instant[0])
        for one in kept:
            if drawn.rows[one]["ts"] <= latest - lateness:
                of = tuple(drawn.rows[one][name] for name in drawn.keys)
                at = drawn.stream.instant(one)
                worked_on[of] = max(worked_on.get(of, at), at)
    return kept


def test_an_event_is_late_that_comes_behind_a_later_one_of_its_time(few_seeds: list[int]) -> None:
    dropped = 0
    for seed in few_seeds:
        drawn = sequenced(seed).having(sequence="seq", ties="error")
        rng = Random(f"late {seed}")
        rows = tuple({**row, "seq": number} for number, row in enumerate(drawn.rows))
        drawn = drawn.having(rows=rows)
        lateness = rng.choice((0, 0, 1, 3))
        order = sorted(
            range(len(rows)), key=lambda at: rows[at]["ts"] + rng.randint(0, drawn.clock.beats(3))
        )
        kept = on_time(drawn, order, drawn.clock.beats(lateness) if lateness else 0)
        dropped += len(order) - len(kept)
        plan = engines.draw(rng.choice(("session", "event", "restored")), drawn.stream, rng)
        plan = replace(plan, order=tuple(order), lateness=lateness, on_late="drop", typed=True)
        found = [row for part in play(parse(drawn.text()), drawn.stream, plan) for row in part]
        until = max((row["ts"] for row in rows), default=0)
        left = drawn.having(rows=tuple(rows[at] for at in kept))
        why = difference(left.expected(until=until), found, drawn.keys)
        assert why is None, f"{report('session', drawn, why or '')}\n{plan}\n{kept}"
    assert dropped or few_seeds[0]


# Several streams


#: Streams whose intervals start and end at times, beside events of one time.
BESIDE = ("events", "rows", "identified", "known", "query")


@lru_cache(maxsize=128)
def apart(
    seed: int, kinds: tuple[str, ...] = ("events",)
) -> tuple[CombinedScenario, CombinedScenario, Callable[[int], int]]:
    """A query over several streams, many of whose events have one time, and the same in finer time.

    In the finer time every instant has a time of its own, which the function maps to that of the
    coarser one. Nothing but the order of instants counts: no duration is measured.
    """
    drawn = combined_scenario(seed, kinds)
    rng = Random(f"apart {seed}")
    beat = drawn.clock.beats(1)
    coarse = beat * rng.choice((2, 3, 5, 10**6) if kinds == ("events",) else (2, 3, 5))
    found = {stream.kind == "events" for stream in drawn.streams}
    is_wanted = found == ({True} if kinds == ("events",) else {True, False})
    if beat == 0 or not is_wanted or _is_measured(drawn):
        return apart(seed + 1_000_003, kinds)
    fine, coarser = [], []
    for stream in drawn.streams:
        is_sequenced = not fine or rng.random() < 0.7
        one, other = _apart(stream, is_sequenced, (beat, coarse), drawn.keys)
        fine.append(one)
        coarser.append(other)
    plain = _without_lengths(drawn).having(
        returns=tuple(item for item in drawn.returns if not isinstance(item, DurationOf)),
        ties="error",
    )
    exact = plain.having(streams=tuple(fine))
    if kinds != ("events",) and not exact.expected():
        return apart(seed + 1_000_003, kinds)
    return plain.having(streams=tuple(coarser)), exact, lambda time: time // 2 // coarse * beat


def _is_measured(drawn: CombinedScenario) -> bool:
    """Whether lengths of time count, but for those that `apart` leaves out."""
    measured = any("{" in d.predicate.text or d.bridging for _, d in drawn.definitions)
    inside = (s.query for s in drawn.streams if isinstance(s.query, CombinedScenario))
    of_absent = (clause for _, clauses in drawn.absences for clause in clauses)
    return (
        measured
        or any(clause.distance for clause in chain(drawn.clauses, of_absent))
        or any(map(_is_measured, inside))
    )


def _without_lengths(drawn: CombinedScenario) -> CombinedScenario:
    """A scenario in which no interval has to have a length."""
    return drawn.having(
        definitions=tuple(
            (number, replace(d, at_least=None, at_most=None)) for number, d in drawn.definitions
        ),
        within=10**5,
        windows=(),
    )


def _apart(
    stream: StreamSpec, is_sequenced: bool, beats: tuple[int, int], keys: tuple[str, ...]
) -> tuple[StreamSpec, StreamSpec]:
    """A stream in the finer time, and in the coarser; of events, some are in one order."""
    beat, coarse = beats
    if isinstance(stream.query, CombinedScenario):
        inner = _without_lengths(stream.query)
        both = zip(*(_apart(one, False, beats, keys) for one in inner.streams), strict=True)
        one, other = (replace(stream, query=inner.having(streams=streams)) for streams in both)
        return one, other
    if stream.kind != "events":
        one, other = (
            replace(stream, rows=tuple(_rescaled(stream.rows, coarse, scale)))
            for scale in (2 * coarse, beat)
        )
        return one, other
    shown_of: dict[object, tuple[dict[str, Any], dict[str, Any]]] = {}
    for row in stream.rows:
        at = row["ts"] // coarse * coarse
        exact = 2 * row["ts"] + 1 if is_sequenced else 2 * at
        shown = {**row, "ts": at // coarse * beat}
        if is_sequenced:
            shown["seq"] = row["ts"]
        key = (*(row[name] for name in keys), exact)
        shown_of.setdefault(key, ({**row, "ts": exact}, shown))
    spec = replace(stream, max_gap=None, is_sequenced=is_sequenced)
    return (
        replace(spec, rows=tuple(one for one, _ in shown_of.values()), is_sequenced=False),
        replace(spec, rows=tuple(other for _, other in shown_of.values())),
    )


def _rescaled(
    rows: Sequence[Mapping[str, Any]], coarse: int, scale: int
) -> Iterator[dict[str, Any]]:
    """Rows of intervals at coarser times, of this scale, without those that have no length there."""
    for row in rows:
        start, end = row["began"] // coarse, row["ended"] and row["ended"] // coarse
        if end is None or end > start:
            yield {**row, "began": start * scale, "ended": None if end is None else end * scale}


@pytest.mark.parametrize("kinds", [("events",), BESIDE])
@pytest.mark.parametrize("engine", list(STREAM_ENGINES))
def test_instants_of_several_streams_are_in_one_order(
    engine: str, kinds: tuple[str, ...], few_seeds: list[int]
) -> None:
    for seed in few_seeds if kinds == ("events",) else few_seeds[:2]:
        coarser, fine, shown = apart(seed, kinds)
        ends = {item.alias for item in fine.query.returns if isinstance(item, Endpoint)}
        times = ends | {"detected_at", "completed_at"}
        expected = [
            {n: shown(v) if n in times and v is not None else v for n, v in row.items()}
            for row in fine.expected()
        ]
        found = STREAM_ENGINES[engine](coarser, Random(seed))
        why = difference(sorted_rows(expected), sorted_rows(found), coarser.keys)
        assert why is None, f"{engine} on seed {seed}: {coarser}\n{why}"


@pytest.mark.parametrize("kinds", [("events",), BESIDE])
def test_what_looks_into_several_streams_compares_instants(
    kinds: tuple[str, ...], few_seeds: list[int]
) -> None:
    for seed in few_seeds[: 8 if kinds == ("events",) else 2]:
        coarser, fine, shown = apart(seed, kinds)
        found, wanted = (
            drawn.query.diagnose(looked_into(drawn), ties=drawn.ties) for drawn in (coarser, fine)
        )
        assert [s.valid for s in found.symbols] == [s.valid for s in wanted.symbols], coarser
        assert [p.of for p in found.pairs] == [p.of for p in wanted.pairs], coarser
        assert [s.matches for s in found.steps] == [s.matches for s in wanted.steps], coarser
        _check_reasons(coarser, fine, shown)


def _check_reasons(
    coarser: CombinedScenario, fine: CombinedScenario, shown: Callable[[int], int]
) -> None:
    """What is said of a match is what is said of it in the finer time, where it can be told apart."""
    if fine.clock.kind == "ns":
        return  # a row as a dict holds no nanoseconds
    both = [with_ids(drawn.query) for drawn in (coarser, fine)]
    rows = [q.run(looked_into(d), ties=d.ties) for q, d in zip(both, (coarser, fine), strict=True)]
    apart_rows = rows[0].unique(maintain_order=True, keep="none").rows()
    exact, rough = fine.clock.plain, coarser.clock.plain
    times = {"detected_at", "completed_at"} | {
        item.alias for item in both[1].returns if isinstance(item, Endpoint)
    }

    def of_time(value: Any) -> Any:
        return None if value is None else shown(exact(value))

    for row in rows[1].head(2).rows(named=True):
        same = [
            mine
            for mine in (dict(zip(rows[0].columns, one, strict=True)) for one in apart_rows)
            if all(
                (value if value is None else rough(value)) == of_time(row[name])
                if name in times
                else value == row[name]
                for name, value in mine.items()
            )
        ]
        if len(same) != 1:
            continue
        said, wanted = (
            query.why(match, looked_into(drawn), ties=drawn.ties)
            for query, match, drawn in zip(both, (same[0], row), (coarser, fine), strict=True)
        )
        assert said.waited_for == wanted.waited_for, f"{coarser}\n{said}\n{wanted}"
        assert [rough(one.valid_at) for one in said.intervals] == [
            of_time(one.valid_at) for one in wanted.intervals
        ], f"{coarser}\n{said}\n{wanted}"
        assert [
            (rough(one.decided_at), one.relation, one.decided_by) for one in said.decisions
        ] == [
            (of_time(one.decided_at), one.relation, one.decided_by) for one in wanted.decisions
        ], f"{coarser}\n{said}\n{wanted}"


@pytest.mark.parametrize("memory", [False, True], ids=["of one row", "with memory"])
def test_row_patterns_take_rows_of_one_time_in_their_order(
    few_seeds: list[int], memory: bool
) -> None:
    for seed in few_seeds:
        rng = Random(seed)
        case, frame = row_case(seed, memory)
        expected = expected_rows(case)
        shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
        rows = frame if case.query.streams[0].row_order else shuffled
        assert given_rows(case, case.query.run(rows)) == expected, f"seed {seed}: {case.query}"
        session = case.query.open(schema=frame.schema)
        given, rest = [], frame
        for size in engines.cuts(len(frame), rng):
            given.append(session.push(rest[:size]))
            rest = rest[size:]
            if rng.random() < 0.3:
                session = case.query.open(state=session.snapshot())
        last = session.close()
        given.append(last if isinstance(last, pl.DataFrame) else given[-1].clear())
        assert given_rows(case, pl.concat(given)) == expected, f"seed {seed}: {case.query}"


@pytest.mark.parametrize(
    ("dtype", "least"), [(pl.UInt64, 0), (pl.Int64, -(2**63))], ids=["unsigned", "signed"]
)
def test_the_least_number_is_not_the_instant_of_streams_without_one(
    dtype: type[pl.DataType], least: int
) -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH o ORDER BY t DEFINE a AS x > 1, b AS o.x > 1 "
        "PATTERN b overlaps; starts a WITHIN 9 RETURN RELATION(b, a) AS how"
    )
    one = pl.DataFrame({"t": [1, 1], "q": [least, least + 1], "x": [5, 0]}).cast({"q": dtype})
    other = pl.DataFrame({"t": [1, 2], "x": [5, 0]})
    assert query.run({"s": one, "o": other}).is_empty()
    before = one.with_columns(x=pl.lit(5))
    assert query.run({"s": before, "o": other})["how"].to_list() == ["overlaps"]


# Distances


def test_a_distance_measures_time_where_a_relation_compares_instants() -> None:
    text = "FROM s ORDER BY t, q DEFINE a AS x = 1, b AS x = 2 PATTERN {} WITHIN 9 RETURN b.ts"
    frame = pl.DataFrame({"t": [1, 1, 1, 3, 3], "q": range(5), "x": [1, 0, 2, 0, 2]})

    def found(pattern: str) -> list[int]:
        return ps.query(text.format(pattern)).run(frame)["b_ts"].to_list()

    assert found("a.te < b.ts") == [1, 3]
    assert found("b.ts - a.te > 0") == [3]
    assert found("b.ts - a.te >= 0") == [1, 3]
    assert found("b.ts - a.te <= 0 AND a before b") == [1]
    assert found("b.ts - a.te BETWEEN 1 AND 2") == [3]


def test_an_open_end_may_be_at_the_time_that_it_is() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q DEFINE a AS x, b AS y PATTERN a.te - b.te > 2 WITHIN 9 RETURN b.te"
    )
    rows = {"t": [1, 2, 4, 4, 5], "q": range(5), "x": [True] * 5, "y": [True] + [False] * 4}
    assert query.run(pl.DataFrame(rows))["detected_at"].to_list() == [5]
    reached = ps.query(str(query).replace("> 2", ">= 2"))
    assert reached.run(pl.DataFrame(rows))["detected_at"].to_list() == [4]


def test_relations_and_distances_clash_by_time_not_by_instant() -> None:
    text = "FROM s ORDER BY t{} DEFINE a AS x = 1, b AS x = 2 PATTERN {} WITHIN 9"
    with pytest.raises(ps.QueryError, match="no intervals can satisfy together"):
        ps.query(text.format("", "a before b AND b.ts - a.te <= 0"))
    ps.query(text.format(", q", "a before b AND b.ts - a.te <= 0"))
    with pytest.raises(ps.QueryError, match="no intervals can satisfy together"):
        ps.query(text.format(", q", "a before b AND b.ts - a.te < 0"))


# BRIDGING


def test_a_gap_is_measured_in_time_and_is_over_with_the_last_event_of_its_deadline() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY t, q DEFINE a AS x BRIDGING 2 PATTERN a WITHIN 99 "
        "EMIT ON COMPLETION RETURN FIRST(a.q) AS first, a.te"
    )

    def rows(*given: tuple[int, int, bool]) -> pl.DataFrame:
        return pl.DataFrame(
            [("a", *row) for row in given], schema=["k", "t", "q", "x"], orient="row"
        )

    run = rows((1, 1, True), (1, 2, False), (3, 1, False))
    session = query.open()
    assert session.push(run).is_empty()  # at 3 another one may go on
    goes_on = query.open(state=session.snapshot())
    assert session.push(rows((4, 1, False))).rows() == [("a", 3, 1, 1)]
    assert goes_on.push(rows((3, 2, True), (3, 3, False), (6, 1, False))).rows() == [("a", 5, 1, 3)]
    assert query.run(run).is_empty()
    assert query.run(run, at_end="close").rows() == [("a", 3, 1, 1)]


PATTERNS = (
    "b.ts - a.te BETWEEN 0 AND 2 AND a before; meets b",
    "a.te - b.te > 1 AND a overlaps; contains; finished-by b",
    "a.te - b.ts >= 2",
)


@pytest.mark.parametrize("bridging", ["", " BRIDGING 1"])
def test_two_streams_of_the_same_instants_are_as_one(bridging: str) -> None:
    rng = Random(bridging)
    given = 0
    for pattern in PATTERNS:
        define = f"DEFINE a AS {{}}x{bridging}, b AS {{}}y PATTERN {pattern} WITHIN 9 EMIT ON BOTH"
        given += sum(rows_of_one_and_two(rng, define, 16, 0.5) for _ in range(6))
    assert given > 30


def test_what_is_apart_from_a_bridged_run_is_told_by_instants() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q DEFINE a AS x = 1 BRIDGING 1, b AS x = 2 "
        "PATTERN a before; meets b WITHIN 9 RETURN a.te, FIRST(b.q) AS q, RELATION(a, b) AS how"
    )
    frame = pl.DataFrame({"t": [1, 1, 1, 2, 2, 4], "q": range(6), "x": [1, 2, 0, 2, 0, 2]})
    assert query.run(frame).rows() == [
        (2, 1, 1, "meets"),
        (2, 1, 3, "before"),
        (4, 1, 5, "before"),
    ]


# Intervals that come ready-made


def test_an_end_that_is_long_to_come_finds_its_interval() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH halts FROM b TO e KNOWN AT START DEFINE a AS s.x, halt AS halts "
        "PATTERN a during halt WITHIN 5 EMIT ON BOTH RETURN a.ts, halt.te"
    )
    session = query.open()
    session.push({"b": 0, "e": 50}, stream="halts")
    found = []
    for at in range(60):
        for q in range(2):
            found += session.push({"t": at, "q": q, "x": (at, q) == (1, 0)}, stream="s")
        if at == 40:
            session = query.open(state=session.snapshot())
    rows = [tuple(row.values()) for row in found + session.close()]
    assert rows == [(1, "trigger", 1, 50), (50, "completion", 1, 50)]


def test_times_have_to_lie_where_instants_can_be_numbered() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q WITH halts FROM b TO e DEFINE a AS s.x, halt AS halts "
        "PATTERN a during halt WITHIN 5"
    )
    events, halts = (
        pl.DataFrame({"t": [1], "q": [1], "x": [True]}),
        pl.DataFrame({"b": [0], "e": [2]}),
    )
    session = query.open()
    assert session.push(events, stream="s").is_empty()
    assert session.push(halts, stream="halts").is_empty()
    far = pl.lit(1 << 62)
    for given, name in (
        (halts.with_columns(e=far), "halts"),
        (halts.with_columns(b=-far), "halts"),
        (events.with_columns(t=far), "s"),
    ):
        with pytest.raises(ps.TimeError, match="times lie within"):
            session.push(given, stream=name)
    later = pl.DataFrame({"t": [3], "q": [1], "x": [True]})
    assert session.push(later, stream="s").is_empty()


# What looks into rows


def test_why_there_is_no_match_is_said_of_events_of_one_time_as_of_others() -> None:
    for case in planted(8, seed=3):
        of_rows = replace(case.query.streams[0], row_order=True)
        said = planted_misses(replace(case, query=replace(case.query, streams=(of_rows,))))
        assert str(said) == str(planted_misses(case))


TICKS = pl.DataFrame(
    {
        "t": [1, 1, 1, 1, 1, 2, 2, 3],
        "seq": [1, 2, 3, 4, 5, 1, 2, 1],
        "bid": [9, 5, 9, 5, 5, 9, 9, 9],
        "ask": [9, 9, 9, 9, 5, 5, 9, 9],
    }
)
DIPS = ps.query(
    "FROM ticks ORDER BY t, seq DEFINE low AS bid < 6, cheap AS ask < 6 "
    "PATTERN low overlaps cheap WITHIN 5 RETURN FIRST(low.seq) AS seq, low.te"
)


def test_pictures_and_sweeps_take_events_of_one_time() -> None:
    assert "low" in DIPS.timeline(TICKS).html()
    assert "overlaps" in DIPS.report(TICKS)
    found = ps.sweep(str(DIPS).replace("bid < 6", "bid < :most"), TICKS, most=[4, 6])
    assert found.table["matches"].to_list() == [0, 1]


def test_intervals_of_one_time_are_told_apart() -> None:
    found = DIPS.intervals(TICKS)
    assert found.select("symbol", "ts", "te", "events").rows() == [
        ("low", 1, 1, 1),
        ("low", 1, 2, 2),
        ("cheap", 1, 2, 2),
    ]
    (pairs,) = DIPS.diagnose(TICKS).pairs
    assert pairs.of == {"before": 1, "overlaps": 1}
    (match,) = DIPS.run(TICKS).rows(named=True)
    why = DIPS.why(match, TICKS)
    assert [interval.events for interval in why.intervals] == [2, 2]
    assert [letter for _, letter in why.decisions[0].letters] == ["Z", "E", "I"]
    assert why.waited_for == ("low overlaps cheap, decided by low.te",)
    missing = ps.query(str(DIPS).replace("overlaps", "meets")).why_not(TICKS)
    assert "low [1, 1) before cheap [1, 2) (needs meets)" in str(missing)


# A query in brackets


INNER = (
    "FROM s PARTITION BY k ORDER BY t, q DEFINE a AS x, b AS y PATTERN a meets; overlaps b WITHIN 5 "
    "{} RETURN FIRST(a.q) AS q, a.ts, b.te"
)
OUTER = (
    "PARTITION BY k DEFINE m AS m{}, v AS o.z PATTERN m before; meets; overlaps; contains; during v "
    "WITHIN 9 EMIT ON BOTH RETURN m.q, m.te, v.te"
)


def _ticks(seed: int) -> pl.DataFrame:
    rng = Random(seed)
    times = sorted(rng.choices(range(15), k=40))
    truth = {name: [rng.random() < 0.5 for _ in times] for name in "xy"}
    return pl.DataFrame({"k": rng.choices("pq", k=40), "t": times, "q": range(40), **truth})


def _measured(seed: int) -> pl.DataFrame:
    rng = Random(f"measured {seed}")
    keys = [key for key in "pq" for _ in range(12)]
    times = [time for _ in "pq" for time in sorted(rng.sample(range(18), k=12))]
    return pl.DataFrame({"k": keys, "t": times, "z": [rng.random() < 0.5 for _ in times]})


def test_matches_of_a_query_in_brackets_count_between_times(few_seeds: list[int]) -> None:
    """They are the intervals that its completed matches are, as rows; those of one time have no length."""
    inner = ps.query(INNER.format("EMIT ON COMPLETION"))
    nested = ps.query(f"FROM ({INNER.format('')}) AS m WITH o ORDER BY t {OUTER.format('')}")
    two_steps = ps.query(f"FROM m FROM a_ts TO b_te WITH o ORDER BY t {OUTER.format('.q >= 0')}")
    given = 0
    for seed in few_seeds:
        ticks, measured = _ticks(seed), _measured(seed)
        rows = inner.run(ticks).filter(pl.col("b_te") > pl.col("a_ts"))
        expected = two_steps.run({"m": rows, "o": measured})
        assert sorted_rows(nested.run({"s": ticks, "o": measured}).to_dicts()) == sorted_rows(
            expected.to_dicts()
        ), seed
        session = nested.open(lateness=2)
        found = []
        for at in range(18):
            now = pl.col("t") == at
            found += session.push(measured.filter(now), stream="o").to_dicts()
            found += session.push(ticks.filter(now), stream="s").to_dicts()
        assert sorted_rows(found + session.close().to_dicts()) == sorted_rows(expected.to_dicts())
        given += len(expected)
    assert given or few_seeds[0]


def test_matches_of_a_row_pattern_count_between_times() -> None:
    query = ps.query(
        "FROM (FROM s MATCH_RECOGNIZE (ORDER BY t, ROW MEASURES FIRST(A.q) AS q PATTERN (A B) "
        "WITHIN 9 DEFINE A AS x, B AS NOT x)) AS m DEFINE m AS m PATTERN m WITHIN 9 RETURN m.q, m.te"
    )
    rows = {"t": [1, 1, 1, 2, 2, 3], "q": range(6), "x": [True, False, True, False, True, True]}
    assert query.run({"s": pl.DataFrame(rows)}).rows() == [(2, 2, 2)]


# What is refused, and said


def test_what_orders_events_may_have_any_type_with_an_order() -> None:
    query = ps.query(
        "FROM s ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN FIRST(a.n) AS n"
    )
    rows = {"t": [1, 1, 1], "x": [0, 5, 0], "n": [0, 1, 2]}
    days = [date(2026, 1, day) for day in (1, 2, 3)]
    for values in (
        [1, 2, 3],
        days,
        [datetime.combine(d, time()) for d in days],
        [time(h) for h in (1, 2, 3)],
    ):
        frame = pl.DataFrame({**rows, "q": values})
        assert query.run(frame.reverse())["n"].to_list() == [1], values
    large = pl.DataFrame(
        {**rows, "q": [2**63 - 1, 2**63, 2**64 - 1]}, schema_overrides={"q": pl.UInt64}
    )
    assert query.run(large.reverse())["n"].to_list() == [1]


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        (["9", "10", "11"], "--type q=int of a file; identifiers without an order order nothing"),
        (pl.Series(["9", "10", "11"], dtype=pl.Categorical), "make numbers of them"),
        ([0.5, 1.5, 2.5], r'\(pl.col\("q"\) \* 1000\).cast\(pl.Int64\) where it has fractions'),
        (pl.Series([1, 2, 3], dtype=pl.Decimal(38, 0)), "make integers of it, by"),
        (pl.Series([1, 2, 3], dtype=pl.Int128), "make integers of it, by"),
        ([False, True, True], "make integers of it, by"),
        ([[1], [2], [3]], "make one of it, or write ROW instead of q"),
    ],
)
def test_what_has_no_order_of_integers_is_answered_with_what_to_do(
    values: Any, advice: str
) -> None:
    query = ps.query("FROM s ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1, 1, 1], "x": [0, 5, 0], "q": values})
    said = "what orders events of one time must be an integer"
    with pytest.raises(ps.QueryError, match=said) as raised:
        query.run(frame)
    assert re.search(advice, str(raised.value))
    if frame["q"].dtype != pl.Int128:  # no other frames have such a column
        for given in (frame.to_pandas(), frame.to_arrow(), frame.head(1).to_dicts()):
            with pytest.raises(ps.QueryError, match=said):
                query.run(given)


def test_an_event_needs_what_orders_it() -> None:
    query = ps.query("FROM s ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9")
    frame = pl.DataFrame({"t": [1, 1], "q": [1, None], "x": [5, 0]})
    with pytest.raises(ps.TimeError, match="q, which orders events of one time, is NULL in row 1"):
        query.run(frame)
    session = query.open()
    session.push({"t": 1, "q": 1, "x": 5})
    with pytest.raises(ps.TimeError, match="is NULL"):
        session.push({"t": 1, "q": None, "x": 5})
    assert session.push({"t": 1, "q": 2, "x": 0}) == []


def test_what_is_equal_in_all_of_order_by_ties() -> None:
    frame = pl.DataFrame({"t": [1, 1, 1], "q": [1, 2, 2], "x": [0, 5, 0], "n": [0, 1, 2]})
    query = ps.query(
        "FROM s ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN LAST(a.n) AS n"
    )
    with pytest.raises(ps.TieError, match="the same t and q: the event t = 1, q = 2; ties='first'"):
        query.run(frame)
    assert query.run(frame, ties="first")["n"].to_list() == [1]
    assert query.run(frame, ties="last")["n"].to_list() == []
    with pytest.raises(ps.TieError, match="and ORDER BY t, ROW in that of their rows"):
        ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").run(frame)
    by_row = ps.query(
        "FROM s ORDER BY t, ROW DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN LAST(a.n) AS n"
    )
    assert by_row.run(frame)["n"].to_list() == [1]


@pytest.mark.parametrize(
    ("head", "relations"),
    [
        # the rows of s, then those of o
        ("FROM s ORDER BY t, ROW WITH o ORDER BY t, ROW", "before"),
        ("FROM o ORDER BY t, ROW WITH s ORDER BY t, ROW", "after"),
        ("FROM s ORDER BY t, ROW WITH o ORDER BY t, q", "before"),
        ("FROM o ORDER BY t, q WITH s ORDER BY t, ROW", "after"),
        ("FROM s ORDER BY t, q WITH o ORDER BY t, q", "overlaps"),
        # what has its time alone comes first, wherever it stands
        ("FROM s ORDER BY t, ROW WITH o ORDER BY t", "after"),
    ],
)
def test_streams_in_the_order_of_their_rows_come_one_after_the_other(
    head: str, relations: str
) -> None:
    s = pl.DataFrame({"t": [1, 1, 1, 2], "q": [1, 3, 5, 7], "x": [0, 9, 0, 0]})
    o = pl.DataFrame({"t": [1, 1, 1, 2], "q": [2, 4, 6, 8], "x": [0, 9, 0, 0]})
    if head.endswith("ORDER BY t"):
        o = pl.DataFrame({"t": [0, 1], "q": [0, 0], "x": [9, 0]})
    query = ps.query(
        f"{head} DEFINE a AS s.x > 1, b AS o.x > 1 PATTERN a before; after; overlaps b WITHIN 9 "
        "RETURN RELATION(a, b) AS how EMIT ON COMPLETION"
    )
    frames = {"s": s, "o": o}
    assert query.run(frames)["how"].to_list() == [relations]
    for first, then in (("s", "o"), ("o", "s")):  # whichever comes first
        session = query.open(schema={"s": s.schema, "o": o.schema}, lateness=2)
        session.push(frames[first], stream=first)
        found = [session.push(frames[then], stream=then), session.close()]
        assert pl.concat(found)["how"].to_list() == [relations]


def test_explain_says_which_stream_comes_first() -> None:
    both = (
        "DEFINE a AS s.x > 1, b AS o.x > 1, c AS p.x > 1 PATTERN a before b AND b before c WITHIN 9"
    )
    query = ps.query(f"FROM s ORDER BY t, q WITH o ORDER BY t, ROW WITH p ORDER BY t, q {both}")
    told = query.explain().section("Order")
    assert "at one time the events of s and p come first, then those of o" in told
    alone = ps.query(f"FROM s ORDER BY t, q WITH o ORDER BY t WITH p ORDER BY t, q {both}")
    assert "come first" not in alone.explain().section("Order")


def test_a_late_event_of_the_same_time_is_named() -> None:
    query = ps.query("FROM s ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9")
    session = query.open()
    session.push({"t": 1, "q": 5, "x": 5})
    with pytest.raises(
        ps.LateEventError, match="t = 1, q = 3 is late: a later event of the same time"
    ):
        session.push({"t": 1, "q": 3, "x": 5})
    dropping = query.open(on_late="drop")
    for q in (5, 3, 6):
        dropping.push({"t": 1, "q": q, "x": 5})
    assert (dropping.statistics.events, dropping.statistics.late) == (2, 1)


def test_files_are_read_in_the_order_of_their_rows(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"t": [2, 1, 1, 1], "q": [0, 3, 1, 2], "x": [0, 0, 0, 5], "n": [3, 2, 0, 1]}
    )
    frame.write_csv(tmp_path / "rows.csv")
    text = (
        f"FROM '{tmp_path}/rows.csv' ORDER BY t, {{}} DEFINE a AS x > 1 PATTERN a WITHIN 9 "
        "EMIT ON COMPLETION RETURN FIRST(a.n) AS n, a.te"
    )
    assert ps.query(text.format("q")).run().rows() == [(1, 1, 1)]
    assert ps.query(text.format("ROW")).run().rows() == [(2, 1, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "FROM s ORDER BY t, q, r DEFINE a AS x > 1 PATTERN a WITHIN 9",
            "ORDER BY has the time, and",
        ),
        ("FROM s ORDER BY t, t DEFINE a AS x > 1 PATTERN a WITHIN 9", "t is in ORDER BY twice"),
        ("FROM s ORDER BY t, q DESC DEFINE a AS x > 1 PATTERN a WITHIN 9", "in ascending order"),
        (
            "FROM s PARTITION BY q ORDER BY t, q DEFINE a AS x > 1 PATTERN a WITHIN 9",
            "q is in PARTITION BY and in ORDER BY",
        ),
    ],
)
def test_what_cannot_be_ordered_is_refused(text: str, message: str) -> None:
    with pytest.raises(ps.QueryError, match=message):
        ps.query(text)


def test_a_query_in_brackets_that_says_order_by_says_all_of_it() -> None:
    outside = Source(name="s", order_by="t", sequence="q")
    for order in ({}, {"sequence": "r"}, {"row_order": True}):
        inside = inherited(StreamDraft(name="s", order_by="u", **order), outside)
        assert (inside.sequence, inside.row_order) == (order.get("sequence"), "row_order" in order)
    assert inherited(StreamDraft(name="s"), outside).sequence == "q"


def test_a_column_named_row_is_written_in_quotes() -> None:
    query = ps.query('FROM s ORDER BY t UNIT ms, "row" DEFINE a AS x > 1 PATTERN a WITHIN 9 ms')
    assert (query.streams[0].sequence, query.streams[0].row_order) == ("row", False)
    assert 'ORDER BY t UNIT ms, "row"' in str(query)
    assert ps.query(str(query)) == query


def test_the_builder_says_the_same() -> None:
    a = ps.define("a", "x > 1")
    for part, options in (("q", {"sequence": "q"}), ("ROW", {"row_order": True})):
        text = f"FROM s ORDER BY t, {part} DEFINE a AS x > 1 PATTERN a WITHIN 9"
        assert ps.pattern(a).within(9).order_by("t", **options).from_("s").query == ps.query(text)
        own = ps.define("a", "x > 1", stream=ps.stream("s", order_by="t", **options))
        assert ps.pattern(own).within(9).query == ps.query(text)
    for options in ({"sequence": "q", "row_order": True}, {"sequence": "t"}):
        with pytest.raises(ps.QueryError, match=r"order events of one time|another column"):
            ps.pattern(a).within(9).order_by("t", **options)


@pytest.mark.parametrize("at_end", ["open", "close"])
def test_stretches_of_rows_of_one_time_are_told_apart(few_seeds: list[int], at_end: str) -> None:
    for seed in few_seeds:
        case, frame = row_case(seed, memory=False)
        if not len(frame):
            continue
        found = case.query.intervals(frame, at_end=at_end).select("symbol", "ts", "te", "events")
        wanted = stretches(case, at_end == "close")
        assert sorted(found.rows(), key=repr) == wanted, f"seed {seed}: {case.query}"
        assert (
            case.query.diagnose(frame).filters[-1].left.number
            == len(given_rows(case, case.query.run(frame)))
            or case.query.rows is None
            or case.query.rows.all_rows
        ), f"seed {seed}: {case.query}"


def test_an_archive_gives_what_its_rows_as_a_frame_give(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3)
    frame = pl.DataFrame(
        {"t": np.arange(400) // 7, "q": drawn.permutation(400), "x": drawn.integers(0, 4, 400)}
    )
    kept = ps.archive(tmp_path / "lake", time="t", key=[])
    for part in frame.iter_slices(150):
        kept.append(part)
    text = "FROM s ORDER BY t, {} DEFINE a AS x > 1, b AS x = 1 PATTERN a meets b WITHIN 3"
    expected = ps.query(text.format("q")).run(frame)
    assert len(expected) > 20
    assert ps.query(text.format("q")).run(kept).equals(expected)
    by_row = ps.query(text.format("ROW"))
    expected = by_row.run(frame)
    assert len(expected) > 20
    assert by_row.run(kept).equals(expected)
    kept.compact()
    assert by_row.run(kept).equals(expected)
    kept.retain(since=20)
    assert by_row.run(kept).equals(by_row.run(frame.filter(pl.col("t") >= 20)))


def test_rows_of_an_archive_are_in_the_order_in_which_they_were_appended(tmp_path: Path) -> None:
    """Those of an append that comes later stand behind, whatever their times, and stay there."""
    kept = ps.archive(tmp_path / "lake", time="t", key=["k"], page_rows=2, file_rows=4)
    parts = [[(1, 0), (1, 5), (2, 0)], [(1, 0), (2, 7), (1, 6)], [(1, 9)]]
    for part in parts:
        kept.append(pl.DataFrame(part, schema=["t", "x"], orient="row").with_columns(k=pl.lit("p")))
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY t, ROW DEFINE a AS x > 1 PATTERN a WITHIN 9 "
        "EMIT ON COMPLETION RETURN FIRST(a.x) AS first, COUNT(a) AS n"
    )
    expected = [(5, 1), (6, 2)]  # 0 5 0 6 9, 0 7
    for change in (lambda: None, kept.compact, lambda: kept.retain(since=0)):
        change()
        assert query.run(kept).select("first", "n").rows() == expected
        told = query.intervals(kept, at_end="close")
        assert told["events"].to_list() == [1, 2, 1]


@pytest.mark.parametrize(
    ("order", "key", "message"),
    [
        ("ORDER BY t, ROW", ["k"], "rows of one time in order of k.*write PARTITION BY k"),
        ("PARTITION BY k ORDER BY u, ROW", ["k"], "in order of t, not of u.*write ORDER BY t, ROW"),
        ("PARTITION BY z ORDER BY t, ROW", ["z"], "keeps its rows by z, which holds floats"),
    ],
)
def test_where_an_archive_has_rows_in_another_order_row_is_refused(
    tmp_path: Path, order: str, key: list[str], message: str
) -> None:
    kept = ps.archive(tmp_path / "lake", time="t", key=key)
    kept.append(
        pl.DataFrame({"t": [1, 1], "u": [1, 2], "k": ["p", "q"], "z": [0.5, 1.5], "x": [5, 0]})
    )
    query = ps.query(f"FROM s {order} DEFINE a AS x > 1 PATTERN a WITHIN 9")
    several = ps.query(
        f"FROM s {order} WITH o ORDER BY t DEFINE a AS x > 1, b AS o.x > 1 PATTERN a before b WITHIN 9"
    )
    inside = ps.query(f"FROM ({query}) AS m DEFINE m AS m PATTERN m WITHIN 9")
    other = pl.DataFrame({"t": [1], "k": ["p"], "z": [0.5], "x": [5]})
    for run in (
        lambda: query.run(kept),
        lambda: inside.run(kept),
        lambda: several.run({"s": kept, "o": other}),
        lambda: query.diagnose(kept),
        lambda: several.diagnose({"s": kept, "o": other}),
    ):
        with pytest.raises(ps.QueryError, match=f"(?s){message}"):
            run()
