"""The streaming job: sources, sinks, progress, stop, and the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from piestream.generators import fleet
from piestream.query import parse
from piestream.spark.ends import parsed_end
from piestream.spark.job import Job, run_job
from tests.spark.conftest import SETTINGS
from tests.spark.streams import rows_of

CARS = parse(
    """FROM cars PARTITION BY car_id ORDER BY ts
DEFINE a AS accel > 1, s AS speed > 45 PATTERN a overlaps; during; starts; finishes s
WITHIN 60 s RETURN a.ts, s.ts, s.te"""
)
_ROOT = Path(__file__).parents[2]


def _job(folder: Path, source: str, sink: str, **more: Any) -> Job:
    options = more.pop("source_options", {})
    return Job(
        query=more.pop("query", CARS),
        source=parsed_end(source, options, is_source=True),
        sink=parsed_end(sink, {}, is_source=False),
        checkpoint=str(folder / "checkpoint"),
        **more,
    )


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_a_job_reads_and_writes_files(spark: Any, tmp_path: Path, kind: str) -> None:
    cars = fleet(cars=30, seconds=100, seed=3)
    source = tmp_path / "source"
    source.mkdir()
    if kind == "json":
        cars.write_ndjson(source / "cars.json")
    else:
        cars.write_csv(source / "cars.csv", include_header=False)
    schema = ("car_id int, ts timestamp_ntz, speed double, accel double, lateral double, "
              "lane tinyint, position double")  # fmt: skip
    job = _job(
        tmp_path, f"{kind}:{source}", f"table:cars_{kind}", schema=schema, available_now=True,
        rest=parsed_end(f"table:cars_{kind}", {}, is_source=False),
    )  # fmt: skip
    said: list[str] = []
    run_job(spark, job, said.append)
    expected = CARS.run(cars)
    found = rows_of(spark.table(f"cars_{kind}"))
    assert len(expected) > 5
    order = expected.columns
    assert found.cast(dict(expected.schema)).sort(order).equals(expected.sort(order))  # type: ignore[arg-type]
    assert f"{len(cars):,} rows" in said[0]
    assert "late" in said[0]
    assert "matches" in said[0]


def test_columns_can_be_made_of_a_source_that_has_others(
    spark: Any, tmp_path: Path, capfd: Any
) -> None:
    query = parse("FROM r PARTITION BY k ORDER BY timestamp DEFINE a AS v < 5 PATTERN a "
                  "WITHIN 60 s RETURN a.ts")  # fmt: skip
    job = _job(
        tmp_path, "rate:50", "console", query=query,
        select=("timestamp", "value % 3 AS k", "value % 10 AS v"),
    )  # fmt: skip
    frame = job.source.stream(spark, None).selectExpr(*job.select)
    assert query.run(frame).columns == ["k", "detected_at", "a_ts"]


def test_ends_are_refused_with_what_can_be_written() -> None:
    for text, is_source in (("avro:x", True), ("rate:5", False), ("console", True)):
        with pytest.raises(ValueError, match="one of parquet"):
            parsed_end(text, {}, is_source=is_source)
    with pytest.raises(ValueError, match="needs a place"):
        parsed_end("parquet:", {}, is_source=True)


def test_sparks_connector_for_kafka_is_explained(spark: Any, tmp_path: Path) -> None:
    job = _job(tmp_path, "kafka:topic@localhost:9092", "console")
    with pytest.raises(ValueError, match=r"--packages.*kafka-python"):
        run_job(spark, job)


def test_the_command_line_says_what_is_wrong(tmp_path: Path) -> None:
    from piestream.cli.app import app

    file = tmp_path / "query.sql"
    file.write_text(str(CARS))
    base = ["stream", str(file), "--checkpoint", str(tmp_path / "c")]
    wrong = CliRunner().invoke(app, [*base, "--source", "nope:x", "--sink", "console"])
    assert wrong.exit_code == 1
    assert "a source is one of" in wrong.output
    file.write_text("FROM x DEFINE")
    wrong = CliRunner().invoke(app, [*base, "--source", "rate:5", "--sink", "console"])
    assert wrong.exit_code == 1


def test_a_signal_stops_a_job_after_its_micro_batch(tmp_path: Path) -> None:
    """From the command line, in a process of its own."""
    cars = fleet(cars=10, seconds=120, seed=3)
    source = tmp_path / "source"
    source.mkdir()
    for number, part in enumerate(cars.iter_slices(len(cars) // 3 + 1)):
        part.write_parquet(source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    file = tmp_path / "query.sql"
    file.write_text(str(CARS))
    settings = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
    job = subprocess.Popen(
        [sys.executable, "-m", "piestream.spark", str(file), f"--source=parquet:{source}",
         "--source-option=maxFilesPerTrigger=1", f"--sink=parquet:{tmp_path / 'sink'}",
         f"--checkpoint={tmp_path / 'checkpoint'}", "--buckets=3", "--master=local[2]", *settings],
        cwd=_ROOT, env={**os.environ, "PYTHONWARNINGS": "ignore"}, start_new_session=True,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert job.stderr is not None
    lines = []
    for line in job.stderr:
        lines.append(line)
        if line.startswith("batch 0 "):
            job.send_signal(signal.SIGTERM)
            break
    _, rest = job.communicate(timeout=120)
    text = "".join(lines) + rest
    assert job.returncode == 0, text
    assert "spark.sql.shuffle.partitions = 2" in text, "local settings are printed"
    assert "stopping after this micro-batch" in text
    commits = sorted(p.name for p in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    offsets = sorted(p.name for p in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert commits == offsets, "the micro-batch that was running came to its end"
    assert commits[0] == "0"
