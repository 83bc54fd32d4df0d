"""Calls of a session that are cut at random moments, or refused: each is done wholly or not at all.

A cut is an exception between any two of Python's instructions, more often than a signal's handler or
a lack of memory can raise one, or a signal while the loops work; the next call may be cut again, also
while it brings the state back. After it the session must be as one that was never interrupted, in its
snapshot and its statistics, and give the same rows for the same call.
"""

from __future__ import annotations

import dis
import io
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from piestream.adapters import replay
from piestream.adapters.session import Session
from piestream.engine import row_calls
from piestream.engine.snapshot import sections_of
from tests.attacks.workers import AttackError, main
from tests.row_patterns.randoms import random_case
from tests.stream_scenario import CombinedScenario, combined_scenario

_DEFINED = (
    "FROM s {by}ORDER BY t {gap}DEFINE a AS x > 0, b AS {b} {length}, c AS x + y > 1 PATTERN "
)
_QUERIES = [
    "a before; overlaps b AND b before; during; overlaps; contains c WITHIN 40 {emit} "
    "RETURN a.ts, b.te, AVG(a.v) AS av, LAST(c.w) AS lw",
    "a overlaps; meets; contains b AND b before; followed-by c AND a before c WITHIN 25 {emit} "
    "RETURN b.ts, b.te, a.te, MAX(b.w) AS w",
    "a before b AND b before c WITHIN 30 {emit}",
    "a during; starts; equals; overlaps b AND b contains; finishes; met-by c WITHIN 300 {emit}",
    "a before b AND b before; overlaps c WITHIN 60 WHERE FIRST(a.u) = FIRST(b.u) {emit}",
    "a before; after b AND a before c WITHIN 90 WHERE FIRST(a.u) = FIRST(b.u) "
    "AND FIRST(b.w) = FIRST(c.w) {emit}",
    "a before b AND b before; overlaps c WITHIN 60 {emit} ONCE PER b, c",
    "a before b AND b before; overlaps c WITHIN 60 WHERE FIRST(a.u) < FIRST(b.u) + 1 "
    "ONCE PER b COOLDOWN 3",
    "a before b AND a overlaps; before c WITHIN 60 {emit} ONCE PER a",
    "a before b AND a overlaps; before c WITHIN 60 {emit} NO OVERLAP",
    "a before b AND b before c WITHIN 60 {emit} COOLDOWN 7 LIMIT 9",
]
#: How columns begin, and the state of a query in brackets.
_ARROW, _STATE = b"\xff\xff\xff\xff", b"PIESTREAM"
#: What the streams of a query are of.
_KINDS = [
    ("events",),
    ("rows",),
    ("identified",),
    ("known",),
    ("events", "rows", "identified", "known"),
    ("events", "query", "identified"),
]
_Cut = KeyboardInterrupt


class _FailureError(Exception):
    """What a signal's handler may raise, and nothing expects."""


def _query(draw: random.Random) -> ps.Query:
    return ps.query(
        (_DEFINED + draw.choice(_QUERIES)).format(
            by=draw.choice(["PARTITION BY k ", "PARTITION BY k ", ""]),
            gap=draw.choice(["", "MAX GAP 9 "]),
            emit=draw.choice(["", "EMIT ON BOTH", "EMIT ON COMPLETION"]),
            b=draw.choice(
                ["y > 0", "y > PREV(y)", "SUM(y) OVER 5 > 2", "x > 0 UNTIL y > 1", "w > PREV(w, 2)"]
            ),
            length=draw.choice(["", "AT LEAST 2", "AT MOST 4"]),
        )
    )


_Do = Callable[[Session], Any]


class _Source:
    """Events of one stream in order of time, and what is called with them."""

    def __init__(self, draw: random.Random, query: ps.Query) -> None:
        self._draw = draw
        self._numbers = np.random.default_rng(draw.randrange(1 << 30))
        self._now = 0
        self._keyed = bool(query.partition_by)
        self.refuses_ties = False
        self._ones = draw.choice([0.1, 0.5])
        self._keys = draw.choice([1, 3, 40])

    def frame(self, rows: int) -> pl.DataFrame:
        """So many rows, or fewer."""
        draw = self._numbers
        step = self._keys // 2 + 1 if self._keyed else 1
        frame = pl.DataFrame(
            {
                "k": draw.integers(0, self._keys, rows),
                "t": np.arange(rows) // step + self._now,
                "x": (draw.random(rows) < self._ones) * 1,
                "y": (draw.random(rows) < self._ones) * draw.integers(1, 3, rows),
                "v": draw.random(rows),
                "u": draw.integers(0, 3, rows),
                "w": [f"w{n}" for n in draw.integers(0, 8 + self._now // 20, rows)],
            }
        )
        self._now += rows // step + self._draw.choice([1, 1, 1, 15])
        return frame.unique(["k", "t"], keep="first", maintain_order=True)

    def refused(self) -> _Do:
        """A push that is refused, for a row in its middle."""
        now = self._now
        frame = self.frame(self._draw.choice([4, 60]))
        self._now = now
        bad = frame[len(frame) // 2]
        kind = self._draw.choice(["late", "type", "time", "tie" if self.refuses_ties else "type"])
        if kind == "tie":
            bad = frame[-1].with_columns(x=pl.lit(1, pl.Int64))
            frame = pl.concat([frame, bad, bad])
        elif kind == "type":
            frame = frame.with_columns(x=pl.lit("word"))
        else:
            bad = bad.with_columns(t=pl.lit(-1000 if kind == "late" else None, pl.Int64))
            frame = pl.concat([frame[: len(frame) // 2], bad, frame[len(frame) // 2 :]])
        events = self._draw.random() < 0.5
        return lambda session: session.push(frame.to_dicts() if events else frame)

    def call(self) -> _Do:
        """Something to do with a session."""
        kind = self._draw.choice(
            ["frame", "frame", "list", "event", "event", "advance", "snapshot"]
        )
        if kind == "advance":
            self._now += self._draw.choice([0, 12])
            now = self._now
            return lambda session: session.advance(now)
        if kind == "snapshot":
            return lambda session: session.snapshot()
        frame = self.frame(1 if kind == "event" else self._draw.choice([3, 60, 60, 400]))
        if kind == "frame":
            return lambda session: session.push(frame)
        events = frame.to_dicts()
        return lambda session: session.push(events[0] if kind == "event" else events)


class _RowPattern:
    """Rows of a random row pattern, in two partitions."""

    refuses_ties = True

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        memory = draw.random() < 0.5
        case = random_case(draw.randrange(1 << 20), memory=memory)
        while not case.rows:
            case = random_case(draw.randrange(1 << 20), memory=memory)
        self.query = case.query
        both = [case.events(key) for key in (0, 1)]
        self._rows = sorted((row for rows in both for row in rows), key=lambda row: row["t"])
        self._frame = pl.DataFrame(self._rows, infer_schema_length=None)
        self.schema = self._frame.schema
        self._at = 0

    def refused(self) -> _Do:
        """A push that is refused, for a row without a time."""
        bad = self._frame[:2].with_columns(t=pl.lit(None, pl.Int64))
        return lambda session: session.push(bad)

    def call(self) -> _Do:
        """Something to do with a session."""
        many = self._draw.choice([1, 1, 3, 8])
        first, self._at = self._at, min(self._at + many, len(self._rows))
        rows = self._rows[first : self._at]
        kind = self._draw.choice(["frame", "list", "event", "snapshot"])
        if not rows or kind == "snapshot":
            self._at = first
            return _snapshot
        if kind == "frame":
            frame = self._frame[first : self._at]
            return lambda session: session.push(frame)
        if kind == "event":
            self._at = first + 1
            return lambda session: session.push(rows[0])
        return lambda session: session.push(rows)


class _Streams:
    """Rows of several streams in the order in which they become known, a few at a time."""

    def __init__(self, draw: random.Random, drawn: CombinedScenario) -> None:
        self._draw = draw
        self._drawn = drawn
        self._rows = sorted(
            ((s.instant(row), key, row) for key, s in drawn.inputs.items() for row in s.rows),
            key=lambda one: one[0],
        )
        self._most = draw.choice([1, 4, 12])
        self.as_events = drawn.clock.kind.startswith("int") and draw.random() < 0.5
        self.schema = {key: drawn.frame(key, []).schema for key in drawn.inputs}

    def _push(self, key: str, frame: pl.DataFrame) -> _Do:
        rows = frame.to_dicts() if self.as_events and len(frame) else frame
        return lambda session: session.push(rows, stream=key)

    def _next(self) -> tuple[str, pl.DataFrame]:
        most = self._draw.randint(1, self._most)
        key = self._rows[0][1] if self._rows else self._draw.choice(list(self._drawn.inputs))
        rows = []
        while self._rows and self._rows[0][1] == key and len(rows) < most:
            rows.append(self._rows.pop(0)[2])
        return key, self._drawn.frame(key, rows)

    def refused(self) -> _Do:
        """A push that is refused, for a row in its middle."""
        kept = list(self._rows)
        key, frame = self._next()
        self._rows = kept
        if not len(frame):
            frame = self._drawn.frame(key, self._drawn.inputs[key].rows)
        time = self._drawn.inputs[key].times[0]
        if not len(frame) or self._draw.random() < 0.2:
            frame = frame.drop(time)
            return lambda session: session.push(frame, stream=key)
        bad = frame[0].with_columns(pl.lit(None, frame.schema[time]).alias(time))
        return self._push(key, pl.concat([frame[: len(frame) // 2], bad, frame[len(frame) // 2 :]]))

    def call(self) -> _Do:
        """Something to do with a session."""
        if self._draw.random() < 0.1:
            return lambda session: session.statistics
        return self._push(*self._next())


#: No interruption can come where a call of these has ended, and nothing but its end is left.
_DOORS = {
    Session.push.__code__,
    Session.advance.__code__,
    Session.close.__code__,
    Session.snapshot.__code__,
}
_RETURN = dis.opmap["RETURN_VALUE"]


class _Cutter:
    """Calls with an exception before one of the instructions."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self._left = at
        self._error = error

    def __call__(self, frame: FrameType, what: str, _: object) -> _Cutter:
        frame.f_trace_opcodes = True
        code = frame.f_code
        ends = code is Session._do.__code__ and code.co_code[frame.f_lasti] == _RETURN
        if what == "opcode" and code not in _DOORS and not ends:
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                raise self._error
        return self

    def call(self, do: _Do, session: Session) -> Any:
        """What a call gives, if it is not cut."""
        sys.settrace(self)
        try:
            return do(session)
        finally:
            sys.settrace(None)

    @property
    def passed(self) -> int:
        """How far it came down."""
        return self._left


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, pl.DataFrame):
        return one.schema == other.schema and one.equals(other)
    return repr(one) == repr(other)  # a NaN is a NaN


def _same_state(one: bytes | None, other: bytes | None) -> bool:
    """Whether two states say the same; what stands where a value is missing in a column is nothing."""
    if one is None or other is None or one == other:
        return one == other
    fingerprints, sections = zip(*map(sections_of, (one, other)), strict=True)
    pairs = list(zip(*sections, strict=True))
    return fingerprints[0] == fingerprints[1] and all(
        a == b or (a[:4] == b[:4] == _ARROW and _columns(a).equals(_columns(b)))
        or (a[:9] == b[:9] == _STATE and _same_state(bytes(a), bytes(b)))
        for a, b in pairs
    )  # fmt: skip


def _same_numbers(one: ps.Statistics, other: ps.Statistics) -> bool:
    """Whether two statistics are the same; Polars may keep a column with a byte more or less."""
    about = abs(one.state_bytes - other.state_bytes) < 64
    return about and replace(one, state_bytes=0) == replace(other, state_bytes=0)


def _columns(section: memoryview) -> pl.DataFrame:
    return pl.read_ipc_stream(io.BytesIO(section))


def _snapshot(session: Session) -> bytes | None:
    """The state; None if there is none yet."""
    try:
        return session.snapshot()
    except ps.StateError as error:
        if "nothing was pushed" not in str(error):
            raise
        return None


def _look(session: Session) -> Any:
    return session.statistics


def _signalled(do: _Do, session: Session, seconds: float) -> Any:
    """What a call gives, if no signal comes before."""

    def handle(*_: object) -> None:
        raise _Cut

    result = nothing = object()
    signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(1e-6, seconds))
        result = do(session)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if result is nothing:
            raise
    return result


def _refuse(do: _Do, calm: Session, shaken: Session) -> None:
    """Do what must be refused with one of two sessions, which then is as the other."""
    try:
        do(shaken)
    except (ps.StreamError, ps.SchemaError, ValueError, TypeError, pl.exceptions.PolarsError):
        pass
    else:
        raise AttackError("rows were taken that must be refused")
    if not _same_numbers(calm.statistics, shaken.statistics):
        raise AttackError(f"{shaken.statistics} instead of {calm.statistics}")
    if not _same_state(_snapshot(calm), _snapshot(shaken)):
        raise AttackError("another snapshot after a push was refused")


def _cut(draw: random.Random, do: _Do, calm: Session, shaken: Session) -> str:
    """Do something with a calm session, and with one that is interrupted; what happened."""
    error: type[BaseException] = draw.choice([_Cut, _FailureError])
    by_signal = draw.random() < 0.3
    counter = _Cutter(1 << 60, error)
    kept = _snapshot(calm) if draw.random() < 0.3 else None
    if kept is not None and not _same_state(kept, _snapshot(shaken)):
        raise AttackError("another snapshot before the call")
    before = calm.statistics
    if not _same_numbers(before, shaken.statistics):
        raise AttackError(f"{shaken.statistics} instead of {before}")
    begun = time.perf_counter()
    expected = do(calm) if by_signal else counter.call(do, calm)
    took = time.perf_counter() - begun
    instructions = (1 << 60) - counter.passed
    found = None
    try:
        if by_signal:
            found = _signalled(do, shaken, draw.random() * took)
        else:
            found = _Cutter(draw.randrange(instructions), error).call(do, shaken)
        outcome = "done"
    except BaseException:  # Polars makes errors of its own of some; what is wrong comes again below
        outcome = "undone"
        while draw.random() < 0.5:  # what brings the state back is cut
            try:
                _Cutter(draw.randrange(4 * instructions), error).call(_look, shaken)
            except BaseException:
                outcome = "undone again"
        if not _same_numbers(before, shaken.statistics):
            raise AttackError(f"{shaken.statistics} instead of {before}") from None
        if kept is not None and not _same_state(kept, _snapshot(shaken)):
            raise AttackError("another snapshot after the call was cut") from None
        found = do(shaken)
    if not _same(found, expected):
        raise AttackError(f"{found} instead of {expected}")
    return outcome


def _sessions(draw: random.Random) -> tuple[_Source | _Streams | _RowPattern, Session, Session]:
    """Two sessions of a query, and what there is to do with them."""
    if draw.random() < 0.15:
        pattern = _RowPattern(draw)
        first = {"schema": pattern.schema} if draw.random() < 0.5 else {}
        return pattern, pattern.query.open(**first), pattern.query.open(**first)
    if draw.random() < 0.4:
        drawn = combined_scenario(draw.randrange(1 << 20), draw.choice(_KINDS))
        options: dict[str, Any] = {"ties": drawn.ties, "on_late": "drop"}
        streams = _Streams(draw, drawn)
        if streams.as_events or draw.random() < 0.5:
            options["schema"] = streams.schema
        return streams, drawn.query.open(**options), drawn.query.open(**options)
    query = _query(draw)
    source = _Source(draw, query)
    options = {} if draw.random() < 0.7 else {"lateness": 5}
    if draw.random() < 0.5 or not query.partition_by:
        options["ties"] = "last"
    source.refuses_ties = "ties" not in options
    calm, shaken = query.open(**options), query.open(**options)
    first = source.frame(draw.choice([5, 200]))
    if not _same(calm.push(first), shaken.push(first)):
        raise AttackError("two sessions differ")
    return source, calm, shaken


def one(seed: int) -> str:
    """Cut each of some calls of a session."""
    draw = random.Random(seed)
    # how often the state is copied: before each call, after a few events, or more of them
    replay._LEAST_BYTES = draw.choice([0, 1 << 12, 1 << 15, 1 << 21])
    replay._TIMES = draw.choice([0, 8])
    row_calls._PAUSE_WORK = draw.choice([1, 20, 1 << 18])
    source, calm, shaken = _sessions(draw)
    seen: Counter[str] = Counter()
    for _ in range(25):
        if draw.random() < 0.2 and calm._stream is not None:  # before that, rows of streams wait
            _refuse(source.refused(), calm, shaken)
        seen[_cut(draw, source.call(), calm, shaken)] += 1
    at_end = draw.choice(["open", "close"])
    if any(stream.query is not None for stream in calm.query.streams):
        at_end = "open"
    seen[_cut(draw, lambda session: session.close(at_end=at_end), calm, shaken)] += 1
    return ", ".join(sorted(seen))


if __name__ == "__main__":
    main("tests.attacks.interruptions", one, warm_up=lambda: one(0))
