"""A job that is killed at random moments loses no row and doubles none.

``PIESTREAM_KILLS=100`` kills more often than the ten times of every run, and takes a quarter of
an hour.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from piestream.demo.fleet import fleet
from piestream.language import parse
from piestream.spark import flush
from tests.spark.job_to_kill import QUERY
from tests.spark.streams import rows_of

_ROOT = Path(__file__).parents[2]
#: So many micro-batches a kill that most kills find the job at work.
_FILES_A_KILL = 2.2


def _disordered(cars: pl.DataFrame, rng: random.Random) -> pl.DataFrame:
    late = pl.Series([rng.randint(0, 5) for _ in range(len(cars))])
    arrives = pl.col("ts").dt.epoch("s") + late
    return (
        cars.with_columns(arrives.alias("arrives"))
        .sort("arrives", maintain_order=True)
        .drop("arrives")
    )


def _started(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.job_to_kill", str(folder)],
        cwd=_ROOT, env=environment, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _killed(folder: Path, rng: random.Random) -> bool:
    """Start the job and kill it, its JVM and its workers; False if it came to its end before."""
    job = _started(folder)
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


def test_a_killed_job_goes_on_where_it_was(spark: Any, tmp_path: Path, kills: int) -> None:
    rng = random.Random(4)
    count = int(kills * _FILES_A_KILL)
    cars = fleet(cars=24, seconds=20 * count, seed=5)
    source = tmp_path / "source"
    source.mkdir()
    shuffled = _disordered(cars, rng)
    size = len(shuffled) // count + 1
    files = list(shuffled.iter_slices(size))
    survived, done = 0, 0
    for number in range(kills):
        # Files come as the job goes on, so that there is work left to be killed in.
        for place in range(done, min((number + 1) * len(files) // kills, len(files))):
            path = source / f"{place:04}.parquet"
            files[place].write_parquet(path)
            os.utime(path, (1_700_000_000 + place,) * 2)
            done = place + 1
        survived += not _killed(tmp_path, rng)
    job = _started(tmp_path)
    job.communicate(timeout=200)
    assert job.returncode == 0

    query = parse(QUERY)
    expected = query.run(cars)
    frame = spark.readStream.schema(spark.read.parquet(str(source)).schema).parquet(str(source))
    found = rows_of(spark.read.parquet(str(tmp_path / "sink")))
    rest = rows_of(flush(query, frame, str(tmp_path / "checkpoint")))
    together = pl.concat([found, rest]).cast(dict(expected.schema))  # type: ignore[arg-type]
    order = expected.columns
    assert together.sort(order).equals(expected.sort(order))
    assert len(found) > 50
    print(
        f"{kills} kills, {survived} of them after the end: {len(found)} rows, none lost or doubled"
    )
    if survived * 2 > kills:
        pytest.fail(f"the job was alive in only {kills - survived} of {kills} kills")
