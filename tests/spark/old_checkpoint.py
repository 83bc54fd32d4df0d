"""A checkpoint as it was written by this version of the state: kept for all later ones.

``python -m tests.spark.old_checkpoint`` writes ``checkpoints/v<version>.zip`` with the version that
is current, and leaves those of older versions alone.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import polars as pl

from piestream.demo.fleet import fleet
from piestream.engine.snapshot import VERSION as SNAPSHOT
from piestream.language import parse
from piestream.spark.state import VERSION as BUCKET
from tests.spark.conftest import SETTINGS
from tests.spark.streams import Player

HERE = Path(__file__).parent / "checkpoints"

QUERY = parse(
    """FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 9 s
DEFINE a AS accel > 0.5, s AS speed > 40, d AS accel < PREV(accel) - 0.1
PATTERN a meets; overlaps; starts; during; finishes s AND a before d
WITHIN 40 s
RETURN a.ts, s.ts AS s_ts, s.te, d.ts AS d_ts, AVG(s.speed) AS speed, LAST(a.plate) AS plate"""
)
OPTIONS = {"lateness": "4 s", "buckets": 3}
FILES = 4


def cars() -> pl.DataFrame:
    """The stream of the fixture, which must not change."""
    made = fleet(cars=9, seconds=80, seed=11)
    return made.with_columns(plate=pl.format("B-{}", pl.col("car_id")))


def write(folder: Path) -> Path:
    """Run the first half of the stream and keep what it left."""
    from piestream.spark import session

    spark = session("local[2]", **{n.replace(".", "__"): v for n, v in SETTINGS.items()})
    rows = cars()
    parts = list(rows.iter_slices(len(rows) // FILES + 1))
    player = Player(spark, QUERY, rows, folder / "run", **OPTIONS)
    player.play(*parts[: FILES // 2])
    kept = folder / "kept"
    kept.mkdir()
    shutil.copytree(player.checkpoint, kept / "checkpoint")
    rows.write_parquet(kept / "cars.parquet")
    player.rows().write_parquet(kept / "first.parquet")
    HERE.mkdir(exist_ok=True)
    made = shutil.make_archive(str(HERE / f"v{BUCKET}.{SNAPSHOT}"), "zip", kept)
    spark.stop()
    return Path(made)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(write(Path(folder)))
