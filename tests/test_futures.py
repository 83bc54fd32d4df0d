"""The rules of absence one by one, of intervals that are written down, and the futures that are tried."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import pytest

from piestream.expressions.durations import Duration
from piestream.language.absences import Absence
from piestream.language.distances import Distance
from piestream.language.model import Query
from piestream.language.parts import Constraint, Emit, Endpoint, Source, Symbol
from piestream.relations import ALL_NAMES, Relation, inverse, relation_of
from tests.oracle import matches
from tests.oracle.futures import last_instant
from tests.oracle.questions import (
    CERTAIN,
    NEVER,
    RELATIONS,
    Asked,
    Moment,
    Sequenced,
    Span,
    ToCome,
)
from tests.truth import column


def ticks(amount: int) -> Duration:
    return Duration(amount, in_ticks=True)


def named(*names: str) -> Relation:
    """The relations of these names."""
    return Relation(sum(1 << ALL_NAMES.index(name) for name in names))


def reports(
    relations: Mapping[str, tuple[str, ...]],
    until: int,
    *,
    most: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    max_gap: int | None = None,
    emit: Emit = Emit.TRIGGER,
    **spans: Any,
) -> list[tuple[int, ...]]:
    """When the matches of a, or of a before b, are reported beside NOT (…), of events at all ends.

    ``relations`` has those of c to the symbols, and ``most`` bounds c.ts - a.te.
    """
    present = [name for name in "ab" if name in spans]
    constraints = []
    for name, allowed in relations.items():
        distances: tuple[Distance, ...] = ()
        if most is not None and name == "a":
            distances = (Distance("c", "ts", "a", "te", "<=", ticks(most)),)
        constraints.append(Constraint(name, "c", inverse(named(*allowed)), distances))
    query = Query(
        symbols=(
            *(Symbol(name, None) for name in present),  # type: ignore[arg-type]
            Symbol("c", None, at_least and ticks(at_least), at_most and ticks(at_most)),  # type: ignore[arg-type]
        ),
        constraints=(Constraint("a", "b", Relation.BEFORE),) if "b" in present else (),
        within=ticks(1000),
        returns=(Endpoint("a", "ts", "a_ts"),),
        streams=(Source("s", order_by="ts", max_gap=max_gap and ticks(max_gap)),),
        absences=(Absence("c", tuple(constraints)),),
        emit=emit,
    )
    times = {time for of in spans.values() for span in of for time in span if time <= until}
    if max_gap is None:
        times.add(until)
    rows = [
        {"ts": time, **{n: any(s <= time < e for s, e in of) for n, of in spans.items()}}
        for time in sorted(times)
    ]
    truth = {name: column(name) for name in [*present, "c"]}
    found = matches(query, rows, truth, until=until)
    return [(row.get("detected_at", row.get("completed_at")), row["a_ts"]) for row in found]


@pytest.mark.parametrize(
    ("c", "until", "decided"),
    [
        ([], 20, 13),  # the deadline, which no event has
        ([], 13, 13),  # an event without c
        ([], 12, None),
        ([], 14, 13),
        ([(8, 9)], 20, None),
        ([(13, 15)], 20, None),  # just in time
        ([(14, 15)], 20, 13),
        ([(2, 3)], 20, 13),  # met by a, which is not after
        ([(2, 3), (6, 7)], 20, None),
        ([(2, 30)], 31, 13),
    ],
)
def test_an_absence_is_decided_at_its_deadline(c: Any, until: int, decided: int | None) -> None:
    found = reports({"a": ("after",)}, until, most=10, a=[(1, 3)], c=c)
    assert found == ([] if decided is None else [(decided, 1)])


@pytest.mark.parametrize(
    ("c", "decided"),
    [
        ([(11, 14)], 14),  # too short, and known to be only when it ends
        ([(11, 12)], 13),
        ([(11, 17)], None),
    ],
)
def test_the_length_of_what_is_absent_counts(c: Any, decided: int | None) -> None:
    found = reports({"a": ("after",)}, 30, most=10, at_least=5, a=[(1, 3)], c=c)
    assert found == ([] if decided is None else [(decided, 1)])


def test_what_lasts_too_long_is_absent_once_its_length_has_passed() -> None:
    found = reports({"a": ("after",)}, 30, most=10, at_most=4, a=[(1, 3)], c=[(11, 25)])
    assert found == [(15, 1)]


@pytest.mark.parametrize(
    ("relations", "c", "decided"),
    [
        (("during",), [], 9),  # at the end of a
        (("during",), [(6, 7)], None),
        (("during",), [(6, 12)], 9),
        (("overlaps",), [], 5),  # it would have begun before a
        (("overlaps",), [(3, 4)], 5),
        (("overlaps",), [(3, 7)], None),
        (("overlaps",), [(3, 9)], 9),
        (("meets",), [(3, 5)], None),
        (("meets",), [(3, 6)], 5),
        (("overlapped-by",), [(6, 12)], None),
        (("after",), [], None),  # nothing bounds how long it is waited for
    ],
)
def test_an_event_decides_where_relations_do(
    relations: tuple[str, ...], c: Any, decided: int | None
) -> None:
    found = reports({"a": relations}, 20, a=[(5, 9)], c=c)
    assert found == ([] if decided is None else [(decided, 5)])


def test_what_would_lie_between_two_present_intervals_is_known_when_the_second_begins() -> None:
    between = {"a": ("after",), "b": ("before",)}
    spans: dict[str, Any] = {"a": [(1, 3)], "b": [(10, 12)]}
    assert reports(between, 20, c=[(14, 15)], **spans) == [(10, 1)]
    assert reports(between, 20, c=[(5, 6)], **spans) == []


def test_a_silence_ends_what_is_open() -> None:
    found = reports({"a": ("overlaps",)}, 40, max_gap=4, a=[(5, 30)], c=[(3, 31)])
    assert found == [(9, 5)]  # both end together, 4 after the last event


def test_a_match_is_complete_no_earlier_than_it_is_certain() -> None:
    given: dict[str, Any] = {"most": 10, "emit": Emit.COMPLETION, "c": []}
    assert reports({"a": ("after",)}, 20, a=[(1, 3)], **given) == [(13, 1)]
    assert reports({"a": ("after", "met-by")}, 39, a=[(1, 30)], **given) == []


@pytest.mark.parametrize("seed", range(40))
def test_the_futures_that_are_tried_are_enough(seed: int) -> None:
    """All ends that may come are tried, in steps that are small beside the lengths."""
    rng = Random(seed)
    now = 6
    present = {"a": Span(rng.randint(0, 5), rng.choice((None, 6)))}
    if rng.random() < 0.3:
        present["b"] = Span(rng.randint(0, 4), rng.choice((5, 6)))
    span = rng.choice((None, Span(rng.randint(0, 6), None), Span(rng.randint(0, 4), 5)))
    relations = {name: rng.sample(sorted(RELATIONS), rng.choice((1, 2, 5))) for name in present}
    lengths = rng.choice((0, 0, 2)), rng.choice((None, None, 3, 6))
    distances: list[Any] = []
    for name in present:
        x, y = rng.choice((("c", name), (name, "c")))
        end, since = (x, rng.choice(("ts", "te"))), (y, rng.choice(("ts", "te")))
        distances.append((end, since, rng.choice(("<", "<=", ">", ">=")), rng.randint(0, 4)))
    asked = Asked("c", relations, lengths, distances)
    until = last_instant(asked, Moment(now), present, span or ToCome())

    at: dict[Any, int] = {}  # in sixths
    unknown: list[Any] = []
    for name, one in {**present, **({} if span is None else {"c": span})}.items():
        at[name, "ts"] = one.start * 6
        if one.end is None:
            unknown.append((name, "te"))
        else:
            at[name, "te"] = one.end * 6
    if span is None:
        unknown += [("c", "ts"), ("c", "te")]

    def is_satisfied(since: int) -> bool:
        for later in product(range(since + 1, 6 * 14 + 1), repeat=len(unknown)):
            at.update(zip(unknown, later, strict=True))
            start, end = at["c", "ts"], at["c", "te"]
            if start >= end or end - start < lengths[0] * 6:
                continue
            if lengths[1] is not None and end - start > lengths[1] * 6:
                continue
            if all(_keeps(at, one) for one in distances) and all(
                relation_of(start, end, at[name, "ts"], at[name, "te"]) & named(*allowed)
                for name, allowed in relations.items()
            ):
                return True
        return False

    assert is_satisfied(now * 6) is (until is not None)
    if until is not None and until < NEVER:
        assert is_satisfied(until * 6 - 4)
        assert not is_satisfied(until * 6)


def _keeps(at: Mapping[Any, int], distance: Any, fine: int = 6) -> bool:
    end, since, comparison, amount = distance
    holds = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[comparison]
    return bool(holds(at[end] - at[since], amount * fine))


@pytest.mark.parametrize("seed", range(40))
def test_instants_of_one_time_are_ordered_and_no_time_apart(seed: int) -> None:
    """Where several events have one time: all instants that may come are tried, three a time."""
    rng = Random(f"sequenced {seed}")
    now, is_behind = 6, rng.random() < 0.5
    present = {"a": _placed(rng, rng.random() < 0.5)}
    if rng.random() < 0.3:
        present["b"] = _placed(rng, False)
    span = rng.choice((None, _placed(rng, True), _placed(rng, False)))
    relations = {name: rng.sample(sorted(RELATIONS), rng.choice((1, 2, 5))) for name in present}
    lengths = rng.choice((0, 0, 1)), rng.choice((None, None, 0, 2))
    distances: list[Any] = []
    for name in present:
        x, y = rng.choice((("c", name), (name, "c")))
        end, since = (x, rng.choice(("ts", "te"))), (y, rng.choice(("ts", "te")))
        distances.append((end, since, rng.choice(("<", "<=", ">", ">=")), rng.randint(0, 2)))
    asked = Asked("c", relations, lengths, distances)
    moment = Moment(now, sequenced=Sequenced(is_behind))
    until = last_instant(asked, moment, present, span or ToCome())

    at: dict[Any, tuple[int, int]] = {}  # a time in quarters, and a place
    unknown: list[Any] = []
    for name, one in {**present, **({} if span is None else {"c": span})}.items():
        at[name, "ts"] = 4 * one.start, one.places[0]
        if one.end is None or one.places[1] is None:
            unknown.append((name, "te"))
        else:
            at[name, "te"] = 4 * one.end, one.places[1]
    if span is None:
        unknown += [("c", "ts"), ("c", "te")]

    def is_satisfied(since: int) -> bool:
        to_come = [
            (time, 1000 + 3 * time + k) for time in range(since, 4 * 11 + 1) for k in range(3)
        ]
        for later in product(to_come, repeat=len(unknown)):
            at.update(zip(unknown, later, strict=True))
            (start, begun), (end, ended) = at["c", "ts"], at["c", "te"]
            if begun >= ended or end - start < lengths[0] * 4:
                continue
            if lengths[1] is not None and end - start > lengths[1] * 4:
                continue
            times = {node: time for node, (time, _) in at.items()}
            if all(_keeps(times, one, 4) for one in distances) and all(
                relation_of(begun, ended, at[name, "ts"][1], at[name, "te"][1]) & named(*allowed)
                for name, allowed in relations.items()
            ):
                return True
        return False

    assert is_satisfied(4 * now + is_behind) is (until is not None)
    if until is not None and until < NEVER:
        first = math.ceil(4 * until) if until % 1 == 0 else 4 * math.floor(until) + 1
        assert is_satisfied(first - 1)
        assert not is_satisfied(first)


def _placed(rng: Random, is_open: bool) -> Span:
    """An interval that has begun, and ended unless it is open: its places are in the order of times."""
    start, end = sorted(rng.choices(range(7), k=2))
    return Span(
        start, None if is_open else end, places=(2 * start, None if is_open else 2 * end + 1)
    )


def test_what_the_end_of_the_input_ends_overlaps_what_begins_with_the_last_event() -> None:
    for closed, until in ((True, None), (False, CERTAIN)):
        present = {"a": Span(8, 9, is_closed=closed)}
        c = Span(6, 8, is_closed=closed)
        asked = Asked("c", {"a": ["meets"]}, (0, None), [])
        assert last_instant(asked, Moment(9, closed), present, c) == until


def test_ends_that_hang_on_one_another_are_tried_together() -> None:
    """Here c starts 1 after a ends, and ends 5 after it at least, but no later than at 20."""
    ends: dict[str, Any] = {"start": ("c", "ts"), "end": ("c", "te"), "of_a": ("a", "te")}
    distances = [
        (ends["start"], ends["of_a"], "<=", 1),
        (ends["start"], ends["of_a"], ">=", 1),
        (ends["end"], ends["of_a"], ">=", 5),
        (ends["end"], ("a", "ts"), "<=", 20),
    ]
    asked = Asked("c", {"a": ["after"]}, (0, None), distances)
    assert last_instant(asked, Moment(6), {"a": Span(0, None)}, ToCome()) == 15
    assert last_instant(asked, Moment(15), {"a": Span(0, None)}, ToCome()) is None
