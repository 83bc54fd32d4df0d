"""The dissertation's partition-parallel speed-up, with threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numba import njit

import piestream as ps
from experiments.cells import apart
from experiments.experiment import Experiment, megabytes, milliseconds, select, table
from experiments.measure import Row, Rows, Size
from experiments.streams import SEED, chain
from piestream.generators import booleans
from piestream.relations import names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYMBOLS = 12
#: A loop beside it, to see what two threads can be at all.
CONTROL = "control, a bare loop"


def chain_query(partition: str = "PARTITION BY key", window: int = 10_000) -> ps.Query:
    """The chain of Fig. 4, for each key by itself or for one stream."""
    columns = [f"a{at + 1}" for at in range(SYMBOLS)]
    clauses = [f"a{x + 1} {';'.join(names(r))} a{y + 1}" for x, y, r in chain(SYMBOLS).constraints]
    return ps.query(
        f"FROM s {partition} ORDER BY ts DEFINE {', '.join(f'{c} AS {c}' for c in columns)} "
        f"PATTERN {' AND '.join(clauses)} WITHIN {window} RETURN a1.ts"
    )


def keyed(events: int, keys: int) -> pl.DataFrame:
    """One stream cut into as many pieces as keys, which run side by side: rows mixed, by time."""
    length = events // keys
    order = np.arange(length * keys).reshape(keys, length).T.ravel()
    return booleans(SYMBOLS, length * keys, SEED)[order].with_columns(
        pl.Series("ts", np.repeat(np.arange(length), keys)),
        pl.Series("key", np.tile(np.arange(keys), length)),
    )


def running(query: ps.Query, frame: pl.DataFrame, threads: int) -> Callable[[], pl.DataFrame]:
    """A run of the query on some threads."""
    query.run(frame.head(1_000), threads=threads)
    return partial(query.run, frame, threads=threads)


def spinning(turns: int, threads: int) -> Callable[[], None]:
    """A run of the control."""
    shared_out(10, threads)
    return partial(shared_out, turns, threads)


def _found(found: pl.DataFrame) -> Row:
    return {"matches": len(found)}


def rows(size: Size) -> Iterator[Row]:
    """A row an order of rows and number of threads."""
    events, keys = size.of((4_000, 4), (400_000, 200), (20_000_000, 1_000))
    query, mixed = chain_query(), keyed(events, keys)
    numbers = [at for at in (1, 2, 4, 8, 16) if at <= size.of(2, os.cpu_count(), os.cpu_count())]
    told: Row = {"events": mixed.height, "keys": keys, "seed": SEED}
    for order in ("mixed", "by key"):
        frame = mixed if order == "mixed" else mixed.sort("key", "ts")
        for threads in numbers:
            load = os.getloadavg()[0]
            row = apart(running, query, frame, threads, size=size, told=_found)
            yield {"order": order, "threads": threads, "load": load, **told, **row}
    turns = size.of(10_000, 20_000_000, 200_000_000)
    for threads in numbers:
        load = os.getloadavg()[0]
        row = apart(spinning, turns, threads, size=size)
        yield {"order": CONTROL, "threads": threads, "load": load, **told, **row}


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
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


def tables(rows: Rows) -> str:
    """Wall-clock time, CPU time, and their ratio."""
    lines = []
    for row in rows:
        single = select(rows, order=row["order"], threads=1)[0]
        lines.append([row["order"], row["threads"], milliseconds(row["wall_s"]),
                      milliseconds(row["cpu_s"]), f"{single['wall_s'] / row['wall_s']:.2f}",
                      f"{row['cpu_s'] / single['cpu_s']:.2f}",
                      megabytes(row.get("peak_growth_bytes")), f"{row['load']:.1f}"])  # fmt: skip
    head = [
        "rows",
        "threads",
        "wall ms",
        "CPU ms",
        "speed-up (wall)",
        "CPU over one thread",
        "MB beyond input",
        "load",
    ]
    return f"{rows[0]['events']:,} events, {rows[0]['keys']:,} keys:\n\n" + table(head, lines)


def meaning(rows: Rows) -> str:
    """What can be said on this machine."""
    same = len({row["matches"] for row in rows if "matches" in row}) == 1
    most = max(row["threads"] for row in rows)
    faster, dearer, gains = [], [], []
    for row in select(rows, threads=most):
        single = select(rows, order=row["order"], threads=1)[0]
        faster.append(f"{single['wall_s'] / row['wall_s']:.2f} ({row['order']})")
        if row["order"] != CONTROL:
            gains.append(single["wall_s"] / row["wall_s"])
        dearer.append(f"{row['cpu_s'] / single['cpu_s']:.2f}")
    return (
        "**What it means.** Only detection is shared out to threads; predicates and the splitting "
        "of mixed rows into partitions are Polars' (kept to one thread here). "
        f"With {most} threads the wall-clock speed-up is {' and '.join(faster)}, at "
        f"{' and '.join(dearer)} times the CPU time of one. Matches are the same"
        + (", whatever the number of threads" if same else " NOT")
        + ". This is the one experiment that needs wall-clock time, and it was run on a "
        f"machine of {most} cores or more under a load of {max(r['load'] for r in rows):.0f}: a "
        "speed-up below the number of threads says as much about the neighbours as about the "
        "engine. The control is a loop that shares nothing: what a second thread was good for on this "
        "machine at that moment. That CPU time hardly grows is what can be relied on.\n\n"
        "**Where we lose.** "
        + ("No speed-up was to be seen in this run. " if max(gains) < 1.2 else "")
        + "The dissertation reaches seven times on eight cores from preloaded "
        "data; this machine cannot show that. Spark: see the next experiment."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Speed-up over threads."""
    axes = figure.subplots()
    for order in dict.fromkeys(row["order"] for row in rows):
        here = select(rows, order=order)
        axes.plot([row["threads"] for row in here],
                  [here[0]["wall_s"] / row["wall_s"] for row in here], "o-", label=order)  # fmt: skip
    most = max(row["threads"] for row in rows)
    axes.plot([1, most], [1, most], ":", color="grey", label="ideal")
    axes.set(xlabel="threads", ylabel="speed-up, wall clock")
    axes.locator_params(axis="x", integer=True)
    axes.legend()


EXPERIMENT = Experiment(
    "threads",
    "The dissertation's Fig. 5.15: partition-parallel speed-up",
    "How much faster are many partitions on several threads?",
    f"Fig. 4's chain of {SYMBOLS} symbols for each key, a preloaded frame with its rows mixed or "
    "by key, `Query.run(frame, threads=n)`; beside it the same for a loop that shares nothing.",
    rows,
    tables,
    meaning,
    draw,
    (5.0, 3.4),
)
