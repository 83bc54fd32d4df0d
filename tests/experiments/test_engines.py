"""Engines and libraries that others wrote, held against brute force where they are installed."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from experiments.benchmarks.interval_joins import METHODS, cases, joining, joining_by_iejoin
from experiments.benchmarks.interval_libraries import LIBRARIES, joining_by, missing
from experiments.harness.measure import Size
from experiments.peers import FRAME, PEERS, prepared, sorted_matches
from experiments.peers.flink import row_pattern
from experiments.peers.pattern import Pattern, UnsupportedPatternError
from experiments.peers.siddhi import app
from experiments.streams import of_bits
from piestream.relations import Relation
from tests.experiments import brute

_R = Relation
#: What each engine can say: chains in which every interval has one partner, for Flink.
GIVEN = {
    "siddhi": Pattern(
        3,
        ((0, 1, _R.BEFORE | _R.OVERLAPS | _R.CONTAINS), (2, 1, _R.DURING | _R.AFTER | _R.EQUALS)),
        40,
        at_least=(0, 2, 0),
        at_most=(None, None, 9),
    ),
    "flink": Pattern(
        3,
        (
            (0, 1, _R.MEETS | _R.OVERLAPS),
            (1, 2, _R.OVERLAPS | _R.MEETS | _R.STARTS | _R.DURING),
            (0, 2, _R.BEFORE | _R.OVERLAPS),
        ),
        40,
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_an_engine_of_others_has_every_match(name: str) -> None:
    if reason := PEERS[name].missing_here():
        pytest.skip(reason)
    given = GIVEN[name]
    times, masks = brute.stream(Random(3), 3, 300)
    expected = brute.matches(given, times, masks, "completion")
    assert len(expected) > 5
    found = PEERS[name].run(given, times, masks)
    assert [tuple(row) for row in sorted_matches(found.matches).tolist()] == expected
    assert found.count == len(expected)
    assert found.own_seconds is not None
    on_frame = prepared(of_bits(given, times, masks), name, FRAME, keep=False)()
    assert (on_frame.count, len(on_frame.matches)) == (len(expected), 0)


@pytest.mark.parametrize("name", GIVEN)
def test_an_engine_that_is_not_here_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIESTREAM_FLINK", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    wanted = {"siddhi": "pip install PySiddhi", "flink": "PIESTREAM_FLINK"}[name]
    assert wanted in PEERS[name].missing_here()
    with pytest.raises(FileNotFoundError, match=wanted):
        PEERS[name].prepare(GIVEN[name])


def test_siddhi_joins_each_symbol_in_a_window() -> None:
    text = app(GIVEN["siddhi"])
    assert text.count(" join ") == 2
    assert text.count("#window.externalTime(last, 40 milliseconds)") == 4
    assert "x.k == y.k" in text


def test_flink_refuses_what_has_more_than_one_partner() -> None:
    with pytest.raises(UnsupportedPatternError, match="one partner"):
        row_pattern(Pattern(2, ((0, 1, _R.CONTAINS),), 9))
    with pytest.raises(UnsupportedPatternError, match="only chains"):
        row_pattern(Pattern(3, ((0, 1, _R.MEETS), (0, 2, _R.MEETS)), 9))
    assert row_pattern(GIVEN["flink"]).count("F2* E2") == 1


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # which bioframe uses
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("case", cases(Size.TINY), ids=lambda case: case.name)
def test_a_library_finds_the_pairs_of_every_case(library: str, case: object) -> None:
    if reason := missing(library):
        pytest.skip(reason)
    assert _pairs(joining_by(library, case)()) == _pairs(joining(case)())  # type: ignore[arg-type]


@pytest.mark.parametrize("case", cases(Size.TINY), ids=lambda case: case.name)
def test_iejoin_finds_the_pairs_of_every_case(case: object) -> None:
    found = joining_by_iejoin(case)()  # type: ignore[arg-type]
    assert _pairs(found) == _pairs(joining(case)())  # type: ignore[arg-type]
    assert len(found) > 20


def test_every_library_is_a_method_of_interval_joins() -> None:
    assert {*LIBRARIES, "DuckDB, IEJoin"} <= {*METHODS}


def _pairs(found: pl.DataFrame) -> list[tuple[int, ...]]:
    """The rows of both sides, whatever their columns are called."""
    rows = [name for name in found.columns if name.startswith("row")]
    assert len(rows) == 2
    return sorted(found.select(rows).rows())
