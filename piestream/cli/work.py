"""``piestream run``: from files to files."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import Any, Literal

from piestream.adapters.file_run import FileRun
from piestream.adapters.files import Source, open_source
from piestream.adapters.formats import FORMATS, Format
from piestream.adapters.inputs import Inputs
from piestream.adapters.inputs_run import InputsRun
from piestream.adapters.terminal import printable
from piestream.archives.live import LiveRun
from piestream.archives.run import ArchiveRun
from piestream.archives.source import ArchiveSource, directory_archive, source_of
from piestream.cli.inputs import NamedInputs, named_inputs
from piestream.cli.output import Output, TableOutput, open_output
from piestream.cli.process import DeferredSignals
from piestream.cli.progress import incomplete_rows, plain_warnings, progress_bar, summary
from piestream.errors import FileError, StreamError
from piestream.expressions.diagnostics import QueryError
from piestream.language.model import Query
from piestream.language.options import FileOptions
from piestream.show.exports import ExportFormat, check_export, is_export
from piestream.show.matches import with_endpoints

__all__ = [
    "Input",
    "RunRequest",
    "UsageError",
    "file_options",
    "opened",
    "work",
    "write_report",
]

#: Rows of a table that are printed if nothing else is said.
TABLE_ROWS = 20

#: What is worked on: files, an archive, several inputs, or live streams beside archives.
AnyRun = FileRun | ArchiveRun | InputsRun | LiveRun

OutputFormat = Literal["table", "csv", "ndjson", "parquet", "trace", "grafana", "mne"]


class UsageError(Exception):
    """The command line was used wrongly."""


def file_options(**given: Any) -> FileOptions:
    """The options of a run, from the command line: the name of a tab may be written out."""
    delimiter = given.get("delimiter")
    given["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
    try:
        return FileOptions.of(given)
    except QueryError as error:
        raise UsageError(f"--lateness {given['lateness']}: {error}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Input:
    """The data that the command line names, and how it is read."""

    data: tuple[str, ...] = ()
    format: Format | None = None
    options: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What ``piestream run`` is to do."""

    input: Input
    output: str | None = None
    output_format: OutputFormat | None = None
    table_rows: int | None = TABLE_ROWS
    sort: bool = False
    quiet: bool = False
    status: str | None = None

    @property
    def live(self) -> bool:
        """Whether rows of standard input are worked on as they come."""
        return self.input.options.lateness is not None


def opened(
    query: Query, wanted: Input, live: bool = False, idle: Callable[[], None] | None = None
) -> Source:
    """The data that the command line names, or else the files that the query's FROM names.

    ``idle`` is called while standard input is waited for.
    """
    path = query.streams[0].path
    data = wanted.data or ((path,) if path is not None else ())
    if not data:
        raise UsageError("there is no data: name files after the query, or write FROM 'path'")
    try:
        found = directory_archive(data[0]) if len(data) == 1 else None
        if found is not None:
            return source_of(found)
        return open_source(data, format=wanted.format, live=live, options=wanted.options, idle=idle)
    except FileError:
        raise
    except (FileNotFoundError, ValueError) as error:
        if not wanted.data:  # the fault is in the query
            raise query.fault(("source",), str(error)) from None
        raise UsageError(str(error)) from None


def work(query: Query, request: RunRequest) -> None:
    """Run a query over the data, write what it finds, and sum up on standard error."""
    format = _output_format(request)
    if is_export(format):
        query = with_endpoints(query)
    own = tuple(stream.path or "-" for stream in query.inputs)
    if query.is_combined:
        files = named_files(query, request.input.data)
        _refuse_own_input(request.output, (*own, *(n for names in files.values() for n in names)))
        signals = DeferredSignals()
        _work(_inputs_run(query, request), None, request, format, signals, [signals.check])
        return
    _refuse_own_input(request.output, request.input.data or own)
    signals = DeferredSignals()
    ticks = [signals.check]

    def idle() -> None:
        for tick in ticks:
            tick()

    with closing(opened(query, request.input, request.live, idle)) as source:
        _work(
            _file_run(query, source, request),
            source,
            request,
            format,
            signals,
            ticks,
        )


def _file_run(query: Query, source: Source, request: RunRequest) -> FileRun | ArchiveRun:
    """The run over one source; of an archive only what can be part of a match is read."""
    options = request.input.options
    if isinstance(source, ArchiveSource):
        select = request.status is None  # a status tells of the stream of all rows
        return ArchiveRun(query, source, options, sort=request.sort, select=select)
    return FileRun(query, source, options, sort=request.sort)


def named_files(query: Query, data: Sequence[str]) -> dict[str, list[str]]:
    """The files of each stream, from arguments like ``vitals=a.csv``."""
    inputs = Inputs(query)
    files: dict[str, list[str]] = {}
    for argument in data:
        name, equals, path = argument.partition("=")
        try:
            key = inputs.name_of(name if equals and name in inputs.names else None)
        except ValueError:
            listed = ", ".join(inputs.names)
            raise UsageError(
                f"{argument}: write which stream it is of, as in {next(iter(inputs.names))}="
                f"{argument.rpartition('=')[2]}; the query reads {listed}"
            ) from None
        files.setdefault(key, []).append(path if equals and name in inputs.names else argument)
    return files


def inputs_of(query: Query, wanted: Input) -> NamedInputs:
    """The inputs of a query of several streams that a command line names."""
    files = named_files(query, wanted.data)
    return named_inputs(query, files, wanted.options, wanted.format)


def _inputs_run(query: Query, request: RunRequest) -> InputsRun | LiveRun:
    """The run of a query of several streams; of archives only what can be part of a match is read."""
    options = request.input.options
    try:
        inputs = inputs_of(query, request.input)
        if query.reads_archives:
            select = request.status is None  # a status tells of the stream of all rows
            return LiveRun(query, inputs.rows, inputs.archives, options, select)
        return InputsRun(query, inputs.rows, options)
    except QueryError:
        raise
    except (FileNotFoundError, ValueError) as error:
        if isinstance(error, StreamError):
            raise
        raise UsageError(str(error)) from None


def check_inputs(query: Query, wanted: Input) -> None:
    """Refuse a query of several streams that does not fit the files of each."""
    _inputs_run(query, RunRequest(wanted))


def _work(
    run: AnyRun,
    source: Source | None,
    request: RunRequest,
    format: OutputFormat,
    signals: DeferredSignals,
    ticks: list[Callable[[], None]],
) -> None:
    """Do a run. ``ticks`` are called between its steps, and while data is waited for."""
    if is_export(format):
        _check_export(run, format)
    started = time.perf_counter()
    with signals, _status(run, request, ticks):
        output = _output(run, request, format)
        try:
            with progress_bar(source, request.quiet) as progress, plain_warnings():
                for rows in run.results():
                    output.write(rows)
                    progress(run.stream.progress)
                    for tick in ticks:
                        tick()
            output.close()
        except BaseException:
            output.abandon()
            raise
    if not request.quiet:
        with suppress(OSError):  # the result is complete, whether this can be read or not
            _sum_up(run, request, output, time.perf_counter() - started)
            seen = run.stream.statistics
            if not seen.matches and sys.stderr.isatty():
                from piestream.cli.why import where_they_went

                there = max(seen.events, _rows_there(run))
                print(where_they_went(run.binding.query, request, there), file=sys.stderr)


def _rows_there(run: AnyRun) -> int:
    """How many rows a run may leave unread."""
    return run.rows_there if isinstance(run, ArchiveRun | LiveRun) else 0


@contextmanager
def _status(run: AnyRun, request: RunRequest, ticks: list[Callable[[], None]]) -> Iterator[None]:
    """The status of a run, if it is asked for, is written about once a second."""
    if request.status is None:
        yield
        return
    from piestream.monitoring.runs import PublishedRun

    try:
        published = PublishedRun(run.binding.query, run.stream, request.status)
    except FileNotFoundError as error:
        raise UsageError(str(error)) from None
    ticks.append(published.tick)
    with published:
        yield


def _check_export(run: AnyRun, format: ExportFormat) -> None:
    try:
        check_export(run.binding.query, format, run.binding.time.dtype)
    except ValueError as error:
        raise UsageError(f"--output-format {format}: {error}") from None


def _sum_up(run: AnyRun, request: RunRequest, output: Output, seconds: float) -> None:
    if (
        isinstance(output, TableOutput)
        and request.table_rows is not None
        and output.rows > request.table_rows
    ):
        print(
            f"the first {request.table_rows:,} of {output.rows:,} rows; --all prints all, "
            "-o FILE writes them",
            file=sys.stderr,
        )
    if run.limit.cut:
        print(f"stopped at the limit of {run.limit.rows:,} rows; there are more", file=sys.stderr)
    seen = run.stream.statistics
    if run.limit.cut:  # those that were worked out, but are not in the result, do not count
        seen = replace(seen, matches=min(seen.matches, run.limit.rows))
    print(summary(seen, seconds), file=sys.stderr)
    if seen.incomplete:
        print(incomplete_rows(seen.incomplete), file=sys.stderr)


def _output(run: AnyRun, request: RunRequest, format: OutputFormat) -> Output:
    schema = run.binding.result_schema
    if format == "table":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        live = request.live and request.input.data == ("-",)
        return TableOutput(schema, limit=request.table_rows, width=width, live=live)
    path = None if request.output in (None, "-") else request.output
    try:
        return open_output(path, format, run.binding.query, schema)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(str(error)) from None


def _output_format(request: RunRequest) -> OutputFormat:
    output = request.output
    if output is None:
        return request.output_format or "table"
    if output == "-":
        return request.output_format or ("table" if sys.stdout.isatty() else "csv")
    if request.output_format == "table":
        raise UsageError("a table is printed, not written: leave out -o, or choose another format")
    suffix = Path(output).suffix.lower()
    if request.output_format is None and suffix not in FORMATS:
        raise UsageError(
            f"{output}: which format? Its name should end in {', '.join(FORMATS)}, "
            "or say it with --output-format"
        )
    return request.output_format or FORMATS[suffix]


def _refuse_own_input(output: str | None, data: tuple[str, ...]) -> None:
    """A result must not be written over what it is made of."""
    if output is None or output == "-" or not Path(output).exists():
        return
    for name in data:
        for path in glob(name) or [name]:
            if Path(path).exists() and Path(path).samefile(output):
                raise UsageError(f"{output} is the input: write the matches to another file")


def write_report(query: Query, wanted: Input, output: str) -> None:
    """Write the report of a query over data to a file, or to standard output for -."""
    from piestream.cli.output import write_text
    from piestream.cli.why import rows_looked_into
    from piestream.pictures.report import report_of_rows

    own = tuple(stream.path or "-" for stream in query.inputs)
    if query.is_combined:
        files = named_files(query, wanted.data)
        _refuse_own_input(output, (*own, *(name for names in files.values() for name in names)))
    else:
        _refuse_own_input(output, wanted.data or own)
    page = report_of_rows(rows_looked_into(query, wanted))
    try:
        write_text(None if output == "-" else output, page)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(str(error)) from None
    if output != "-":
        print(f"written: {printable(output)}", file=sys.stderr)
