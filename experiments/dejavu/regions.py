"""How long the window is: DejaVu's Figures 10 and 11, and Table 5."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import cell, named, query_of, signals, speedup
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES

__all__ = ["EXPERIMENT"]

_PLANS = ("live-first", "live-first, cache", "eager", "auto")
_COLUMNS = ("window", "plan_is", "events_per_s", "worked", "in_memory", "matches", "cpu_s")


def rows(size: Size) -> Iterator[Row]:
    """A row a window and plan; a live match each 50 ticks, one in the archive each 25."""
    ticks = signals(size.of(2_000, 200_000, 400_000), 50, 25)
    for window in size.of((50,), (10, 50, 200, 500, 1000), (10, 50, 100, 200, 300, 500, 700, 1000)):
        query = query_of(window)
        for plan in size.of(_PLANS[:2], _PLANS, _PLANS):
            yield cell(size, query, ticks, plan, window=window, plan_is=plan)


def conclusions(rows: Rows) -> str:
    """What the cache saves of the widest window."""
    window = max(row["window"] for row in rows)
    plain = named(rows, window=window, plan_is="live-first")
    cached = named(rows, window=window, plan_is="live-first, cache")
    eager = named(rows, window=window, plan_is="eager")
    saved = (
        ""
        if plain is None or cached is None
        else (f" It works on {cached['worked']:,} rows for {plain['worked']:,}.")
    )
    return (
        f"**With a window of {window} ticks** the cache makes live-first {speedup(cached, plain)} times as "
        f"fast, and {speedup(cached, eager)} times as fast as eager.{saved}"
    )


EXPERIMENT = Experiment(
    "dejavu_regions",
    "Live against archive: the window",
    "What does a longer window cost, with and without known matches being kept?",
    "DejaVu's Fig. 10 and 11 and Table 5: a live match each 50 ticks and one in the archive each 25, of one "
    "symbol, in one push. `worked` is how many rows the queries over the archive worked on.",
    rows,
    shown(_COLUMNS),
    conclusions,
    rooms=(*QUERIES, "archives"),
)
