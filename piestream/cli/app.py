"""The commands and their options. The work is imported when a command runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from piestream.adapters.terminal import printable
from piestream.cli.faults import BAD_INPUT, refuse, reported
from piestream.cli.options import (
    LateOptions,
    OutputOptions,
    QueryOptions,
    ReadingOptions,
    TimeOptions,
)
from piestream.cli.process import DeferredSignals
from piestream.cli.watch import watch
from piestream.language.signatures import takes_fields
from piestream.spark.job.command import stream

if TYPE_CHECKING:
    from piestream.expressions.diagnostics import QueryError
    from piestream.language.model import Query


class _Commands(TyperGroup):
    """The commands; a query without one is answered with how it is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command that the first argument names."""
        first = args[0]
        if self.get_command(ctx, first) is None and (len(first.split()) > 1 or "." in first):
            call = "-q 'FROM ...'" if len(first.split()) > 1 else first
            ctx.fail(f"a command comes first: piestream run {call}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="piestream",
    cls=_Commands,
    help="Interval temporal patterns in event streams: exact, at the earliest instant, fast.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FilesOrInput = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DATA",
        help="Files and globs, or - for standard input; of a query of several streams "
        "STREAM=FILE. Without: the files that FROM and WITH name.",
        show_default=False,
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        from piestream import __version__

        typer.echo(f"piestream {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass


@app.command()
@takes_fields
def run(
    context: typer.Context,
    query: QueryOptions,
    output: OutputOptions,
    reading: ReadingOptions,
    times: TimeOptions,
    late: LateOptions,
    data: _FilesOrInput = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Say where the rows went, step by step, instead of the matches."
        ),
    ] = False,
) -> None:
    """Find every match of a query in files or in standard input."""
    from piestream.cli.why import print_why
    from piestream.cli.work import TABLE_ROWS, Input, RunRequest, file_options, work

    text, names = query.text(context, data)
    if "-" in names and query.query is None and query.query_file == "-":
        refuse(context, "the query and the data cannot both come from standard input")
    if why and any(x is not None for x in (output.output, output.output_format, output.limit)):
        refuse(context, "--why prints where the rows went, and gives no matches to write or limit")
    if why and output.status is not None:
        refuse(context, "--why is no run that has a status: leave --status out")
    if late.sort and late.lateness is not None:
        refuse(context, "--sort and --lateness exclude each other: sorted events are never late")
    keywords = reading.keywords(context)
    with reported(context):
        options = file_options(
            **asdict(times),
            lateness=late.lateness,
            on_late=late.on_late,
            limit=output.limit,
            **keywords,
        )
        has_all = output.all_rows or output.limit is not None
        request = RunRequest(
            input=Input(tuple(names), reading.format, options),
            output=output.output,
            output_format=output.output_format,
            table_rows=None if has_all else TABLE_ROWS,
            sort=late.sort,
            quiet=output.quiet,
            status=output.status,
        )
        (print_why if why else work)(query.parsed(context, text), request)


@app.command()
@takes_fields
def report(
    context: typer.Context,
    query: QueryOptions,
    reading: ReadingOptions,
    times: TimeOptions,
    data: _FilesOrInput = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="The page to write; - is standard output.")
    ] = "report.html",
) -> None:
    """Write a page of HTML about what a query finds: counts, lags, matches on time lines."""
    text, names = query.text(context, data)
    with reported(context):
        from piestream.cli.work import Input, file_options, write_report

        options = file_options(**asdict(times), **reading.keywords(context))
        wanted = Input(tuple(names), reading.format, options)
        write_report(query.parsed(context, text), wanted, output)


@app.command()
@takes_fields
def check(
    context: typer.Context,
    query: QueryOptions,
    reading: ReadingOptions,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA", help="Files whose columns the query must fit.", show_default=False
        ),
    ] = None,
) -> None:
    """Say what is wrong with a query, by itself or against the columns of a file."""
    text, names = query.text(context, data)
    with reported(context):
        parsed = query.parsed(context, text)
        if names or any(stream.path for stream in parsed.inputs):
            from piestream.adapters.file_run import bound_to
            from piestream.cli.work import Input, check_inputs, file_options, opened

            options = file_options(**reading.keywords(context))
            wanted = Input(tuple(names), reading.format, options)
            if parsed.is_combined:
                check_inputs(parsed, wanted)
            else:
                with closing(opened(parsed, wanted)) as source:
                    bound_to(parsed, source)
        for warning in _warnings(parsed):
            typer.echo(f"warning: {warning}", err=True)
    typer.echo("ok")


def _warnings(query: Query) -> Iterator[QueryError]:
    """What is odd about a query that is no error."""
    for symbol in query.symbols:
        if symbol.predicate.is_never_true:
            follows = "nothing can match" if query.rows is None else "no row can be one"
            if symbol.name in {absence.symbol for absence in query.absences}:
                follows = "its NOT (…) always holds"
            what = f"the predicate of {symbol.name} is never true, so {follows}"
            yield query.fault(("predicate", symbol.name), what)
    if query.absences:
        from piestream.language.absence_waits import wait_texts

        for symbol_name, said in wait_texts(query):
            yield query.fault(("absence", symbol_name), said)
    if query.rows is not None and query.rows.conditions:
        from piestream.plan.row_ways import doubling_text

        doubling = doubling_text(query)
        if doubling is not None:
            yield query.fault(("pattern",), doubling)


@app.command()
@takes_fields
def explain(
    context: typer.Context,
    query: QueryOptions,
    format: Annotated[
        Literal["text", "mermaid", "dot"], typer.Option(help="Text, or the automata as diagrams.")
    ] = "text",
) -> None:
    """Say how a query is worked: predicates, automata, decision points, join plan, state."""
    text, names = query.text(context)
    if names:
        refuse(context, f"explain needs nothing but a query: what is {names[0]}?")
    with reported(context):
        from piestream import show

        explanation = show.explain(query.parsed(context, text))
        shown = str(explanation) if format == "text" else explanation.diagrams(format)
    typer.echo(printable(shown), nl=False)


@app.command()
def demo(
    context: typer.Context,
    cars: Annotated[int, typer.Option(min=1, help="Cars in the fleet.")] = 1000,
    seconds: Annotated[int, typer.Option(min=1, help="Seconds they drive.")] = 1800,
    out: Annotated[Path, typer.Option(help="The directory to write to.")] = Path("piestream-demo"),
) -> None:
    """Find aggressive drivers in a generated fleet."""
    with reported(context):
        from piestream.demo.command import show_demo, write_matches

        matches = show_demo(cars, seconds)
        with DeferredSignals() as signals:
            write_matches(matches, out)
            signals.check()


@app.command()
def warm() -> None:
    """Compile all loops now, so that no query waits for it: for images and CI."""
    from piestream.engine.warm import warm as compile_all

    warmed = compile_all()
    typer.echo(str(warmed))
    if warmed.compiled and warmed.directory is None:
        raise typer.Exit(BAD_INPUT)


app.command()(stream)
app.command()(watch)
