"""A failing scenario becomes a small one, and a folder that says the same."""

from __future__ import annotations

from functools import partial
from itertools import count, islice
from pathlib import Path

import pytest

from tests import engines, folders, shrink, stream_folders, stream_scenario, stream_shrink
from tests.many_of_one_stream import many_cases
from tests.oracle import TieError
from tests.randoms import scenario
from tests.scenario import Scenario
from tests.shrink import main, shrunk
from tests.stream_scenario import KINDS, CombinedScenario, combined_scenario
from tests.stream_shrink import expected_of


def _seed(number: int) -> int:
    """One of the first seeds whose scenarios have matches."""
    return next(islice((seed for seed in count() if scenario(seed).expected()), number, None))


def _has_a_match(drawn: Scenario) -> bool:
    try:
        return bool(drawn.expected())
    except TieError:  # partitions that became one
        return False


@pytest.mark.parametrize("number", range(12))
def test_what_does_not_matter_is_left_out(number: int) -> None:
    small = shrunk(scenario(_seed(number)), _has_a_match)
    assert _has_a_match(small)
    assert len(small.symbols) == 1
    # One interval needs one event; only an emission on its end or a PREV wants another.
    assert len(small.rows) <= 3
    assert not small.keys


def test_what_matters_stays() -> None:
    seeds = map(_seed, range(12))
    drawn = next(scenario(seed) for seed in seeds if len(scenario(seed).symbols) > 2)
    small = shrunk(drawn, lambda one: len(one.symbols) > 1 and _has_a_match(one))
    assert len(small.symbols) == 2
    assert small.clauses


@pytest.mark.parametrize("number", range(12))
def test_a_folder_holds_the_scenario(number: int, tmp_path: Path) -> None:
    drawn = scenario(_seed(number))
    folders.write(tmp_path, drawn, why="to see it again")
    case, query = folders.read(tmp_path), drawn.query()
    assert case.text == drawn.text()
    assert [repr(row) for row in case.stream.rows] == [repr(dict(row)) for row in _in_order(drawn)]
    cells = folders.table(case.stream.matches(query), query, case.stream)
    assert folders.differs(case.matches, cells, len(drawn.keys)) is None
    altered = [cells[0], *cells[1:-1], ["?" for _ in cells[-1]]]
    assert folders.differs(case.matches, altered, len(drawn.keys)) is not None


@pytest.mark.parametrize("kind", ["many", "many sequence", "mixed"])
def test_a_disagreement_becomes_a_small_case(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shrink, "many_cases", partial(many_cases, most=3))
    seed = next(seed for seed in count() if shrink.drawn_of(kind, seed).expected())
    named = f"{kind}:{seed}"
    assert main([named, "frame", f"{tmp_path}/none"]) == 1
    forgetful = {
        **engines.ENGINES,
        "frame": lambda _, query, stream, __: (stream.matches(query)[1:], 0),
    }
    monkeypatch.setattr(engines, "ENGINES", forgetful)
    assert main([named, "frame", f"{tmp_path}/one"]) == 0
    assert "1 rows expected, 0 found" in capsys.readouterr().out
    case = folders.read(tmp_path / "one")
    assert len(case.matches) == 2
    assert len(case.stream.rows) <= 4


def _in_order(drawn: Scenario) -> list[dict[str, object]]:
    return [{name: row[name] for name in drawn.schema} for row in drawn.rows]


# Scenarios of several streams

#: Three scenarios for each kind of streams.
_OF_STREAMS = [(kinds, number) for kinds in KINDS for number in range(3)]


def _seed_of(kinds: str, number: int) -> int:
    """One of the first seeds whose scenarios of several streams have matches."""
    seeds = (seed for seed in count() if combined_scenario(seed, KINDS[kinds]).expected())
    return next(islice(seeds, number, None))


def _combined_has_a_match(drawn: CombinedScenario) -> bool:
    return bool(expected_of(drawn))


@pytest.mark.parametrize(("kinds", "number"), _OF_STREAMS)
def test_of_several_streams_what_does_not_matter_is_left_out(kinds: str, number: int) -> None:
    drawn = combined_scenario(_seed_of(kinds, number), KINDS[kinds])
    small = shrunk(drawn, _combined_has_a_match)
    assert _combined_has_a_match(small)
    assert len(small.definitions) == len(small.streams) == 1
    # One interval: an event or a row, and what ends it or comes before it for a PREV.
    assert sum(len(stream.rows) for stream in small.inputs.values()) <= 4
    assert not small.keys


def test_of_several_streams_what_matters_stays() -> None:
    kinds = ("events", "rows")
    drawn = next(
        one
        for seed in range(100)
        if len((one := combined_scenario(seed, kinds)).streams) > 1 and one.expected()
    )
    small = shrunk(drawn, lambda one: len(one.streams) > 1 and _combined_has_a_match(one))
    assert len(small.definitions) == len(small.streams) == 2
    assert small.clauses


@pytest.mark.parametrize(("kinds", "number"), _OF_STREAMS)
def test_a_folder_holds_a_scenario_of_several_streams(
    kinds: str, number: int, tmp_path: Path
) -> None:
    drawn = combined_scenario(_seed_of(kinds, number), KINDS[kinds])
    stream_folders.write(tmp_path, drawn, why="to see it again")
    case = stream_folders.read(tmp_path)
    assert case.query == drawn.query
    for name in drawn.inputs:
        assert case.frame(name).equals(drawn.frame(name))
    assert stream_folders.differs(case, case.expected()) is None
    assert stream_folders.differs(case, case.expected()[1:]) is not None


def test_a_disagreement_over_several_streams_becomes_a_small_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = "events"
    seed = _seed_of(kinds, 0)
    assert main([str(seed), kinds, "frame", f"{tmp_path}/none"]) == 1
    forgetful = {**stream_scenario.ENGINES, "frame": lambda drawn, _: drawn.expected()[1:]}
    for module in (stream_scenario, stream_shrink):
        monkeypatch.setattr(module, "ENGINES", forgetful)
    assert main([str(seed), kinds, "frame", f"{tmp_path}/one"]) == 0
    assert "1 rows expected, 0 found" in capsys.readouterr().out
    case = stream_folders.read(tmp_path / "one")
    assert len(case.matches) == 2
    assert sum(frame.height for frame in case.inputs.values()) <= 4
