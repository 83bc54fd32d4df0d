"""``A before B AND B overlaps C``: time is proportional to the matches, not to the window squared.

``cpu_ns_per_match`` takes off what the narrowest window costs, which is nearly all for intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import pattern_of, seed
from piestream.generators import booleans

TITLE = "before: time against matches"
COLUMNS = ("within", "events", "matches", "wall_s", "cpu_s", "events_per_s", "cpu_ns_per_match",
           "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a window."""
    events = scale.of(2_000, 100_000, 300_000)
    frame = booleans(3, events, seed)
    yardstick = Yardstick(frame)
    narrowest: Row | None = None
    windows = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    for within in scale.of((500, 1_000), windows, windows):
        query = pattern_of(3, ["a1 before a2", "a2 overlaps a3"], within, returns="a1.ts")
        row = compared(partial(query.run, frame), scale, events, yardstick, within=within)
        narrowest = narrowest or row
        more = row["matches"] - narrowest["matches"]
        beyond = row["cpu_s"] - narrowest["cpu_s"]
        yield {**row, "cpu_ns_per_match": 1e9 * beyond / more if more else None}
