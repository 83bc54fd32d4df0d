"""The commands and their options. The work is imported when a command runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from piestream.adapters.formats import Format, has_data_suffix
from piestream.adapters.terminal import printable
from piestream.cli.faults import BAD_INPUT, fail, refuse, reported
from piestream.cli.process import DeferredSignals
from piestream.cli.watch import watch
from piestream.expressions.parameters import ParameterValue, parameters_written
from piestream.language.options import AtEnd, FileOptions, OnLate, Ties, help_of
from piestream.spark.job.command import stream

if TYPE_CHECKING:
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

QueryFile = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERY.SQL",
        help="The query's file; - is standard input. Left out with -q.",
        show_default=False,
    ),
]
QueryText = Annotated[
    str | None, typer.Option("-q", "--query", help="The query itself, instead of a file.")
]


DataFormat = Annotated[
    Format | None,
    typer.Option(help="What the data is, where its name does not say (.csv .ndjson .parquet)."),
]
Delimiter = Annotated[str | None, typer.Option(help=help_of(FileOptions, "delimiter"))]
DecimalComma = Annotated[
    bool | None,
    typer.Option("--decimal-comma/--no-decimal-comma", help=help_of(FileOptions, "decimal_comma")),
]
Null = Annotated[list[str] | None, typer.Option(metavar="WORD", help=help_of(FileOptions, "null"))]
Encoding = Annotated[str | None, typer.Option(help=help_of(FileOptions, "encoding"))]
ColumnTypes = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="COLUMN=TYPE", help=help_of(FileOptions, "types")),
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="What :NAME in the query stands for: a number, true or false, or else a text.",
    ),
]
_DEFAULTS = FileOptions()


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
def run(
    context: typer.Context,
    query_file: QueryFile = None,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Files and globs, or - for standard input; of a query of several streams "
            "STREAM=FILE. Without: the files that FROM and WITH name.",
            show_default=False,
        ),
    ] = None,
    query: QueryText = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="Write all matches to this file; - is standard output."
        ),
    ] = None,
    format: DataFormat = None,
    delimiter: Delimiter = None,
    decimal_comma: DecimalComma = None,
    output_format: Annotated[
        Literal["table", "csv", "ndjson", "parquet", "trace", "grafana", "mne"] | None,
        typer.Option(help="How to write matches, where the name of the output does not say."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help=help_of(FileOptions, "limit"))] = None,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Print all rows of the table, not only the first 20.")
    ] = False,
    ties: Annotated[Ties, typer.Option(help=help_of(FileOptions, "ties"))] = _DEFAULTS.ties,
    lateness: Annotated[
        str | None,
        typer.Option(
            help=f"{help_of(FileOptions, 'lateness')} Data from standard input is then worked on "
            "as it comes."
        ),
    ] = None,
    on_late: Annotated[
        OnLate, typer.Option(help=help_of(FileOptions, "on_late"))
    ] = _DEFAULTS.on_late,
    at_end: Annotated[AtEnd, typer.Option(help=help_of(FileOptions, "at_end"))] = _DEFAULTS.at_end,
    sort: Annotated[
        bool, typer.Option("--sort", help="Read everything and sort it by time first.")
    ] = False,
    column_type: ColumnTypes = None,
    null: Null = None,
    encoding: Encoding = None,
    param: Parameter = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no summary.")] = False,
    status: Annotated[
        str | None,
        typer.Option(help="Write to this file how the run goes, for piestream watch."),
    ] = None,
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

    text, names = _text(context, query, query_file, data)
    if "-" in names and query is None and query_file == "-":
        refuse(context, "the query and the data cannot both come from standard input")
    if why and (output is not None or output_format is not None or limit is not None):
        refuse(context, "--why prints where the rows went, and gives no matches to write or limit")
    if why and status is not None:
        refuse(context, "--why is no run that has a status: leave --status out")
    if sort and lateness is not None:
        refuse(context, "--sort and --lateness exclude each other: sorted events are never late")
    types = _types(context, column_type)
    with reported(context):
        options = file_options(
            ties=ties,
            lateness=lateness,
            on_late=on_late,
            at_end=at_end,
            limit=limit,
            delimiter=delimiter,
            decimal_comma=decimal_comma,
            null=null,
            encoding=encoding,
            types=types,
        )
        request = RunRequest(
            input=Input(tuple(names), format, options),
            output=output,
            output_format=output_format,
            table_rows=None if all_rows or limit is not None else TABLE_ROWS,
            sort=sort,
            quiet=quiet,
            status=status,
        )
        (print_why if why else work)(_query(text, _parameters(context, param)), request)


@app.command()
def report(
    context: typer.Context,
    query_file: QueryFile = None,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA",
            help="Files and globs, or - for standard input. Without: the files that FROM names.",
            show_default=False,
        ),
    ] = None,
    query: QueryText = None,
    output: Annotated[
        str, typer.Option("-o", "--output", help="The page to write; - is standard output.")
    ] = "report.html",
    format: DataFormat = None,
    delimiter: Delimiter = None,
    decimal_comma: DecimalComma = None,
    ties: Annotated[Ties, typer.Option(help=help_of(FileOptions, "ties"))] = _DEFAULTS.ties,
    at_end: Annotated[AtEnd, typer.Option(help=help_of(FileOptions, "at_end"))] = _DEFAULTS.at_end,
    column_type: ColumnTypes = None,
    null: Null = None,
    encoding: Encoding = None,
    param: Parameter = None,
) -> None:
    """Write a page of HTML about what a query finds: counts, lags, matches on time lines."""
    text, names = _text(context, query, query_file, data)
    with reported(context):
        from piestream.cli.work import Input, file_options, write_report

        options = file_options(
            ties=ties,
            at_end=at_end,
            delimiter=delimiter,
            decimal_comma=decimal_comma,
            null=null,
            encoding=encoding,
            types=_types(context, column_type),
        )
        wanted = Input(tuple(names), format, options)
        write_report(_query(text, _parameters(context, param)), wanted, output)


@app.command()
def check(
    context: typer.Context,
    query_file: QueryFile = None,
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA", help="Files whose columns the query must fit.", show_default=False
        ),
    ] = None,
    query: QueryText = None,
    format: DataFormat = None,
    delimiter: Delimiter = None,
    decimal_comma: DecimalComma = None,
    column_type: ColumnTypes = None,
    null: Null = None,
    encoding: Encoding = None,
    param: Parameter = None,
) -> None:
    """Say what is wrong with a query, by itself or against the columns of a file."""
    text, names = _text(context, query, query_file, data)
    with reported(context):
        parsed = _query(text, _parameters(context, param))
        if names or any(stream.path for stream in parsed.inputs):
            from piestream.adapters.file_run import bound_to
            from piestream.cli.work import Input, check_inputs, file_options, opened

            options = file_options(
                delimiter=delimiter,
                decimal_comma=decimal_comma,
                null=null,
                encoding=encoding,
                types=_types(context, column_type),
            )
            wanted = Input(tuple(names), format, options)
            if parsed.is_combined:
                check_inputs(parsed, wanted)
            else:
                with closing(opened(parsed, wanted)) as source:
                    bound_to(parsed, source)
        for symbol in parsed.symbols:
            if symbol.predicate.is_never_true:
                follows = "nothing can match" if parsed.rows is None else "no row can be one"
                if symbol.name in {absence.symbol for absence in parsed.absences}:
                    follows = "its NOT (…) always holds"
                what = f"the predicate of {symbol.name} is never true, so {follows}"
                fault = parsed.fault(("predicate", symbol.name), what)
                typer.echo(f"warning: {fault}", err=True)
        if parsed.absences:
            from piestream.language.absence_waits import wait_texts

            for symbol_name, said in wait_texts(parsed):
                fault = parsed.fault(("absence", symbol_name), said)
                typer.echo(f"warning: {fault}", err=True)
        if parsed.rows is not None and parsed.rows.conditions:
            from piestream.plan.row_ways import doubling_text

            doubling = doubling_text(parsed)
            if doubling is not None:
                typer.echo(f"warning: {parsed.fault(('pattern',), doubling)}", err=True)
    typer.echo("ok")


@app.command()
def explain(
    context: typer.Context,
    query_file: QueryFile = None,
    query: QueryText = None,
    format: Annotated[
        Literal["text", "mermaid", "dot"], typer.Option(help="Text, or the automata as diagrams.")
    ] = "text",
    param: Parameter = None,
) -> None:
    """Say how a query is worked: predicates, automata, decision points, join plan, state."""
    text, names = _text(context, query, query_file)
    if names:
        refuse(context, f"explain needs nothing but a query: what is {names[0]}?")
    with reported(context):
        from piestream import show

        explanation = show.explain(_query(text, _parameters(context, param)))
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


def _text(
    context: typer.Context, query: str | None, file: str | None, data: list[str] | None = None
) -> tuple[str, list[str]]:
    """The text of the query, and the data; with ``-q`` all the arguments are data."""
    names = list(data or [])
    if query is not None:
        return query, [file, *names] if file is not None else names
    if file is None:
        refuse(context, "a query is missing: give its file, or its text with -q")
    if file != "-" and has_data_suffix(file):
        refuse(context, f"{file} is data: the query comes first, then the data")
    try:
        if file == "-":
            return sys.stdin.buffer.read().decode(), names
        return Path(file).read_bytes().decode(), names
    except UnicodeDecodeError:
        refuse(context, f"{file} is no text in UTF-8; the query comes first, then the data")
    except OSError as error:
        if file == "-":
            fail(f"cannot read the query from standard input: {error.strerror}")
        if len(file.split()) > 1:
            refuse(context, f"there is no file {file!r}; the text of a query is given with -q")
        refuse(context, f"cannot read the query {file}: {error.strerror}")


def _query(text: str, parameters: Mapping[str, ParameterValue]) -> Query:
    from piestream.language import parse

    return parse(text, **parameters)


def _parameters(context: typer.Context, given: list[str] | None) -> dict[str, ParameterValue]:
    try:
        return parameters_written(given or [])
    except ValueError as error:
        refuse(context, str(error))


def _types(context: typer.Context, given: list[str] | None) -> dict[str, str] | None:
    types: dict[str, str] = {}
    for item in given or []:
        column, equals, type = item.rpartition("=")
        if not equals:
            refuse(context, f"--type {item}: write COLUMN=TYPE, for example {item}=float")
        types[column] = type
    return types or None
