"""Cases of queries over several streams, many of one query: what `tests.many_cases` tries at length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from piestream.expressions.diagnostics import QueryError
from tests import stream_scenario
from tests.many_cases import DRAWS, WAYS, disagreements, many_cases
from tests.scenario import Clause
from tests.stream_scenario import KINDS, combined_scenario


@pytest.mark.parametrize("kinds", [kinds for kinds in DRAWS if kinds != "patterns"])
def test_each_partition_of_a_query_says_what_the_oracle_says_of_it(
    kinds: str, seeds_in_all: Callable[[int], list[int]]
) -> None:
    cases, rows = 0, 0
    for seed in seeds_in_all(4 if "absent" in kinds else 6):
        engine = Random(seed).choice([*WAYS])
        many = many_cases(seed, kinds, WAYS[engine][1])
        if many is None:
            continue
        assert disagreements(many, engine, seed) == []
        cases += len(many.expected)
        rows += sum(map(len, many.expected.values()))
    assert cases
    assert rows > 0


def test_a_query_that_no_intervals_can_satisfy_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = next(
        d for seed in range(40)
        if len((d := combined_scenario(seed, KINDS["queries"])).definitions) == 2 and not d.absences
    )  # fmt: skip
    x, y = (one.name for _, one in drawn.definitions)
    long = dict.fromkeys(("at_most", "at_least_events", "at_most_events", "bridging")) | {
        "at_least": 30
    }
    hopeless = drawn.having(
        definitions=tuple((number, replace(one, **long)) for number, one in drawn.definitions),
        clauses=(Clause(x, y, ("before",)),),
        within=50,
        windows=(),
    )
    with pytest.raises(QueryError, match="no intervals can satisfy together"):
        _ = hopeless.query
    draws = iter((hopeless, drawn))
    monkeypatch.setattr(stream_scenario, "_apart", lambda *_: next(draws))
    assert combined_scenario.__wrapped__(1, KINDS["queries"]).text() == drawn.text()


def test_a_row_that_is_missing_is_a_disagreement() -> None:
    many = next(
        m for seed in range(9) if (m := many_cases(seed, "rows", 20)) and any(m.expected.values())
    )
    number = next(n for n, rows in many.expected.items() if rows)
    fewer = dict(many.expected) | {number: many.expected[number][1:]}
    (fault,) = disagreements(replace(many, expected=fewer), "frame", 0)
    assert f"case {number}:" in fault
