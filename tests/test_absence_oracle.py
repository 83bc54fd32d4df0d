"""What absence means, of intervals that are written down: the rules of SPEC 8.5 one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from piestream.expressions.durations import Duration
from piestream.language.distances import Distance
from tests.absence_oracle import Group, absent_from, named, past_of


def after(at_most: int, **more: Any) -> Group:
    """``NOT (c after a AND c.ts - a.te <= at_most)``"""
    near = Distance("c", "ts", "a", "te", "<=", Duration(at_most, in_ticks=True))
    return Group("c", {"a": named("after")}, (near,), **more)


@pytest.mark.parametrize(
    ("c", "until", "decided"),
    [
        ([], 20, 13),  # the deadline, which no event has
        ([], 13, 13),  # an event without c
        ([], 14, 13),
        ([(8, 9)], 20, None),
        ([(13, 15)], 20, None),  # just in time
        ([(14, 15)], 20, 13),
        ([(3, 5)], 20, 13),  # met by a, which is not after
        ([(3, 5), (6, 7)], 20, None),
        ([(2, 30)], 31, 13),
    ],
)
def test_an_absence_is_decided_at_its_deadline(c: list[Any], until: int, decided: int) -> None:
    past = past_of(until, a=[(1, 3)], c=c)
    assert absent_from(after(10), past, {"a": 1}, 3) == decided


def test_a_deadline_that_has_not_passed_decides_nothing() -> None:
    past = past_of(12, a=[(1, 3)], c=[])
    assert absent_from(after(10), replace(past, until=13), {"a": 1}, 3) is None
    assert absent_from(after(10), replace(past, until=14), {"a": 1}, 3) == 13


@pytest.mark.parametrize(
    ("c", "decided"),
    [
        ([(11, 14)], 14),  # too short, and known to be only when it ends
        ([(11, 12)], 13),
        ([(11, 17)], None),
    ],
)
def test_the_length_of_what_is_absent_counts(c: list[Any], decided: int) -> None:
    past = past_of(30, a=[(1, 3)], c=c)
    assert absent_from(after(10, at_least=5), past, {"a": 1}, 3) == decided


@pytest.mark.parametrize(
    ("relations", "c", "decided"),
    [
        (["during"], [], 9),  # at the end of a
        (["during"], [(6, 7)], None),
        (["during"], [(6, 12)], 9),
        (["overlaps"], [], 5),  # it would have begun before a
        (["overlaps"], [(3, 4)], 5),
        (["overlaps"], [(3, 7)], None),
        (["overlaps"], [(3, 9)], 9),
        (["meets"], [(3, 5)], None),
        (["meets"], [(3, 6)], 5),
        (["overlapped-by"], [(6, 12)], None),
        (["after"], [], None),  # nothing bounds how long it is waited for
    ],
)
def test_an_event_decides_where_relations_do(
    relations: list[str], c: list[Any], decided: int
) -> None:
    past = past_of(20, a=[(5, 9)], c=c)
    assert absent_from(Group("c", {"a": named(*relations)}), past, {"a": 5}, 5) == decided


def test_what_would_lie_between_two_present_intervals_is_known_when_the_second_begins() -> None:
    group = Group("c", {"a": named("after"), "b": named("before")})
    past = past_of(20, a=[(1, 3)], b=[(10, 12)], c=[(14, 15)])
    assert absent_from(group, past, {"a": 1, "b": 10}, 10) == 10
    past = past_of(20, a=[(1, 3)], b=[(10, 12)], c=[(5, 6)])
    assert absent_from(group, past, {"a": 1, "b": 10}, 10) is None


def test_a_silence_ends_what_is_open() -> None:
    group = Group("c", {"a": named("overlaps")})
    past = past_of(40, 4, a=[(5, 30)], c=[(3, 31)])
    assert absent_from(group, past, {"a": 5}, 5) == 9  # both end together, 4 after the last event
