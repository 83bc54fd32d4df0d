"""Fig. 4 of the paper: a chain of n symbols, from columns in memory, from Parquet and from CSV.

The peer is the Java PieStream on a machine of the same size (2 cores): its published wall-clock
rates over CSV text at 1e6 events. ``times_peer`` divides our events per CPU second by them,
``times_peer_wall`` our events per second of the clock on the wall, which other work disturbs.
``reading_s`` is what Polars alone takes to read the file: the part that no matcher can save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from benchmarks.measure import Row, Scale, Yardstick, compared, timed
from benchmarks.streams import chain, seed
from piestream.generators import booleans

TITLE = "Fig. 4: chain of n symbols"
COLUMNS = ("source", "n", "returns", "events", "matches", "wall_s", "cpu_s", "reading_s",
           "events_per_s", "peer_events_per_s", "times_peer",
           "times_peer_wall", "ratio_to_yardstick")  # fmt: skip

#: Events per second of the Java PieStream at 1e6 events, by the number of symbols.
PEER = {4: 511_000, 8: 271_000, 12: 172_000, 16: 97_000, 18: 93_000, 24: 46_000}


def rows(scale: Scale) -> Iterator[Row]:
    """One row a source, number of symbols and number of events."""
    sizes = scale.of((1_000,), (10_000, 1_000_000), (1_000, 10_000, 100_000, 1_000_000, 10_000_000))
    for n in scale.of((4,), (4, 24), tuple(PEER)):
        for events in sizes:
            with TemporaryDirectory() as folder:
                for row in _of_stream(scale, n, events, Path(folder)):
                    peer = PEER[n]
                    yield {
                        **row,
                        "peer_events_per_s": peer,
                        "times_peer": row["events_per_s"] / peer,
                        "times_peer_wall": events / row["wall_s"] / peer,
                    }


def _of_stream(scale: Scale, n: int, events: int, folder: Path) -> Iterator[Row]:
    frame = booleans(n, events, seed)
    yardstick = Yardstick(frame)
    only, whole = chain(n), chain(n, returns="")
    for returns, query in (("a1.ts", only), ("default", whole)):
        yield compared(
            partial(query.run, frame),
            scale, events, yardstick, source="memory", n=n, returns=returns,
        )  # fmt: skip
    # The peer's file holds 0 and 1 and its query says `a1 = 1`; Parquet keeps Booleans.
    numbers = frame.with_columns(pl.col(pl.Boolean).cast(pl.Int8))
    yield compared(
        partial(chain(n, holds="{0} = 1").run, numbers),
        scale, events, yardstick, source="memory, 0 and 1", n=n, returns="a1.ts",
    )  # fmt: skip
    parquet, csv = folder / "events.parquet", folder / "events.csv"
    frame.write_parquet(parquet)
    numbers.write_csv(csv)
    row = compared(
        chain(n, source=f"'{parquet}'").run,
        scale, events, yardstick, source="parquet", n=n, returns="a1.ts",
    )  # fmt: skip
    yield {**row, "reading_s": _cpu(scale, partial(pl.read_parquet, parquet))}
    row = compared(
        chain(n, source=f"'{csv}'", holds="{0} = 1").run,
        scale, events, yardstick, source="csv", n=n, returns="a1.ts",
    )  # fmt: skip
    yield {**row, "reading_s": _cpu(scale, partial(pl.read_csv, csv))}


def _cpu(scale: Scale, work: Callable[[], Any]) -> float:
    return min(timed(work, scale)[0].cpu)
