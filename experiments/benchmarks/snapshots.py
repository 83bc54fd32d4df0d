"""Size of a session's state, and the time to write it down and to take it up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import polars as pl

import piestream as ps
from experiments.benchmarks.common import measured, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.peers.pattern import Pattern
from experiments.streams import in_partitions, query_of

_COLUMNS = ("partitions", "within", "live_intervals", "state_bytes", "snapshot_bytes",
            "bytes_per_interval", "snapshot_s", "cold_snapshot_s", "restore_s", "cold_restore_s")  # fmt: skip


def writing(query: ps.Query, frame: pl.DataFrame) -> Callable[[], Any]:
    """Snapshots of a session that has been given a frame; with what it holds."""
    session = query.open()
    session.push(frame)
    seen = session.statistics

    def snapshot() -> Any:
        return session.snapshot(), seen

    return snapshot


def restoring(query: ps.Query, frame: pl.DataFrame) -> Callable[[], Any]:
    """Sessions of that state."""
    session = query.open()
    session.push(frame)
    state = session.snapshot()
    if query.open(state=state).snapshot() != state:
        raise AssertionError("a restored session has another state")
    return partial(query.open, state=state)


def _sizes(found: Any) -> Row:
    state, seen = found
    live = seen.live_intervals
    return {"live_intervals": live, "state_bytes": seen.state_bytes, "snapshot_bytes": len(state),
            "bytes_per_interval": len(state) / max(live, 1)}  # fmt: skip


def _nothing(_: Any) -> Row:
    return {}


def rows(size: Size) -> Iterator[Row]:
    """A row a number of partitions and a window."""
    cases = (
        (1, 1_000), (1, 10_000), (1, 100_000), (1_000, 1_000), (10_000, 1_000), (100_000, 1_000),
    )  # fmt: skip
    events = size.of(20_000, 500_000, 2_000_000)
    for partitions, within in size.of(cases[:1], cases[:4], cases):
        query = query_of(Pattern.chain(4, within), returns="a1.ts", partition_by="key")
        frame = in_partitions(4, events, partitions)
        row = measured(writing, query, frame, size=size, events=len(frame), describe=_sizes,
                       partitions=partitions, within=within)  # fmt: skip
        again = measured(restoring, query, frame, size=size, events=len(frame), describe=_nothing)
        yield {
            **{key: value for key, value in row.items() if key != "events_per_s"},
            "snapshot_s": row.get("cpu_s"), "cold_snapshot_s": row.get("cold_cpu_s"),
            "restore_s": again.get("cpu_s"), "cold_restore_s": again.get("cold_cpu_s"),
        }  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Bytes an interval, and the time of the largest state."""
    sizes = [row["bytes_per_interval"] for row in rows if "bytes_per_interval" in row]
    largest = max(rows, key=lambda row: row.get("snapshot_bytes", 0))
    times = (
        f"in {largest['snapshot_s']:.3g} s and taken up in {largest['restore_s']:.3g} s (warm)"
        if largest.get("snapshot_s") and largest.get("restore_s")
        else "in a time that was not measured"
    )
    return (
        f"**States** take {span(sizes)} bytes a live interval. The largest here, "
        f"{largest['snapshot_bytes'] / 1e6:.3g} MB, is written {times}."
    )


EXPERIMENT = Experiment(
    "snapshots",
    "Snapshot and restore",
    "How large is a state, and how long does it take to write it down and to take it up?",
    "Fig. 4's chain of 4 symbols in partitions, after a frame was pushed.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
