"""Resident memory over a long stream, and beyond the input over a large frame (Linux)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from experiments.benchmarks.common import measured, running, span
from experiments.benchmarks.sources import from_file
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size, memory_of
from experiments.harness.tables import column_table, select
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, booleans, booleans_chunks, query_of

_COLUMNS = ("case", "n", "events", "matches", "input_mb", "after_tenth_mb", "end_mb", "growth_mb",
            "beyond_input_mb", "cold_cpu_s", "events_per_s")  # fmt: skip
_MB = 1e6


def flowing(n: int, events: int) -> Callable[[], Row]:
    """A stream through a session, in a hundred chunks; memory is looked at after each."""
    query = query_of(Pattern.chain(n), returns="a1.ts")

    def through() -> Row:
        session = query.open()
        held, matches, cpu = [], 0, 0.0
        for chunk in booleans_chunks(n, events, SEED, chunk=max(events // 100, 1)):
            before = time.process_time()
            matches += len(session.push(chunk))
            cpu += time.process_time() - before
            held.append((memory_of("self") or 0) / _MB)
        tenth = held[len(held) // 10]
        return {"matches": matches, "after_tenth_mb": tenth, "end_mb": held[-1],
                "growth_mb": max(held[-10:]) - tenth, "cold_cpu_s": cpu,
                "events_per_s": events / cpu}  # fmt: skip

    return through


def rows(size: Size) -> Iterator[Row]:
    """A row a case; none elsewhere than on Linux."""
    if not sys.platform.startswith("linux"):
        return
    stream = size.of(20_000, 2_000_000, 100_000_000)
    events = size.of(10_000, 500_000, 10_000_000)
    row = measured(flowing, 4, stream, size=size, events=stream, describe=dict, case="stream", n=4)
    # What is looked at is the session, not the generator beside it.
    yield {key: value for key, value in row.items() if key not in ("cpu_s", "peak_growth_bytes")}
    for n in (4, 24):
        with TemporaryDirectory() as folder:
            paths = [Path(folder) / f"{name}.parquet" for name in ("events", "short")]
            frame = booleans(n, events, SEED)
            frame.write_parquet(paths[0])
            frame.head(1_000).write_parquet(paths[1])
            pattern = Pattern.chain(n)
            row = measured(running, query_of(pattern, returns="a1.ts"), frame, size=size,
                           events=events, case="frame", n=n)  # fmt: skip
            yield _beyond(row, frame)
            whole, short = (
                query_of(pattern, returns="a1.ts", source=f"'{path}'") for path in paths
            )
            row = measured(from_file, whole, short, size=size, events=events, case="parquet", n=n)
            yield _beyond(row)


def _beyond(row: Row, frame: pl.DataFrame | None = None) -> Row:
    if row.get("peak_growth_bytes") is not None:
        row["beyond_input_mb"] = row["peak_growth_bytes"] / _MB
    return row | {"input_mb": 0.0 if frame is None else frame.estimated_size() / _MB}


def tables(rows: Rows) -> str:
    """All of them."""
    return "Megabytes of RAM; seconds of CPU time of the cold run.\n\n" + column_table(
        _COLUMNS, rows
    )


def conclusions(rows: Rows) -> str:
    """Growth over the stream, and what a run takes beyond its input."""
    texts = []
    for row in select(rows, case="stream"):
        if "growth_mb" in row:
            texts.append(
                f"Over the last nine tenths of {row['events']:,} events the session's process grows by "
                f"{row['growth_mb']:.3g} MB."
            )
    for case in ("frame", "parquet"):
        found = [
            row["beyond_input_mb"] for row in select(rows, case=case) if "beyond_input_mb" in row
        ]
        if found:
            texts.append(
                f"From a {case} a run takes {span(found, ' MB')} beyond what is held as input."
            )
    return "**Memory.** " + (" ".join(texts) or "Not measured.")


EXPERIMENT = Experiment(
    "resident_memory",
    "Resident memory",
    "Does memory grow with the stream, and what does a large frame take beyond its columns?",
    "Fig. 4's chain of n symbols, RETURN a1.ts. *stream*: through a session in a hundred chunks, memory "
    "looked at after each; what counts is the growth after the first tenth. *frame*: the most that is "
    "held while a query runs over columns in memory, less what was held before, columns included. "
    "*parquet*: the same from a file, of which nothing is held before.",
    rows,
    tables,
    conclusions,
)
