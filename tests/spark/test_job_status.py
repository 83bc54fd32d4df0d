"""The status of streaming queries: what Spark tells of them, added up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import piestream as ps
import piestream.spark
from piestream.demo.fleet import fleet
from piestream.errors import FileError
from piestream.spark.job.connectors import parse_connector
from piestream.spark.job.job import Job, run_job
from piestream.spark.job.sources import parse_sources
from tests.spark.streams import frame_of, rows_of

CARS = ps.query(
    """FROM cars PARTITION BY car_id ORDER BY ts
DEFINE a AS accel > 1, s AS speed > 45 PATTERN a overlaps; during; starts; finishes s
WITHIN 60 s RETURN a.ts, s.ts, s.te"""
)


def _source(spark: Any, folder: Path) -> tuple[Any, int]:
    cars = fleet(cars=20, seconds=100, seed=3)
    for number in range(3):
        frame_of(spark, cars[number::3]).write.mode("append").parquet(str(folder / "source"))
    return spark.read.parquet(str(folder / "source")).schema, len(cars)


def test_a_job_writes_its_status(spark: Any, tmp_path: Path) -> None:
    _, events = _source(spark, tmp_path)
    path = tmp_path / "cars.json"

    def job(**more: Any) -> Job:
        return Job(
            query=CARS,
            sources=parse_sources(CARS, [f"parquet:{tmp_path / 'source'}"]),
            sink=parse_connector(f"parquet:{tmp_path / 'found'}", {}, is_source=False),
            checkpoint=str(tmp_path / "checkpoint"),
            available_now=True,
            status=str(path),
            **more,
        )

    run_job(spark, job(), lambda line: None)
    status = ps.status(path)
    found = rows_of(spark.read.parquet(str(tmp_path / "found")))
    assert (status.name, status.kind, status.condition) == ("cars", "Spark job", "closed")
    assert status.numbers["events"] == events - status.numbers["waiting"]
    assert status.numbers["matches"] == len(found) > 5
    assert status.numbers["batches"] >= 1
    assert status.numbers["state_bytes"] > 0
    assert status.watermark is not None
    assert status.watermark.text[:4] == str(found["detected_at"].max())[:4]
    (last, *_) = reversed(status.last_matches)
    assert list(last) == found.columns
    assert last["detected_at"][:19] == str(found["detected_at"].max()).replace(" ", "T")[:19]
    path.write_text("precious")
    with pytest.raises(FileError, match="not overwritten"):
        run_job(spark, job(), lambda line: None)


def test_a_streaming_query_of_ones_own_is_published(spark: Any, tmp_path: Path) -> None:
    schema, events = _source(spark, tmp_path)
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "source"))
    found = CARS.run(frame, metrics="mine")
    running = (
        found.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    publisher = piestream.spark.publish(running, tmp_path / "cars.json", CARS, metrics="mine")
    assert ps.status(tmp_path / "cars.json").condition == "running"
    running.processAllAvailable()
    running.stop()
    publisher.stop("closed")
    status = ps.status(tmp_path / "cars.json")
    assert status.condition == "closed"
    assert status.numbers["events"] + status.numbers["waiting"] == events
    assert status.last_matches == ()


def test_a_query_that_fails_says_why(spark: Any, tmp_path: Path) -> None:
    schema, _ = _source(spark, tmp_path)
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "source"))
    broken = frame.selectExpr("car_id", "CAST(NULL AS timestamp_ntz) AS ts", "accel", "speed")
    running = (
        CARS.run(broken)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    publisher = piestream.spark.publish(running, tmp_path / "cars.json", CARS)
    with pytest.raises(Exception, match="the time column ts is NULL"):
        running.awaitTermination()
    publisher._thread.join(60)  # type: ignore[union-attr]  # it ends with the query
    status = ps.status(tmp_path / "cars.json")
    assert status.condition == "failed"
    assert status.fault
