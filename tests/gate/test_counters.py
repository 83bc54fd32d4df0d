"""Fixed cases do what was accepted: ``python -m experiments.gate.counters --accept`` takes what is now."""

from __future__ import annotations

import json

import pytest

from experiments.gate.counters import ACCEPTED, counted, differences, works_with_counters
from experiments.gate.work import Work

_ACCEPTED = json.loads(ACCEPTED.read_text())
_WORKS = works_with_counters()


@pytest.mark.parametrize("work", _WORKS, ids=[work.name for work in _WORKS])
def test_a_case_does_what_was_accepted(work: Work) -> None:
    assert differences({work.name: _ACCEPTED[work.name]}, {work.name: counted(work)}) == []


def test_all_that_was_accepted_is_counted() -> None:
    assert _ACCEPTED.keys() == {work.name for work in _WORKS}
    assert {name for each in _ACCEPTED.values() for name in each} >= {
        "matches", "steps", "visits", "peak intervals", "peak state bytes", "values decoded",
        "bytes projected", "bytes ordered", "bytes of changes",
    }  # fmt: skip


def test_a_difference_is_told_with_its_size() -> None:
    assert differences({"a": {"steps": 2}}, {"a": {"steps": 3, "visits": 1}, "b": {}}) == [
        "a: steps 2, now 3 (1.50 ×)",
        "a: visits None, now 1",
    ]
