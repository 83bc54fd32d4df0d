"""Row patterns pause, so that Ctrl-C is heeded, and keep no more than what is needed."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import piestream as ps
from piestream.engine import row_calls
from piestream.engine.row_detector import RowDetector
from piestream.row_patterns.loops import memory_matching

_TEXT = """
    FROM s MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY t MEASURES A.t AS since, COUNT(*) AS n
        PATTERN (A B* C) DEFINE B AS {b}, C AS x = 0)
"""
_LINEAR = ps.query(_TEXT.format(b="x > 1"))
_WITH_MEMORY = ps.query(_TEXT.format(b="B.x > A.x"))
_BOTH = pytest.mark.parametrize("query", [_LINEAR, _WITH_MEMORY], ids=["linear", "with memory"])


def _events(n: int, keys: int = 1) -> pl.DataFrame:
    at = np.arange(n)
    return pl.DataFrame({"t": at // keys, "x": at // keys % 97, "k": at % keys})


@pytest.fixture
def portions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ctrl-C in the tenth of very many small portions; which threads worked on them."""
    monkeypatch.setattr(row_calls, "_PAUSE_WORK", 1)
    monkeypatch.setattr(row_calls, "_ROWS_AT_ONCE", 2)
    worked: list[int] = []

    def interrupting(loop: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: object) -> object:
            worked.append(threading.get_ident())
            if len(worked) == 10:
                _thread.interrupt_main()
            return loop(*given)

        return noted

    monkeypatch.setattr(row_calls, "match_rows", interrupting(row_calls.match_rows))
    with_memory = interrupting(memory_matching.match_rows_with_memory)
    monkeypatch.setattr(memory_matching, "match_rows_with_memory", with_memory)
    return worked


@_BOTH
@pytest.mark.parametrize("threads", [1, 3])
def test_a_run_can_be_interrupted(query: ps.Query, threads: int, portions: list[int]) -> None:
    frame = _events(60_000, keys=500)
    with pytest.raises(KeyboardInterrupt):
        query.run(frame, threads=threads)
    assert 10 <= len(portions) < 10_000
    assert threads == 1 or threading.get_ident() not in portions


@_BOTH
def test_an_interrupted_push_leaves_the_session_as_it_was(
    query: ps.Query, portions: list[int]
) -> None:
    session, calm = query.open(), query.open()
    rows = _events(40)
    for one in (session, calm):
        one.push(rows[:1])
    portions.clear()
    with pytest.raises(KeyboardInterrupt):
        session.push(rows[1:])
    assert 10 <= len(portions) < 60
    assert session.statistics.live_intervals == calm.statistics.live_intervals
    assert session.push(rows[1:]).equals(calm.push(rows[1:]))
    assert session.snapshot() == calm.snapshot()


@_BOTH
def test_a_search_that_reads_the_same_rows_again_and_again_pauses(
    query: ps.Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are few; what is paused is the search that begins anew at each of them."""
    monkeypatch.setattr(row_calls, "_PAUSE_WORK", 500)
    rows = pl.DataFrame({"t": range(300), "x": range(1, 301), "k": [1] * 300})
    session = query.open()
    pauses: list[int] = []
    monkeypatch.setattr(RowDetector, "_results", _noting(RowDetector._results, pauses))
    session.push(rows)
    few = len(pauses)
    session.close()
    if query is _WITH_MEMORY:  # to look at what begins at each of the other rows
        assert len(pauses) - few > 50


def _noting(results: Callable[..., Any], pauses: list[int]) -> Callable[..., Any]:
    def noted(self: RowDetector, call: row_calls.RowCall) -> Any:
        for rows in results(self, call):
            pauses.append(len(rows))
            yield rows

    return noted


def test_new_texts_do_not_make_threads_be_followed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of texts keep their order, so that a new one changes those above it."""
    query = ps.query("""
        FROM s MATCH_RECOGNIZE (
            ORDER BY t MEASURES A.t AS since, COUNT(*) AS n, MAX(B.name) AS last PATTERN (A B* C)
            DEFINE B AS B.name <> A.name AND MIN(B.name) <> A.name, C AS C.name = A.name)
    """)
    names = ["m", *["k", "j"] * 400, "a", "l", "z", "m"]
    rows = pl.DataFrame({"t": range(len(names)), "name": names})
    monkeypatch.setattr(row_calls, "_PAUSE_WORK", 50)
    session = query.open()
    assert not len(session.push(rows[:-4]))
    pauses: list[int] = []
    monkeypatch.setattr(RowDetector, "_results", _noting(RowDetector._results, pauses))
    for part in rows[-4:-1].iter_slices(1):
        assert not len(session.push(part))
    assert len(pauses) < 16
    assert session.push(rows[-1:]).rows() == query.run(rows).rows() == [(0, len(names), "z")]


@_BOTH
def test_the_pool_holds_what_is_live_behind_a_long_push(query: ps.Query) -> None:
    rows = _events(200_000)
    long, short = query.open(), query.open()
    found = long.push(rows)
    assert found.equals(pl.concat([short.push(part) for part in rows.iter_slices(1_000)]))
    assert len(found) == 200_000 // 97
    stream = long._stream
    assert stream is not None
    detector = stream.detector
    assert isinstance(detector, RowDetector)
    assert detector.pool.size < 10 * detector.live_intervals() + 1_000
    assert long.statistics.state_bytes < 20_000
