"""Interval events of many types that overlap within a type: the load generator of ISEQ, section 4.2."""

from __future__ import annotations

import numpy as np
import polars as pl

__all__ = ["interval_events"]


def interval_events(
    events: int, types: int, gap: float, length: float, seed: int = 0
) -> pl.DataFrame:
    """Columns ``number, type, ts, te`` in order of the ends, where such rows become known.

    Types are uniform. Lengths, and the gaps between the middles of one interval and the next, are
    normal, with a standard deviation of a quarter of the mean; an interval is a tick long at least.

    >>> frame = interval_events(events=200, types=20, gap=150, length=3_000)
    >>> frame.columns, frame["te"].is_sorted(), (frame["te"] > frame["ts"]).all()
    (['number', 'type', 'ts', 'te'], True, True)
    """
    random = np.random.Generator(np.random.PCG64(seed))
    middles = np.cumsum(np.maximum(random.normal(gap, gap / 4, events), 0.0)) + 4 * length
    lengths = np.maximum(np.rint(random.normal(length, length / 4, events)), 1).astype(np.int64)
    starts = np.rint(middles).astype(np.int64) - lengths // 2
    frame = pl.DataFrame(
        {"type": random.integers(0, types, events), "ts": starts, "te": starts + lengths}
    )
    return frame.sort("te", "ts", maintain_order=True).with_row_index("number")
