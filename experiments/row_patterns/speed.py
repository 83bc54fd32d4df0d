"""The V-shape over two million rows of two thousand symbols, and event by event: CPU time, least of five.

``python -m experiments.row_patterns.speed`` prints seconds a frame, with one thread and with two, and
microseconds a push.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

import piestream as ps

__all__ = ["QUERY", "frame_of"]

QUERY = ps.query("""
    FROM ticker MATCH_RECOGNIZE (
        PARTITION BY symbol ORDER BY ts
        MEASURES STRT.ts AS started, LAST(DOWN.ts) AS bottom, LAST(UP.ts) AS ended
        AFTER MATCH SKIP TO LAST UP
        PATTERN (STRT DOWN+ UP+)
        DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))
""")


def frame_of(rows: int, symbols: int, most: int = 99) -> pl.DataFrame:
    """Random prices from 1 to ``most`` of some symbols, in order of time."""
    at = np.arange(rows)
    prices = np.random.default_rng(1).integers(1, most, rows, endpoint=True)
    return pl.DataFrame({"symbol": at % symbols, "ts": at // symbols, "price": prices})


def _least(work: Callable[[Any], object], given: Iterable[Any]) -> tuple[float, float]:
    """Of several times the least on the clock, and the least of the processor."""
    found = []
    for one in given:
        clock, processor = time.perf_counter(), time.process_time()
        work(one)
        found.append((time.perf_counter() - clock, time.process_time() - processor))
    clocks, processors = zip(*found, strict=True)
    return min(clocks), min(processors)


def _push(most: int) -> float:
    """Microseconds of the processor for each of many single events."""
    events = frame_of(60_000, 2_000, most).to_dicts()
    session = QUERY.open(schema={"symbol": int, "ts": int, "price": int})
    parts = [events[at : at + 10_000] for at in range(0, len(events), 10_000)]

    def push(part: list[dict[str, Any]]) -> None:
        for event in part:
            session.push(event)

    push(parts[0])
    return _least(push, parts[1:])[1] / 10_000 * 1e6


def main() -> None:
    """Measure and print."""
    frame = frame_of(2_000_000, 2_000)
    print(f"{len(QUERY.run(frame)):,} matches in {len(frame):,} rows")
    for threads in (1, 2):
        run = _least(lambda n: QUERY.run(frame, threads=n), [threads] * 5)
        print(f"threads={threads}: {run[0]:.3f} s, {run[1]:.3f} s of the processor")
    print(f"push without a match: {_push(1):.2f} µs; with one at every third: {_push(99):.2f} µs")


if __name__ == "__main__":
    main()
