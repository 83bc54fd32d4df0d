"""``piestream run``: from files to files."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from piestream.adapters.file_run import FileRun
from piestream.adapters.files import Source, open_source
from piestream.adapters.formats import FORMATS, Format
from piestream.adapters.text_blocks import can_read
from piestream.cli.output import Output, Schema, TableOutput, open_output
from piestream.engine.statistics import Statistics
from piestream.expressions.diagnostics import QueryError
from piestream.language.model import Query
from piestream.language.options import FileOptions

__all__ = ["Input", "RunRequest", "UsageError", "file_options", "opened", "summary", "work"]

OutputFormat = Literal["table", "csv", "ndjson", "parquet"]


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
    limit: int | None = 20
    sort: bool = False
    quiet: bool = False

    @property
    def live(self) -> bool:
        """Whether rows of standard input are worked on as they come."""
        return self.input.options.lateness is not None


def opened(query: Query, wanted: Input, live: bool = False) -> Source:
    """The data that the command line names, or else the files that the query's FROM names."""
    path = query.streams[0].path
    data = wanted.data or ((path,) if path is not None else ())
    if not data:
        raise UsageError("there is no data: name files after the query, or write FROM 'path'")
    try:
        return open_source(data, format=wanted.format, live=live, options=wanted.options)
    except (FileNotFoundError, ValueError) as error:
        if not wanted.data:  # the fault is in the query
            raise query.fault(("source",), str(error)) from None
        raise UsageError(str(error)) from None


def work(query: Query, request: RunRequest) -> None:
    """Run a query over the data, write what it finds, and sum up on standard error."""
    format = _output_format(request)
    _refuse_own_input(request.output, request.input.data or (query.streams[0].path or "-",))
    with closing(opened(query, request.input, request.live)) as source:
        _work(query, source, request, format)


def _work(query: Query, source: Source, request: RunRequest, format: OutputFormat) -> None:
    run = FileRun(query, source, request.input.options, sort=request.sort)
    output = _output(request, format, run.binding.result_schema)
    started = time.perf_counter()
    try:
        with _interrupts() as interrupted, _progress(source, request.quiet) as tick:
            for rows in run.results():
                output.write(rows)
                tick(run.stream.progress)
                interrupted()
        output.close()
    except BaseException:
        output.abandon()
        raise
    seconds = time.perf_counter() - started
    if request.quiet:
        return
    if (
        isinstance(output, TableOutput)
        and request.limit is not None
        and output.rows > request.limit
    ):
        print(
            f"the first {request.limit:,} of {output.rows:,} rows; --all prints all, "
            "-o FILE writes them",
            file=sys.stderr,
        )
    seen = run.stream.statistics
    print(summary(seen, seconds), file=sys.stderr)
    if seen.incomplete:
        print(incomplete_rows(seen.incomplete), file=sys.stderr)


def _output(request: RunRequest, format: OutputFormat, schema: Schema) -> Output:
    if format == "table":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        live = request.live and request.input.data == ("-",)
        return TableOutput(schema, limit=request.limit, width=width, live=live)
    path = None if request.output in (None, "-") else request.output
    try:
        return open_output(path, format, schema)
    except OSError as error:
        raise UsageError(str(error)) from None


def summary(seen: Statistics, seconds: float) -> str:
    """What a run has seen, in one line.

    >>> summary(Statistics(events=2000, matches=3, partitions=2, live_intervals=1), 0.5)
    '2,000 events, 3 matches in 0.50 s (4,000 events/s); 0 late, 0 ties, 1 live interval'
    """
    rate = round(seen.events / seconds) if seconds else 0
    intervals = "interval" if seen.live_intervals == 1 else "intervals"
    matches = "match" if seen.matches == 1 else "matches"
    return (
        f"{seen.events:,} events, {seen.matches:,} {matches} in {seconds:.2f} s "
        f"({rate:,} events/s); {seen.late:,} late, {seen.ties:,} ties, "
        f"{seen.live_intervals:,} live {intervals}"
    )


def incomplete_rows(count: int) -> str:
    """What is said of matches whose intervals are open when the data ends.

    >>> incomplete_rows(1)
    '1 row is missing, whose intervals are open where the data ends; --at-end close ends them there'
    """
    rows = "row is" if count == 1 else "rows are"
    return (
        f"{count:,} {rows} missing, whose intervals are open where the data ends; "
        "--at-end close ends them there"
    )


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C between two chunks, or while waiting for data; at any instant only the second time.

    Compiled loops and Polars cannot be interrupted safely.
    """
    wanted = False

    def came(_: int, frame: FrameType | None) -> None:
        nonlocal wanted
        if wanted or (frame is not None and frame.f_code is can_read.__code__):
            raise KeyboardInterrupt
        wanted = True

    def interrupted() -> None:
        if wanted:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, came)
    except ValueError:  # not the main thread, which alone gets signals
        yield interrupted
        return
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


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


@contextmanager
def _progress(source: Source, quiet: bool) -> Iterator[Any]:
    """A progress bar on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield lambda seen: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[events]:,} events, {task.fields[matches]:,} matches"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(Path(source.name).name, total=source.total, events=0, matches=0)

        def tick(seen: Statistics) -> None:
            bar.update(
                task,
                completed=source.done,
                total=source.total,
                events=seen.events,
                matches=seen.matches,
            )

        yield tick
