"""A job that is killed at random moments loses no row and doubles none.

``PIESTREAM_KILLS=100`` kills more often than the two times of every run, and takes a quarter of
an hour.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from piestream.demo.fleet import fleet
from piestream.language import parse
from piestream.spark import flush
from tests.spark.job_to_kill import QUERIES
from tests.spark.streams import rows_of

_ROOT = Path(__file__).parents[2]
#: So many micro-batches a kill that most kills find the job at work.
_FILES_A_KILL = 2.2


#: The rows of a stream, and the column of the instants at which they become known.
Arriving = tuple[pl.DataFrame, pl.Expr]


def _trips(cars: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    """Rows that announce trips of the cars, and rows of their ends."""
    rows = []
    for number, (car, ts) in enumerate(cars.select("car_id", "ts").sample(200, seed=1).rows()):
        end = ts + timedelta(seconds=rng.randint(1, 40))
        trip = {"car_id": car, "trip": number, "purpose": rng.choice(["work", "leisure", "test"])}
        rows += [{**trip, "began": ts, "ended": None}, {**trip, "began": ts, "ended": end}]
    types = {
        "car_id": cars.schema["car_id"],
        "began": cars.schema["ts"],
        "ended": cars.schema["ts"],
    }
    return pl.DataFrame(rows, schema_overrides=types)


def _files(rows: Arriving, edges: list[float], rng: random.Random) -> list[pl.DataFrame]:
    """Rows out of order by up to five seconds, in files of those that arrive between the edges."""
    frame, instant = rows
    late = pl.Series([rng.randint(0, 5) for _ in range(len(frame))])
    frame = frame.with_columns((instant.dt.epoch("s") + late).alias("arrives"))
    frame = frame.sort("arrives", maintain_order=True)
    between = zip(edges, [*edges[1:], float("inf")], strict=True)
    return [
        frame.filter((pl.col("arrives") >= first) & (pl.col("arrives") < end)).drop("arrives")
        for first, end in between
    ]


def _started(folder: Path, query: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.job_to_kill", str(folder), query],
        cwd=_ROOT, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _killed(folder: Path, query: str, rng: random.Random) -> bool:
    """Start the job and kill it, its JVM and its workers; False if it came to its end before."""
    job = _started(folder, query)
    assert job.stdout is not None
    try:
        line = job.stdout.readline()  # the first micro-batch of this run is done
        if not line:
            return job.wait(60) != 0
        time.sleep(rng.uniform(0, 1.5))
        return job.poll() is None
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


@pytest.mark.parametrize("name", QUERIES)
def test_a_killed_job_goes_on_where_it_was(
    spark: Any, tmp_path: Path, kills: int, name: str
) -> None:
    rng = random.Random(4)
    if name == "several":
        kills = max(1, kills // 5)
    count = int(kills * _FILES_A_KILL)
    cars = fleet(cars=24, seconds=20 * count, seed=5)
    rows: dict[str, Arriving] = {"cars": (cars, pl.col("ts"))}
    if name == "several":
        rows["trips"] = _trips(cars, rng), pl.coalesce("ended", "began")
    first = cars["ts"].dt.epoch("s").min()
    edges = [0.0, *(float(first + 20 * n) for n in range(1, count))]  # type: ignore[operator]
    files = {key: _files(some, edges, rng) for key, some in rows.items()}
    for key in files:
        (tmp_path / key).mkdir()
    survived, done = 0, 0
    for number in range(kills):
        # Files come as the job goes on, so that there is work left to be killed in.
        for place in range(done, min((number + 1) * count // kills, count)):
            for key, parts in files.items():
                path = tmp_path / key / f"{place:04}.parquet"
                parts[place].write_parquet(path)
                os.utime(path, (1_700_000_000 + place,) * 2)
            done = place + 1
        survived += not _killed(tmp_path, name, rng)
    job = _started(tmp_path, name)
    job.communicate(timeout=200)
    assert job.returncode == 0

    query = parse(QUERIES[name])
    given = {key: frame for key, (frame, _) in rows.items()}
    expected = query.run(given if len(given) > 1 else cars)
    frames = {key: spark.read.parquet(str(tmp_path / key)) for key in rows}
    found = rows_of(spark.read.parquet(str(tmp_path / "sink")))
    flushed = flush(
        query, frames if len(given) > 1 else frames["cars"], str(tmp_path / "checkpoint")
    )
    together = pl.concat([found, rows_of(flushed)]).cast(dict(expected.schema))  # type: ignore[arg-type]
    order = expected.columns
    assert together.sort(order).equals(expected.sort(order))
    assert len(found) > 10 * kills
    print(
        f"{kills} kills, {survived} of them after the end: {len(found)} rows, none lost or doubled"
    )
    if survived * 2 > kills:
        pytest.fail(f"the job was alive in only {kills - survived} of {kills} kills")
