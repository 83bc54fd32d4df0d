"""Equal rows in 1 to 100,000 partitions, whose rows are mixed in order of time."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.benchmarks.common import measured, running, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import select
from experiments.peers.pattern import Pattern
from experiments.streams import in_partitions, query_of

_COLUMNS = ("key", "partitions", "events", "matches", "wall_s", "cpu_s", "cold_cpu_s", "events_per_s",
            "times_100", "times_yardstick")  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a number and type of keys; ``times_100`` compares with 100 keys of that type."""
    events = size.of(2_000, 500_000, 2_000_000)
    query = query_of(Pattern.chain(4), returns="a1.ts", partition_by="key")
    for text_keys in (False, True):
        found = []
        for keys in size.of((1, 100), (1, 100, 10_000), (1, 100, 10_000, 100_000)):
            frame = in_partitions(4, events, keys, text_keys=text_keys)
            found.append(measured(running, query, frame, size=size, events=len(frame), yardstick=frame,
                                  key="text" if text_keys else "int", partitions=keys))  # fmt: skip
        hundred = select(found, partitions=100)[0].get("cpu_s")
        for row in found:
            both = hundred and row.get("cpu_s")
            yield {**row, "times_100": row["cpu_s"] / hundred if both else None}


def conclusions(rows: Rows) -> str:
    """How the number and the type of keys change the time."""
    texts = [
        f"{key} keys {span([row['times_100'] for row in found], '×')}"
        for key in ("int", "text")
        if (found := [row for row in select(rows, key=key) if row.get("times_100")])
    ]
    most = max(row["partitions"] for row in rows)
    return (
        f"**Partitions.** Over 1 to {most:,} partitions, time is {' and '.join(texts)} of that of 100 "
        "partitions with keys of the same type."
    )


EXPERIMENT = Experiment(
    "partitions",
    "Partitions",
    "What do many partitions cost?",
    "Fig. 4's chain of 4 symbols for each key, equal numbers of rows, mixed in order of time; one thread.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
