"""Streaming and batch beside what Spark itself takes for the same rows."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from experiments import engine
from experiments.harness.experiment import Experiment
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.provenance import QUERIES, load
from experiments.harness.tables import markdown_table, part, select, why_not
from experiments.spark.local import missing, session
from experiments.streams import SEED

QUERY = (
    "FROM s PARTITION BY k ORDER BY t DEFINE a AS x > 0.6, b AS y > 0.6, c AS x + y < 0.7 "
    "PATTERN a overlaps; during; starts; meets b AND b before; meets c WITHIN 30 s "
    "RETURN a.ts, b.ts, b.te, c.ts, AVG(b.y) AS y"
)
_SCHEMA = "k bigint, t timestamp_ntz, x double, y double"


def waves(keys: int, count: int, first: int = 0) -> pl.DataFrame:
    """Keys in turn, a second apart; values that stay for some ten events.

    >>> waves(2, 3)["k"].to_list()
    [0, 1, 0]
    """
    number = np.arange(first, first + count)
    key, second = number % keys, number // keys
    hashed = (key * 2654435761 + SEED) % 1000003
    x = (np.sin(second * 0.55 + hashed) + 1) / 2
    y = (np.sin(second * 0.35 + hashed * 1.7) + 1) / 2
    start = np.datetime64("2024-01-01T00:00:00", "us")
    times = start + (second * 1_000_000).astype("timedelta64[us]")
    return pl.DataFrame({"k": key, "t": times, "x": x, "y": y})


def streaming(keys: int, count: int, batches: int) -> Callable[[], Row]:
    """Micro-batches with matching, and with a function that does nothing in its place."""
    spark = session(2, "6g")
    source = Path(tempfile.mkdtemp())
    for number in range(batches):
        path = source / f"{number:04}.parquet"
        waves(keys, count, number * count).write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)

    def once() -> Row:
        matching, floor, held = [], [], 0
        _batches(spark, source)  # the JVM compiles as it goes: the first run is not measured
        for _ in range(2):  # one after the other, twice: the machine is not always the same
            times, held = _batches(spark, source)
            matching += times[1:]
            idle = engine.idle_bucket_step(held // min(engine.spark_buckets(), keys))
            floor += _batches(spark, source, idle)[0][1:]
        shutil.rmtree(source)
        of_matching, of_floor = statistics.median(matching), statistics.median(floor)
        return {
            "state_bytes_a_key": round(held / keys),
            "matching_ms": of_matching, "floor_ms": of_floor,
            "matching_best_ms": min(matching), "floor_best_ms": min(floor),
            "matching_rows_per_s": round(1000 * count / of_matching),
            "floor_rows_per_s": round(1000 * count / of_floor),
            "throughput_of_floor": round(of_floor / of_matching, 2),
        }  # fmt: skip

    return once


def _batches(spark: Any, source: Path, step: type | None = None) -> tuple[list[float], int]:
    """Milliseconds of each micro-batch over the source's files, and the bytes of state."""
    folder = Path(tempfile.mkdtemp())
    with engine.bucket_step(step):
        frame = (
            spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(source))
        )
        found = ps.query(QUERY).run(frame, lateness="0 s")
        writer = found.writeStream.format("noop").option("checkpointLocation", str(folder))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
    progress = [p for p in running.recentProgress if p.numInputRows]
    held = [p.observedMetrics["piestream"]["state_bytes"] for p in progress]
    shutil.rmtree(folder)
    return [p.batchDuration for p in progress], max(held, default=0)


def batch(keys: int, count: int) -> Callable[[], Row]:
    """A bounded frame with matching, a shuffle that does nothing, SQL, and the engine by itself."""
    spark = session(2, "6g")
    path = Path(tempfile.mkdtemp())
    for number, rows in enumerate(waves(keys, count).iter_slices(count // 4)):
        rows.write_parquet(path / f"{number}.parquet")
    frame = spark.read.parquet(str(path))
    floor = (
        frame.selectExpr("k", "unix_micros(CAST(t AS TIMESTAMP)) AS t", "y",
                         "IF(x > 0.6, 1L, 0L) | IF(y > 0.6, 2L, 0L) | IF(x + y < 0.7, 4L, 0L) AS m")
        .repartition(2, "k").sortWithinPartitions("t")
        .mapInArrow(_nothing(), "k bigint")
    )  # fmt: skip
    frame.createOrReplaceTempView("events")
    islands = spark.sql(
        """SELECT k, min(t) AS ts, max(t) AS last, count(*) AS n FROM (
             SELECT *, sum(IF(x > 0.6 <=> was, 0, 1)) OVER (PARTITION BY k ORDER BY t) AS run
             FROM (SELECT *, lag(x > 0.6) OVER (PARTITION BY k ORDER BY t) AS was FROM events))
           WHERE x > 0.6 GROUP BY k, run"""
    )
    query, in_memory = ps.query(QUERY), waves(keys, count)

    def once() -> Row:
        taken = {
            "matching_s": _quickest(_consumed(query.run(frame))),
            "floor_s": _quickest(_consumed(floor)),
            "sql_intervals_of_one_symbol_s": _quickest(_consumed(islands)),
            "embedded_engine_s": _quickest(lambda: query.run(in_memory, threads=2)),
        }
        shutil.rmtree(path)
        return {**taken, "matching_rows_per_s": round(count / taken["matching_s"])}

    return once


def _nothing() -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function that gives nothing; local, so that it is sent to the workers by value."""

    def nothing(batches: Iterable[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        return iter(())

    return nothing


def _consumed(frame: Any) -> Callable[[], None]:
    """Work through a frame and keep nothing."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def _quickest(work: Callable[[], Any], runs: int = 3) -> float:
    """The shortest of several seconds."""
    found = []
    for _ in range(runs):
        before = time.perf_counter()
        work()
        found.append(time.perf_counter() - before)
    return min(found)


def rows(size: Size) -> Iterator[Row]:
    """A row a kind of work and number of keys."""
    reason = missing(size)
    events, small = size.of((100, 10), (100_000, 100), (1_000_000, 100))
    cases: list[tuple[str, Any, tuple[int, ...]]] = [
        *(("stream", streaming, (keys, events, size.of(2, 3, 6)))
          for keys in size.of((10,), (100, 10_000), (100, 10_000, 100_000))),
        ("stream", streaming, (10, small, size.of(2, 4, 12))),
        *(("batch", batch, (keys, 2 * events)) for keys in size.of((10,), (100,), (100, 100_000))),
    ]  # fmt: skip
    for what, prepare, given in cases:
        about: Row = {"what": what, "keys": given[0], "rows": given[1], "seed": SEED}
        if reason:
            yield {**about, "refused": reason, "load": load()}
            continue
        row = isolated(prepare, *given, size=size, describe=dict, once=True,
                       wall_limit=size.of(60.0, 180.0, 900.0))  # fmt: skip
        # By its own clock: of the process that starts Spark, nothing else says anything.
        yield {
            **about,
            **{key: row[key] for key in row if key not in ("cold_cpu_s", "cold_wall_s", "runs")},
        }


def tables(rows: Rows) -> str:
    """Micro-batches, and bounded frames."""
    streams = [
        [part(row["rows"]), part(row["keys"]), _of(row, "matching_ms"), _of(row, "floor_ms"),
         f"{row['throughput_of_floor']:.0%}" if "throughput_of_floor" in row else "–",
         _of(row, "matching_rows_per_s"), _of(row, "state_bytes_a_key"), f"{row['load']:.1f}"]
        for row in select(rows, what="stream")
    ]  # fmt: skip
    frames = [
        [part(row["rows"]), part(row["keys"]), _of(row, "matching_s"), _of(row, "floor_s"),
         _of(row, "sql_intervals_of_one_symbol_s"), _of(row, "embedded_engine_s"), f"{row['load']:.1f}"]
        for row in select(rows, what="batch")
    ]  # fmt: skip
    return "\n\n".join([
        "Streaming, median milliseconds of a micro-batch:",
        markdown_table(["rows", "keys", "with matching", "floor", "of the floor's throughput", "rows/s",
                        "state bytes a key", "load"], streams),
        "A bounded frame, seconds:",
        markdown_table(["rows", "keys", "with matching", "floor", "SQL, intervals of one symbol",
                        "the engine without Spark", "load"], frames),
    ])  # fmt: skip


def _of(row: Row, value: str) -> str:
    if value not in row:
        return str(row.get("refused") or why_not(row))
    return part(row[value]) if isinstance(row[value], int) else f"{row[value]:.3g}"


def conclusions(rows: Rows) -> str:
    """What of Spark's own throughput is left, and what Spark costs a bounded frame."""
    streams = [
        f"{part(row['rows'])} rows of {part(row['keys'])} keys {row['throughput_of_floor']:.0%}"
        for row in select(rows, what="stream")
        if "throughput_of_floor" in row
    ]
    frames = [
        f"{part(row['rows'])} rows of {part(row['keys'])} keys: {row['matching_s'] / row['floor_s']:.2f}× "
        f"the floor, {row['matching_s'] / row['sql_intervals_of_one_symbol_s']:.2f}× SQL that only finds the "
        f"intervals of one symbol, {row['matching_s'] / row['embedded_engine_s']:.2f}× the engine without Spark"
        for row in select(rows, what="batch")
        if "matching_s" in row
    ]
    return (
        f"**Streaming** keeps this share of the floor's throughput: {'; '.join(streams) or 'not measured'}."
        f"\n\n**A bounded frame** takes: {'; '.join(frames) or 'not measured'}."
    )


EXPERIMENT = Experiment(
    "spark_floor",
    "Spark's own floor",
    "What of the time on Spark is Spark's?",
    "*Streaming*: micro-batches by bucket, with matching, beside a function that does nothing but has the "
    "same grouping, the same columns and a state of the same size. *A bounded frame*: with matching, "
    "beside a shuffle with a function that does nothing, beside SQL window functions for the intervals "
    "of one symbol alone, and beside the engine without Spark on as many threads. Two cores, a warm JVM, "
    "wall-clock time.",
    rows,
    tables,
    conclusions,
    rooms=(*QUERIES, "spark"),
)
