"""Falls after drops and rises of a price: DejaVu's Figure 14, on a random walk."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import PLANS, cell, named, query_of, speedup, walk
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size

__all__ = ["EXPERIMENT"]

_COLUMNS = ("window", "plan_is", "plan", "events_per_s", "worked", "matches", "cpu_s", "cold_cpu_s")


def rows(size: Size) -> Iterator[Row]:
    """A row a window and plan."""
    ticks = walk(size.of(1_500, 14_000, 40_000))
    for window in size.of((100,), (100, 500), (100, 500, 2000)):
        query = query_of(window, "fall", "drop and rise", above=10)
        for plan in size.of(("eager",), PLANS, PLANS):
            yield cell(size, query, ticks, plan, window=window, plan_is=plan)


def conclusions(rows: Rows) -> str:
    """The best plan beside live-first without a cache."""
    text = []
    for window in dict.fromkeys(row["window"] for row in rows):
        done = [row for row in rows if row["window"] == window and row.get("cold_cpu_s")]
        quick = [row for row in done if row.get("events_per_s")]
        best = max(quick, key=lambda row: row["events_per_s"], default=None)
        plain = named(rows, window=window, plan_is="live-first")
        text.append(f"{speedup(best, plain)} times at {window} ticks")
    return f"**The best plan** is as fast as live-first without a cache {', '.join(text)}."


EXPERIMENT = Experiment(
    "dejavu_prices",
    "Live against archive: drops and rises",
    "What do the plans make of DejaVu's query?",
    "DejaVu's Fig. 14, on a random walk instead of licensed ticks: each fall of the price, and each drop and rise "
    "(A B+ C* D+, the longest of each start) of more than 10 ticks before it.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
