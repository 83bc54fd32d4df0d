"""Where the rows come from: columns in memory, Parquet, CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

import piestream as ps
from experiments.benchmarks.common import measured, running, shown, span
from experiments.comparisons.rollover import query as rollover_query
from experiments.harness.conclusions import exponent
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import select
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, booleans, query_of, rollover

_COLUMNS = ("query", "n", "source", "returns", "events", "matches", "wall_s", "cpu_s", "cold_cpu_s",
            "reading_s", "events_per_s", "times_yardstick")  # fmt: skip
_READERS: dict[str, Any] = {"parquet": pl.read_parquet, "csv": pl.read_csv}


def from_file(query: ps.Query, short: ps.Query) -> Callable[[], Any]:
    """A run of a query over the file that it names; another over a short file loads the code."""
    short.run()
    return query.run


def reading(kind: str, path: str) -> Callable[[], pl.DataFrame]:
    """What Polars alone takes to read the file."""
    return partial(_READERS[kind], path)


def rows(size: Size) -> Iterator[Row]:
    """A row a query, source and number of events."""
    lengths = size.of(
        (1_000,), (10_000, 1_000_000), (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    )
    for n in size.of((4,), (4, 24), (4, 8, 12, 16, 18, 24)):
        for events in lengths:
            with TemporaryDirectory() as folder:
                yield from _chain(size, n, events, Path(folder))
    yield from _tank(size)


def _chain(size: Size, n: int, events: int, folder: Path) -> Iterator[Row]:
    frame = booleans(n, events, SEED)
    pattern = Pattern.chain(n)
    about: Row = {"query": "chain", "n": n}
    for returns, clause in (("a1.ts", "a1.ts"), ("default", "")):
        yield measured(running, query_of(pattern, returns=clause), frame, size=size, events=events,
                       yardstick=frame, source="memory", returns=returns, **about)  # fmt: skip
    numbers = frame.with_columns(pl.col(pl.Boolean).cast(pl.Int8))
    yield measured(running, query_of(pattern, returns="a1.ts", holds="{0} = 1"), numbers, size=size,
                   events=events, yardstick=numbers, source="memory, 0 and 1", returns="a1.ts",
                   **about)  # fmt: skip
    # Parquet keeps Booleans, text does not.
    for kind, stream, holds in (("parquet", frame, "{0}"), ("csv", numbers, "{0} = 1")):
        paths = [folder / f"{name}.{kind}" for name in ("events", "short")]
        for path, part in zip(paths, (stream, stream.head(1_000)), strict=True):
            part.write_parquet(path) if kind == "parquet" else part.write_csv(path)
        whole, short = (query_of(pattern, returns="a1.ts", source=f"'{path}'", holds=holds)
                        for path in paths)  # fmt: skip
        row = measured(from_file, whole, short, size=size, events=events, yardstick=stream,
                       source=kind, returns="a1.ts", **about)  # fmt: skip
        yield row | _reading(size, kind, paths[0])


def _tank(size: Size) -> Iterator[Row]:
    days, planted = size.of((1, 1), (10, 9), (100, 95))
    frame = rollover(days=days, seed=SEED, rollovers=planted)
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{name}.parquet" for name in ("tank", "short")]
        frame.write_parquet(paths[0])
        frame.head(1_000).write_parquet(paths[1])
        for then in ("followed-by", "before"):
            about: Row = {"query": f"rollover, {then}", "n": 4, "returns": "starts"}
            yield measured(running, rollover_query(then), frame, size=size, events=len(frame),
                           yardstick=frame, source="memory", **about)  # fmt: skip
            whole, short = (rollover_query(then, f"'{path}'") for path in paths)
            row = measured(from_file, whole, short, size=size, events=len(frame), yardstick=frame,
                           source="parquet", **about)  # fmt: skip
            yield row | _reading(size, "parquet", paths[0])


def _reading(size: Size, kind: str, path: Path) -> Row:
    row = measured(reading, kind, str(path), size=size, events=0)
    return {"reading_s": row.get("cpu_s"), "cold_reading_s": row.get("cold_cpu_s")}


def conclusions(rows: Rows) -> str:
    """Rates by source, what of a file is reading, and the growth with the number of symbols."""
    most = max(row["events"] for row in select(rows, query="chain"))
    largest = select(rows, query="chain", events=most)
    rates = [
        f"{source} {span([row['events_per_s'] / 1e6 for row in found], ' M')}"
        for source in dict.fromkeys(row["source"] for row in largest)
        if (found := [row for row in select(largest, source=source) if "events_per_s" in row])
    ]
    shares = [
        f"{kind} {span([row['reading_s'] / row['cpu_s'] for row in found])}"
        for kind in _READERS
        if (
            found := [
                r for r in select(largest, source=kind) if r.get("reading_s") and r.get("cpu_s")
            ]
        )
    ]
    power = exponent(
        *([row[value] for row in select(largest, source="memory", returns="a1.ts") if row.get("cpu_s")]
          for value in ("n", "cpu_s"))
    )  # fmt: skip
    grown = (
        ""
        if power is None
        else f" Warm time grows with the number of symbols to the power {power:g}."
    )
    return (
        f"**Rates.** Events a CPU second of the chain over {most:,} events, over all numbers of "
        f"symbols: {'; '.join(rates)}.{grown}\n\n"
        f"**Reading.** The share of Polars' own reading of the file: {'; '.join(shares) or 'not measured'}."
    )


EXPERIMENT = Experiment(
    "sources",
    "Sources: columns in memory, Parquet, CSV",
    "How many events a second, from where?",
    "Fig. 4's chain of n symbols over synthetic booleans, and the LNG rollover query over one reading a "
    "second; from columns in memory, from Parquet, from CSV (0 and 1, `a1 = 1`). `reading s` is what "
    "Polars alone takes to read the file, which no matcher can save. Files are in the page cache.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
