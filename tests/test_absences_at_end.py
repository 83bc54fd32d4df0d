"""NOT (...) where the input ends: what the time of other partitions has decided before stays so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.expressions.durations import Duration
from piestream.language.emission import NO_LIMITS
from piestream.language.model import Query
from piestream.language.parts import Emit
from tests.closed_silences import closed_silences
from tests.engines import difference
from tests.many_absences import WAYS, Case, ManyAbsences, disagreements, many_absences
from tests.many_cases import disagreements as many_disagreements

Rows = list[dict[str, Any]]

#: A window in which every match is.
_LONG = Duration(9_999, in_ticks=True)
_EMITS = (Emit.TRIGGER, Emit.COMPLETION, Emit.BOTH)


def _query(pattern: str, emit: str, a: str = "") -> Query:
    return ps.query(
        f"FROM s PARTITION BY k ORDER BY ts DEFINE a AS a {a}, c AS c "
        f"PATTERN a AND NOT ({pattern}) WITHIN 99 {emit} RETURN a.ts, a.te"
    )


#: a begins at 1 and is open at the last event, at 4; another partition is at the time that is named.
def _events(other: int | None) -> pl.DataFrame:
    rows = [("x", 1, True), ("x", 2, True), ("x", 4, True)]
    rows += [] if other is None else [("y", other, False)]
    events = pl.DataFrame(rows, schema=["k", "ts", "a"], orient="row")
    return events.with_columns(c=False)


_NEXT = "c after; met-by a AND c.ts - a.ts <= 5"
_INSIDE = "c during a AND c.ts - a.ts <= 5"


@pytest.mark.parametrize(
    ("pattern", "emit", "other", "wanted"),
    [
        (_NEXT, "", None, []),
        (_NEXT, "", 6, []),  # c may still begin then
        (_NEXT, "", 7, [("x", 6, 1, None)]),
        (_NEXT, "EMIT ON COMPLETION", None, []),
        (_NEXT, "EMIT ON COMPLETION", 6, []),
        (_NEXT, "EMIT ON COMPLETION", 7, [("x", 4, 1, 4)]),
        (_NEXT, "EMIT ON BOTH", 6, []),
        (_NEXT, "EMIT ON BOTH", 7, [("x", 6, "trigger", 1, None), ("x", 4, "completion", 1, 4)]),
        # the end of the input decides it, else time does
        (_INSIDE, "EMIT ON COMPLETION", None, [("x", 4, 1, 4)]),
        (_INSIDE, "EMIT ON COMPLETION", 60, [("x", 4, 1, 4)]),
        (_INSIDE, "", None, [("x", 4, 1, 4)]),
        (_INSIDE, "", 60, [("x", 6, 1, None)]),
    ],
)
def test_what_is_decided_before_the_end_of_the_input_stays_so(
    pattern: str, emit: str, other: int | None, wanted: list[Any]
) -> None:
    query, events = _query(pattern, emit), _events(other)
    assert query.run(events, at_end="close").rows() == wanted
    frames, rows = query.open(), query.open()
    found, of_events = [], []
    for event in events.iter_slices(1):
        found += frames.push(event).rows()
        frames = query.open(state=frames.snapshot())
        of_events += rows.push(event.row(0, named=True))
    assert found + frames.close(at_end="close").rows() == wanted
    of_events += rows.close(at_end="close")
    assert [tuple(row.values()) for row in of_events] == wanted


def test_each_absence_is_decided_by_itself() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c, d AS d AT LEAST 5 PATTERN a "
        "AND NOT (d overlapped-by a) AND NOT (c after; met-by a AND c.ts - a.ts <= 7) WITHIN 99"
    )
    for other, wanted in ((8, []), (9, [("x", 6, 1, 4)])):
        rows = [(1, True, False), (2, True, True), (4, False, True), (6, False, True)]
        events = pl.DataFrame(rows, schema=["ts", "a", "d"], orient="row").with_columns(
            pl.lit("x").alias("k"), pl.lit(False).alias("c")
        )
        passing = pl.DataFrame({"k": "y", "ts": other, "a": False, "c": False, "d": False})
        events = pl.concat([events.select(passing.columns), passing])
        assert query.run(events, at_end="close").rows() == wanted


def test_an_absence_may_be_decided_before_its_match_is_known() -> None:
    query = _query(_NEXT, "", a="AT MOST 10")
    assert query.run(_events(6), at_end="close").rows() == []
    assert query.run(_events(7), at_end="close").rows() == [("x", 4, 1, 4)]


@pytest.mark.parametrize("emit", [*Emit])
def test_a_session_may_also_be_told_that_time_has_passed(emit: Emit) -> None:
    query = replace(_query(_NEXT, ""), emit=emit)
    expected = query.run(_events(7), at_end="close").rows()
    session = query.open()
    found = session.push(_events(None)).rows() + session.advance(7).rows()
    assert found + session.close(at_end="close").rows() == expected
    assert expected


def test_the_statistics_count_what_closing_would_add() -> None:
    session = _query(_NEXT, "EMIT ON COMPLETION").open()
    session.push(_events(7))
    session.close()
    assert session.statistics.incomplete == 1


def test_what_is_kept_of_a_partition_before_its_end_is_given_back() -> None:
    session = _query(_NEXT, "EMIT ON COMPLETION").open()
    events = pl.concat([_events(None).with_columns(k=pl.lit(str(key))) for key in range(200)])
    session.push(events.sort("ts", "k"))
    before = session.statistics.state_bytes
    assert session.close(at_end="close").is_empty()
    assert session.statistics.state_bytes < 2 * before  # matches that are awaited take some


# -- laws over random queries ----------------------------------------------------------------------


def _drawn(seeds: list[int]) -> Iterator[ManyAbsences]:
    """Queries of NOT beside the cases that they have, with windows in which every match is."""
    for seed in seeds:
        many = many_absences(seed, 12, "close")
        if many is not None:
            query = replace(many.query, within=_LONG, windows=(), limits=NO_LIMITS)
            yield replace(many, query=query)


def _closed(query: Query, many: ManyAbsences, passing: int | None, cases: range) -> dict[int, Rows]:
    """The rows of some cases, where another partition has an event at ``passing``."""
    frame = many.frame().filter(pl.col("k").is_in([*cases]))
    if passing is not None:
        frame = pl.concat([frame, many.frame()[-1:].with_columns(ts=pl.lit(passing, pl.Int64))])
    found: dict[int, Rows] = {case: [] for case in cases}
    for row in query.run(frame, at_end="close").to_dicts():
        found[row["k"]].append(row)
    return found


def _plain(rows: Rows) -> set[tuple[Any, ...]]:
    return {tuple(row.values()) for row in rows}


def test_completions_are_those_of_both_phases(
    seeds_in_all: Callable[[int], list[int]],
) -> None:
    count = 0
    for many in _drawn(seeds_in_all(40)):
        cases = range(len(many.cases))
        only = _closed(replace(many.query, emit=Emit.COMPLETION), many, many.until, cases)
        both = _closed(replace(many.query, emit=Emit.BOTH), many, many.until, cases)
        for case in cases:
            completions = [
                {"completed_at": row.pop("detected_at"), **row}
                for row in both[case]
                if row.pop("phase") == "completion"
            ]
            assert _plain(_by_name(only[case])) == _plain(_by_name(completions)), (
                many.query,
                many.cases[case],
            )
            count += len(completions)
    assert count


def _by_name(rows: Rows) -> Rows:
    return [dict(sorted(row.items())) for row in rows]


@pytest.mark.parametrize("emit", _EMITS)
def test_partitions_that_are_not_ahead_say_nothing_of_another(
    emit: Emit, few_seeds: list[int]
) -> None:
    for many in _drawn(few_seeds[: len(few_seeds) // 4]):
        query = replace(many.query, emit=emit)
        for case in range(4):
            last = many.cases[case].times[-1]
            own = range(case, case + 1)
            alone = _closed(query, many, None, own)[case]
            for passing in (last, last - 1):
                beside = _closed(query, many, passing, own)[case]
                assert difference(alone, beside) is None, (many.query, many.cases[case])


@pytest.mark.parametrize("emit", _EMITS)
def test_partitions_that_are_ahead_only_add_matches(
    emit: Emit, seeds_in_all: Callable[[int], list[int]]
) -> None:
    added = 0
    for many in _drawn(seeds_in_all(40)):
        query = replace(many.query, emit=emit)
        if query.streams[0].max_gap is not None:
            continue  # what a silence ends is another interval
        starts = [f"{symbol.name}_ts" for symbol in query.present]
        names = [*starts, *(["completed_at"] if emit is Emit.COMPLETION else [])]
        for case in range(len(many.cases))[:4]:
            own = range(case, case + 1)
            alone = {tuple(row[n] for n in names) for row in _closed(query, many, None, own)[case]}
            for passing in (many.cases[case].times[-1] + 3, many.until + 50):
                rows = _closed(query, many, passing, own)[case]
                beside = {tuple(row[n] for n in names) for row in rows}
                assert alone <= beside, (many.query, many.cases[case], passing)
                added += len(beside - alone)
    assert added


@pytest.mark.parametrize("way", WAYS)
def test_a_closed_input_says_what_the_rules_say(
    way: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    rows = 0
    for seed in seeds_in_all(40):
        many = many_absences(100 * WAYS.index(way) + seed, 12, "close")
        if many is not None:
            assert disagreements(many, way, seed) == []
            rows += sum(map(len, many.expected().values()))
    assert rows


def test_the_rules_see_a_deadline_that_time_alone_has_passed() -> None:
    """The grid of times that the laws above are held against says so by itself."""
    holds = {name: (name == "a",) * 3 for name in "abcd"}
    case = Case((1, 2, 4), holds)
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a = true, c AS c = true "
        f"PATTERN a AND NOT ({_NEXT}) WITHIN 99 EMIT ON COMPLETION"
    )
    assert ManyAbsences(query, (case,), 6, "close").expected() == {0: []}
    assert ManyAbsences(query, (case,), 7, "close").expected() == {0: [(4, 1, 4)]}
    assert disagreements(ManyAbsences(query, (case,), 7, "close"), "frame", 0) == []


# -- silences that may not be there ----------------------------------------------------------------

_QUIET = (
    "FROM s PARTITION BY k ORDER BY t{} DEFINE a AS a, quiet AS SILENCE LONGER THAN 5{} "
    "PATTERN a AND NOT ({}) WITHIN 99 RETURN a.ts, a.te"
)


@pytest.mark.parametrize("order", ["", ", q"])
@pytest.mark.parametrize(
    ("absent", "is_open", "wanted"),
    [
        # by the last event of another partition: none, at the deadline, and behind it
        ("quiet finishes a", True, {7: (7, 1, 7), 12: (7, 1, 7), 13: None}),
        ("quiet during a", True, {7: (7, 1, 7), 12: (7, 1, 7), 13: (12, 1, 12)}),
        ("quiet met-by a", False, {7: (7, 1, 7), 12: (7, 1, 7), 13: None}),
        ("quiet met-by a AND quiet.te - a.te > 5", False, {7: (7, 1, 7), 13: (12, 1, 7)}),
        # of what begins later nothing is known
        ("quiet after a AND quiet.ts - a.te <= 9", False, {7: None, 13: None, 17: (16, 1, 7)}),
    ],
)
def test_a_silence_that_may_not_be_there_ends_as_one_that_is(
    order: str, absent: str, is_open: bool, wanted: dict[int, Any]
) -> None:
    query = ps.query(_QUIET.format(order, "", absent))
    for other, row in wanted.items():
        came = [("x", 1, True), ("x", 3, True), ("x", 7, is_open), ("y", other, False)]
        events = pl.DataFrame(came, schema=["k", "t", "a"], orient="row").with_columns(q=1)
        expected = [] if row is None else [("x", *row)]
        assert query.run(events, at_end="close").rows() == expected, other
        session, found = query.open(), []
        for event in events.iter_slices(1):
            found += session.push(event).rows()
            session = query.open(state=session.snapshot())
        assert found + session.close(at_end="close").rows() == expected, other
        single, told = query.open(), []
        for event in events.iter_rows(named=True):
            told += single.push(event)
        told += single.close(at_end="close")
        assert [tuple(one.values()) for one in told] == expected, other


@pytest.mark.parametrize(
    ("least", "wanted"), [("AT LEAST 5", []), ("AT LEAST 6", [("x", 12, 1, 12)])]
)
def test_a_silence_that_is_known_lasts_as_long_as_it_is_shown(least: str, wanted: Any) -> None:
    query = ps.query(_QUIET.format("", f" {least}", "quiet finishes a"))
    events = pl.DataFrame({"k": ["x", "x", "y"], "t": [1, 7, 20], "a": [True, True, False]})
    assert query.run(events, at_end="close").rows() == wanted
    present = str(query).replace("AND NOT (quiet finishes a)", "finished-by quiet")
    assert len(ps.query(present).run(events, at_end="close")) == 1 - len(wanted)


def test_whether_it_has_begun_is_known_with_the_last_event() -> None:
    query = ps.query(_QUIET.format("", "", "quiet equals; starts; started-by a"))
    events = pl.DataFrame({"k": "x", "t": [1, 7], "a": [False, True]})
    assert query.run(events, at_end="close").rows() == [("x", 7, 7, None)]
    completed = replace(query, emit=Emit.COMPLETION)
    assert completed.run(events, at_end="close").rows() == [("x", 8, 7, 8)]


@pytest.mark.parametrize("way", ["frame", "restored", "event", "disordered restored"])
def test_silences_that_may_not_be_there_end_as_the_oracle_says(
    way: str, few_seeds: list[int]
) -> None:
    rows = 0
    for seed in few_seeds:
        many = closed_silences(seed, 4 if way == "event" else 10)
        if many is not None:
            assert not many_disagreements(many, way, seed), many.drawn.text()
            rows += sum(map(len, many.expected.values()))
    assert rows or few_seeds[0]


@pytest.mark.parametrize("bridging", ["", "BRIDGING 2"])
def test_what_bridging_would_join_is_nothing_to_the_end_of_the_input(bridging: str) -> None:
    query = ps.query(
        f"FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c {bridging} "
        "PATTERN a AND NOT (c after a AND c.te - a.te <= 1) WITHIN 99 RETURN a.ts, a.te"
    )
    rows = [("x", 4, True, False), ("x", 17, True, True)]  # c, alone at the last event, ends at 18
    events = pl.DataFrame(rows, schema=["k", "ts", "a", "c"], orient="row")
    assert query.run(events, at_end="close").rows() == [("x", 18, 4, 17)]
