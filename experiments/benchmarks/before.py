"""``A before B AND B overlaps C``: time against matches."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import measured, running, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, SEED, booleans, query_of

_COLUMNS = ("within", "events", "matches", "wall_s", "cpu_s", "cold_cpu_s", "events_per_s",
            "cpu_ns_per_match", "times_yardstick")  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a window; ``cpu_ns_per_match`` takes off what the narrowest costs."""
    events = size.of(2_000, 100_000, 300_000)
    frame = booleans(3, events, SEED)
    narrowest: Row | None = None
    windows = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    for within in size.of((500, 1_000), windows, windows):
        query = query_of(Pattern(3, BEFORE_OVERLAPS, within), returns="a1.ts")
        row = measured(
            running, query, frame, size=size, events=events, yardstick=frame, within=within
        )
        narrowest = narrowest or row
        more = row.get("matches", 0) - narrowest.get("matches", 0)
        if more and row.get("cpu_s") and narrowest.get("cpu_s"):
            row["cpu_ns_per_match"] = 1e9 * (row["cpu_s"] - narrowest["cpu_s"]) / more
        yield row


def conclusions(rows: Rows) -> str:
    """What a match costs as the window grows."""
    cost = [row["cpu_ns_per_match"] for row in rows if row.get("cpu_ns_per_match") is not None]
    first, last = rows[0], rows[-1]
    if not cost or not first.get("cpu_s") or not last.get("cpu_s"):
        return "**Time against matches.** Not measured."
    return (
        f"**Time against matches.** From a window of {first['within']:,} to {last['within']:,} "
        f"({last['within'] / first['within']:.0f}×) matches grow {last['matches'] / first['matches']:.0f}×, "
        f"time {last['cpu_s'] / first['cpu_s']:.0f}×. A match more costs {span(cost, ' ns')}."
    )


EXPERIMENT = Experiment(
    "before",
    "before: time against matches",
    "Does time go with the matches, or with the square of the window?",
    "*A before B overlaps C* over synthetic booleans, RETURN a1.ts. `cpu ns per match` takes off what "
    "the narrowest window costs.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
