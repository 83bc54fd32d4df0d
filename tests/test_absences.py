"""NOT (...): when a match is given of which something must not be there, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import polars as pl
import pytest

import piestream as ps
from piestream.engine.stream import Stream
from piestream.engine.validation import _DAMAGES
from piestream.errors import LateEventError, StateError
from piestream.joins.partition import Partition
from piestream.joins.records import Program
from piestream.joins.state_records import RingHeader
from piestream.joins.validation import Damage
from piestream.language.absence_waits import wait_texts
from piestream.plan.binding import bind
from tests.many_absences import WAYS, Case, disagreements, many_absences

ALONE = ps.query(
    "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c "
    "PATTERN a AND NOT (c after a AND c.ts - a.te <= 10) WITHIN 99 RETURN a.ts"
)


def _events(*rows: tuple[str, int, bool, bool]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["k", "ts", "a", "c"], orient="row")


RUN = _events(("x", 1, True, False), ("x", 3, False, False))


def test_an_absence_is_reported_with_its_deadline_whoever_lets_time_pass() -> None:
    wanted = [("x", 13, 1)]
    for last in (("x", 20, False, False), ("y", 20, False, False), ("x", 13, False, False)):
        assert ALONE.run(pl.concat([RUN, _events(last)])).rows() == wanted
    session = ALONE.open()
    assert session.push(RUN).is_empty()
    assert session.push(_events(("y", 13, False, False))).is_empty()  # c may still begin at 13
    assert session.advance(14).rows() == wanted


def test_what_begins_at_the_deadline_is_there() -> None:
    assert ALONE.run(pl.concat([RUN, _events(("x", 13, False, True))])).is_empty()
    strict = ps.query(str(ALONE).replace("<= 10", "< 10"))
    late = pl.concat([RUN, _events(("x", 13, False, True))])
    assert strict.run(late).rows() == [("x", 13, 1)]


def test_what_may_still_become_long_enough_is_waited_for() -> None:
    long = ps.query(str(ALONE).replace("c AS c", "c AS c AT LEAST 5"))
    short = _events(("x", 12, False, True), ("x", 14, False, False), ("x", 30, False, False))
    assert long.run(pl.concat([RUN, short])).rows() == [("x", 14, 1)]
    session = long.open()
    session.push(pl.concat([RUN, short[:1]]))
    assert session.advance(20).is_empty()


NEXT = ps.query(
    "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c "
    "PATTERN a AND NOT (c follows a AND c.ts - a.te BETWEEN 5 AND 10) WITHIN 99 RETURN a.ts"
)


def test_the_next_one_is_not_waited_for_once_another_one_has_begun() -> None:
    late = _events(("x", 9, False, True), ("x", 10, False, False), ("x", 30, False, False))
    assert NEXT.run(pl.concat([RUN, late])).is_empty()
    for a in (True, False):  # at 5 a begins, or a c that is too near
        between = _events(("x", 5, a, not a), ("x", 6, False, False))
        found = NEXT.run(pl.concat([RUN, between, late])).rows()
        assert found == [("x", 5, 1), *([("x", 9, 5)] if a else [])]
        session = NEXT.open()
        session.push(RUN)
        session = NEXT.open(state=session.snapshot())
        assert session.push(between[:1]).rows() == [("x", 5, 1)]


def test_an_interval_that_is_open_when_the_other_ends_lets_none_follow() -> None:
    over = _events(("x", 2, True, True), ("x", 3, False, True), ("x", 4, False, False))
    found = NEXT.run(pl.concat([RUN[:1], over, _events(("x", 9, False, True))]))
    assert found.rows() == [("x", 3, 1)]


def test_of_the_one_before_nothing_lies_between() -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c followed-by a AND a.ts - c.te <= 50) WITHIN 9 RETURN a.ts"
    )
    first = _events(("x", 1, False, True), ("x", 2, False, False))
    second = _events(("x", 40, True, False))
    assert query.run(pl.concat([first, second])).is_empty()
    between = _events(("x", 10, True, False), ("x", 30, False, False))  # long before the window
    assert query.run(pl.concat([first, between, second])).rows() == [(40, 40)]


def test_conditions_that_cannot_hold_together_are_not_waited_for() -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c overlapped-by a AND c.te - a.ts <= 6) WITHIN 99 RETURN a.ts"
    )
    events = _events(("x", 1, True, False), ("x", 9, True, False)).drop("k")
    assert query.run(events).rows() == [(7, 1)]  # a has not ended: c would end later than 7


BRIDGED = ps.query(str(ALONE).replace("c AS c", "c AS c BRIDGING 4"))


def test_what_is_interrupted_is_waited_for_as_long_as_it_may_go_on() -> None:
    short = ps.query(str(BRIDGED).replace("BRIDGING 4", "AT LEAST 5 BRIDGING 4"))
    rows = [("x", 12, False, True), ("x", 13, False, False)]
    again = [("x", 16, False, True), ("x", 17, False, False)]
    late = ("x", 99, False, False)
    assert short.run(pl.concat([RUN, _events(*rows, late)])).rows() == [("x", 17, 1)]
    assert short.run(pl.concat([RUN, _events(*rows, *again, late)])).is_empty()


def test_what_is_to_come_begins_behind_the_bridge_of_what_goes_on() -> None:
    query = ps.query(str(BRIDGED).replace("c after a", "c after a AND c.ts - a.te >= 2"))
    begun = _events(("x", 4, False, True))  # too early to count, and it goes on
    session = query.open()
    assert session.push(pl.concat([RUN, begun])).is_empty()
    assert session.advance(9).is_empty()
    assert session.advance(10).rows() == [("x", 9, 1)]  # what begins by 13 would be a part of it
    ended = _events(("x", 8, False, False), ("x", 13, False, True))
    assert query.run(pl.concat([RUN, begun, ended])).is_empty()
    assert query.run(
        pl.concat([RUN, begun, ended[:1], _events(("x", 99, False, False))])
    ).rows() == [("x", 13, 1)]


def test_a_query_with_a_not_is_a_stream_of_another() -> None:
    query = ps.query(
        "FROM (FROM s ORDER BY ts DEFINE a AS a, c AS c PATTERN a AND NOT (c after a AND c.ts - a.te <= 10) "
        "WITHIN 99 RETURN a.ts) AS alone WITH s ORDER BY ts DEFINE x AS alone, b AS s.a "
        "PATTERN x before b WITHIN 99 RETURN x.ts, x.te, b.ts"
    )
    rows = pl.concat([RUN, _events(("x", 9, True, False), ("x", 30, False, False))]).drop("k")
    assert query.run(rows).rows() == [(13, 1, 3, 9)]  # when it is known that c is not there


def test_nothing_is_decided_because_the_input_ends() -> None:
    assert ALONE.run(RUN, at_end="close").is_empty()
    contained = ps.query(str(ALONE).replace("c after a AND c.ts - a.te <= 10", "c during a"))
    assert contained.run(RUN[:1]).is_empty()
    rows = _events(("x", 1, True, False), ("x", 2, True, False))
    assert contained.run(rows, at_end="close").rows() == [("x", 2, 1)]


def test_a_deadline_passes_where_the_end_of_the_input_comes_to_it() -> None:
    rows = pl.DataFrame({"ts": [1, 5, 7], "a": [0, 1, 1], "d": [0, 0, 1], "c": [0, 0, 0]})
    for length, wanted in ((1, [(8, 5, 7)]), (2, [])):
        query = ps.query(
            "FROM s ORDER BY ts DEFINE a AS a > 0, d AS d > 0, c AS c > 0 PATTERN a overlaps d "
            f"AND NOT (c after a AND c.ts - a.te <= {length}) WITHIN 99 RETURN a.ts, a.te"
        )
        assert query.run(rows, at_end="close").rows() == wanted


OVERLAPPED = ps.query(
    "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c AT LEAST 5 "
    "PATTERN a AND NOT (c overlapped-by a) WITHIN 10 RETURN a.ts"
)
SHORT = _events(
    ("x", 1, True, False), ("x", 2, True, True), ("x", 4, False, True), ("x", 6, False, True)
)


@pytest.mark.parametrize("until", [6, 11, 12, 13, 50])
def test_what_the_end_of_the_input_decides_is_given_however_far_others_have_gone(
    until: int,
) -> None:
    rows = pl.concat([SHORT, _events(("y", until, False, False))])
    assert OVERLAPPED.run(rows, at_end="close").rows() == [("x", 6, 1)]  # c ends at 6
    session = OVERLAPPED.open()
    session.push(SHORT)
    for now in range(7, until + 1):
        assert session.advance(now).is_empty()
        if now % 5 == 0:
            session = OVERLAPPED.open(state=session.snapshot())
    assert session.close(at_end="close").rows() == [("x", 6, 1)]


def test_what_only_the_end_of_the_input_could_give_goes_as_events_come() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c contains a AND c.te - a.te <= 99999) WITHIN 10 RETURN a.ts"
    )
    stream = Stream(bind(query, SHORT.schema))
    stream.process(_events(("x", 0, False, True)))  # c goes on for ever
    for start in range(0, 4000, 40):
        stream.process(SHORT.with_columns(pl.col("ts") + start, c=pl.lit(True)))
        stream.advance(start + 39)
    partitions = stream.detector.partitions
    rings = partitions.rows[0, partitions._rings + Partition.offset("rings") :]
    assert 0 < rings[RingHeader.offset("tail")] <= 3


def test_that_time_has_passed_does_not_make_a_match_dead_which_the_end_of_the_input_gives() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c contains; started-by a AND c.te - a.te >= 2) WITHIN 4 RETURN a.ts"
    )
    rows = _events(("x", 1, True, True), ("x", 3, False, True), ("x", 4, False, True))
    for until in (4, 5, 6, 9):  # at 6 it is certain that c, which is open, ends 2 behind a
        frame = pl.concat([rows, _events(("y", until, False, False))])
        assert query.run(frame, at_end="close").rows() == [("x", 4, 1)]
    at_5 = pl.concat([rows, _events(("x", 5, False, True))])
    assert query.run(at_5, at_end="close").is_empty()


def test_a_run_of_too_many_events_counts_no_more() -> None:
    few = ps.query(str(ALONE).replace("c AS c", "c AS c AT MOST 2 EVENTS"))
    begins = _events(("x", 13, False, True), ("x", 20, False, True))
    session = few.open()
    assert session.push(pl.concat([RUN, begins])).is_empty()
    session = few.open(state=session.snapshot())
    assert session.advance(90).is_empty()
    session = few.open(state=session.snapshot())
    assert session.push(_events(("x", 95, False, True))).rows() == [("x", 95, 1)]
    ends = _events(("x", 95, False, False))
    assert few.run(pl.concat([RUN, begins, ends])).is_empty()
    assert few.run(pl.concat([RUN, begins]), at_end="close").is_empty()


def test_events_of_its_own_stream_are_counted_of_what_is_absent() -> None:
    query = ps.query(
        "FROM doors ORDER BY ts WITH badges ORDER BY ts PARTITION BY k "
        "DEFINE opens AS doors.open, badge AS badges.shown AT MOST 2 EVENTS "
        "PATTERN opens AND NOT (badge after opens AND badge.ts - opens.te <= 5) "
        "WITHIN 99 RETURN opens.ts"
    )
    times = [1, 2, 5, 6, 7, 9, 20]
    doors = pl.DataFrame({"k": "x", "ts": times, "open": [t == 1 for t in times]})
    for shown, wanted in (([4, 8, 10], [("x", 10, 1)]), ([4, 10], []), ([4, 8], [])):
        badges = pl.DataFrame({"k": "x", "ts": shown, "shown": True})
        frames = {"doors": doors, "badges": badges}
        assert query.run(frames).rows() == wanted
        session = query.open(schema={name: frame.schema for name, frame in frames.items()})
        found = []
        for at in sorted({*times, *shown}):
            for name, frame in frames.items():
                found += session.push(frame.filter(ts=at), stream=name).rows()
            session = query.open(state=session.snapshot())
        assert found == wanted


def test_a_wait_beyond_the_window_is_warned_of() -> None:
    text = str(ALONE).replace("WITHIN 99", "WITHIN {}")
    with pytest.warns(ps.ResultWarning, match="that no c comes is known later than 10 after"):
        assert ps.query(text.format(10)).run(RUN).is_empty()
    assert ps.query(text.format(12)).run(pl.concat([RUN, _events(("y", 14, False, False))])).rows()
    with pytest.warns(ps.ResultWarning, match="WITHIN 9 is over by then"):
        ps.query(text.format("9 OF a")).open(schema=RUN.schema)
    joined = DOUBLE.replace("LATE", "c after a AND c.ts - a.te <= 9")
    with pytest.warns(ps.ResultWarning, match="that no c comes"):
        ps.query(joined).run({"s": RUN.drop("k"), "t": RUN.drop("k")})


DOUBLE = (
    "FROM s ORDER BY ts WITH t ORDER BY ts DEFINE a AS s.a, c AS t.c PATTERN a AND NOT (LATE) "
    "WITHIN 9"
)


@pytest.mark.parametrize(
    "absence",
    [
        "c during a",  # known when a ends
        "c after a AND c.ts - a.te <= 10 AND c.ts - a.ts >= 15",  # of a short a it is known at once
        "c before; after a AND c.ts - a.te <= 10 AND a.ts - c.te <= 3",  # not one range of orders
    ],
)
def test_a_wait_that_may_be_short_is_not_warned_of(absence: str) -> None:
    assert list(wait_texts(ps.query(DOUBLE.replace("LATE", absence)))) == []


@pytest.mark.parametrize(("gap", "decided"), [(" MAX GAP 3", 5), ("", 10)])
def test_what_can_only_go_on_with_too_many_events_is_decided_at_once(
    gap: str, decided: int
) -> None:
    query = ps.query(
        f"FROM s ORDER BY ts{gap} DEFINE b AS b, c AS c AT MOST 2 EVENTS BRIDGING 20 "
        "PATTERN b AND NOT (c contains b) WITHIN 99 RETURN b.ts"
    )
    rows = [(1, False, True), (2, True, True), (10, False, False), (12, False, False)]
    events = pl.DataFrame(rows, schema=["ts", "b", "c"], orient="row")
    assert query.run(events).rows() == [(decided, 2)]
    session = query.open()
    found = [session.push(event).rows() for event in events.iter_slices(1)]
    assert found == [[], [], [(decided, 2)], []]


@pytest.mark.parametrize("way", WAYS)
def test_cases_are_reported_neither_too_early_nor_too_late(
    way: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    cases = rows = 0
    for number in seeds_in_all(40):
        seed = 100 * WAYS.index(way) + number
        many = many_absences(seed, 10)
        if many is not None:
            assert disagreements(many, way, seed) == []
            cases += len(many.cases)
            rows += sum(map(len, many.expected().values()))
    assert cases >= 20
    assert rows > 0


def test_a_row_that_is_missing_is_a_disagreement() -> None:
    drawn = (many_absences(seed, 10) for seed in range(99))
    many = next(m for m in drawn if m is not None and any(m.expected().values()))
    times = tuple(case.times[:1] for case in many.cases)
    held = ({name: all_held[:1] for name, all_held in case.holds.items()} for case in many.cases)
    cases = tuple(Case(*case) for case in zip(times, held, strict=True))
    fewer = replace(many, cases=cases)
    assert many.expected() != fewer.expected()


@pytest.mark.parametrize("count", [200, 800])
def test_a_deadline_costs_a_step_and_not_a_look_at_all_that_wait(count: int) -> None:
    query = ps.query(str(ALONE).replace("<= 10", "<= 100000").replace("WITHIN 99", "WITHIN 999999"))
    times = range(2 * count)
    waits = pl.DataFrame({"k": "x", "ts": times, "a": [t % 2 == 0 for t in times], "c": False})
    stream = Stream(bind(query, waits.schema))
    assert stream.process(waits).is_empty()
    judged = stream.detector.work.visits
    assert judged <= 3 * count  # at its trigger, and at its end
    ends = pl.DataFrame({"k": "x", "ts": [300_000], "a": [False], "c": [False]})
    assert len(stream.process(ends)) == count
    assert stream.detector.work.visits - judged <= 2 * count


def test_a_match_that_is_dead_costs_nothing_any_more() -> None:
    query = ps.query(str(ALONE).replace("<= 10", "<= 100000").replace("WITHIN 99", "WITHIN 999999"))
    rows = [("x", t, t % 2 == 0, False) for t in range(200)]
    stream = Stream(bind(query, _events(*rows).schema))
    stream.process(_events(*rows, ("x", 300, False, True), ("x", 301, False, False)))
    before = stream.detector.work.visits
    flicker = [("x", 400 + t, False, t % 2 == 0) for t in range(200)]
    stream.process(_events(*flicker))
    assert stream.detector.work.visits == before


@pytest.mark.parametrize("count", [100, 400])
def test_changes_of_what_is_absent_cost_a_step_each_whoever_waits(count: int) -> None:
    query = ps.query(
        str(ALONE).replace("c AS c", "c AS c AT LEAST 5").replace("<= 10", "<= 100000")
        .replace("WITHIN 99", "WITHIN 999999")
    )  # fmt: skip
    waits = [("x", t, t % 2 == 0, False) for t in range(2 * count)]
    stream = Stream(bind(query, _events(*waits).schema))
    stream.process(_events(*waits))
    before = stream.detector.work.visits
    changes = 8 * count  # each leaves all of them waiting: c is too short
    stream.process(_events(*(("x", 2 * count + t, False, t % 2 == 0) for t in range(changes))))
    assert stream.detector.work.visits - before <= 3 * changes
    assert len(stream.process(_events(("x", 300_000, False, False)))) == count


@pytest.mark.parametrize("count", [50, 200])
def test_ends_cost_a_step_for_each_match_that_waits_for_them(count: int) -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, b AS b, c AS c PATTERN a contains b "
        "AND NOT (c during a AND c.ts - b.te >= 1) WITHIN 99999 RETURN b.ts"
    )
    times = range(2 * count + 2)
    b = [t % 2 == 1 and t < 2 * count for t in times]
    events = pl.DataFrame({"ts": times, "a": [t <= 2 * count for t in times], "b": b, "c": False})
    stream = Stream(bind(query, events.schema))
    assert len(stream.process(events)) == count  # all at the end of a
    assert stream.detector.work.visits <= 8 * count


def test_a_stored_state_keeps_what_is_waited_for() -> None:
    session = ALONE.open()
    session.push(RUN)
    assert ALONE.open(state=session.snapshot()).advance(14).rows() == [("x", 13, 1)]


def test_a_partition_forgotten_with_a_match_that_is_awaited_leaves_a_sound_state() -> None:
    query = ps.query(
        "FROM s PARTITION BY k ORDER BY ts MAX GAP 2 DEFINE a AS a, c AS c BRIDGING 2 "
        "PATTERN a AND NOT (a meets; finishes; before; finished-by; equals c "
        "AND c.te - a.ts > 5 AND c.te - a.te <= 6) WITHIN 8"
    )
    session = query.open()
    rows = [("x", 9, True, False), ("x", 10, True, False), ("y", 18, False, False)]
    assert session.push(_events(*rows)).is_empty()
    session = query.open(state=session.snapshot())
    assert session.push(_events(("x", 20, False, False), ("x", 40, False, False))).is_empty()
    assert query.open(state=session.snapshot()).advance(99).rows() == []


def test_each_damage_of_a_state_has_a_message() -> None:
    assert len(_DAMAGES) == len(Damage)


def test_a_stored_state_is_gone_through() -> None:
    session = ALONE.open()
    session.push(RUN)
    partitions = session._stream.detector.partitions
    partitions.rows[0, partitions._awaited] -= 1
    with pytest.raises(StateError, match="damaged"):
        ALONE.open(state=session.snapshot())


def test_a_stored_match_is_due_later_than_the_last_event() -> None:
    for due, is_sound in ((13, True), (4, True), (3, False), (-(2**63), False)):
        session = ALONE.open()
        session.push(RUN)
        detector = session._stream.detector
        partitions = detector.partitions
        rings = partitions.rows[0, partitions._rings + Partition.offset("rings") :]
        detector.pool[rings[RingHeader.offset("base")]] = due
        partitions.rows[0, partitions._awaited] = due
        if is_sound:
            ALONE.open(state=session.snapshot())
            continue
        with pytest.raises(StateError, match="damaged"):
            ALONE.open(state=session.snapshot())


def test_a_push_that_fails_leaves_what_is_waited_for() -> None:
    session = ALONE.open()
    session.push(RUN)
    with pytest.raises(LateEventError):
        session.push(_events(("x", 2, True, True)))
    assert session.advance(14).rows() == [("x", 13, 1)]


def test_what_one_group_says_of_many_open_intervals_is_one_system_of_bounds() -> None:
    others = [f"a{number}" for number in range(12)]  # each allows five relations: 5^12 choices
    query = ps.query(
        f"FROM s ORDER BY ts DEFINE {', '.join(f'{name} AS {name}' for name in others)}, c AS c "
        f"PATTERN {' AND '.join(f'a0 intersects {name}' for name in others[1:])} "
        f"AND NOT ({' AND '.join(f'c intersects {name}' for name in others)}) WITHIN 99 RETURN a0.ts"
    )
    columns = {name: [True, True, False, False] for name in others}
    for c, wanted in (([False] * 4, [(3, 1)]), ([False, True, False, False], [])):
        events = pl.DataFrame({"ts": range(1, 5), "c": c, **columns})
        program = Program.over(bind(query, events.schema).compiled.program)
        pairs = [program.absent_pairs[number] for number in range(len(others))]
        assert all(pair.part_end - pair.part == 1 for pair in pairs)
        assert query.run(events).rows() == wanted


def test_an_absence_may_be_waited_for_for_decades() -> None:
    query = ps.query(
        "FROM s ORDER BY ts DEFINE a AS a, c AS c "
        "PATTERN a AND NOT (c after a AND c.ts - a.te <= 9000 days) WITHIN 12000 days RETURN a.ts"
    )
    days = [date(1980, 1, 1), date(1980, 1, 2), date(2005, 1, 1)]
    never = [False] * 3
    events = pl.DataFrame({"ts": days, "a": [True, False, False], "c": never})
    assert query.run(events).rows() == [(date(2004, 8, 23), date(1980, 1, 1))]
    windows = ps.query(str(query).replace("NOT (c after a AND c.ts - a.te", "(c.ts - a.te"))
    late = ps.query(str(windows).replace("WITHIN 12000 d", "WITHIN 9 d OF c"))
    came = events.with_columns(c=pl.Series([False, False, True]))
    assert late.run(came).is_empty()
    assert late.run(came.with_columns(ts=pl.Series([*days[:2], date(2004, 1, 1)]))).height == 1
