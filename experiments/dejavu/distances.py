"""How far live matches lie apart, and what the pattern costs: DejaVu's Figure 12."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import cell, named, query_of, signals, speedup
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES

__all__ = ["EXPERIMENT"]

_WINDOW = 200
#: How far live matches lie apart where the cost of the pattern over the archive changes.
_APART = 80
_PATTERNS = (
    "signal", "situations", "rows", "rows with memory", "drop and rise",
)  # fmt: skip
_PLANS = ("live-first", "live-first, cache", "auto")
_COLUMNS = (
    "distance", "past", "plan_is", "events_per_s", "worked", "us_a_row", "matches", "cpu_s",
)  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a distance, kind of pattern and plan."""
    n = size.of(2_000, 150_000, 400_000)
    cases = [
        (distance, "signal")
        for distance in size.of((200,), (10, 20, 50, 100, 200, 400), (10, 20, 50, 100, 200, 400))
    ]
    cases += [(_APART, past) for past in size.of((), _PATTERNS, _PATTERNS)]
    for distance, past in cases:
        query = query_of(_WINDOW, past=past)
        ticks = signals(n, distance, 25)
        for plan in size.of(("live-first",), _PLANS, _PLANS):
            row = cell(size, query, ticks, plan, distance=distance, past=past, plan_is=plan)
            seconds = row.get("cpu_s") or row.get("cold_cpu_s")
            if seconds and row.get("worked"):
                row["us_a_row"] = 1e6 * seconds / row["worked"]
            yield row


def conclusions(rows: Rows) -> str:
    """The gain where regions overlap, the overhead where they do not, and what the pattern's cost makes of it."""
    near = min(row["distance"] for row in rows if row["past"] == "signal")
    found = [_gain(rows, distance, "signal", "live-first, cache") for distance in (near, _WINDOW)]
    by_cost = sorted(
        (row for row in rows if row["distance"] == _APART and row["plan_is"] == "live-first"),
        key=lambda row: row.get("us_a_row") or 0.0,
    )
    costly = ", ".join(
        f"{_gain(rows, _APART, row['past'], 'live-first, cache')} times with {row['past']} "
        f"({row['us_a_row']:.2g} µs a row)"
        for row in by_cost
        if row.get("us_a_row")
    )
    return (
        f"**The cache** makes live-first {found[0]} times as fast where live matches lie {near} ticks apart, and "
        f"{found[1]} times where no regions overlap; there the plan that is chosen is "
        f"{_gain(rows, _WINDOW, 'signal', 'auto')} times as fast as live-first without it."
        + (f" At {_APART} ticks, by what the pattern costs: {costly}." if costly else "")
    )


def _gain(rows: Rows, distance: int, past: str, plan: str) -> str:
    """How many times as fast as live-first without a cache a plan is."""
    one = named(rows, distance=distance, past=past, plan_is=plan)
    other = named(rows, distance=distance, past=past, plan_is="live-first")
    return speedup(one, other)


EXPERIMENT = Experiment(
    "dejavu_distances",
    "Live against archive: how often regions overlap",
    "What does the cache save where regions overlap, and cost where they do not?",
    f"DejaVu's Fig. 12: a window of {_WINDOW} ticks, live matches at growing distances, and at {_APART} patterns over "
    "the archive of growing cost: a situation, three of them, two rows, rows compared with the first, and the "
    "paper's drop and rise. `us a row` is what a row costs that is worked on, all else included.",
    rows,
    shown(_COLUMNS),
    conclusions,
    rooms=(*QUERIES, "archives"),
)
