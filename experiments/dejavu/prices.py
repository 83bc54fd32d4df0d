"""Falls after drops and rises of a price: DejaVu's Figure 14, on a random walk and on trades."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import shown
from experiments.dejavu.common import PLANS, cell, named, query_of, speedup
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES
from experiments.streams.ticks import trades, walk

__all__ = ["EXPERIMENT"]

_COLUMNS = (
    "prices",
    "window",
    "plan_is",
    "plan",
    "events_per_s",
    "worked",
    "matches",
    "cpu_s",
    "cold_cpu_s",
)


def rows(size: Size) -> Iterator[Row]:
    """A row a source of prices, window and plan; without trades where these are not installed."""
    n = size.of(1_500, 5_000, 16_000)
    for prices, ticks in (("walk", walk(n)), ("trades", None if size is Size.TINY else trades(n))):
        if ticks is None:
            continue
        for window in size.of((100,), (100, 500), (100, 500, 1000)):
            query = query_of(window, "fall", "drop and rise", above=10)
            for plan in size.of(("eager",), PLANS, PLANS):
                yield cell(size, query, ticks, plan, prices=prices, window=window, plan_is=plan)


def conclusions(rows: Rows) -> str:
    """The best plan beside live-first without a cache."""
    text = []
    for prices, window in dict.fromkeys((row["prices"], row["window"]) for row in rows):
        own = [row for row in rows if (row["prices"], row["window"]) == (prices, window)]
        quick = [row for row in own if row.get("events_per_s")]
        best = max(quick, key=lambda row: row["events_per_s"], default=None)
        plain = named(own, plan_is="live-first")
        text.append(f"{speedup(best, plain)} times at {window} ticks of the {prices}")
    return f"**The best plan** is as fast as live-first without a cache {', '.join(text)}."


EXPERIMENT = Experiment(
    "dejavu_prices",
    "Live against archive: drops and rises",
    "What do the plans make of DejaVu's query, on made and on real prices?",
    "DejaVu's Fig. 14. Its ticks are licensed; here are a random walk and trades of a day: the price of the E-mini "
    "S&P 500 future at the end of each second with trades, from the package mlfinpy (where that is installed). Each "
    "fall of the price, and each drop and rise (A B+ C* D+, the longest of each start) of more than 10 ticks before it.",
    rows,
    shown(_COLUMNS),
    conclusions,
    rooms=(*QUERIES, "archives", "row_patterns"),
)
