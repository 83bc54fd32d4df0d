"""One thread and two over the partitions of one frame. Here it is the wall clock that counts."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from functools import partial

from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import chain, in_partitions
from piestream import frames

TITLE = "Threads over partitions"
COLUMNS = ("threads", "n", "partitions", "events", "matches", "wall_s", "wall_median", "cpu_s",
           "speed_up", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """``speed_up`` is of the wall clock, against one thread; nothing where there is no option."""
    if "threads" not in inspect.signature(frames.run).parameters:
        return
    events = scale.of(2_000, 1_000_000, 10_000_000)
    for n in scale.of((4,), (4, 24), (4, 24)):
        query = chain(n, partition_by="key")
        for partitions in scale.of((100,), (100, 10_000), (100, 10_000)):
            frame = in_partitions(n, events, partitions)
            yardstick = Yardstick(frame)
            single: Row | None = None
            expected = query.run(frame, threads=1)
            for threads in sorted({1, 2, os.cpu_count() or 1}):
                if not query.run(frame, threads=threads).equals(expected):
                    raise AssertionError(f"{threads} threads find other rows than one")
                row = compared(partial(query.run, frame, threads=threads), scale, len(frame),
                               yardstick, threads=threads, n=n, partitions=partitions)  # fmt: skip
                single = single or row
                yield {**row, "speed_up": single["wall_s"] / row["wall_s"]}
