"""Spark Connect, in a process of its own: run with PIESTREAM_CONNECT=1, for its server is slow.

It needs ``pip install 'pyspark[connect]'``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import polars as pl
from piestream.demo.fleet import fleet
from piestream.language import parse
from piestream.spark import flush

folder = Path(sys.argv[1])
spark = (
    SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
cars = fleet(cars=20, seconds=100, seed=1)
(folder / "cars").mkdir()
cars.write_parquet(folder / "cars" / "a.parquet")
query = parse('''FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 10 s
DEFINE a AS accel > 1, s AS speed > 45 PATTERN a overlaps; during s
WITHIN 1 minutes RETURN a.ts, s.te, RELATION(a, s) AS how''')
expected = query.run(cars)
order = expected.columns

def rows(frame):
    return pl.from_arrow(frame.toArrow())

frame = spark.read.parquet(str(folder / "cars"))
assert type(frame).__module__.startswith("pyspark.sql.connect")
assert rows(query.run(frame)).sort(order).equals(expected.sort(order))
stream = spark.readStream.schema(frame.schema).parquet(str(folder / "cars"))
writer = query.run(stream, lateness="5 s").writeStream.format("parquet")
writer = writer.option("path", str(folder / "out")).option("checkpointLocation", str(folder / "c"))
writer.trigger(availableNow=True).start().awaitTermination()
found = rows(spark.read.parquet(str(folder / "out")))
rest = rows(flush(query, stream, str(folder / "c")))
assert len(expected) > 5
assert pl.concat([found, rest]).sort(order).equals(expected.sort(order))
print("the same rows")
spark.stop()
"""


@pytest.mark.skipif(
    "PIESTREAM_CONNECT" not in os.environ, reason="slow: run it with PIESTREAM_CONNECT=1"
)
@pytest.mark.usefixtures("spark_is_there")
def test_the_same_rows_through_connect(tmp_path: Path) -> None:
    for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        pytest.importorskip(package, reason="pip install 'pyspark[connect]'")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONWARNINGS": "ignore"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "the same rows" in done.stdout
