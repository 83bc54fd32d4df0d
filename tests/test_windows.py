"""Windows of some symbols: WITHIN 30 min OF low. The laws try them in random queries."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import polars as pl
import pytest

import piestream as ps
from piestream.language.difference_bounds import kept_after_end
from piestream.language.parts import Constraint
from piestream.plan.binding import bind
from piestream.relations import relation_of

CLOCK = "2024-05-01 "


def at(*times: str) -> pl.Series:
    return pl.Series("t", [CLOCK + time for time in times]).str.to_datetime()


def test_a_window_of_one_symbol_does_not_count_from_another_that_began_long_ago() -> None:
    """Fast from 16:23 truly overlaps low from 18:08: 30 min from the earliest start are long over."""
    events = pl.DataFrame(
        {
            "t": at("16:00", "16:23", "17:30", "18:08", "18:20", "18:40", "19:00"),
            "v": [5, 9, 9, 9, 9, 5, 5],
            "h": [9, 9, 9, 1, 1, 1, 9],
        }
    )
    define = "FROM s ORDER BY t DEFINE fast AS v > 8, low AS h < 2 PATTERN fast overlaps low WITHIN"
    assert ps.query(f"{define} 40 min").run(events).rows() == []
    for window in ("32 min OF low", "32 min OF low, 12 h OF fast", "12 h, 32 min OF low"):
        assert len(ps.query(f"{define} {window}").run(events)) == 1, window
    for window in ("31 min OF low", "32 min OF low, 2 h OF fast", "2 h, 32 min OF low"):
        assert len(ps.query(f"{define} {window}").run(events)) == 0, window


CLIMB = """
    FROM s {given}
    DEFINE airborne AS h > 0, final AS g = 1, climb AS r > 5
    PATTERN final during airborne AND airborne overlaps; finished-by; contains climb
        AND final before climb AND climb.ts - final.te <= 2 min
    WITHIN 1 min OF climb
    RETURN final.ts, climb.ts
"""


def flight(hours: int) -> pl.DataFrame:
    """A flight that is airborne for hours, and goes around every hour."""
    rows = []
    for minute in range(60 * hours + 5):
        phase = minute % 60
        rows.append(
            {
                "t": minute * 60,
                "h": int(0 < minute < 60 * hours + 3),
                "g": int(phase in (50, 51)),
                "r": 9 * (phase in (53, 58)),
            }
        )
    return pl.DataFrame(rows)


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_climb_soon_after_a_final_is_found_though_the_flight_is_long(size: int) -> None:
    query = ps.query(CLIMB.format(given="ORDER BY t UNIT s"))
    events = flight(3)
    expected = [(h * 3600 + 53 * 60, h * 3600 + 3000, h * 3600 + 53 * 60) for h in range(3)]
    assert query.run(events).rows() == expected
    session = query.open()
    found: list[Any] = []
    for piece in events.iter_slices(size):
        found += session.push(piece).rows()
        session = query.open(state=session.snapshot())
    assert found == expected


def test_what_is_kept_is_bounded_by_how_long_ago_it_ended() -> None:
    query = ps.query(CLIMB.format(given="ORDER BY t UNIT s"))
    session = query.open()
    for piece in flight(40).iter_slices(100):
        session.push(piece)
        session.advance(int(piece["t"][-1]))
        assert session.statistics.live_intervals <= 8
    assert session.statistics.matches == 40


def test_intervals_that_come_as_rows_are_kept_while_they_are_open() -> None:
    query = ps.query("""
        FROM stays FROM began TO ended ID id
        WITH doses FROM began TO ended
        DEFINE stay AS stays.x > 0, dose AS doses.x > 0
        PATTERN dose during; finishes; overlapped-by stay
        WITHIN 5 OF dose
        RETURN stay.ts, dose.ts
    """)
    session = query.open(
        schema={
            "stays": {"id": pl.Int64, "began": pl.Int64, "ended": pl.Int64, "x": pl.Int64},
            "doses": {"began": pl.Int64, "ended": pl.Int64, "x": pl.Int64},
        }
    )
    session.push({"id": 1, "began": 0, "ended": None, "x": 1}, stream="stays")
    found = []
    for time in range(10, 5_000, 10):
        row = {"began": time - 2, "ended": time, "x": 1}
        found += session.push(row, stream="doses")
        if time % 500 == 0:
            session = query.open(state=session.snapshot())
    found += session.push({"id": 1, "began": 0, "ended": 5_001, "x": 1}, stream="stays")
    found += session.push({"began": 5_020, "ended": 5_030, "x": 1}, stream="doses")
    found += session.close()
    assert [row["dose_ts"] for row in found] == list(range(8, 4_990, 10))
    assert session.statistics.live_intervals < 20


@pytest.mark.parametrize("limit", ["ONCE PER airborne", "NO OVERLAP", "ONCE PER airborne, climb"])
def test_limits_know_what_was_given_as_long_as_an_interval_is_kept(limit: str) -> None:
    text = CLIMB.format(given="ORDER BY t UNIT s").replace("RETURN", f"{limit} RETURN")
    events = flight(12)
    whole = ps.query(text).run(events).rows()
    assert len(whole) == (12 if limit == "ONCE PER airborne, climb" else 1)
    session = ps.query(text).open()
    found: list[Any] = []
    for piece in events.iter_slices(10):
        found += session.push(piece).rows()
        session.advance(int(piece["t"][-1]))
    assert found == whole


def _fits(constraint: Constraint, times: dict[tuple[str, str], int]) -> bool:
    """Whether intervals of a and b keep a constraint."""
    ends = [times[end] for end in itertools.product("ab", ("ts", "te"))]
    if not relation_of(*ends) & constraint.relations:
        return False
    compared = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    return all(
        compared[d.comparison](
            times[d.symbol, d.which] - times[d.other, d.other_which], d.length.amount
        )
        for d in constraint.distances
    )


@pytest.mark.parametrize("window", [0, 3])
@pytest.mark.parametrize(
    ("pattern", "is_bounded"),
    [
        ("a before b", False),
        ("a before b AND b.ts - a.te <= 2", True),
        ("b.te - a.te <= 4", True),
        ("b.ts - a.ts <= 4", True),
        ("b.ts - a.te >= 2", False),
        ("a.te - b.ts >= -3", True),
        ("a meets; during; equals b", True),
        ("a after b", True),
        ("a overlaps b AND a.te - b.ts >= 2", True),
        ("a disjoint b AND b.te - a.ts <= 5", True),
        ("a intersects b", True),
    ],
)
def test_an_interval_is_kept_as_long_as_small_ones_say(
    pattern: str, is_bounded: bool, window: int
) -> None:
    text = f"FROM s DEFINE a AS x, b AS y PATTERN {pattern} WITHIN {window} OF b"
    if not is_bounded:
        with pytest.raises(ps.QueryError, match="nothing bounds how long a must be kept"):
            ps.query(text)
        return
    if not window and pattern == "a after b":  # and so more than 0 later
        with pytest.raises(ps.QueryError, match="can satisfy together"):
            ps.query(text)
        return
    query = ps.query(text)
    (constraint,) = query.constraints
    longest = 0
    for a_ts, a_te, b_ts, b_te in itertools.product(range(9), repeat=4):
        times = {("a", "ts"): a_ts, ("a", "te"): a_te, ("b", "ts"): b_ts, ("b", "te"): b_te}
        if a_ts < a_te and b_ts < b_te and _fits(constraint, times):
            longest = max(longest, b_ts + window - a_te)
    (kept,) = kept_after_end(
        query.symbols, query.constraints, query.within, query.windows, query.emit, None
    ).values()
    assert kept is not None
    # time is dense: intervals may be shorter than here, and bounds that are not reached count
    assert longest <= kept.amount <= longest + 3


def test_what_bounds_an_interval_may_go_through_others() -> None:
    define = "FROM s DEFINE a AS x, b AS y, c AS z PATTERN a meets b AND"
    with pytest.raises(ps.QueryError, match="nothing bounds how long a must be kept"):
        ps.query(f"{define} b meets c WITHIN 4 OF c")
    query = ps.query(f"{define.replace('b AS y', 'b AS y AT MOST 7')} b meets c WITHIN 4 OF c")
    assert "a is kept 11 ticks after its end" in str(query.explain())
    assert "b is kept 4 ticks after its end" in str(query.explain())
    assert "c is kept 4 ticks from its start: WITHIN 4 OF c" in str(query.explain())


# -- how it is written -----------------------------------------------------------------------------


def test_the_builder_says_the_same() -> None:
    low, fast = ps.define("low", "x < 1"), ps.define("fast", "v > 9")
    pattern = ps.pattern(low.overlaps(fast)).order_by("t").from_("s")
    text = "FROM s ORDER BY t DEFINE low AS x < 1, fast AS v > 9 PATTERN low overlaps fast WITHIN"
    assert pattern.within(of={low: "30 min", fast: "12 h"}) == ps.query(
        f"{text} 12 h OF fast, 30 min OF low"
    )
    assert pattern.within("1 h", of={"low": "30 min"}) == ps.query(f"{text} 1 h, 30 min OF low")
    with pytest.raises(ps.QueryError, match="there is no symbol lo"):
        pattern.within(of={"lo": "30 min"})
    with pytest.raises(ps.QueryError, match="low has two windows"):
        pattern.within(of={"low": "30 min", low: "20 min"})
    with pytest.raises(ps.QueryError, match="within takes a window"):
        pattern.within()


def test_windows_of_all_symbols_that_are_equal_are_one_window() -> None:
    text = "FROM s ORDER BY t DEFINE a AS x, b AS y PATTERN a before b WITHIN"
    one = ps.query(f"{text} 9")
    same = ps.query(f"{text} 9 OF b, a")
    assert same == one
    schema = {"t": pl.Int64(), "x": pl.Boolean(), "y": pl.Boolean()}
    programs = [bind(query, schema).compiled.program.tolist() for query in (one, same)]
    assert programs[0] == programs[1]


# -- who looks into rows ---------------------------------------------------------------------------

EVENTS = pl.DataFrame({"t": range(20), "x": [0, *[9] * 18, 0], "y": [*[0] * 10, 9, *[0] * 9]})
DEFINE = "FROM s ORDER BY t DEFINE a AS x > 1, b AS y > 1 PATTERN a contains b WITHIN"


def test_a_diagnosis_says_which_windows_leave_everything_out() -> None:
    found = ps.query(f"{DEFINE} 0 OF b, 8 OF a").diagnose(EVENTS)
    assert found.summary == (
        "0 matches: WITHIN 8 OF a, 0 OF b leaves out all 1; the shortest takes 10 from a, 1 from b"
    )
    assert ps.query(f"{DEFINE} 1 OF b").diagnose(EVENTS).summary.startswith("1 match")


def test_why_not_proposes_longer_windows_of_those_that_are_too_short() -> None:
    missed = ps.query(f"{DEFINE} 30, 0 OF b").why_not(EVENTS, near={"b": (10, 11)})
    (window,) = [miss for miss in missed.near_misses if miss.kind == "window"]
    assert "WITHIN 30, 1 OF b" in window.text
    assert len(window.query.run(EVENTS)) == 1


def test_beginnings_that_no_match_can_hold_are_forgotten_though_others_are_kept_after_their_ends() -> (
    None
):
    query = ps.query("""
        FROM v ORDER BY ts WITH o FROM started TO stopped ID number
        DEFINE a AS v.x > 1, d AS o
        PATTERN a.ts - d.ts < 5 AND d.ts - a.ts < 5
        WITHIN 9 OF d
    """)
    session = query.open()
    types = {"started": pl.Int64, "stopped": pl.Int64, "number": pl.Int64}
    for at in range(0, 400, 4):
        session.push(pl.DataFrame({"ts": [at], "x": [at % 8]}), stream="v")
        begun = {"started": [at], "stopped": [None], "number": [at]}
        session.push(pl.DataFrame(begun, schema=types), stream="o")
    (announced,) = session._stream._intervals.announced.values()
    assert len(announced) < 20
