"""The dissertation's parallel runs over Spark: partitions, and one stream cut into slices."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import piestream as ps
from experiments.cells import apart
from experiments.experiment import Experiment, select, table
from experiments.measure import Row, Rows, Size
from experiments.streams import SEED
from experiments.threads import SYMBOLS, chain_query, keyed
from piestream.generators import booleans

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Slices pay where they own several times the window.
WINDOW = 1_000


def kept_to(cores: int) -> None:
    """Keep this process, and all that it will start, to so many cores, where the system can.

    The workers are processes beside the JVM: on a Spark of one core they would have another core to
    themselves.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def quickest(once: Callable[[], Row], runs: int) -> Row:
    """Of several runs the one that was over first.

    >>> quickest(partial(next, iter([{"wall_s": 3.0}, {"wall_s": 2.0}])), 2)
    {'wall_s': 2.0}
    """
    return min((once() for _ in range(runs)), key=lambda row: row["wall_s"])


def running(path: str, keyed: bool, cores: int, slices: int | None, runs: int) -> Callable[[], Row]:
    """Runs on a local Spark of so many cores: its start and a warm run are not measured."""
    from piestream.spark.job.local import session

    kept_to(cores)
    # The JVM must not make threads for cores that it is not given.
    os.environ["JDK_JAVA_OPTIONS"] = f"-XX:ActiveProcessorCount={cores}"
    spark: Any = session(f"local[{cores}]", spark__ui__enabled="false", spark__driver__memory="2g")
    spark.sparkContext.setLogLevel("ERROR")
    query = chain_query("PARTITION BY key" if keyed else "", WINDOW)
    options: dict[str, Any] = {} if slices is None else {"slices": slices}

    def once() -> Row:
        before = time.perf_counter()
        count = query.run(spark.read.parquet(path), **options).count()
        return {"matches": count, "wall_s": time.perf_counter() - before}

    once()
    return partial(quickest, once, runs)


def embedded(path: str, keyed: bool, runs: int) -> Callable[[], Row]:
    """The same query without Spark, from the same file, on one thread."""
    query = chain_query("PARTITION BY key" if keyed else "", WINDOW)
    query_of = partial(ps.Query.run, query, threads=1)
    kept_to(1)

    def once() -> Row:
        import polars as pl

        before = time.perf_counter()
        return {"matches": len(query_of(pl.read_parquet(path))),
                "wall_s": time.perf_counter() - before}  # fmt: skip

    once()
    return partial(quickest, once, runs)


def there() -> str | None:
    """Why there is no Spark here; None if there is."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install 'piestream[spark]'"
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        return "Spark needs Java 17"
    return None


def measured(
    prepare: Callable[..., Callable[[], Row]], *given: Any, size: Size, wall: float
) -> Row:
    """What runs by their own clock say; ended, with all that they started, when it takes too long."""
    return apart(prepare, *given, size=size, told=dict, once=True, wall=wall)


def rows(size: Size) -> Iterator[Row]:
    """A row a kind of stream, number of slices and number of cores."""
    events, keys = size.of((4_000, 4), (400_000, 200), (10_000_000, 1_000))
    runs, wall = size.of((1, 60.0), (2, 60.0), (2, 240.0))
    missing = there() or ("a JVM takes longer than the tiny size" if size is Size.TINY else None)
    folder = Path(mkdtemp())
    try:
        for kind, frame in (
            ("partitions", keyed(events, keys)),
            ("one stream", booleans(SYMBOLS, events, SEED)),
        ):
            path = str(folder / f"{kind}.parquet")
            frame.write_parquet(path, row_group_size=max(events // 8, 1_000))
            told: Row = {"kind": kind, "events": events, "seed": SEED}
            by_key = kind == "partitions"
            yield {**told, "cores": 1, "way": "without Spark",
                   **measured(embedded, path, by_key, runs, size=size, wall=wall)}  # fmt: skip
            for slices in (None,) if by_key else (None, 4):
                for cores in (1, 2):
                    way = "Spark" if slices is None else f"Spark, {slices} slices"
                    load = os.getloadavg()[0]
                    row = (
                        {"refused": missing}
                        if missing
                        else measured(
                            running, path, by_key, cores, slices, runs, size=size, wall=wall
                        )
                    )
                    yield {**told, "cores": cores, "way": way, "load": load, **row}
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
            f"{wall:.2f}" if wall else _why_not(row),
            f"{single['wall_s'] / wall:.2f}" if wall and single.get("wall_s") else "–",
            f"{row['matches']:,}" if "matches" in row else "–",
            f"{row['load']:.1f}" if "load" in row else "–",
        ])  # fmt: skip
    return f"{rows[0]['events']:,} events:\n\n" + table(
        ["stream", "way", "cores", "wall s", "speed-up", "matches", "load before"], lines
    )


def _why_not(row: Row) -> str:
    """What stands where no time does.

    >>> _why_not({"over": "60 s by the wall clock"}), _why_not({"refused": "no Java"})
    ('> 60 s by the wall clock', 'no Java')
    """
    return f"> {row['over']}" if "over" in row else str(row.get("refused") or row.get("failed"))


def meaning(rows: Rows) -> str:
    """Speed-ups, and that the embedded engine is faster."""
    told = []
    for kind, way in dict.fromkeys((row["kind"], row["way"]) for row in rows):
        here = [row for row in select(rows, kind=kind, way=way) if row.get("wall_s")]
        if len(here) == 2:
            told.append(f"{kind}, {way}: {here[0]['wall_s'] / here[1]['wall_s']:.2f}")
    counts = {
        len({row["matches"] for row in select(rows, kind=kind) if "matches" in row})
        for kind in ("partitions", "one stream")
    }
    same = "the same in all ways" if counts == {1} else "NOT the same in all ways"
    size = (
        "" if max(row["events"] for row in rows) > 1_000_000
        else " (At this size most of a run is Spark's own: planning, and starting tasks that have "
        "little to do; `--full` has 10,000,000 events.)"
    )  # fmt: skip
    return (
        f"**What it means.** Speed-up of two cores over one: {'; '.join(told) or 'not measured'}; "
        f"matches are {same}.{size} A stream without partitions is one task unless it is cut into "
        "slices: each reads a window more than it owns, and the frame is read again to find where "
        "to cut. Two cores is all there is here; what eight or a cluster give is not shown. "
        "Memory is that of the JVM and its workers, and is not compared. Time by the clock on the "
        "wall means something where the load before (of the machine, over a minute) is below its two "
        "cores: what else runs takes the second core away from whom it was given to.\n\n"
        "**Where we lose.** To ourselves: where one machine holds the data, the engine without Spark "
        "is the one to take. The dissertation's threads share buffers; Spark's tasks share nothing, "
        "and read the overlap of slices twice."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars."""
    axes = figure.subplots()
    shown = [row for row in rows if row.get("wall_s")][::-1]
    axes.barh([f"{row['kind']}, {row['way']}, {row['cores']} cores" for row in shown],
              [row["wall_s"] for row in shown])  # fmt: skip
    axes.set(xlabel="wall-clock seconds")


EXPERIMENT = Experiment(
    "spark",
    "The dissertation's Fig. 5.16 and 5.19: parallel runs on Spark",
    "What do two cores give instead of one, with partitions and with one stream in slices?",
    f"Fig. 4's chain of {SYMBOLS} symbols, WITHIN {WINDOW:,}, from a Parquet file; `Query.run` on a "
    "Spark frame, on a local Spark of one core and of two, the JVM and its workers kept to as many; "
    "with `PARTITION BY`, and without it as one task or in four slices of time. Spark's start and a "
    "first run are not measured; the better of two runs, by the clock on the "
    "wall. A cell is ended, its JVM with it, after 60 s (240 with `--full`).",
    rows,
    tables,
    meaning,
    draw,
    (7.5, 3.0),
)
