"""A failing scenario becomes a small one, and a folder that says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import folders
from tests.oracle import TieError
from tests.randoms import scenario
from tests.scenario import Scenario
from tests.shrink import shrunk

#: Seeds whose scenarios have matches.
_SEEDS = [seed for seed in range(40) if scenario(seed).expected()][:12]


def _has_a_match(drawn: Scenario) -> bool:
    try:
        return bool(drawn.expected())
    except TieError:  # partitions that became one
        return False


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_does_not_matter_is_left_out(seed: int) -> None:
    small = shrunk(scenario(seed), _has_a_match)
    assert _has_a_match(small)
    assert len(small.symbols) == 1
    # One interval needs one event; only an emission on its end or a PREV wants another.
    assert len(small.rows) <= 3
    assert not small.keys


def test_what_matters_stays() -> None:
    drawn = next(scenario(seed) for seed in _SEEDS if len(scenario(seed).symbols) > 2)
    small = shrunk(drawn, lambda one: len(one.symbols) > 1 and _has_a_match(one))
    assert len(small.symbols) == 2
    assert small.clauses


@pytest.mark.parametrize("seed", _SEEDS)
def test_a_folder_holds_the_scenario(seed: int, tmp_path: Path) -> None:
    drawn = scenario(seed)
    folders.write(tmp_path, drawn, why="to see it again")
    case, query = folders.read(tmp_path), drawn.query()
    assert case.text == drawn.text()
    assert [repr(row) for row in case.stream.rows] == [repr(dict(row)) for row in _in_order(drawn)]
    cells = folders.table(case.stream.matches(query), query, case.stream)
    assert folders.differs(case.matches, cells, len(drawn.keys)) is None
    altered = [cells[0], *cells[1:-1], ["?" for _ in cells[-1]]]
    assert folders.differs(case.matches, altered, len(drawn.keys)) is not None


def _in_order(drawn: Scenario) -> list[dict[str, object]]:
    return [{name: row[name] for name in drawn.schema} for row in drawn.rows]
