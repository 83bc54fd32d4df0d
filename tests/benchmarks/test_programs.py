"""Every benchmark runs on a tiny stream. Nothing is said of time here."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import PROGRAMS, adapt, dead_end, fig4
from benchmarks.measure import Scale
from benchmarks.results_files import RESULTS, document, shown, table, write


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_measures_what_its_table_shows(name: str, tmp_path: Path) -> None:
    program = import_module(f"benchmarks.{name}")
    rows = list(program.rows(Scale.TINY))
    assert rows
    measured = set().union(*rows)
    assert measured >= set(program.COLUMNS)
    assert len(table(program.COLUMNS, rows).splitlines()) == len(rows) + 2
    told = json.loads(write(document(name, program.TITLE, Scale.TINY, rows), tmp_path).read_text())
    assert told["scale"] == "tiny"
    assert program.COLUMNS[0] in shown(name, program.COLUMNS, tmp_path)
    assert [set(row) for row in told["rows"]] == [set(row) for row in rows]


def test_a_dead_end_has_no_match_though_its_first_symbols_have() -> None:
    (dead,) = dead_end.rows(Scale.TINY)
    assert dead["matches"] == 0
    assert all(row["matches"] > 0 for row in fig4.rows(Scale.TINY))


def test_sources_hold_the_same_events() -> None:
    assert len({row["matches"] for row in fig4.rows(Scale.TINY)}) == 1


def test_all_join_orders_find_the_same() -> None:
    found: dict[str, set[int]] = {}
    for row in adapt.rows(Scale.TINY):
        found.setdefault(row["phase"], set()).add(row["matches"])
    assert set(found) == {"1:1:1", "1:50:50", "50:1:50"}
    assert all(len(matches) == 1 for matches in found.values())


def test_what_was_not_measured_is_said(tmp_path: Path) -> None:
    assert shown("fig4", fig4.COLUMNS, tmp_path).startswith("not measured yet")


def test_published_results_are_of_full_runs_of_programs_that_exist() -> None:
    for path in RESULTS.glob("*.json"):
        told = json.loads(path.read_text())
        assert told["program"] == path.stem
        assert path.stem in PROGRAMS
        assert told["scale"] == "full"
        assert told["rows"]
