"""Which side is looked at first: DejaVu's Figure 13."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import PLANS, cell, query_of, signals
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES

__all__ = ["EXPERIMENT"]

_WINDOW = 500
_COLUMNS = ("live", "past", "plan_is", "plan", "events_per_s", "worked", "matches", "cpu_s")


def rows(size: Size) -> Iterator[Row]:
    """A row a ratio of matches and plan."""
    n = size.of(4_000, 200_000, 400_000)
    ratios = size.of(((800, 3200),), ((160, 2560), (640, 640), (2560, 160)),
                     ((160, 2560), (320, 1280), (640, 640), (1280, 320), (2560, 160)))  # fmt: skip
    for live, past in ratios:
        ticks = signals(n, live, past)
        for plan in size.of(("archive-first, cache", "auto"), PLANS, PLANS):
            yield cell(size, query_of(_WINDOW), ticks, plan, live=live, past=past, plan_is=plan)


def conclusions(rows: Rows) -> str:
    """How far the plan that is chosen is from the best one."""
    worst = 1.0
    for live, past in {(row["live"], row["past"]) for row in rows}:
        done = [r for r in rows if (r["live"], r["past"]) == (live, past) and r.get("events_per_s")]
        best = max((r["events_per_s"] for r in done), default=1.0)
        chosen = [r["events_per_s"] for r in done if r["plan_is"] == "auto"]
        worst = max(worst, best / chosen[0]) if chosen else worst
    return f"**The plan that is chosen** takes at most {worst:.2f} times as long as the best one."


EXPERIMENT = Experiment(
    "dejavu_orders",
    "Live against archive: which side first",
    "Does the plan that is chosen follow the rarer side?",
    f"DejaVu's Fig. 13: a window of {_WINDOW} ticks; a live match each `live` ticks, one in the archive each `past`.",
    rows,
    shown(_COLUMNS),
    conclusions,
    rooms=(*QUERIES, "archives"),
)
