"""Equal rows in 1 to 100,000 partitions, whose rows are mixed in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import chain, in_partitions

TITLE = "Partitions"
COLUMNS = ("key", "partitions", "events", "matches", "wall_s", "cpu_s", "events_per_s",
           "times_100", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a number and type of keys; ``times_100`` compares with 100 keys of that type."""
    events = scale.of(2_000, 500_000, 2_000_000)
    query = chain(4, partition_by="key")
    for text_keys in (False, True):
        measured = []
        for keys in scale.of((1, 100), (1, 100, 10_000), (1, 100, 10_000, 100_000)):
            frame = in_partitions(4, events, keys, text_keys=text_keys)
            measured.append(
                compared(partial(query.run, frame), scale, len(frame),
                         Yardstick(frame), key="text" if text_keys else "int", partitions=keys)
            )  # fmt: skip
        hundred = next(row["cpu_s"] for row in measured if row["partitions"] == 100)
        yield from ({**row, "times_100": row["cpu_s"] / hundred} for row in measured)
