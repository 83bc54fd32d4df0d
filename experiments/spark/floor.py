"""Streaming and batch beside Spark's own floor, in one run.

    python benchmarks/spark/beside_the_floor.py [stream|small|batch|sliced] …

- ``stream``: micro-batches of a million rows by bucket, with matching, beside a function that does
  nothing but has the same grouping, columns and a state of the same size.
- ``small``: the shortest micro-batch, 100 rows of 10 keys, beside the same.
- ``batch``: two million rows of 100,000 keys, beside a shuffle with a function that does nothing,
  and beside the window functions of SQL for the intervals alone.
- ``sliced``: one stream without partitions, in one task and in slices of time.

Results go to ``results/beside_the_floor.json``.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from piestream.language import parse
from piestream.spark import session, streaming
from piestream.spark.state import BucketStep
from piestream.spark.worker_plan import BUCKETS

RESULTS = Path(__file__).parent / "results" / "beside_the_floor.json"

QUERY = parse(
    """FROM s PARTITION BY k ORDER BY t
DEFINE a AS x > 0.6, b AS y > 0.6, c AS x + y < 0.7
PATTERN a overlaps; during; starts; meets b AND b before; meets c
WITHIN 30 s
RETURN a.ts, b.ts, b.te, c.ts, AVG(b.y) AS y"""
)
ONE = parse(str(QUERY).replace(" PARTITION BY k", ""))


def rows(keys: int, count: int, first: int = 0, seed: int = 0) -> pl.DataFrame:
    """Keys in turn, a second apart; values that stay for some ten events."""
    number = np.arange(first, first + count)
    key, second = number % keys, number // keys
    hashed = (key * 2654435761 + seed) % 1000003
    x = (np.sin(second * 0.55 + hashed) + 1) / 2
    y = (np.sin(second * 0.35 + hashed * 1.7) + 1) / 2
    start = np.datetime64("2024-01-01T00:00:00", "us")
    times = start + (second * 1_000_000).astype("timedelta64[us]")
    return pl.DataFrame({"k": key, "t": times, "x": x, "y": y})


class Nothing(BucketStep):
    """The floor: reads its rows, keeps a state of the same size, gives no result."""

    size = 0

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        for frame in frames:
            len(frame)
        if state.exists:
            len(state.get[0])
        # Spark compresses states, and piestream's are packed already
        state.update((np.random.default_rng(key[0]).bytes(self.size),))
        state.setTimeoutTimestamp(int(state.getCurrentWatermarkMs()) + 3_600_000)
        return iter(())


def floor_of(size: int) -> type[BucketStep]:
    """The do-nothing function with a state of so many bytes a bucket."""

    class Sized(Nothing):
        pass

    Sized.size = size
    return Sized


def played(spark: Any, source: Path, step: type[BucketStep]) -> tuple[list[float], int]:
    """Milliseconds of each micro-batch over the source's files, and the bytes of state."""
    folder = Path(tempfile.mkdtemp())
    streaming.BucketStep = step  # type: ignore[misc]
    frame = spark.readStream.schema("k bigint, t timestamp_ntz, x double, y double")
    frame = frame.option("maxFilesPerTrigger", 1).parquet(str(source))
    found = QUERY.run(frame, lateness="0 s")
    writer = found.writeStream.format("noop").option("checkpointLocation", str(folder))
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    streaming.BucketStep = BucketStep  # type: ignore[misc]
    progress = [p for p in running.recentProgress if p.numInputRows]
    held = [p.observedMetrics["piestream"]["state_bytes"] for p in progress]
    shutil.rmtree(folder)
    return [p.batchDuration for p in progress], max(held, default=0)


def stream(spark: Any, keys: int, count: int, batches: int) -> dict[str, Any]:
    """Micro-batches with matching beside the floor."""
    source = Path(tempfile.mkdtemp())
    for number in range(batches):
        path = source / f"{number:04}.parquet"
        rows(keys, count, number * count).write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)
    matching, floor = [], []
    played(spark, source, BucketStep)  # the JVM compiles as it goes: the first run is not measured
    for _ in range(2):  # one after the other, twice: the machine is not always the same
        times, held = played(spark, source, BucketStep)
        matching += times[1:]
        buckets = min(BUCKETS, keys)
        times, _ = played(spark, source, floor_of(held // buckets))
        floor += times[1:]
    shutil.rmtree(source)
    of_matching, of_floor = statistics.median(matching), statistics.median(floor)
    return {
        "what": "stream", "keys": keys, "rows": count, "state_bytes_a_key": round(held / keys),
        "matching_ms": of_matching, "floor_ms": of_floor,
        "matching_best_ms": min(matching), "floor_best_ms": min(floor),
        "matching_rows_per_s": round(1000 * count / of_matching),
        "floor_rows_per_s": round(1000 * count / of_floor),
        "throughput_of_floor": round(of_floor / of_matching, 2),
    }  # fmt: skip


def timed(work: Callable[[], Any], repeats: int = 3) -> float:
    """The shortest of several seconds."""
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def consumed(frame: Any) -> Callable[[], None]:
    """Work through a frame and keep nothing."""
    return lambda: frame.write.format("noop").mode("overwrite").save()


def batch(spark: Any, keys: int, count: int) -> dict[str, Any]:
    """A bounded frame with matching beside a shuffle that does nothing, and beside SQL."""
    path = Path(tempfile.mkdtemp())
    for number, part in enumerate(rows(keys, count).iter_slices(count // 4)):
        part.write_parquet(path / f"{number}.parquet")
    frame = spark.read.parquet(str(path))

    def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        return iter(())

    floor = (
        frame.selectExpr("k", "unix_micros(CAST(t AS TIMESTAMP)) AS t", "y",
                         "IF(x > 0.6, 1L, 0L) | IF(y > 0.6, 2L, 0L) | IF(x + y < 0.7, 4L, 0L) AS m")
        .repartition(2, "k").sortWithinPartitions("t")
        .mapInArrow(nothing, "k bigint")
    )  # fmt: skip
    frame.createOrReplaceTempView("events")
    islands = spark.sql(
        """SELECT k, min(t) AS ts, max(t) AS last, count(*) AS n FROM (
             SELECT *, sum(IF(x > 0.6 <=> was, 0, 1)) OVER (PARTITION BY k ORDER BY t) AS run
             FROM (SELECT *, lag(x > 0.6) OVER (PARTITION BY k ORDER BY t) AS was FROM events))
           WHERE x > 0.6 GROUP BY k, run"""
    )
    polars = rows(keys, count)
    taken = {
        "matching_s": timed(consumed(QUERY.run(frame))),
        "floor_s": timed(consumed(floor)),
        "sql_intervals_of_one_symbol_s": timed(consumed(islands)),
        "embedded_engine_s": timed(lambda: QUERY.run(polars)),
    }
    shutil.rmtree(path)
    return {
        "what": "batch", "keys": keys, "rows": count,
        **{name: round(seconds, 3) for name, seconds in taken.items()},
        "matching_rows_per_s": round(count / taken["matching_s"]),
    }  # fmt: skip


def sliced(spark: Any, count: int) -> dict[str, Any]:
    """One stream without partitions: one task, and slices of time."""
    path = Path(tempfile.mkdtemp())
    for number, part in enumerate(rows(1, count).iter_slices(count // 4)):
        part.write_parquet(path / f"{number}.parquet")
    frame = spark.read.parquet(str(path))
    one = timed(consumed(ONE.run(frame)), 2)
    cut = timed(lambda: consumed(ONE.run(frame, slices=4))(), 2)
    same = ONE.run(frame).count() == ONE.run(frame, slices=4).count()
    shutil.rmtree(path)
    return {"what": "sliced", "rows": count, "one_task_s": round(one, 2),
            "four_slices_s": round(cut, 2), "same_count": same}  # fmt: skip


PARTS: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
    "stream": lambda s: [stream(s, keys, 1_000_000, 6) for keys in (100, 10_000, 100_000)],
    "small": lambda s: [stream(s, 10, 100, 12)],
    "batch": lambda s: [batch(s, keys, 2_000_000) for keys in (100, 100_000)],
    "sliced": lambda s: [sliced(s, 2_000_000)],
}


def main(wanted: list[str]) -> None:
    """Measure, print, and write the results."""
    spark = session("local[2]", spark__ui__enabled="false", spark__driver__memory="6g",
                    spark__ui__showConsoleProgress="false", spark__log__level="ERROR",
                    spark__driver__host="127.0.0.1")  # fmt: skip
    spark.range(10).repartition(2).mapInArrow(lambda b: b, "id bigint").count()
    held: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in wanted or list(PARTS):
        before = os.getloadavg()[0]
        found = PARTS[part](spark)
        held[part] = {
            "results": found, "load_before": before, "load_after": os.getloadavg()[0],
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        for result in found:
            print(json.dumps(result))
    held["machine"] = {
        "cores": os.cpu_count(), "python": platform.python_version(), "spark": spark.version,
        "polars": pl.__version__,
    }  # fmt: skip
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(held, indent=1) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
