"""One event at a time through a session: dicts in, a list of matches out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from experiments.benchmarks.common import measured, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, booleans, query_of

_COLUMNS = ("events_are", "n", "events", "matches", "mean_us", "p50_us", "p99_us", "max_us", "cpu_s",
            "cold_cpu_s", "times_yardstick")  # fmt: skip


def pushing(query: ps.Query, frame: pl.DataFrame) -> Callable[[], int]:
    """All events of a frame through a session, one by one."""
    events = frame.to_dicts()

    def through() -> int:
        push = query.open().push
        return sum(len(push(event)) for event in events)

    return through


def clocked(query: ps.Query, frame: pl.DataFrame) -> Callable[[], Any]:
    """The same with a clock around each push; nanoseconds of each."""
    events = frame.to_dicts()
    clock = time.perf_counter_ns

    def through() -> Any:
        push = query.open().push
        took = np.empty(len(events), np.int64)
        for number, event in enumerate(events):
            before = clock()
            push(event)
            took[number] = clock() - before
        return took

    return through


def _percentiles(took: Any) -> Row:
    took = took[len(took) // 100 :]  # the first one binds the query to its columns
    p50, p99 = np.percentile(took, (50, 99)) / 1e3
    return {"p50_us": float(p50), "p99_us": float(p99), "max_us": int(took.max()) / 1e3}


def rows(size: Size) -> Iterator[Row]:
    """A row a kind of event; the mean is CPU of a loop without a clock in it."""
    events = size.of(500, 20_000, 200_000)
    cases: list[tuple[int, str, str]] = [
        (4, "booleans", "{0}"), (24, "booleans", "{0}"), (4, "floats", "{0} > 0.5"),
    ]  # fmt: skip
    for n, events_are, holds in cases:
        stream = booleans(n, events, SEED)
        frame = (
            stream if holds == "{0}" else stream.with_columns(pl.col(pl.Boolean).cast(pl.Float64))
        )
        query = query_of(Pattern.chain(n), returns="a1.ts", holds=holds)
        row = measured(pushing, query, frame, size=size, events=events, yardstick=stream, n=n,
                       events_are=events_are)  # fmt: skip
        each = measured(clocked, query, frame, size=size, events=events, describe=_percentiles)
        row |= {key: each[key] for key in ("p50_us", "p99_us", "max_us") if key in each}
        if row.get("cpu_s"):
            row["mean_us"] = 1e6 * row["cpu_s"] / events
        yield row


def conclusions(rows: Rows) -> str:
    """Means and percentiles."""
    means = [row["mean_us"] for row in rows if "mean_us" in row]
    tails = [row["p99_us"] for row in rows if "p99_us" in row]
    return (
        f"**An event** takes {span(means, ' µs')} of CPU time on the mean, and in 99 of 100 cases at most "
        f"{span(tails, ' µs')} of wall-clock time."
    )


EXPERIMENT = Experiment(
    "push",
    "Pushing single events",
    "What does `Session.push` of one event cost?",
    "Fig. 4's chain; events as dicts of Booleans, or of floating-point numbers. The mean is CPU time of "
    "a warm run without a clock in its loop, percentiles are of wall-clock time with one.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
