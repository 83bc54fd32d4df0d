"""Streaming jobs for the kill tests: ``python -m tests.spark.job_to_kill FOLDER QUERY``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.conftest import SETTINGS

#: With gaps, so that every kind of state is there when the job dies.
QUERIES = {
    "one stream": """
        FROM cars PARTITION BY car_id ORDER BY ts MAX GAP 20 s
        DEFINE a AS accel > 1, s AS speed > 45, d AS accel < PREV(accel) - 0.2
        PATTERN a meets; overlaps; starts; during; finishes s AND a before d
        WITHIN 60 s
        RETURN a.ts, s.ts AS s_ts, s.te, d.ts AS d_ts, AVG(s.speed) AS speed, FIRST(d.lane) AS lane
    """,
    "several": """
        FROM cars ORDER BY ts MAX GAP 20 s
        WITH trips FROM began TO ended ID trip
        WITH (FROM cars ORDER BY ts DEFINE d AS accel < PREV(accel) - 0.2 PATTERN d WITHIN 60 s
              RETURN FIRST(d.lane) AS lane) AS braking
        PARTITION BY car_id
        DEFINE s AS speed > 45, t AS trips.purpose <> 'test', b AS braking
        PATTERN b during; overlaps; starts; finishes s AND s intersects t
        WITHIN 60 s
        RETURN s.ts, b.ts, b.lane, t.ts, t.purpose, AVG(s.speed) AS speed
    """,
}
LATENESS = "5 s"


def main(folder: Path, query: str) -> None:
    """Work on the folders' files, a file of each a micro-batch, until all are done."""
    from piestream.adapters.inputs import Inputs
    from piestream.language import parse
    from piestream.language.options import SparkStreamOptions
    from piestream.spark import session
    from piestream.spark.job.connectors import Connector
    from piestream.spark.job.job import Job, run_job
    from piestream.spark.job.sources import Source

    settings = {name.replace(".", "__"): value for name, value in SETTINGS.items()}
    spark = session("local[2]", **settings)
    parsed = parse(QUERIES[query])
    one_file = {"maxFilesPerTrigger": "1"}
    sources = {
        name: Source(Connector("parquet", str(folder / name), one_file))
        for name in Inputs(parsed).readers
    }
    job = Job(
        query=parsed,
        sources=sources,
        sink=Connector("parquet", str(folder / "sink")),
        checkpoint=str(folder / "checkpoint"),
        available_now=True,
        options=SparkStreamOptions(lateness=LATENESS, buckets=5),
    )
    run_job(spark, job, lambda line: print(line, flush=True))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
