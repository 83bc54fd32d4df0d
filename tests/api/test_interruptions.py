"""A session that is interrupted, copied, or used by several threads."""

from __future__ import annotations

import copy
import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import piestream as ps
from piestream.adapters import feeds, replay
from piestream.engine import calls, detector
from piestream.engine.stream import Stream

_QUERY = "FROM s ORDER BY t DEFINE a AS x > 0, b AS x <= 0 PATTERN a before b WITHIN 40"
_ROWS = pl.DataFrame({"t": range(9), "x": [1, 0, 1] * 3})
_LATER = pl.DataFrame({"t": range(20, 29), "x": [1, 0, 1] * 3})
_ROOT = Path(__file__).parents[2]
#: A push that would take minutes gets a signal, and is as if it had not been.
_SIGNALLED = """
import os, signal, threading
import polars as pl, piestream as ps

query = ps.query(
    "FROM s ORDER BY t DEFINE a AS x = 1, b AS x = 3, c AS x = 5 "
    "PATTERN a before b AND b before c WITHIN 100000 RETURN COUNT(a.x) AS n"
)
few = pl.DataFrame({"t": range(99), "x": [n % 6 for n in range(99)]})
many = pl.DataFrame({"t": range(100, 20000)}).with_columns(x=pl.col("t") % 6)
session, calm = query.open(), query.open()
for one in (session, calm):
    one.push(few)
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    session.push(many)
except KeyboardInterrupt:
    print("undone")
rest = pl.DataFrame({"t": range(100, 130)}).with_columns(x=pl.col("t") % 6)
print(session.push(rest).equals(calm.push(rest)), session.snapshot() == calm.snapshot())
"""


@pytest.fixture
def session() -> ps.Session:
    session = ps.query(_QUERY).open()
    session.push(_ROWS)
    return session


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _fail(*_: object) -> None:
    raise MemoryError


def _after(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Does what a function does, and is interrupted then."""

    def interrupted(*given: object, **named: object) -> None:
        whole(*given, **named)
        raise KeyboardInterrupt

    return interrupted


def _let_loops(patched: pytest.MonkeyPatch, do: Callable[..., None]) -> None:
    """Let the loops do something else, from whichever way they are called."""
    patched.setattr(detector, "_ready_detect", lambda: do)
    patched.setattr(calls, "detect", do)


@pytest.mark.parametrize("rows", [_LATER, _LATER.to_dicts(), _LATER.to_dicts()[1]])
@pytest.mark.parametrize("interrupt", [_interrupt, _fail])
def test_a_push_that_is_interrupted_is_undone(
    session: ps.Session,
    monkeypatch: pytest.MonkeyPatch,
    rows: Any,
    interrupt: Callable[..., None],
) -> None:
    state, statistics = session.snapshot(), session.statistics
    expected = ps.query(_QUERY).open(state=state).push(rows)
    for _ in range(3):
        with monkeypatch.context() as patched:
            _let_loops(patched, interrupt)
            with pytest.raises((KeyboardInterrupt, MemoryError)):
                session.push(rows)
        assert session.statistics == statistics
        assert session.snapshot() == state
    assert pl.DataFrame(session.push(rows)).equals(pl.DataFrame(expected))


@pytest.mark.parametrize("call", ["push", "advance", "close", "snapshot"])
def test_a_call_whose_results_are_lost_on_their_way_is_undone(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Nobody would ever see the rows that it found, if it were not found again."""
    session.push(_LATER[:1])
    given: tuple[Any, ...] = {"push": (_LATER[1:],), "advance": (99,)}.get(call, ())
    calm = ps.query(_QUERY).open(state=session.snapshot())
    for where, name in (
        (Stream, {"push": "process_projected", "close": "finish"}.get(call, call)),
        (feeds, "as_kind"),
        (feeds.StreamFeed, {"close": "finish"}.get(call, call)),
    ):
        if call == "snapshot" and where is not feeds.StreamFeed:
            continue
        with monkeypatch.context() as patched:
            patched.setattr(where, name, _after(getattr(where, name)))
            with pytest.raises(KeyboardInterrupt):
                getattr(session, call)(*given)
    found, expected = getattr(session, call)(*given), getattr(calm, call)(*given)
    assert found.equals(expected) if isinstance(found, pl.DataFrame) else found == expected
    assert session.statistics == calm.statistics


class _InterruptedLock:
    """A lock behind which a signal is seen that came while it was held."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.push(_LATER),
        lambda s: s.push(_LATER.to_dicts()[0]),
        lambda s: s.push(_LATER.to_pandas()),
        lambda s: s.advance(99),
        lambda s: s.close(),
    ],
)
def test_a_call_is_undone_that_is_interrupted_on_its_last_step(
    session: ps.Session, call: Callable[[ps.Session], Any]
) -> None:
    calm = ps.query(_QUERY).open(state=session.snapshot())
    kept = session._lock
    session._lock = _InterruptedLock()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        call(session)
    session._lock = kept
    assert session.snapshot() == calm.snapshot()
    assert session.advance(40).equals(calm.advance(40))  # also of the kind that it was


class _LockFreeForAnother:
    """A lock behind which another thread makes a call, before a signal is seen in this one."""

    def __init__(self, session: ps.Session, call: Callable[[], object]) -> None:
        self.session, self.call, self.lock = session, call, session._lock

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        self.session._lock = self.lock
        thread = threading.Thread(target=self.call)
        thread.start()
        thread.join()
        raise KeyboardInterrupt


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("of_frames", [False, True])
def test_a_call_that_another_thread_has_built_upon_is_not_undone(
    tmp_path: Path, copied: bool, of_frames: bool
) -> None:
    options: dict[str, Any] = {"status": tmp_path / "s.json"}
    session, calm = ps.query(_QUERY).open(**options), ps.query(_QUERY).open()
    pieces: list[Any] = [_LATER[:3], _LATER[3:6], _LATER[6:]]
    if not of_frames:
        pieces[1] = pieces[1].to_dicts()
    found: list[Any] = []

    def call() -> None:
        if copied:
            session._log.add_copy()
        found.append(session.push(pieces[1]))

    with session:
        for one in (session, calm):
            one.push(_ROWS)
        session._lock = _LockFreeForAnother(session, call)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            session.push(pieces[0])
        calm.push(pieces[0])
        expected = pl.DataFrame(calm.push(pieces[1]))
        assert len(expected) > 0
        assert pl.DataFrame(found[0]).equals(expected)
        last = session._recent.last()[-len(expected) :]  # type: ignore[attr-defined]
        assert [row["b_ts"] for row in last] == expected["b_ts"].to_list()
        assert session.snapshot() == calm.snapshot()  # and the kind of rows that was pushed last
        assert session.push(pieces[2]).equals(calm.push(pieces[2]))


@pytest.mark.parametrize("refused", [[{"t": 0, "x": 1}], [{"t": 99}]])
def test_a_call_is_undone_though_another_thread_had_one_refused(
    session: ps.Session, refused: list[dict[str, int]]
) -> None:
    calm = ps.query(_QUERY).open(state=session.snapshot())

    def call() -> None:
        with pytest.raises((ps.LateEventError, ps.SchemaError)):
            session.push(refused)

    session._lock = _LockFreeForAnother(session, call)  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        session.push(_LATER)
    assert session.snapshot() == calm.snapshot()


def test_a_first_push_that_is_interrupted_can_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for options in ({}, {"recover": False}):
        session = ps.query(_QUERY).open(**options)
        session.advance(-5)
        with monkeypatch.context() as patched:
            patched.setattr(feeds, "as_kind", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.push(_ROWS)
        assert session.statistics == ps.Statistics()
        with pytest.raises(ps.LateEventError):
            session.push({"t": -6, "x": 1})
        assert session.push(_ROWS).equals(ps.query(_QUERY).open().push(_ROWS))


def test_what_brings_a_state_back_may_be_interrupted_too(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = ps.query(_QUERY).open()
    calm.push(_ROWS)
    for start in range(10, 16):
        for one in (session, calm):
            one.push({"t": start, "x": start % 2})
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(_LATER)
    for entries in range(6):
        with monkeypatch.context() as patched:
            left = iter(range(entries))
            done = feeds.StreamFeed.replay

            def replay(feed: Any, entry: Any, done: Any = done, left: Any = left) -> None:
                done(feed, entry)
                if next(left, None) is None:
                    raise KeyboardInterrupt

            patched.setattr(feeds.StreamFeed, "replay", replay)
            for use in (session.snapshot, lambda: session.statistics, session.close):
                with pytest.raises(KeyboardInterrupt):
                    use()
                left = iter(range(entries))
                patched.setattr(feeds.StreamFeed, "replay", replay)
    assert session.push(_LATER).equals(calm.push(_LATER))
    assert session.snapshot() == calm.snapshot()


def test_rows_are_kept_as_they_are_in_memory_of_their_own() -> None:
    numbers = np.array([1.0, math.nan, 3.0])
    rows = pl.DataFrame(
        {
            "a": numbers,
            "b": [1, None, 3],
            "c": [True, None, False],
            "d": ["x", None, "y"],
            "e": [datetime(2024, 1, 1), None, datetime(2024, 1, 2)],
            "f": pl.Series(["p", "q", "p"], dtype=pl.Categorical),
            "g": pl.Series([1, 2, 3], dtype=pl.UInt64),
            "h": pl.Series([True, True, False]),
            "i": pl.Series([Decimal("1.5"), None, Decimal("2")], dtype=pl.Decimal(10, 2)),
        }
    )
    expected = pl.DataFrame(rows.to_dict(as_series=False), schema=rows.schema)
    for some in (slice(0, 3), slice(1, 3), slice(0, 0)):
        kept = replay.KeptRows(rows[some])
        numbers[:] = 7
        assert kept.frame.schema == rows.schema
        assert kept.frame.equals(expected[some])
        numbers[:] = [1.0, math.nan, 3.0]
    assert replay.KeptRows(pl.DataFrame()).frame.equals(pl.DataFrame())


def test_frames_of_a_session_may_be_changed_after_their_push(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = ps.query(_QUERY).open(state=session.snapshot())
    numbers = np.array([1, 0, 1, 0])
    frames: list[Any] = [
        pl.DataFrame({"t": [20, 21, 22, 23], "x": pl.Series(numbers)}),
        pd.DataFrame({"t": [30, 31, 32, 33], "x": numbers}, copy=False),
        {"t": 40, "x": 1},
    ]
    for frame in frames:
        session.push(frame)
        calm.push(frame)
    numbers[:] = 0
    frames[1].loc[:, "x"] = 0
    frames[2]["x"] = 0
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(pl.DataFrame({"t": [50, 51], "x": [0, 1]}))
    assert session.snapshot() == calm.snapshot()


@pytest.mark.parametrize("width", [1, 40])
def test_events_may_be_changed_after_their_push(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    text = "FROM s ORDER BY t DEFINE a AS x > PREV(x) PATTERN a WITHIN 40"
    session, calm = ps.query(text).open(), ps.query(text).open()
    event = {"x": 0, "t": 0} | {f"c{n}": n for n in range(width)}
    for time in range(12):
        event |= {"t": time, "x": time % 3}
        assert session.push(event) == calm.push(event)
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push([{**event, "t": 20}])
    assert session.snapshot() == calm.snapshot()


def test_a_log_as_large_as_the_state_gives_way_to_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_LEAST_BYTES", 1 << 14)
    monkeypatch.setattr(replay, "_TIMES", 1)
    session = ps.query(_QUERY).open()
    most, copies, before, largest = 0, 0, None, 0
    for time in range(400):
        session.push(
            {"t": time, "x": time % 2} if time % 3 else pl.DataFrame({"t": [time], "x": [1]})
        )
        most = max(most, len(session._log.entries))
        copies += session._log._copy is not before
        before = session._log._copy
        largest = max(largest, session.statistics.state_bytes)
    assert most <= ((1 << 14) + largest) // 512 + 1
    assert copies > 5
    many = pl.DataFrame({"t": range(400, 9000)}).with_columns(x=pl.col("t") % 2)
    session.push(many)  # it is copied instead of kept
    calls = [entry for entry in session._log.entries if isinstance(entry, replay.NamedCall)]
    assert all(call.given[0].size < 1 << 14 for call in calls)


def test_where_there_is_no_memory_for_a_copy_the_session_goes_on(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = ps.query(_QUERY).open(state=session.snapshot())
    session._log.add_copy()
    with monkeypatch.context() as patched:
        patched.setattr(replay, "deepcopy", _fail)
        assert session.push(_LATER).equals(calm.push(_LATER))
        patched.setattr(feeds, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.advance(99)
    with pytest.raises(ps.StateError, match="too little memory"):
        session.advance(99)


@pytest.mark.parametrize("rows", [_LATER, _LATER.to_dicts()[1]])
def test_a_session_that_does_not_recover_says_so_once_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    session = ps.query(_QUERY).open(recover=False)
    session.push(_ROWS)
    state = session.snapshot()
    with pytest.raises(ps.LateEventError):
        session.push(_ROWS)  # what is refused is not in the state
    with monkeypatch.context() as patched:
        _let_loops(patched, _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(rows)
    for use in (
        lambda: session.push(rows),
        lambda: session.advance(99),
        lambda: session.statistics,
        session.snapshot,
        session.close,
    ):
        with pytest.raises(ps.StateError, match=r"recover=False.* from the last snapshot"):
            use()
    again = ps.query(_QUERY).open(state=state, recover=False)
    assert len(again.push(rows)) > 0
    assert not session._log.entries


def test_an_interruption_before_the_state_changes_leaves_the_session_as_it_was(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = session.snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(feeds, "as_polars", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(_LATER)
        patched.setattr(feeds.StreamFeed, "replay", _interrupt)  # there is nothing to undo
        assert session.snapshot() == state
    assert session.push(_LATER).equals(ps.query(_QUERY).open(state=state).push(_LATER))


def test_refused_rows_that_went_through_a_query_in_brackets_are_undone() -> None:
    query = ps.query("""
        FROM (FROM s ORDER BY t DEFINE a AS x > 0 PATTERN a WITHIN 9
              RETURN a.ts, a.te EMIT ON COMPLETION) AS i
        WITH r ORDER BY t
        DEFINE u AS i, b AS r.x > 1 PATTERN u before; overlaps; contains b WITHIN 9
    """)
    schema = {"s": {"t": int, "x": int}, "r": {"t": int, "x": int}}
    refused, calm = query.open(schema=schema), query.open(schema=schema)
    for session in (refused, calm):
        session.push([{"t": 1, "x": 1}, {"t": 2, "x": 0}], stream="s")
    before = refused._stream.inner[0].changes.begun  # type: ignore[union-attr, attr-defined]
    with pytest.raises(ps.TieError):
        refused.push([{"t": 9, "x": 1}, {"t": 9, "x": 1}, {"t": 10, "x": 1}], stream="r")
    assert refused._stream.inner[0].changes.begun > before  # type: ignore[union-attr, attr-defined]
    assert refused.snapshot() == calm.snapshot()
    assert refused.statistics == calm.statistics


def test_a_signal_in_a_long_push_undoes_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SIGNALLED], cwd=_ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["undone", "True", "True"], done.stderr


def test_a_refused_push_leaves_the_session_as_it_was(session: ps.Session) -> None:
    with pytest.raises(ps.LateEventError):
        session.push(_ROWS)
    calm = ps.query(_QUERY).open()
    calm.push(_ROWS)
    assert session.push(_LATER).equals(calm.push(_LATER))


def test_an_interruption_while_a_loop_hands_over_its_result_is_seen_as_it_is(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrapped(*_: object) -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    for rows in (_LATER, {"t": 30, "x": 0}):
        fresh = ps.query(_QUERY).open(state=session.snapshot())
        with monkeypatch.context() as patched:
            _let_loops(patched, wrapped)
            with pytest.raises(KeyboardInterrupt):
                fresh.push(rows)


def test_threads_take_turns(session: ps.Session) -> None:
    inside: list[int] = []
    together: list[int] = []
    kept = feeds.as_kind

    def slow(kind: feeds.Kind, frame: pl.DataFrame) -> object:
        inside.append(1)
        together.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return kept(kind, frame)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(feeds, "as_kind", slow)
        threads = [threading.Thread(target=session.advance, args=(50,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert together == [1] * 4


def _in_a_fork(session: ps.Session, call: object) -> str:
    """What a call says in a process that is forked from this one."""
    read, write = os.pipe()
    child = os.fork()
    if not child:  # nothing else runs here: the threads of pytest and of Polars are not there
        try:
            call(session)  # type: ignore[operator]
            told = "nothing"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.push(_LATER),
        lambda s: s.push({"t": 20, "x": 1}),
        lambda s: s.advance(20),
        lambda s: s.snapshot(),
        lambda s: s.statistics,
        lambda s: s.close(),
    ],
)
def test_a_session_is_refused_after_a_fork(session: ps.Session, call: object) -> None:
    with session._lock:  # as if another thread were in the middle of a call
        told = _in_a_fork(session, call)
    assert told.startswith("RuntimeError: this session was opened before the process was forked")
    assert len(session.push(_LATER)) > 0


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_cannot_be_copied(session: ps.Session, take: object) -> None:
    with pytest.raises(TypeError, match=r"take its snapshot\(\)"):
        take(session)  # type: ignore[operator]
