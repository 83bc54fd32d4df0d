"""The oracle's RETURN, against examples worked out by hand from the rules."""

from __future__ import annotations

import pytest

from piestream.language.aggregates import AGGREGATES
from piestream.language.parts import Aggregate, DurationOf, Emit, Endpoint, RelationOf
from tests.oracle import rules
from tests.scenario import Clause
from tests.scenes import scene, values


def test_the_oracle_computes_every_aggregate() -> None:
    assert rules.AGGREGATES.keys() == AGGREGATES.keys()


def test_aggregates_see_the_events_that_are_known_at_the_report() -> None:
    speeds = (9.0, 1.0, None, 4.0, 7.0)
    functions = ("FIRST", "LAST", "MIN", "MAX", "SUM", "AVG", "COUNT", "STDDEV", "VARIANCE")
    scenario = scene(Clause("a", "b", ("overlaps",)), a="01110", b="00011")
    rows = tuple({**row, "v": v} for row, v in zip(scenario.rows, speeds, strict=True))
    returns = (
        *(Aggregate(name, "a", "v", name.lower()) for name in functions),
        Aggregate("COUNT", "a", None, "events"),
        *(Aggregate(name, "b", "v", f"b_{name.lower()}") for name in ("FIRST", "LAST", "STDDEV")),
        DurationOf("a", "a_length"),
        DurationOf("b", "b_length"),
        Endpoint("b", "te", "b_te"),
    )
    (row,) = scenario.having(rows=rows, returns=returns).expected()
    # a = [2,5): 1, NULL, 4. b = [4,...): 4, 7, known at 5.
    assert row.pop("stddev") == pytest.approx(4.5**0.5)
    assert row.pop("b_stddev") == pytest.approx(4.5**0.5)
    assert row == {
        "detected_at": 5,
        "first": 1.0,
        "last": 4.0,
        "min": 1.0,
        "max": 4.0,
        "sum": 5.0,
        "avg": 2.5,
        "count": 2,
        "variance": 4.5,
        "events": 3,
        "b_first": 4.0,
        "b_last": 7.0,
        "a_length": 3,
        "b_length": None,
        "b_te": None,
    }


@pytest.mark.parametrize("bits", ["1110", "1111"])
def test_aggregates_do_not_see_what_comes_after_the_report(bits: str) -> None:
    scenario = scene(a=bits).having(returns=(Aggregate("COUNT", "a", None, "n"),), emit=Emit.BOTH)
    completion = [(4, "completion", 3)] if bits == "1110" else []
    assert values(scenario.expected()) == [(1, "trigger", 1), *completion]


def test_aggregates_without_values_are_null_and_first_is_the_first_even_if_null() -> None:
    scenario = scene(a="110")
    functions = ("FIRST", "LAST", "MIN", "SUM", "AVG", "COUNT", "STDDEV", "VARIANCE")
    returns = tuple(Aggregate(name, "a", "v", name.lower()) for name in functions)
    rows = tuple(
        {**row, "v": v} for row, v in zip(scenario.rows, (None, float("nan"), 1.0), strict=True)
    )
    (row,) = scenario.having(rows=rows, returns=returns, emit=Emit.COMPLETION).expected()
    assert values([row]) == [(3, None, None, None, None, None, 0, None, None)]


def test_relation_is_null_while_several_are_possible() -> None:
    names = ("overlaps", "finished-by", "contains")
    scenario = scene(Clause("a", "b", names), a="1110", b="0111").having(
        returns=(RelationOf("a", "b", "how"), RelationOf("b", "a", "back")), emit=Emit.BOTH
    )
    assert values(scenario.expected()) == [(2, "trigger", None, None)]
    ended = scene(Clause("a", "b", names), a="11100", b="01110").having(
        returns=(RelationOf("a", "b", "how"), RelationOf("b", "a", "back")), emit=Emit.BOTH
    )
    assert values(ended.expected()) == [
        (2, "trigger", None, None),
        (5, "completion", "overlaps", "overlapped-by"),
    ]


@pytest.mark.parametrize(
    ("names", "how"),
    [
        (("before",), ["before", "before"]),
        (("before", "followed-by"), ["before", "followed-by"]),
        (("followed-by",), ["followed-by"]),
        (("followed-by", "meets"), ["followed-by"]),
    ],
)
def test_relation_names_the_precise_form_where_it_is_allowed(
    names: tuple[str, ...], how: list[str]
) -> None:
    scenario = scene(Clause("a", "b", names), a="10100", b="00001")
    found = scenario.having(returns=(RelationOf("a", "b", "how"),)).expected()
    assert [row["how"] for row in found] == how


def test_relation_of_a_pair_without_a_constraint_is_allens() -> None:
    clauses = Clause("a", "m", ("before",)), Clause("b", "m", ("before",))
    found = scene(*clauses, a="1000000", b="0010000", m="0000001").having(
        returns=(RelationOf("a", "b", "how"),)
    )
    assert values(found.expected()) == [(7, "before")]
