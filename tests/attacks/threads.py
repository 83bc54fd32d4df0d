"""Several threads in one session: each push is whole, and no match is lost or doubled."""

from __future__ import annotations

import random
import threading

import numpy as np
import polars as pl

import piestream as ps
from tests.attacks.workers import AttackError, main

_PATTERN = (
    "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 0, b AS x <= 0 PATTERN a before b WITHIN {}"
)


def _frame(draw: np.random.Generator, thread: int, step: int) -> pl.DataFrame:
    rows = 2_000
    return pl.DataFrame(
        {
            "k": np.arange(rows) % 100 + 1000 * thread,
            "t": np.arange(rows) // 100 + step * 20,
            "x": draw.integers(0, 2, rows),
        }
    )


def one(seed: int) -> str:
    """Threads with partitions of their own; together they find what each finds alone."""
    draw = random.Random(seed)
    query = ps.query(_PATTERN.format(draw.choice([5, 40])))
    threads, steps = draw.choice([2, 4, 8]), 6
    frames = [
        [_frame(np.random.default_rng([seed, thread, step]), thread, step) for step in range(steps)]
        for thread in range(threads)
    ]
    session = query.open(lateness=1_000_000)
    found: list[pl.DataFrame] = []
    faults: list[BaseException] = []

    def work(mine: list[pl.DataFrame]) -> None:
        try:
            for frame in mine:
                if draw.random() < 0.3:
                    for event in frame.head(20).to_dicts():
                        session.push(event)
                    frame = frame.slice(20)
                found.append(session.push(frame))
                _ = session.statistics
                session.snapshot()
        except BaseException as fault:
            faults.append(fault)

    running = [threading.Thread(target=work, args=(mine,)) for mine in frames]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if faults:
        raise AttackError(repr(faults[0]))
    whole = pl.concat([*found, pl.DataFrame(session.close(), schema=found[0].schema)])
    expected = query.run(pl.concat([frame for mine in frames for frame in mine]))
    if not whole.sort(whole.columns).equals(expected.sort(expected.columns)):
        raise AttackError(f"{len(whole)} rows instead of {len(expected)}")
    return "agrees"


if __name__ == "__main__":
    main("tests.attacks.threads", one, warm_up=lambda: one(0))
