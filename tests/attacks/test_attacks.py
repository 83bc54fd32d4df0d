"""A short run of each attack; the long ones are programs, see the package's docstring."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.attacks.workers import AttackError, Watch, attack

_TRIES = {
    "texts": 250,
    "predicates": 2_000,
    "states": 5_000,
    "row_states": 2_000,
    "interruptions": 8,
    "threads": 6,
}


@pytest.mark.parametrize("name", _TRIES)
def test_nothing_crashes_hangs_or_means_two_things(name: str) -> None:
    outcomes = attack(f"tests.attacks.{name}", range(_TRIES[name]))
    assert sum(outcomes.values()) == _TRIES[name]


def test_a_worker_that_advances_slowly_does_not_hang() -> None:
    watch = Watch(cpu=60.0, wall=600.0)
    assert not any(watch.hangs(f"{n} ", cpu=50.0 * n, wall=500.0 * n) for n in range(100))


@pytest.mark.parametrize(("cpu", "wall"), [(61.0, 62.0), (0.0, 601.0)])
def test_a_worker_that_stays_at_a_try_hangs(cpu: float, wall: float) -> None:
    """It calculates without end, or waits for what never comes."""
    watch = Watch(cpu=60.0, wall=600.0)
    assert not watch.hangs("7 ", cpu=5.0, wall=30.0)
    assert not watch.hangs("7 ", cpu=5.0 + 0.9 * cpu, wall=30.0 + 0.9 * wall)
    assert watch.hangs("7 ", cpu=5.0 + cpu, wall=30.0 + wall)


def test_what_hangs_is_ended_and_its_seed_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(tmp_path, "hanging.py").write_text(
        "from tests.attacks.workers import main\n"
        "def one(seed):\n"
        "    while seed == 3:\n"
        "        pass\n"
        "    return 'ends'\n"
        "main('hanging', one)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    assert attack("hanging", range(3)) == {"ends": 3}
    with pytest.raises(AttackError, match="hanging: seed 3 hangs"):
        attack("hanging", range(1, 9), cpu=5.0)
