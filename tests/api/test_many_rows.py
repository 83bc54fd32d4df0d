"""Runs that give very many rows, or take very long: limits, warnings, interruptions."""

from __future__ import annotations

import _thread
import threading
import warnings

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.engine import calls, detector, many_rows
from piestream.joins.scratch import Paused

QUERY = ps.query(
    "FROM s ORDER BY t DEFINE a AS x = 0, b AS x = 1, c AS x = 2 "
    "PATTERN a before b AND b before c WITHIN 1000000000"
)


def _events(n: int, keys: int = 1) -> pl.DataFrame:
    at = np.arange(n)
    return pl.DataFrame({"t": at // keys, "x": at // keys % 3, "k": at % keys})


KEYED = ps.query(str(QUERY).replace("ORDER BY", "PARTITION BY k ORDER BY"))


@pytest.mark.parametrize("limit", [0, 1, 7, 500, 10**6])
@pytest.mark.parametrize("cut", [False, True])
def test_a_limit_gives_the_first_rows(
    limit: int, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from piestream.adapters import run as runs

    if cut:
        monkeypatch.setattr(runs, "_FIRST_ROWS", 20)
        monkeypatch.setattr(runs, "_LEAST_ROWS", 10)
    frame = _events(90)
    whole = QUERY.run(frame)
    if limit < len(whole):
        with pytest.warns(ps.ResultWarning, match=f"stopped at limit={limit}: there are more"):
            found = QUERY.run(frame, limit=limit)
    else:
        found = QUERY.run(frame, limit=limit)
    assert found.equals(whole.head(limit))


def test_a_limit_that_is_reached_exactly_cuts_nothing() -> None:
    whole = QUERY.run(_events(30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert QUERY.run(_events(30), limit=len(whole)).equals(whole)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_limit_holds_for_all_partitions_together(threads: int) -> None:
    frame = _events(400, keys=9)
    whole = KEYED.run(frame, threads=1)
    with pytest.warns(ps.ResultWarning, match="stopped"):
        assert KEYED.run(frame, limit=50, threads=threads).equals(whole.head(50))


def test_a_limit_stops_early() -> None:
    """All rows of these events, 10**9 of them, would take minutes and more memory than there is."""
    with pytest.warns(ps.ResultWarning):
        assert len(QUERY.run(_events(6_000), limit=10)) == 10


def test_what_is_no_limit_is_refused() -> None:
    for limit in (-1, 1.5, True):
        with pytest.raises(ValueError, match="limit is a number of rows"):
            QUERY.run(_events(9), limit=limit)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [1, 4])
def test_very_many_rows_are_warned_of_once(keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_rows, "MANY_ROWS", 3_000)
    monkeypatch.setattr(many_rows, "_WORTH_A_SAMPLE", 500)
    monkeypatch.setattr(detector, "PORTION_ROWS", 400)
    with pytest.warns(ps.ResultWarning) as caught:
        (KEYED if keys > 1 else QUERY).run(_events(120 * keys, keys))
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("more than 3,000 rows so far: in ")
    assert "before" in text
    assert "WITHIN" in text
    assert "limit=N" in text


def test_a_lack_of_memory_says_what_would_narrow_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("Allocation failed")

    monkeypatch.setattr(calls, "detect", fail)
    with pytest.raises(MemoryError, match=r"not enough memory for the matches: a shorter WITHIN"):
        QUERY.run(_events(30))


# Pauses


@pytest.mark.parametrize("emit", ["TRIGGER", "COMPLETION", "BOTH"])
@pytest.mark.parametrize("pattern", ["a before b AND b before c", "a before c AND b before c"])
def test_pauses_change_nothing(emit: str, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = str(QUERY).replace("a before b AND b before c", pattern)
    query = ps.query(f"{text} EMIT ON {emit}") if emit != "TRIGGER" else ps.query(text)
    assert pattern in str(query) or "AND" in str(query)
    frame = _events(75)
    whole = query.run(frame)
    pauses: list[int] = []
    detect = calls.detect

    def noted(*given: object) -> object:
        result = detect(*given)  # type: ignore[arg-type]
        pauses.append(result[-1])
        return result

    monkeypatch.setattr(calls, "detect", noted)
    for steps, events, rows in ((1, 1 << 20, 1 << 20), (5, 3, 4), (1 << 20, 1 << 20, 1)):
        monkeypatch.setattr(calls, "_PAUSE_STEPS", steps)
        monkeypatch.setattr(calls, "_PAUSE_EVENTS", events)
        monkeypatch.setattr(detector, "PORTION_ROWS", rows)
        assert query.run(frame).equals(whole)
    assert {Paused.NO, Paused.BETWEEN, Paused.INSIDE} <= set(pauses)


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C in the tenth of very many small portions; which threads worked on the portions."""
    monkeypatch.setattr(calls, "_PAUSE_EVENTS", 1)
    worked: list[int] = []
    detect = calls.detect

    def interrupting(*given: object) -> object:
        worked.append(threading.get_ident())
        if len(worked) == 10:
            _thread.interrupt_main()
        return detect(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(calls, "detect", interrupting)
    return worked


@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_can_be_interrupted_between_its_portions(threads: int, portions: list[int]) -> None:
    frame = _events(60_000, keys=500)
    with pytest.raises(KeyboardInterrupt):
        KEYED.run(frame, threads=threads)
    assert 10 <= len(portions) < 10_000
    assert threads == 1 or threading.get_ident() not in portions


def test_a_push_can_be_interrupted_between_its_portions(portions: list[int]) -> None:
    session = QUERY.open()
    with pytest.raises(KeyboardInterrupt):
        session.push(_events(300))
    assert 10 <= len(portions) < 20
