"""Signals at random moments of a push: the session goes on as if the push had never been.

Or it says that it is broken, and then it goes on from its last snapshot. Rows must be those of a
session that was never interrupted.
"""

from __future__ import annotations

import random
import signal
import threading
import time

import numpy as np
import polars as pl

import piestream as ps
from tests.attacks.workers import AttackError, main

_PATTERN = (
    "FROM s PARTITION BY k ORDER BY t {gap}DEFINE a AS x > 0, b AS y > 0, c AS x + y > 1 "
    "PATTERN a before; overlaps b AND b before; during; overlaps; contains c WITHIN 40 {emit} "
    "RETURN a.ts, b.te, AVG(a.v) AS av, LAST(c.w) AS lw"
)


def _frame(draw: np.random.Generator, start: int) -> pl.DataFrame:
    rows, keys = int(draw.integers(1, 20_000)), int(draw.integers(2, 2000))
    return pl.DataFrame(
        {
            "k": draw.integers(0, keys, rows),
            "t": np.arange(rows) // 4 + start,
            "x": draw.integers(0, 2, rows),
            "y": draw.integers(0, 2, rows),
            "v": draw.random(rows),
            "w": [f"w{n}" for n in draw.integers(0, 50, rows)],
        }
    ).unique(["k", "t"], keep="first", maintain_order=True)


class _InterruptedError(Exception):
    """What the signal raises: something that no except clause of the library expects."""


_interrupted = threading.Event()


def _raise(*_: object) -> None:
    _interrupted.set()
    raise _InterruptedError


def one(seed: int) -> str:
    """Push frames with a signal somewhere in the middle of some of them."""
    draw = random.Random(seed)
    numbers = np.random.default_rng(seed)
    query = ps.query(
        _PATTERN.format(
            gap=draw.choice(["", "MAX GAP 30 "]), emit=draw.choice(["", "EMIT ON BOTH"])
        )
    )
    calm, shaken = query.open(), query.open()
    kept = None
    interrupted = broken = 0
    start = 0
    signal.signal(signal.SIGALRM, _raise)
    for _ in range(6):
        frame = _frame(numbers, start)
        start = int(frame["t"].max() or 0) + 1  # type: ignore[call-overload]
        before = time.perf_counter()
        expected = calm.push(frame)
        took = time.perf_counter() - before
        found = None
        _interrupted.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-5, draw.random() * took))
            found = shaken.push(frame)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except Exception:
            if not _interrupted.is_set():  # Polars may raise an error of its own in its place
                raise
            interrupted += 1
        if found is None:
            try:
                found = shaken.push(frame)
            except ps.StateError:
                broken += 1
                shaken = query.open(state=kept) if kept is not None else query.open()
                found = shaken.push(frame)
        if not found.equals(expected):
            raise AttackError(f"{len(found)} rows instead of {len(expected)}")
        kept = shaken.snapshot()
    return f"{interrupted} interruptions, {broken} sessions opened again"


if __name__ == "__main__":
    main("tests.attacks.interruptions", one, warm_up=lambda: one(0))
