"""One thread and two over the partitions of one frame.

``speed_up`` is of the wall clock, and says something only where a core was free for each thread.
``spread_s`` is the CPU time that was spent off the main thread, and ``speed_up_idle`` what follows
from it for an idle machine: the main thread's time, and of the rest each thread its share.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import chain, in_partitions
from piestream.language.model import Query

TITLE = "Threads over partitions"
COLUMNS = ("threads", "n", "partitions", "events", "matches", "wall_s", "wall_median", "cpu_s",
           "speed_up", "spread_s", "speed_up_idle", "ratio_to_yardstick")  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a number of threads, of partitions and of symbols; none where there is no option."""
    if "threads" not in inspect.signature(Query.run).parameters:
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
                main, spread = min(
                    _main_and_spread(partial(query.run, frame, threads=threads)) for _ in range(3)
                )
                yield {
                    **row,
                    "speed_up": single["wall_s"] / row["wall_s"],
                    "spread_s": spread,
                    "speed_up_idle": single["cpu_s"] / (main + spread / threads),
                }


def _main_and_spread(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds on this thread, and on all others."""
    all_before, own_before = time.process_time(), time.thread_time()
    work()
    own = time.thread_time() - own_before
    return own, time.process_time() - all_before - own
