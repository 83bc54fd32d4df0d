"""A session that is interrupted, copied, or used by several threads."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import polars as pl
import pytest

import piestream as ps
from piestream.adapters import session as sessions
from piestream.engine import calls, detector
from piestream.engine.stream import Stream

_QUERY = "FROM s ORDER BY t DEFINE a AS x > 0, b AS x <= 0 PATTERN a before b WITHIN 40"
_ROWS = pl.DataFrame({"t": range(9), "x": [1, 0, 1] * 3})
_LATER = pl.DataFrame({"t": range(20, 29), "x": [1, 0, 1] * 3})


@pytest.fixture
def session() -> ps.Session:
    session = ps.query(_QUERY).open()
    session.push(_ROWS)
    return session


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("rows", [_LATER, _LATER.to_dicts(), _LATER.to_dicts()[1]])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_push_that_is_interrupted_breaks_the_session(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch, rows: object, error: type[BaseException]
) -> None:
    state = session.snapshot()
    expected = ps.query(_QUERY).open(state=state).push(rows)

    def interrupt(*_: object) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(detector, "detect", interrupt)
        patched.setattr(calls, "detect", interrupt)
        with pytest.raises(error):
            session.push(rows)
    for use in (lambda: session.push(rows), session.snapshot, session.close):
        with pytest.raises(ps.StateError, match="open a new one from the last snapshot"):
            use()
    with pytest.raises(ps.StateError, match="open a new one from the last snapshot"):
        session.advance(99)
    again = ps.query(_QUERY).open(state=state).push(rows)
    assert pl.DataFrame(again).equals(pl.DataFrame(expected))


def test_results_that_are_lost_break_the_session(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(_LATER)
    with pytest.raises(ps.StateError, match="interrupted"):
        session.push(_LATER)


@pytest.mark.parametrize("call", ["push", "advance", "close"])
def test_an_interruption_behind_the_change_breaks_the_session(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The rows that the call found are lost, so the session must not go on as if they were given."""
    name = {"push": "process", "advance": "advance", "close": "finish"}[call]
    whole = getattr(Stream, name)

    def interrupt(*given: object) -> None:
        whole(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Stream, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            getattr(session, call)(*{"push": (_LATER,), "advance": (99,), "close": ()}[call])
    with pytest.raises(ps.StateError, match="interrupted"):
        session.push(_LATER)


def test_a_first_push_that_is_interrupted_behind_the_change_can_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = ps.query(_QUERY).open()
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "as_kind", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(_ROWS)
    assert session.push(_ROWS).equals(ps.query(_QUERY).open().push(_ROWS))


def test_an_interruption_before_the_state_changes_leaves_the_session_as_it_was(
    session: ps.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = session.snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "as_polars", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.push(_LATER)
    assert session.push(_LATER).equals(ps.query(_QUERY).open(state=state).push(_LATER))


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
            patched.setattr(detector, "detect", wrapped)
            patched.setattr(calls, "detect", wrapped)
            with pytest.raises(KeyboardInterrupt):
                fresh.push(rows)


def test_threads_take_turns(session: ps.Session) -> None:
    inside: list[int] = []
    together: list[int] = []
    kept = sessions.as_kind

    def slow(kind: sessions.Kind, frame: pl.DataFrame) -> object:
        inside.append(1)
        together.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()
        return kept(kind, frame)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sessions, "as_kind", slow)
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
