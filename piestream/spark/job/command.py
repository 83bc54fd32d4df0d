"""``piestream stream``: a query as a streaming job on Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from piestream.language.options import Partitioning, SparkStreamOptions, Ties, help_of
from piestream.language.signatures import takes_fields
from piestream.spark.job.connectors import SINKS, SOURCES

__all__ = ["stream"]


_DEFAULTS = SparkStreamOptions()


@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Where rows come from, and what they are."""

    source: Annotated[
        list[str],
        typer.Option(help=f"{SOURCES}. Of several streams each: NAME=parquet:DIR."),
    ]
    schema: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the files, or of the JSON in Kafka: 'car_id int, ts "
            "timestamp'. Without it, those of the files that are there. Of several streams: "
            "'NAME=car_id int, …'."
        ),
    ] = None
    select: Annotated[
        list[str] | None,
        typer.Option(
            help="A column in Spark SQL: 'value % 10 AS car_id'. The query reads only these. Of "
            "several streams: 'NAME=value % 10 AS car_id'."
        ),
    ] = None
    source_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An option of the source; of several streams that of all, or of one: "
            "NAME=NAME=VALUE.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Where matches go."""

    sink: Annotated[
        str,
        typer.Option(help=f"{SINKS}."),
    ]
    sink_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="An option of the sink.")
    ] = None
    rest: Annotated[
        str | None,
        typer.Option(help="At the end, write to this sink what still waits for the watermark."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class StateOptions:
    """How events are ordered and states are kept: fields of `SparkStreamOptions`."""

    lateness: Annotated[str | None, typer.Option(help=help_of(SparkStreamOptions, "lateness"))] = (
        None
    )
    ties: Annotated[Ties, typer.Option(help=help_of(SparkStreamOptions, "ties"))] = _DEFAULTS.ties
    buckets: Annotated[int, typer.Option(min=1, help=help_of(SparkStreamOptions, "buckets"))] = (
        _DEFAULTS.buckets
    )
    partitioning: Annotated[
        Partitioning, typer.Option(help=help_of(SparkStreamOptions, "partitioning"))
    ] = _DEFAULTS.partitioning


@dataclass(frozen=True, kw_only=True)
class SessionOptions:
    """Spark's own settings."""

    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of Spark.")
    ] = None
    master: Annotated[
        str | None, typer.Option(help="Spark's master: local[*], or that of spark-submit.")
    ] = None


@takes_fields
def stream(
    query_file: Annotated[Path, typer.Argument(metavar="QUERY.SQL", help="The query's file.")],
    input: InputOptions,
    output: OutputOptions,
    state: StateOptions,
    session: SessionOptions,
    checkpoint: Annotated[str, typer.Option(help="The directory of offsets and states.")],
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there, and end.")
    ] = False,
    every: Annotated[
        str | None, typer.Option(help="The interval of micro-batches: '5 seconds'.")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(help="Write to this file how the job goes, for piestream watch."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="What :NAME in the query stands for."),
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
            sources=parse_sources(
                parsed,
                input.source,
                input.schema or [],
                input.select or [],
                input.source_option or [],
            ),
            sink=parse_connector(output.sink, pairs(output.sink_option or []), is_source=False),
            checkpoint=checkpoint,
            available_now=available_now,
            every=every,
            status=status,
            rest=(
                None if output.rest is None else parse_connector(output.rest, {}, is_source=False)
            ),
            options=SparkStreamOptions(**asdict(state)),
        )
        spark = _session(session.master, pairs(session.conf or []))
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
