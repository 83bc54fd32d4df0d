"""The oracle itself, against examples worked out by hand from the rules.

Columns are bits, one an event, at the times 1, 2, 3, ... unless times are given.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from piestream.language.parts import Emit
from piestream.relations import ALL_NAMES
from tests.oracle import TieError, TooManyMatchesError
from tests.scenario import Clause, Definition, Scenario
from tests.scenes import lasting, scene, values
from tests.truth import binary, column, literal, previous

# Intervals


def test_a_pattern_of_one_symbol_lists_its_runs_from_their_starts() -> None:
    assert scene(a="01101").expected() == [
        {"detected_at": 2, "a_ts": 2, "a_te": None},
        {"detected_at": 5, "a_ts": 5, "a_te": None},
    ]


def test_an_interval_may_start_at_the_first_event() -> None:
    assert values(scene(a="10").expected()) == [(1, 1, None)]


def test_completion_needs_an_end_and_nothing_is_invented_at_the_end_of_the_data() -> None:
    assert scene(a="01101").having(emit=Emit.COMPLETION).expected() == [
        {"completed_at": 4, "a_ts": 2, "a_te": 4}
    ]


def test_null_and_nan_are_false() -> None:
    rows = tuple({"ts": t, "x": x} for t, x in enumerate((None, 0.9, float("nan"), 0.8), 1))
    high = Definition("a", binary(">", column("x"), literal(0.5)))
    scenario = Scenario((high,), (), rows, {"ts": pl.Int64(), "x": pl.Float64()})
    assert values(scenario.expected()) == [(2, 2, None), (4, 4, None)]


# Relations, one by one, and when each is decided

SOLO = [
    ("before", "100", "001", 3),
    ("followed-by", "100", "001", 3),
    ("meets", "10", "01", 2),
    ("overlaps", "110", "011", 3),
    ("finished-by", "110", "010", 3),
    ("contains", "111", "010", 3),
    ("starts", "10", "11", 2),
    ("equals", "10", "10", 2),
    ("started-by", "11", "10", 2),
    ("during", "010", "111", 3),
    ("finishes", "010", "110", 3),
    ("overlapped-by", "011", "110", 3),
    ("met-by", "01", "10", 2),
    ("follows", "001", "100", 3),
    ("after", "001", "100", 3),
]


@pytest.mark.parametrize(("name", "a", "b", "at"), SOLO, ids=[case[0] for case in SOLO])
def test_each_relation_alone(name: str, a: str, b: str, at: int) -> None:
    found = scene(Clause("a", "b", (name,)), a=a, b=b).expected()
    assert [row["detected_at"] for row in found] == [at]


@pytest.mark.parametrize(("name", "a", "b", "at"), SOLO, ids=[case[0] for case in SOLO])
def test_no_other_relation_holds_there(name: str, a: str, b: str, at: int) -> None:
    kin = {"before": "followed-by", "after": "follows"}
    kin |= {narrow: wide for wide, narrow in kin.items()}
    others = tuple(other for other in ALL_NAMES if other not in (name, kin.get(name)))
    assert scene(Clause("a", "b", others), a=a, b=b).expected() == []


GROUPS = [
    # The three ways for a to go on when b starts inside it: nothing is left to wait for.
    (("overlaps", "finished-by", "contains"), "11", "01", 2),
    (("during", "finishes", "overlapped-by"), "01", "11", 2),
    (("starts", "equals", "started-by"), "1", "1", 1),
    # Two of three: wait until the third is out.
    (("overlaps", "contains"), "1110", "0111", 4),
    (("overlaps", "finished-by"), "1110", "0111", 4),
    (("contains", "finished-by"), "1111", "0110", 4),
    (("starts", "equals"), "110", "111", 3),
    # The pair is there only when both have started, even if anything will do.
    (ALL_NAMES, "100", "001", 3),
    (ALL_NAMES, "11", "01", 2),
    # Already decided by the starts, whichever way it ends.
    (("overlaps", "finished-by", "contains", "meets"), "11", "01", 2),
    (("meets", "overlaps", "finished-by", "contains"), "10", "01", 2),
]


@pytest.mark.parametrize(("names", "a", "b", "at"), GROUPS)
def test_a_set_is_decided_as_a_whole(names: tuple[str, ...], a: str, b: str, at: int) -> None:
    found = scene(Clause("a", "b", names), a=a, b=b).expected()
    assert [row["detected_at"] for row in found] == [at]


def test_two_of_three_do_not_match_the_third() -> None:
    assert scene(Clause("a", "b", ("overlaps", "contains")), a="110", b="010").expected() == []


def test_an_open_pair_that_could_still_go_wrong_is_not_reported() -> None:
    assert scene(Clause("a", "b", ("overlaps",)), a="111", b="011").expected() == []


def test_followed_by_is_the_immediate_successor() -> None:
    # a = [1,2) and [3,4), b = [5,...): the second a is between the first and b.
    wide = scene(Clause("a", "b", ("before",)), a="10100", b="00001")
    assert values(wide.expected()) == [(5, 1, 2, 5, None), (5, 3, 4, 5, None)]
    narrow = wide.having(clauses=(Clause("a", "b", ("followed-by",)),))
    assert values(narrow.expected()) == [(5, 3, 4, 5, None)]


def test_followed_by_looks_at_the_gap_only() -> None:
    # Z O E: a = [2,3), then both start at 4. The E is b's start, not inside the gap.
    found = scene(Clause("a", "b", ("followed-by",)), a="01010", b="00010").expected()
    assert values(found) == [(4, 2, 3, 4, None)]


def test_the_gap_of_followed_by_begins_with_the_end_of_the_earlier() -> None:
    # b is true at 2, where a ends: [4,...) is not the first thing after a.
    assert scene(Clause("a", "b", ("followed-by",)), a="1000", b="0101").expected() == []


def test_followed_by_sees_runs_that_break_their_duration_constraint() -> None:
    # a = [1,4) is long enough, a = [5,6) is not, and still stands between the first and b.
    scenario = scene(Clause("a", "b", ("followed-by",)), a="11101000", b="00000001")
    assert lasting(scenario, 2, None).expected() == []
    before = scenario.having(clauses=(Clause("a", "b", ("before",)),))
    assert values(lasting(before, 2, None).expected()) == [(8, 1, 4, 8, None)]


# Durations


@pytest.mark.parametrize(
    ("times", "bits", "expected"),
    [
        ((1, 2, 6, 7), "1110", [(6, 1, None)]),  # inside the run, at the first event that shows it
        ((1, 2, 4, 7), "1110", [(4, 1, None)]),  # inclusive
        ((1, 2, 5, 7), "1100", [(5, 1, 5)]),  # known by the event that ends it
        ((1, 2, 3, 7), "1100", []),  # 3 - 1 < 3
        ((1, 2, 3), "111", []),  # not yet
    ],
)
def test_at_least_counts_from_the_first_event_that_shows_it(
    times: tuple[int, ...], bits: str, expected: list[tuple[Any, ...]]
) -> None:
    assert values(lasting(scene(times=times, a=bits), 3, None).expected()) == expected


def test_at_most_is_known_at_the_end() -> None:
    # [1,3) lasts 2, [4,8) lasts 4, [9,...) is open.
    found = lasting(scene(a="110111101"), None, 2).expected()
    assert values(found) == [(3, 1, 3)]


def test_between_is_inclusive_on_both_sides() -> None:
    # Lengths 1, 2, 3, 4.
    found = lasting(scene(a="10110111011110"), 2, 3).expected()
    assert values(found) == [(5, 3, 5), (9, 6, 9)]


def test_the_trigger_waits_for_the_validity() -> None:
    # b starts inside a at 2, which decides the pair; a reaches its length at 5.
    names = ("overlaps", "finished-by", "contains")
    found = lasting(scene(Clause("a", "b", names), a="11111", b="01000"), 4, None).expected()
    assert values(found) == [(5, 1, None, 2, 3)]


# MAX GAP


def test_a_silence_ends_what_is_open() -> None:
    scenario = scene(times=(1, 2, 10), a="111").having(max_gap=2, emit=Emit.COMPLETION)
    assert values(scenario.expected()) == [(4, 1, 4)]
    assert values(scenario.having(emit=Emit.TRIGGER).expected()) == [(1, 1, None), (10, 10, None)]


def test_a_silence_of_exactly_the_gap_ends_nothing() -> None:
    scenario = scene(times=(1, 3, 5), a="110").having(max_gap=2, emit=Emit.COMPLETION)
    assert values(scenario.expected()) == [(5, 1, 5)]


def test_the_end_of_a_silence_can_show_a_duration() -> None:
    scenario = lasting(scene(times=(1, 2, 10), a="110"), 3, None)
    assert values(scenario.expected()) == [(10, 1, 10)]
    assert values(scenario.having(max_gap=2).expected()) == [(4, 1, 4)]


def test_what_a_silence_separates_does_not_meet() -> None:
    scenario = scene(Clause("a", "b", ("meets",)), times=(1, 9), a="10", b="01")
    assert values(scenario.expected()) == [(9, 1, 9, 9, None)]
    assert scenario.having(max_gap=2).expected() == []


def test_the_end_of_a_silence_is_not_a_previous_event() -> None:
    rising = Definition("a", binary(">", column("n"), previous("n")))
    rows = ({"ts": 1, "n": 1}, {"ts": 10, "n": 2})
    scenario = Scenario((rising,), (), rows, {"ts": pl.Int64(), "n": pl.Int64()}, max_gap=2)
    assert values(scenario.expected()) == [(10, 10, None)]


def test_time_goes_on_in_the_other_partitions() -> None:
    rows = ({"ts": 1, "k": "x", "a": True}, {"ts": 4, "k": "y", "a": False})
    scenario = Scenario(
        (Definition("a", column("a")),),
        (),
        rows,
        {"ts": pl.Int64(), "k": pl.String(), "a": pl.Boolean()},
        keys=("k",),
        max_gap=2,
        emit=Emit.COMPLETION,
    )
    assert scenario.expected() == [{"k": "x", "completed_at": 3, "a_ts": 1, "a_te": 3}]
    assert scenario.having(max_gap=3).expected() == []  # 4 is not later than 1 + 3
    assert scenario.having(max_gap=3).expected(until=5) == [
        {"k": "x", "completed_at": 4, "a_ts": 1, "a_te": 4}
    ]


# Equal predicates


def test_equal_predicates_never_bind_the_same_interval() -> None:
    # Runs [1,2), [3,4), [5,...): whatever the relation, only different runs pair up.
    same = column("a")
    scenario = scene(Clause("x", "y", ALL_NAMES), a="10101").having(
        definitions=(Definition("x", same), Definition("y", same))
    )
    pairs = {(row["x_ts"], row["y_ts"]) for row in scenario.expected()}
    assert pairs == {(1, 3), (1, 5), (3, 5), (3, 1), (5, 1), (5, 3)}


def test_unconstrained_symbols_with_equal_predicates_differ_too() -> None:
    same = column("a")
    scenario = scene(
        Clause("x", "b", ("before",)), Clause("y", "b", ("before",)), a="10100", b="00001"
    )
    scenario = scenario.having(
        definitions=(Definition("x", same), Definition("y", same), Definition("b", column("b")))
    )
    assert {(row["x_ts"], row["y_ts"]) for row in scenario.expected()} == {(1, 3), (3, 1)}


# Matches


def test_all_combinations_are_matches_in_order_of_report_and_starts() -> None:
    clauses = Clause("a", "b", ("before",)), Clause("b", "c", ("before",))
    found = scene(*clauses, a="10100000", b="00001010", c="00000001").expected()
    starts = [(row["a_ts"], row["b_ts"], row["c_ts"]) for row in found]
    # b = [7,8) meets c = [8,...): only b = [5,6) is before it.
    assert starts == [(1, 5, 8), (3, 5, 8)]


def test_the_window_is_inclusive_and_runs_to_the_report() -> None:
    scenario = scene(Clause("a", "b", ("before",)), a="1000000", b="0000110")
    assert values(scenario.having(within=4).expected()) == [(5, 1, 2, 5, None)]
    assert scenario.having(within=3).expected() == []
    completed = scenario.having(emit=Emit.COMPLETION)
    assert completed.having(within=5).expected() == []
    assert values(completed.having(within=6).expected()) == [(7, 1, 2, 5, 7)]


def test_emit_on_both_windows_at_the_trigger_alone() -> None:
    scenario = scene(Clause("a", "b", ("before",)), a="1000000", b="0000110")
    assert scenario.having(within=4, emit=Emit.BOTH).expected() == [
        {"detected_at": 5, "phase": "trigger", "a_ts": 1, "a_te": 2, "b_ts": 5, "b_te": None},
        {"detected_at": 7, "phase": "completion", "a_ts": 1, "a_te": 2, "b_ts": 5, "b_te": 7},
    ]


def test_triggers_come_before_completions_of_the_same_moment() -> None:
    # a = [1,2) and [5,...), b = [1,2) and [3,5). At 5 the match of a = 1 and b = 3 completes, and
    # that of a = 5 and b = 1 triggers.
    scenario = scene(Clause("a", "b", ("before", "after")), a="10001", b="10110")
    found = scenario.having(emit=Emit.BOTH).expected()
    assert [(row["detected_at"], row["phase"], row["a_ts"], row["b_ts"]) for row in found] == [
        (3, "trigger", 1, 3),
        (5, "trigger", 5, 1),
        (5, "completion", 1, 3),
    ]


def test_rows_of_one_moment_are_ordered_by_the_starts_of_the_symbols_in_order_of_name() -> None:
    # z is defined first, but b's start decides.
    clauses = Clause("z", "m", ("before",)), Clause("b", "m", ("before",))
    found = scene(*clauses, z="1010000", m="0000001", b="0101000").expected()
    assert [(row["b_ts"], row["z_ts"]) for row in found] == [(2, 1), (2, 3), (4, 1), (4, 3)]


def test_partitions_are_streams_of_their_own() -> None:
    rows = tuple({"ts": t, "k": k, "a": t == 1, "b": t == 2} for t in (1, 2) for k in ("x", None))
    scenario = Scenario(
        (Definition("a", column("a")), Definition("b", column("b"))),
        (Clause("a", "b", ("meets",)),),
        rows,
        {"ts": pl.Int64(), "k": pl.String(), "a": pl.Boolean(), "b": pl.Boolean()},
        keys=("k",),
    )
    found = [(row["k"], row["detected_at"]) for row in scenario.expected()]
    assert found == [("x", 2), (None, 2)]


def test_ties_are_refused_or_one_event_is_kept() -> None:
    scenario = scene(times=(1, 2, 2), a="101")
    with pytest.raises(TieError, match="2"):
        scenario.expected()
    both = scenario.having(emit=Emit.COMPLETION)
    assert values(both.having(ties="first").expected()) == [(2, 1, 2)]
    assert both.having(ties="last").expected() == []


def test_too_many_matches_are_refused() -> None:
    with pytest.raises(TooManyMatchesError):
        scene(a="10101").expected(most=2)
