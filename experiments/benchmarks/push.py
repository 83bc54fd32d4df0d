"""One event at a time through a session: dicts in, a list of matches out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import chain, seed
from piestream.generators import booleans

TITLE = "Pushing single events"
COLUMNS = ("events_are", "n", "events", "matches", "mean_us", "p50_us", "p99_us", "max_us",
           "cpu_s", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a kind of event; the mean is CPU of a loop without a clock in it."""
    events = scale.of(500, 20_000, 200_000)
    for n in (4, 24):
        frame = booleans(n, events, seed)
        yield _pushed(scale, chain(n), frame, frame, n=n, events_are="booleans")
    frame = booleans(4, events, seed)
    numbers = frame.with_columns(pl.col(pl.Boolean).cast(pl.Float64))
    yield _pushed(scale, chain(4, holds="{0} > 0.5"), frame, numbers, n=4, events_are="floats")


def _pushed(
    scale: Scale, query: ps.Query, stream: pl.DataFrame, frame: pl.DataFrame, **case: Any
) -> Row:
    events = frame.to_dicts()

    def through() -> int:
        push = query.open().push
        return sum(len(push(event)) for event in events)

    row = compared(through, scale, len(events), Yardstick(stream), **case)
    push = query.open().push
    took = np.empty(len(events), np.int64)
    clock = time.perf_counter_ns
    for number, event in enumerate(events):
        before = clock()
        push(event)
        took[number] = clock() - before
    took = took[len(events) // 100 :]  # the first one binds the query to its columns
    p50, p99 = np.percentile(took, (50, 99))
    return {
        **row,
        "mean_us": 1e6 * row["cpu_s"] / len(events),
        "p50_us": p50 / 1e3,
        "p99_us": p99 / 1e3,
        "max_us": int(took.max()) / 1e3,
    }
