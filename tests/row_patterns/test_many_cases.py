"""Cases of row patterns, many of one query: what `tests.row_patterns.many_cases` tries at length."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.row_patterns.many_cases import (
    disagreements,
    disagreements_soon,
    many_cases,
    way_of,
)
from tests.row_patterns.test_laws import expected_rows


@pytest.mark.parametrize("memory", [False, True], ids=["of one row", "with memory"])
def test_each_partition_of_a_row_pattern_says_what_the_oracle_says_of_it(
    memory: bool, seeds_in_all: Callable[[int], list[int]]
) -> None:
    tried = 0
    for seed in seeds_in_all(20):
        cases = many_cases(seed, memory)
        faults = disagreements_soon(cases, way_of(seed), seed)
        assert not faults
        tried += 0 if faults is None else len(cases)
    assert tried > 200


def test_rows_that_are_missing_are_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = many_cases(0, memory=False, most=12)
    monkeypatch.setattr("tests.row_patterns.many_cases.expected_rows", lambda case: [])
    faults = disagreements(cases, "frame", 0)
    assert len(faults) == sum(bool(expected_rows(case)) for case in cases) > 0
