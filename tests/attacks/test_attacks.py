"""A short run of each attack; the long ones are programs, see the package's docstring."""

from __future__ import annotations

import pytest

from tests.attacks.workers import attack

_TRIES = {
    "texts": 500,
    "predicates": 4_000,
    "states": 20_000,
    "row_states": 3_000,
    "interruptions": 12,
    "threads": 6,
}


@pytest.mark.parametrize("name", _TRIES)
def test_nothing_crashes_hangs_or_means_two_things(name: str) -> None:
    outcomes = attack(f"tests.attacks.{name}", range(_TRIES[name]))
    assert sum(outcomes.values()) == _TRIES[name]
