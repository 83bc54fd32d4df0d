"""The dissertation's parallel runs over Spark: partitions, and one stream cut into slices."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import polars as pl

from experiments.benchmarks.threads import SYMBOLS, chain_query
from experiments.harness.experiment import Experiment
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES, load
from experiments.harness.tables import markdown_table, part, select, why_not
from experiments.spark.local import missing, on_cores, session
from experiments.streams import SEED, booleans, in_partitions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Slices pay where they own several times the window.
WINDOW = 1_000
PARTITIONS, ONE_STREAM = "partitions", "one stream"


def quickest(once: Callable[[], Row], runs: int) -> Row:
    """Of several runs the one that was over first.

    >>> quickest(partial(next, iter([{"wall_s": 3.0}, {"wall_s": 2.0}])), 2)
    {'wall_s': 2.0}
    """
    return min((once() for _ in range(runs)), key=lambda row: row["wall_s"])


def on_spark(
    path: str, by_key: bool, cores: int, slices: int | None, runs: int
) -> Callable[[], Row]:
    """Runs on a local Spark of so many cores: its start and a first run are not measured."""
    spark = session(cores)
    query = chain_query("key" if by_key else "", WINDOW)
    options: dict[str, Any] = {} if slices is None else {"slices": slices}

    def once() -> Row:
        before = time.perf_counter()
        count = query.run(spark.read.parquet(path), **options).count()
        return {"matches": count, "wall_s": time.perf_counter() - before}

    once()
    return partial(quickest, once, runs)


def embedded(path: str, by_key: bool, runs: int) -> Callable[[], Row]:
    """The same query without Spark, from the same file, on one thread."""
    query = chain_query("key" if by_key else "", WINDOW)
    on_cores(1)

    def once() -> Row:
        before = time.perf_counter()
        found = query.run(pl.read_parquet(path), threads=1)
        return {"matches": len(found), "wall_s": time.perf_counter() - before}

    once()
    return partial(quickest, once, runs)


def rows(size: Size) -> Iterator[Row]:
    """A row a kind of stream, number of slices and number of cores."""
    events, keys = size.of((4_000, 4), (400_000, 200), (10_000_000, 1_000))
    runs, wall_limit = size.of((1, 60.0), (2, 60.0), (2, 240.0))
    reason = missing(size)

    def measured(prepare: Callable[..., Callable[[], Row]], *given: Any) -> Row:
        row = isolated(
            prepare, *given, runs, size=size, describe=dict, once=True, wall_limit=wall_limit
        )
        # By its own clock: of the process that starts Spark, nothing else says anything.
        return {key: row[key] for key in row if key not in ("cold_cpu_s", "cold_wall_s", "runs")}

    folder = Path(mkdtemp())
    try:
        for kind, frame in (
            (PARTITIONS, in_partitions(SYMBOLS, events, keys)),
            (ONE_STREAM, booleans(SYMBOLS, events, SEED)),
        ):
            path = str(folder / f"{kind}.parquet")
            frame.write_parquet(path, row_group_size=max(events // 8, 1_000))
            by_key = kind == PARTITIONS
            about: Row = {"kind": kind, "events": events, "seed": SEED}
            yield {**about, "cores": 1, "way": "without Spark", **measured(embedded, path, by_key)}
            for slices in (None,) if by_key else (None, 4):
                for cores in (1, 2):
                    way = "Spark" if slices is None else f"Spark, {slices} slices"
                    row = (
                        {"refused": reason, "load": load()}
                        if reason
                        else measured(on_spark, path, by_key, cores, slices)
                    )
                    yield {**about, "cores": cores, "way": way, **row}
    finally:
        shutil.rmtree(folder)


def tables(rows: Rows) -> str:
    """Wall-clock times."""
    lines = []
    for row in rows:
        single = select(rows, kind=row["kind"], way=row["way"], cores=1)[0]
        wall = row.get("wall_s")
        lines.append([
            row["kind"], row["way"], row["cores"],
            f"{wall:.2f}" if wall else str(row.get("refused") or why_not(row)),
            f"{single['wall_s'] / wall:.2f}" if wall and single.get("wall_s") else "–",
            part(row["matches"]) if "matches" in row else "–",
            f"{row['load']:.1f}" if "load" in row else "–",
        ])  # fmt: skip
    head = ["stream", "way", "cores", "wall s", "speed-up", "matches", "load before"]
    return f"{rows[0]['events']:,} events:\n\n" + markdown_table(head, lines)


def conclusions(rows: Rows) -> str:
    """Speed-ups, and Spark beside the engine without it."""
    speed_ups, beside = [], []
    for kind, way in dict.fromkeys((row["kind"], row["way"]) for row in rows):
        here = [row for row in select(rows, kind=kind, way=way) if row.get("wall_s")]
        alone = select(rows, kind=kind, way="without Spark")[0].get("wall_s")
        if len(here) == 2:
            speed_ups.append(f"{kind}, {way}: {here[0]['wall_s'] / here[1]['wall_s']:.2f}×")
            if alone:
                beside.append(
                    f"{kind}, {way} on {here[1]['cores']} cores: {here[1]['wall_s'] / alone:.2f}×"
                )
    counts = {
        len({row["matches"] for row in select(rows, kind=kind) if "matches" in row})
        for kind in (PARTITIONS, ONE_STREAM)
    }
    same = "the same in all ways" if counts == {1} else "**not the same in all ways**"
    return (
        f"**Speed-up** of two cores over one: {'; '.join(speed_ups) or 'not measured'}; matches are {same}."
        f"\n\n**Where Spark loses or wins.** Its time over that of the engine without Spark on one core: "
        f"{'; '.join(beside) or 'not measured'}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars."""
    axes = figure.subplots()
    shown = [row for row in rows if row.get("wall_s")][::-1]
    names = [
        f"{row['kind']}, {row['way']}, {row['cores']} core{'s' * (row['cores'] > 1)}"
        for row in shown
    ]
    colours = ["#d62728" if row["way"] == "without Spark" else "#1f77b4" for row in shown]
    axes.barh(names, [row["wall_s"] for row in shown], color=colours)
    axes.set(xlabel="wall-clock seconds")
    axes.grid(False, axis="y")


EXPERIMENT = Experiment(
    "spark_cores",
    "The dissertation's Fig. 5.16 and 5.19: parallel runs on Spark",
    "What do two cores give instead of one, with partitions and with one stream in slices?",
    f"Fig. 4's chain of {SYMBOLS} symbols, WITHIN {WINDOW:,}, from a Parquet file; `Query.run` on a "
    "Spark frame, on a local Spark of one core and of two, the JVM and its workers kept to as many; "
    "with `PARTITION BY`, and without it as one task or in four slices of time (each reads a window "
    "more than it owns). Spark's start and a first run are not measured; the better of two runs, "
    "wall-clock time. A cell is ended, its JVM with it, after 60 s (240 with `--full`). Memory is that "
    "of the JVM and its workers, and is not compared.",
    rows,
    tables,
    conclusions,
    draw,
    (7.5, 3.0),
    rooms=(*QUERIES, "spark"),
)
