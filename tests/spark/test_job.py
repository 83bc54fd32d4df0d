"""The streaming job: sources, sinks, progress, stop, and the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import polars as pl
import pytest
from typer.testing import CliRunner

from piestream.cli.app import app
from piestream.demo.fleet import fleet
from piestream.errors import StateError
from piestream.language import Query, parse
from piestream.language.options import SparkStreamOptions
from piestream.spark.job import command
from piestream.spark.job.checkpoint import RECORD
from piestream.spark.job.connectors import parse_connector
from piestream.spark.job.job import Job, run_job
from piestream.spark.job.sources import Source, parse_sources
from tests.spark.conftest import SETTINGS
from tests.spark.streams import Player, frame_of, rows_of

CARS = parse(
    """FROM cars PARTITION BY car_id ORDER BY ts
DEFINE a AS accel > 1, s AS speed > 45 PATTERN a overlaps; during; starts; finishes s
WITHIN 60 s RETURN a.ts, s.ts, s.te"""
)
_ROOT = Path(__file__).parents[2]


def _job(folder: Path, source: str, sink: str, **more: Any) -> Job:
    connector = parse_connector(source, more.pop("source_options", {}), is_source=True)
    return Job(
        query=more.pop("query", CARS),
        sources={"cars": Source(connector, more.pop("schema", None))},
        sink=parse_connector(sink, {}, is_source=False),
        checkpoint=str(folder / "checkpoint"),
        **more,
    )


SCHEMA = ("car_id int, ts timestamp_ntz, speed double, accel double, lateral double, "
          "lane tinyint, position double")  # fmt: skip


@pytest.mark.parametrize(
    ("source", "sink"), [("json", "csv"), ("csv", "orc"), ("orc", "json"), ("table", "table")]
)
def test_a_job_reads_and_writes(spark: Any, tmp_path: Path, source: str, sink: str) -> None:
    cars = fleet(cars=30, seconds=100, seed=3)
    (tmp_path / "source").mkdir()
    place, out = str(tmp_path / "source"), str(tmp_path / "sink")
    options = {}
    if source == "json":
        cars.write_ndjson(tmp_path / "source" / "cars.json")
    elif source == "csv":
        cars.write_csv(tmp_path / "source" / "cars.csv")
        options = {"header": "true"}
    elif source == "orc":
        frame_of(spark, cars).write.mode("overwrite").orc(place)
    else:
        place, out = "cars_in", "cars_found"
        frame_of(spark, cars).write.mode("overwrite").saveAsTable(place)
    job = _job(
        tmp_path, f"{source}:{place}", f"{sink}:{out}", available_now=True,
        schema=SCHEMA if source in ("json", "csv") else None, source_options=options,
        rest=parse_connector(f"{sink}:{out}" + ("" if sink == "table" else "_rest"), {}, is_source=False),
    )  # fmt: skip
    lines: list[str] = []
    run_job(spark, job, lines.append)
    expected = CARS.run(cars)
    if sink == "table":
        found = spark.table(out)
    else:
        columns = "car_id int, detected_at timestamp_ntz, a_ts timestamp_ntz, s_ts timestamp_ntz, s_te timestamp_ntz"
        found = spark.read.schema(columns).format(sink).load([out, out + "_rest"])
    assert len(expected) > 5
    order = expected.columns
    rows = rows_of(found)
    assert rows.columns == order
    assert rows.cast(dict(expected.schema)).sort(order).equals(expected.sort(order))  # type: ignore[arg-type]
    assert f"{len(cars):,} rows" in lines[0]
    assert "late" in lines[0]
    assert "matches" in lines[0]


def _command(program: list[str], folder: Path, query: Query, *more: str) -> list[str]:
    """A job from the command line, in a process of its own."""
    file = folder / "query.sql"
    file.write_text(str(query))
    settings = [f"--conf={name}={value}" for name, value in SETTINGS.items()]
    checkpoint = f"--checkpoint={folder / 'checkpoint'}"
    return [*program, str(file), checkpoint, "--buckets=3", *more, *settings]


def _process(command: list[str], **more: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "PYSPARK_PYTHON": sys.executable,
                   "PYTHONPATH": str(_ROOT)}  # fmt: skip
    return subprocess.Popen(
        command, cwd=_ROOT, env=environment, start_new_session=True, text=True,
        stderr=subprocess.PIPE, **more,
    )  # fmt: skip


@pytest.mark.usefixtures("spark_is_there")
def test_rows_at_a_rate_become_matches_on_the_console(tmp_path: Path) -> None:
    query = parse("FROM r PARTITION BY k ORDER BY timestamp DEFINE a AS v < 5 PATTERN a "
                  "WITHIN 60 s RETURN a.ts")  # fmt: skip
    job = _process(
        _command(
            [sys.executable, "-m", "piestream.spark"], tmp_path, query, "--source=rate:50",
            "--sink=console", "--select=timestamp", "--select=value % 3 AS k",
            "--select=value % 10 AS v", "--master=local[2]",
        ),
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert job.stdout is not None
    try:
        found = _until(job.stdout, 4, r"\|[012] +\|20\d\d-")
        job.send_signal(signal.SIGTERM)
        _, log = job.communicate(timeout=120)
    finally:
        _end(job)
    assert job.returncode == 0, log
    keys = {line.split("|")[1].strip() for line in found}
    assert keys <= {"0", "1", "2"}
    assert len(found) == 4
    assert " matches" in log


def _until(lines: IO[str], count: int, pattern: str) -> list[str]:
    """The first so many lines that hold a pattern."""
    return list(islice((line for line in lines if re.search(pattern, line)), count))


def _end(job: subprocess.Popen[str]) -> None:
    if job.poll() is None:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_spark_submit_runs_the_job(spark: Any, tmp_path: Path) -> None:
    import pyspark

    import piestream.spark

    cars = fleet(cars=10, seconds=100, seed=3)
    (tmp_path / "source").mkdir()
    cars.write_parquet(tmp_path / "source" / "cars.parquet")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = Path(piestream.spark.__file__).parent / "__main__.py"
    program = ["bash", str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false",
               str(script)]  # fmt: skip
    job = _process(
        _command(
            program, tmp_path, CARS, f"--source=parquet:{tmp_path / 'source'}", "--available-now",
            f"--sink=parquet:{tmp_path / 'sink'}", f"--rest=parquet:{tmp_path / 'rest'}",
        )
    )  # fmt: skip
    try:
        _, log = job.communicate(timeout=200)
    finally:
        _end(job)
    assert job.returncode == 0, log
    found = rows_of(spark.read.parquet(str(tmp_path / "sink"), str(tmp_path / "rest")))
    expected = CARS.run(cars)
    order = expected.columns
    assert len(expected) > 2
    assert found.cast(dict(expected.schema)).sort(order).equals(expected.sort(order))  # type: ignore[arg-type]


def test_a_restart_that_differs_is_refused_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    cars = fleet(cars=10, seconds=60, seed=3)
    source = tmp_path / "source"
    source.mkdir()
    cars.head(300).write_parquet(source / "0.parquet")

    def run(query: Query = CARS, **options: Any) -> None:
        job = _job(
            tmp_path, f"parquet:{source}", f"parquet:{tmp_path / 'sink'}", query=query,
            available_now=True, options=SparkStreamOptions.of({"buckets": 3, "lateness": "5 s", **options}),
        )  # fmt: skip
        run_job(spark, job, lambda line: None)

    def commits() -> int:
        return len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))

    run()
    before = commits()
    cars.tail(-300).write_parquet(source / "1.parquet")
    other = parse(str(CARS).replace("accel > 1", "accel > 2"))
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"buckets": 4}, r"--buckets was 3, and is now 4\nrun the job as it was"),
        ({"partitioning": "key"}, "--partitioning was bucket, and is now key"),
        ({"lateness": "6 s"}, "--lateness was 5 s, and is now 6 s"),
        ({"ties": "last"}, "--ties was first, and is now last"),
        ({"query": other}, r"(?s)the query was.*accel > 1.*is now.*accel > 2"),
    ]
    for options, why in wrongs:
        with pytest.raises(StateError, match=why):
            run(**options)
    assert commits() == before
    run(parse(str(CARS).replace("\n", "  \n")))  # the same meaning
    assert commits() > before


def test_a_checkpoint_without_a_record_is_left_as_it_is(spark: Any, tmp_path: Path) -> None:
    cars = fleet(cars=3, seconds=30, seed=3)
    player = Player(spark, CARS, cars, tmp_path, buckets=3)
    player.play(cars.head(40))
    job = _job(tmp_path, f"parquet:{player.source.folder}", f"parquet:{tmp_path / 'sink'}",
               available_now=True, options=SparkStreamOptions(buckets=3))  # fmt: skip
    run_job(spark, job, lambda line: None)
    assert not (tmp_path / "checkpoint" / RECORD).exists()


def test_a_micro_batch_with_other_buckets_commits_nothing(spark: Any, tmp_path: Path) -> None:
    """Outside of a job: the state says what it was written with, when it is called."""
    cars = fleet(cars=10, seconds=60, seed=3)
    parts = list(cars.iter_slices(len(cars) // 3 + 1))
    player = Player(spark, CARS, cars, tmp_path, buckets=4, lateness="5 s")
    player.play(parts[0])
    first = player.rows()
    player.options["buckets"] = 2
    with pytest.raises(Exception, match=r"written with buckets=4.*now runs with buckets=2"):
        player.play(parts[1])
    assert player.rows().equals(first)
    player.options["buckets"] = 4
    player.play(parts[2])
    found = pl.concat([player.rows(), player.flushed()])
    expected = CARS.run(cars)
    order = expected.columns
    assert found.cast(dict(expected.schema)).sort(order).equals(expected.sort(order))  # type: ignore[arg-type]


def test_unknown_sources_and_sinks_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="a number of rows a second"):
        parse_connector("rate:fast", {}, is_source=True)
    for text, is_source in (("avro:x", True), ("rate:5", False), ("console", True)):
        with pytest.raises(ValueError, match="one of parquet"):
            parse_connector(text, {}, is_source=is_source)
    with pytest.raises(ValueError, match="needs a place"):
        parse_connector("parquet:", {}, is_source=True)


def test_sparks_connector_for_kafka_is_explained(spark: Any, tmp_path: Path) -> None:
    job = _job(tmp_path, "kafka:topic@localhost:9092", "console")
    with pytest.raises(ValueError, match=r"--packages.*kafka-python"):
        run_job(spark, job)
    fleet(cars=1, seconds=5).write_parquet(tmp_path / "cars.parquet")
    job = _job(tmp_path, f"parquet:{tmp_path}/*.parquet", "kafka:topic@localhost:9092")
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


@pytest.mark.usefixtures("spark_is_there")
def test_a_signal_stops_a_job_after_its_micro_batch(tmp_path: Path) -> None:
    """From the command line, in a process of its own."""
    cars = fleet(cars=10, seconds=120, seed=3)
    source = tmp_path / "source"
    source.mkdir()
    for number, part in enumerate(cars.iter_slices(len(cars) // 3 + 1)):
        part.write_parquet(source / f"{number}.parquet")
        os.utime(source / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    job = _process(
        _command(
            [sys.executable, "-m", "piestream.spark"], tmp_path, CARS,
            f"--source=parquet:{source}", "--source-option=maxFilesPerTrigger=1",
            f"--sink=parquet:{tmp_path / 'sink'}", "--master=local[2]",
        )
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


def _asked_of_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *params: str
) -> tuple[Any, list[Query]]:
    """What the command line says, and the queries of the jobs that it would run."""
    (tmp_path / "query.sql").write_text(
        "FROM cars ORDER BY ts DEFINE a AS city = :city AT LEAST :hold PATTERN a WITHIN 5 min"
    )
    queries: list[Query] = []
    monkeypatch.setattr(
        command, "_session", lambda master, conf: SimpleNamespace(stop=lambda: None)
    )
    monkeypatch.setattr(
        "piestream.spark.job.job.run_job", lambda spark, job: queries.append(job.query)
    )
    given = [part for param in params for part in ("--param", param)]
    asked = ["stream", str(tmp_path / "query.sql"), "--source", "parquet:in", "--sink", "console",
             "--checkpoint", str(tmp_path / "c"), *given]  # fmt: skip
    return CliRunner().invoke(app, asked), queries


def test_parameters_of_the_command_fill_the_query_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, queries = _asked_of_spark(tmp_path, monkeypatch, "city=L'Aquila", "hold=5 s")
    assert done.exit_code == 0
    text = (
        "FROM cars ORDER BY ts DEFINE a AS city = 'L''Aquila' AT LEAST 5 s PATTERN a WITHIN 5 min"
    )
    assert queries == [parse(text)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (["city=Rome"], "the parameter :hold has no value"),
        (["city=Rome", "hold=5 s", "town=Rome"], "there is no parameter :town in the text"),
        (["city"], "--param city: write NAME=VALUE"),
    ],
)
def test_wrong_parameters_of_the_command_are_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: list[str], message: str
) -> None:
    done, queries = _asked_of_spark(tmp_path, monkeypatch, *params)
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert queries == []


SEVERAL = parse(
    "FROM vitals ORDER BY ts WITH infusions FROM a TO b DEFINE x AS temp > 38, y AS infusions "
    "PATTERN x before y WITHIN 1 h"
)


def test_each_stream_of_a_query_has_a_source() -> None:
    found = parse_sources(
        SEVERAL,
        ["infusions=json:in", "vitals=kafka:t@h:1"],
        ["infusions=a timestamp, b timestamp"],
        ["vitals=v = 3 AS temp", "vitals=ts"],
        ["maxFilesPerTrigger=1", "vitals=kafka.a=b=c"],
    )
    assert list(found) == ["vitals", "infusions"]
    vitals, infusions = found["vitals"], found["infusions"]
    assert (vitals.connector.kind, vitals.connector.place) == ("kafka", "t@h:1")
    assert vitals.connector.options == {"maxFilesPerTrigger": "1", "kafka.a": "b=c"}
    assert (vitals.schema, vitals.select) == (None, ("v = 3 AS temp", "ts"))
    assert infusions.connector.options == {"maxFilesPerTrigger": "1"}
    assert infusions.schema == "a timestamp, b timestamp"
    (one,) = parse_sources(CARS, ["json:in"], ["a int"], ["cars=1 AS x"], ["cars=1"]).values()
    assert (one.schema, one.select, one.connector.options) == (
        "a int",
        ("cars=1 AS x",),
        {"cars": "1"},
    )


@pytest.mark.parametrize(
    ("sources", "more", "message"),
    [
        (["parquet:in"], {}, r"--source parquet:in: the query reads vitals, infusions: say for which"),
        (["vitals=parquet:in"], {}, r"there is no --source for infusions: write --source infusions="),
        (["vitals=json:a", "vitals=json:b", "infusions=json:c"], {}, "more than one --source .*for vitals"),
        (["vitals=json:a", "infusions=json:c"], {"schemas": ["a int"]}, "--schema a int: the query reads"),
        (["vitals=json:a", "infusions=json:c"], {"schemas": ["vitals=a int"] * 2}, "more than one --schema for vitals"),
        (["vitals=json:a", "infusions=json:c"], {"selects": ["a"]}, "--select a: the query reads"),
        (["vitals=json:a", "infusions=json:c"], {"options": ["a"]}, "a: write NAME=VALUE"),
        (["vitals=json:a", "infusions=avro:c"], {}, "a source is one of"),
    ],
)  # fmt: skip
def test_sources_that_do_not_fit_the_streams_are_refused(
    sources: list[str], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_sources(SEVERAL, sources, **more)
