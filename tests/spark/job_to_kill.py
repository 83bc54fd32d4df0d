"""A streaming job for the kill tests: ``python -m tests.spark.job_to_kill FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.conftest import SETTINGS

#: Small buckets and a gap, so that every kind of state is there when the job dies.
QUERY = """
FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 20 s
DEFINE a AS accel > 1, s AS speed > 45, d AS accel < PREV(accel) - 0.2
PATTERN a meets; overlaps; starts; during; finishes s AND a before d
WITHIN 60 s
RETURN a.ts, s.ts AS s_ts, s.te, d.ts AS d_ts, AVG(s.speed) AS speed, FIRST(d.lane) AS lane
"""
LATENESS = "5 s"


def main(folder: Path) -> None:
    """Work on the folder's files, a file a micro-batch, until all are done."""
    from piestream.language import parse
    from piestream.language.options import SparkStreamOptions
    from piestream.spark import session
    from piestream.spark.job.connectors import Connector
    from piestream.spark.job.job import Job, run_job

    settings = {name.replace(".", "__"): value for name, value in SETTINGS.items()}
    spark = session("local[2]", **settings)
    job = Job(
        query=parse(QUERY),
        source=Connector("parquet", str(folder / "source"), {"maxFilesPerTrigger": "1"}),
        sink=Connector("parquet", str(folder / "sink")),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
        options=SparkStreamOptions(lateness=LATENESS, buckets=5),
    )
    run_job(spark, job, lambda line: print(line, flush=True))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
