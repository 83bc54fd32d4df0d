"""How many rows stay in memory: DejaVu's Figure 9."""

from __future__ import annotations

from collections.abc import Iterator

import piestream as ps
from experiments.benchmarks.common import shown
from experiments.dejavu.common import cell, query_of, signals, speedup
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES

__all__ = ["EXPERIMENT"]

_WINDOW = 500
_COLUMNS = ("recent", "archiving", "events_per_s", "read", "in_memory", "matches", "cpu_s")


def rows(size: Size) -> Iterator[Row]:
    """A row a size of the recent buffer, with the archive written by another and by the way."""
    ticks = signals(size.of(2_000, 8_000, 200_000), 50, 25)
    query = query_of(_WINDOW)
    for archiving in (True, False):
        for recent in size.of((500,), (0, 250, 500, 750), (0, 100, 200, 300, 400, 500, 600, 750)):
            if not archiving and recent < _WINDOW:
                continue  # what leaves memory has to be in the archive
            plan = ps.LivePlan("live-first", cache=False, recent=recent)
            yield cell(size, query, ticks, plan, piece=size.of(1000, 200, 200), archives=archiving, recent=recent,
                       archiving=archiving)  # fmt: skip


def conclusions(rows: Rows) -> str:
    """What a buffer as long as the window saves."""
    done = [row for row in rows if row["archiving"] and row.get("events_per_s")]
    least = min(done, key=lambda row: row["recent"], default=None)
    whole = max(done, key=lambda row: row["recent"], default=None)
    read = (
        ""
        if least is None or whole is None
        else (f", and reads {whole['read']:,} rows of the archive for {least['read']:,}")
    )
    return f"**A buffer longer than the window** is {speedup(whole, least)} times as fast as none{read}."


EXPERIMENT = Experiment(
    "dejavu_recent",
    "Live against archive: the recent buffer",
    "What does it save to keep the latest rows in memory?",
    f"DejaVu's Fig. 9: a window of {_WINDOW} ticks, pushes of 200, each of which is appended to the archive "
    "afterwards or not. `read` is how many rows were read of the archive.",
    rows,
    shown(_COLUMNS),
    conclusions,
    rooms=(*QUERIES, "archives"),
)
