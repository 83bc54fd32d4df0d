"""The oracle's own predicates, against SQL's three values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from tests.randoms import scenario
from tests.truth import Past, parsed


@pytest.mark.parametrize(
    ("text", "row", "before", "value"),
    [
        ("n > 1", {"n": 2}, None, True),
        ("n > 1", {"n": None}, None, None),
        ("NOT n > 1", {"n": None}, None, None),
        ("n > 1 OR TRUE", {"n": None}, None, True),
        ("n > 1 AND FALSE", {"n": None}, None, False),
        ("n > 1 AND TRUE", {"n": float("nan")}, None, None),
        ("n IS NULL", {"n": float("nan")}, None, True),
        ("n IS NOT NULL", {"n": 0}, None, True),
        ("PREV(n) < n", {"n": 2}, None, None),
        ("PREV(n) < n", {"n": 2}, {"n": 1}, True),
        ("PREV(n, 2) IS NULL", {"n": 2}, {"n": 1}, True),
        ("SUM(n) OVER 2 EVENTS = 3", {"n": 2}, {"n": 1}, True),
        ("COUNT(*) OVER 1 EVENTS = 1", {"n": None}, {"n": 1}, True),
        ("n > 1 UNTIL n < 1", {"n": 1}, {"n": 2}, True),
        ("n > 1 UNTIL n < 2", {"n": 1}, {"n": 2}, False),
        ("(n + 1) * 2 = 6", {"n": 2}, None, True),
        ("w = 'red'", {"w": "red"}, None, True),
        ("n > -1.5", {"n": -1}, None, True),
    ],
)
def test_the_predicates_of_the_case_folders(
    text: str, row: dict[str, Any], before: dict[str, Any] | None, value: object
) -> None:
    assert parsed(text).value(row, Past(() if before is None else (before,))) is value


def test_the_random_predicates_are_read_back_from_their_texts() -> None:
    """Two ways to the truth of a predicate: put together, and read."""
    for seed in range(60):
        drawn = scenario(seed)
        for one in drawn.definitions:
            read = parsed(one.predicate.text)
            for before, row in pairwise((None, *drawn.rows)):
                assert row is not None
                past = Past(() if before is None else (before,), drawn.clock)
                assert read.value(row, past) == one.predicate.value(row, past), one
