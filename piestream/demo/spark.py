"""The query of ``make demo`` as a streaming job: ``python -m piestream.demo.spark``."""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

import polars as pl

from piestream.demo.command import QUERY, find, in_order
from piestream.demo.fleet import fleet_chunks

__all__ = ["main", "show_spark_demo"]

_CHUNK_SECONDS = 120


def show_spark_demo(cars: int, seconds: int, out: Path) -> bool:
    """Stream the fleet's files through Spark; whether the matches are those of the engine."""
    from piestream.language import parse
    from piestream.show.table import table_text
    from piestream.spark.job.connectors import Connector
    from piestream.spark.job.job import Job, run_job
    from piestream.spark.job.local import session
    from piestream.spark.job.sources import Source

    shutil.rmtree(out, ignore_errors=True)
    source = out / "reports"
    source.mkdir(parents=True)
    for number, frame in enumerate(fleet_chunks(cars, seconds, chunk=_CHUNK_SECONDS)):
        path = source / f"{number:04}.parquet"
        frame.write_parquet(path)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    print(QUERY)
    spark = session(spark__ui__showConsoleProgress="false", spark__log__level="ERROR")
    job = Job(
        query=parse(QUERY),
        sources={"fleet": Source(Connector("parquet", str(source), {"maxFilesPerTrigger": "3"}))},
        sink=Connector("parquet", str(out / "matches")),
        rest=Connector("parquet", str(out / "rest")),
        checkpoint=str(out / "checkpoint"),
        available_now=True,
    )
    run_job(spark, job, print)
    found = [spark.read.parquet(str(out / part)).toArrow() for part in ("matches", "rest")]
    spark.stop()
    matches = pl.concat([_frame(table) for table in found])
    expected, _, _ = find(cars, seconds)
    matches = in_order(matches.cast(expected.schema))
    same = matches.equals(expected)
    print(f"\n{cars:,} cars for {seconds:,} s; the first of {len(matches):,} matches:\n")
    print(table_text(matches.head(10)))
    print(f"the same matches as `piestream demo`: {'yes' if same else 'NO'}")
    return same


def _frame(table: object) -> pl.DataFrame:
    rows = pl.from_arrow(table)
    assert isinstance(rows, pl.DataFrame)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Read the arguments and run the demo."""
    parser = argparse.ArgumentParser(prog="python -m piestream.demo.spark")
    parser.add_argument("--cars", type=int, default=1000, help="cars in the fleet (1000)")
    parser.add_argument("--seconds", type=int, default=1800, help="how long they drive (1800)")
    parser.add_argument("--out", type=Path, default=Path("piestream-demo-spark"))
    options = parser.parse_args(arguments)
    raise SystemExit(0 if show_spark_demo(options.cars, options.seconds, options.out) else 1)


if __name__ == "__main__":
    main()
