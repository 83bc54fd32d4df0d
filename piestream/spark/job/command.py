"""``piestream stream``: a query as a streaming job on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from piestream.language.options import Partitioning, SparkStreamOptions, Ties, help_of
from piestream.spark.job.connectors import SINKS, SOURCES

__all__ = ["stream"]


_DEFAULTS = SparkStreamOptions()


def stream(
    query_file: Annotated[Path, typer.Argument(metavar="QUERY.SQL", help="The query's file.")],
    source: Annotated[
        list[str],
        typer.Option(help=f"{SOURCES}. Of several streams each: NAME=parquet:DIR."),
    ],
    sink: Annotated[
        str,
        typer.Option(help=f"{SINKS}."),
    ],
    checkpoint: Annotated[str, typer.Option(help="The directory of offsets and states.")],
    schema: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the files, or of the JSON in Kafka: 'car_id int, ts "
            "timestamp'. Without it, those of the files that are there. Of several streams: "
            "'NAME=car_id int, …'."
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="A column in Spark SQL: 'value % 10 AS car_id'. The query reads only these. Of "
            "several streams: 'NAME=value % 10 AS car_id'."
        ),
    ] = None,
    lateness: Annotated[
        str | None, typer.Option(help=help_of(SparkStreamOptions, "lateness"))
    ] = None,
    ties: Annotated[Ties, typer.Option(help=help_of(SparkStreamOptions, "ties"))] = _DEFAULTS.ties,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, and end.")
    ] = False,
    rest: Annotated[
        str | None,
        typer.Option(help="At the end, write to this sink what still waits for the watermark."),
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="The interval of micro-batches: '5 seconds'.")
    ] = None,
    buckets: Annotated[
        int, typer.Option(min=1, help=help_of(SparkStreamOptions, "buckets"))
    ] = _DEFAULTS.buckets,
    partitioning: Annotated[
        Partitioning, typer.Option(help=help_of(SparkStreamOptions, "partitioning"))
    ] = _DEFAULTS.partitioning,
    status: Annotated[
        str | None,
        typer.Option(help="Write to this file how the job goes, for piestream watch."),
    ] = None,
    source_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the source; of several streams that of all, or of one: "
            "NAME=NAME=VALUE.",
        ),
    ] = None,
    sink_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the sink.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What :NAME in the query stands for."),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark.")
    ] = None,
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[*], or that of spark-submit.")
    ] = None,
) -> None:
    """Run a query as a streaming job on Spark."""
    from piestream.expressions.parameters import parameters_written
    from piestream.language import QueryError, parse
    from piestream.spark.job.connectors import parse_connector
    from piestream.spark.job.job import Job, run_job
    from piestream.spark.job.sources import pairs, parse_sources

    try:
        parsed = parse(query_file.read_text(), **parameters_written(param or []))
        job = Job(
            query=parsed,
            sources=parse_sources(parsed, source, schema or [], select or [], source_option or []),
            sink=parse_connector(sink, pairs(sink_option or []), is_source=False),
            checkpoint=checkpoint,
            available_now=available_now,
            every=every,
            status=status,
            rest=None if rest is None else parse_connector(rest, {}, is_source=False),
            options=SparkStreamOptions(
                ties=ties, lateness=lateness, buckets=buckets, partitioning=partitioning
            ),
        )
        spark = _session(master, pairs(conf or []))
        try:
            run_job(spark, job)
        finally:
            spark.stop()
    except (QueryError, OSError, ValueError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


def _session(master: str | None, conf: dict[str, str]) -> Any:
    try:
        from piestream.spark.job.local import local_settings, session

        conf = {"spark.ui.showConsoleProgress": "false", **conf}
        opened = session(master, **{name.replace(".", "__"): v for name, v in conf.items()})
    except ImportError as error:
        raise ValueError(f"{error}: pip install 'piestream[spark]'") from None
    if opened.sparkContext.master.startswith("local"):
        for name in local_settings():
            typer.echo(f"{name} = {opened.conf.get(name)}", err=True)
    return opened
