"""How far live matches lie apart, and what the pattern costs: DejaVu's Figure 12."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import cell, named, query_of, signals, speedup
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size

__all__ = ["EXPERIMENT"]

_WINDOW = 200
_COLUMNS = ("distance", "past", "plan_is", "events_per_s", "worked", "matches", "cpu_s")


def rows(size: Size) -> Iterator[Row]:
    """A row a distance, kind of pattern and plan."""
    n = size.of(2_000, 100_000, 400_000)
    cases = [
        (distance, "signal")
        for distance in size.of((200,), (10, 50, 200, 400), (10, 20, 50, 100, 200, 400))
    ]
    cases += [(80, past) for past in size.of((), *[("signal", "rows", "drop and rise")] * 2)]
    for distance, past in cases:
        query = query_of(_WINDOW, past=past)
        ticks = signals(n, distance, 25)
        for plan in size.of(("live-first",), *[("live-first", "live-first, cache", "auto")] * 2):
            yield cell(size, query, ticks, plan, distance=distance, past=past, plan_is=plan)


def conclusions(rows: Rows) -> str:
    """The gain where regions overlap, and the overhead where they do not."""
    near = min(row["distance"] for row in rows if row["past"] == "signal")
    found = [
        speedup(
            named(rows, distance=distance, past="signal", plan_is="live-first, cache"),
            named(rows, distance=distance, past="signal", plan_is="live-first"),
        )
        for distance in (near, _WINDOW)
    ]
    chosen = speedup(
        named(rows, distance=_WINDOW, past="signal", plan_is="auto"),
        named(rows, distance=_WINDOW, past="signal", plan_is="live-first"),
    )
    return (
        f"**The cache** makes live-first {found[0]} times as fast where live matches lie {near} ticks apart, and "
        f"{found[1]} times where no regions overlap; there the plan that is chosen is {chosen} times as fast as "
        "live-first without it."
    )


EXPERIMENT = Experiment(
    "dejavu_distances",
    "Live against archive: how often regions overlap",
    "What does the cache save where regions overlap, and cost where they do not?",
    f"DejaVu's Fig. 12: a window of {_WINDOW} ticks, live matches at growing distances, and at 80 patterns over "
    "the archive of growing cost: a situation, two rows, and the paper's drop and rise.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
