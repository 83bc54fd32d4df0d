"""Tasks of a Spark job that hold up their stage: ``python -m examples.spark_tasks``.

The data is the event log of a job that runs here (it needs Java 17): a query of piestream on
Spark, over pumps of which one reports far more often than the others. With ``--log FILE`` a log
that is there is read; ``examples/spark_tasks.ndjson`` has what is needed of one, of two cores.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import polars as pl

import piestream as ps

JOB = """\
FROM readings PARTITION BY pump ORDER BY t
DEFINE hot AS temp > 8, loud AS noise > 90
PATTERN hot overlaps loud
WITHIN 60
"""

QUERY = """\
FROM tasks FROM ts TO te UNIT ms
WITH running FROM ts TO te UNIT ms
PARTITION BY stage
DEFINE task  AS tasks,
       alone AS running.count = 1
PATTERN alone finishes task
WITHIN 1 h
EMIT ON COMPLETION
WHERE DURATION(alone) > 100 ms
RETURN task.id, task.records, DURATION(task) AS lasted, alone.ts, DURATION(alone) AS waited
"""


def run_job(folder: Path, readings: int) -> Path:
    """Run the job, and give its event log. Four of five readings are those of one pump."""
    from pyspark.sql import functions as f

    from piestream.spark import session

    spark = session(
        "local[2]",
        spark__eventLog__enabled="true",
        spark__eventLog__dir=folder.as_uri(),
        spark__eventLog__compress="false",
        spark__eventLog__rolling__enabled="false",
        spark__sql__shuffle__partitions="8",
        spark__log__level="ERROR",
        spark__ui__showConsoleProgress="false",
    )
    row = f.col("id")
    frame = spark.range(readings).select(
        f.when(row % 10 < 8, 0).otherwise(row % 16).alias("pump"),
        row.alias("t"),
        (f.hash(row) % 100).alias("noise"),
        (row % 1000 / 100).alias("temp"),
    )
    ps.query(JOB).run(frame).count()
    spark.stop()
    (log,) = folder.glob("[!.]*")
    return log


def _tasks(lines: Iterable[str]) -> Iterator[dict[str, int]]:
    for line in lines:
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            task, read = event["Task Info"], event["Task Metrics"]["Shuffle Read Metrics"]
            yield {
                "stage": event["Stage ID"],
                "id": task["Task ID"],
                "records": read["Total Records Read"],
                "ts": task["Launch Time"],
                "te": max(task["Finish Time"], task["Launch Time"] + 1),
            }


def tasks(lines: Iterable[str]) -> pl.DataFrame:
    """The tasks of an event log: their stage, and when they ran, in milliseconds."""
    return pl.DataFrame(_tasks(lines)).sort("ts")


def held_up(ran: pl.DataFrame) -> pl.DataFrame:
    """The tasks at whose end nothing else of their stage was running."""
    found: pl.DataFrame = ps.query(QUERY).run({"tasks": ran, "running": ps.depth(ran, on="stage")})
    return found


def show(log: Path) -> None:
    """Print which tasks of a log were waited for."""
    with log.open(encoding="utf-8") as lines:
        ran = tasks(lines)
    print(f"{len(ran)} tasks in {ran['stage'].n_unique()} stages")
    for row in held_up(ran).sort("waited", descending=True).iter_rows(named=True):
        stage = ran.filter(stage=row["stage"])
        whole = stage.select(pl.col("te").max() - pl.col("ts").min()).item()
        print(
            f"stage {row['stage']} of {whole:,} ms waits {row['waited']:,} ms for task "
            f"{row['task_id']} alone, which read {row['task_records']:,} of "
            f"{stage['records'].sum():,} records"
        )


def main() -> None:
    """Run the job, or read the log that is given."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--log", type=Path)
    options.add_argument("--readings", type=int, default=4_000_000)
    given = options.parse_args()
    if given.log is not None:
        show(given.log)
        return
    with tempfile.TemporaryDirectory() as folder:
        show(run_job(Path(folder), given.readings))


if __name__ == "__main__":
    main()
