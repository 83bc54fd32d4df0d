"""Threads over the partitions of one frame, and the dissertation's partition-parallel speed-up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from numba import njit

import piestream as ps
from experiments.benchmarks.common import counted, measured, running
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below, ticks_at
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import markdown_table, megabytes, milliseconds, select
from experiments.peers.pattern import Pattern
from experiments.streams import in_partitions, query_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = 12
#: A loop beside it, to see what several threads can be on this machine at all.
CONTROL = "control, a bare loop"


def chain_query(partition_by: str = "key", window: int = 10_000) -> ps.Query:
    """The chain of Fig. 4, for each key by itself or for one stream."""
    return query_of(Pattern.chain(SYMBOLS, window), returns="a1.ts", partition_by=partition_by)


def clocked(query: ps.Query, frame: Any, threads: int) -> Callable[[], Row]:
    """A run of the query with the CPU time on the main thread, and on all others."""
    run = running(query, frame, threads)

    def main_and_others() -> Row:
        everything, own = time.process_time(), time.thread_time()
        found = run()
        own = time.thread_time() - own
        return {**counted(found), "main_s": own, "others_s": time.process_time() - everything - own}

    return main_and_others


def spinning(turns: int, threads: int) -> Callable[[], None]:
    """A run of the control."""
    shared_out(10, threads)
    return partial(shared_out, turns, threads)


def _nothing(_: Any) -> Row:
    return {}


def rows(size: Size) -> Iterator[Row]:
    """A row an order of rows and number of threads."""
    events, keys = size.of((4_000, 4), (400_000, 200), (20_000_000, 1_000))
    query, mixed = chain_query(), in_partitions(SYMBOLS, events, keys)
    cores = os.cpu_count() or 1
    numbers = [at for at in (1, 2, 4, 8, 16) if at <= size.of(2, max(cores, 2), max(cores, 2))]
    for order in ("mixed", "by key"):
        frame = mixed if order == "mixed" else mixed.sort("key", "ts")
        for threads in numbers:
            yield measured(clocked, query, frame, threads, size=size, events=mixed.height, describe=dict,
                           order=order, threads=threads, keys=keys)  # fmt: skip
    turns = size.of(10_000, 20_000_000, 200_000_000)
    for threads in numbers:
        row = measured(spinning, turns, threads, size=size, events=mixed.height, describe=_nothing,
                       order=CONTROL, threads=threads, keys=keys)  # fmt: skip
        yield row


@njit(cache=True, nogil=True)
def _spin(turns: int) -> float:
    total = 0.0
    for turn in range(turns):
        total += turn % 7 * 0.5
    return total


def shared_out(turns: int, threads: int) -> None:
    """A loop that shares nothing, in equal parts on some threads: what the machine can give.

    >>> shared_out(10, 2)
    """
    workers = [Thread(target=_spin, args=(turns // threads,)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _kind(rows: Rows) -> str:
    """Warm, where all rows have a warm time, else cold: speed-ups are of one of them."""
    return "" if all(row.get("wall_s") for row in rows) else "cold_"


def _speed_up(rows: Rows, row: Row) -> tuple[float, float]:
    """Wall-clock speed-up over one thread, and CPU time over that of one."""
    here = select(rows, order=row["order"])
    kind = _kind(here)
    single = select(here, threads=1)[0]
    wall, cpu = f"{kind}wall_s", f"{kind}cpu_s"
    return single[wall] / row[wall], row[cpu] / single[cpu]


def tables(rows: Rows) -> str:
    """Wall-clock time, CPU time, and their ratios."""
    head = ["rows", "threads", "wall ms, warm / cold", "CPU ms, warm / cold", "off the main thread",
            "speed-up (wall)", "CPU over one thread", "MB beyond the input", "load"]  # fmt: skip
    lines = []
    for row in rows:
        faster, dearer = _speed_up(rows, row)
        cells = [f"{milliseconds(row.get(f'{value}_s'))} / {milliseconds(row.get(f'cold_{value}_s'))}"
                 for value in ("wall", "cpu")]  # fmt: skip
        others = row.get("others_s")
        share = "–" if others is None else f"{others / (others + row['main_s']):.0%}"
        lines.append([row["order"], row["threads"], *cells, share, f"{faster:.2f}", f"{dearer:.2f}",
                      megabytes(row.get("peak_growth_bytes")), f"{row['load']:.1f}"])  # fmt: skip
    return f"{rows[0]['events']:,} events, {rows[0]['keys']:,} keys.\n\n" + markdown_table(
        head, lines
    )


def conclusions(rows: Rows) -> str:
    """Speed-ups beside what the machine could give at that moment."""
    most = max(row["threads"] for row in rows)
    texts = []
    for row in select(rows, threads=most):
        faster, dearer = _speed_up(rows, row)
        texts.append(f"*{row['order']}* {faster:.2f}× at {dearer:.2f}× the CPU time")
    counts = {row["matches"] for row in rows if "matches" in row}
    same = "the same whatever their number" if len(counts) == 1 else "**not the same**"
    loads = [row["load"] for row in rows]
    return (
        f"**Speed-up** of {most} threads over one by wall-clock time: {'; '.join(texts)}. Matches are "
        f"{same}. Wall-clock times depend on what else runs: the load was {min(loads):.1f} to "
        f"{max(loads):.1f}, and the control shows what {most} threads could give at that moment."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Speed-up over threads."""
    axes = figure.subplots()
    numbers = sorted({row["threads"] for row in rows})
    for order in dict.fromkeys(row["order"] for row in rows):
        here = select(rows, order=order)
        axes.plot([row["threads"] for row in here], [_speed_up(rows, row)[0] for row in here], "o-",
                  label=order)  # fmt: skip
    axes.plot(numbers, numbers, ":", color="grey", label="ideal")
    axes.set(xlabel="threads", ylabel="speed-up, wall clock")
    ticks_at(axes, numbers)
    legend_below(figure, 2)


EXPERIMENT = Experiment(
    "threads",
    "The dissertation's Fig. 5.15: threads over partitions",
    "How much faster are many partitions on several threads?",
    f"Fig. 4's chain of {SYMBOLS} symbols for each key, a frame in memory with its rows mixed or by key, "
    "`Query.run(frame, threads=n)`; beside it the same for a loop that shares nothing. Only detection is "
    "shared out to threads; predicates and the splitting of mixed rows into partitions are kept to one "
    "thread here. The dissertation reaches seven times on eight cores.",
    rows,
    tables,
    conclusions,
    draw,
    (5.0, 3.8),
)
