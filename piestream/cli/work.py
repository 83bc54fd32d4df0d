"""``piestream run``: from files to files."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from types import FrameType
from typing import Any

from piestream.adapters.files import FORMATS, TYPES, Run, Source, open_source
from piestream.adapters.text_files import has_come
from piestream.cli.output import Output, TableOutput, open_output
from piestream.engine.statistics import Statistics
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.durations import as_duration
from piestream.language.model import Query

__all__ = ["Options", "UsageError", "opened", "summary", "work"]


class UsageError(Exception):
    """The command line was used wrongly."""


@dataclass(frozen=True, slots=True)
class Options:
    """What ``piestream run`` was asked for."""

    data: tuple[str, ...] = ()
    format: Any = None
    delimiter: str | None = None
    decimal_comma: bool | None = None
    types: Mapping[str, str] | None = None
    output: str | None = None
    output_format: Any = None
    limit: int | None = 20
    ties: Any = "error"
    lateness: str | None = None
    on_late: Any = "error"
    sort: bool = False
    quiet: bool = False


def opened(
    data: tuple[str, ...],
    format: Any,
    types: Mapping[str, str],
    live: bool = False,
    delimiter: str | None = None,
    decimal_comma: bool | None = None,
) -> Source:
    """The data named on the command line."""
    said = {column: TYPES[kind] for column, kind in types.items()}
    try:
        sign = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
        return open_source(
            data, format=format, types=said, live=live, delimiter=sign, decimal_comma=decimal_comma
        )
    except (FileNotFoundError, ValueError) as error:
        raise UsageError(str(error)) from None


def work(query: Query, options: Options) -> None:
    """Run a query over the data, write what it finds, and sum up on standard error."""
    live = options.lateness is not None
    if options.lateness is not None:
        try:
            as_duration(options.lateness, "the lateness")
        except QueryError as error:
            raise UsageError(f"--lateness {options.lateness}: {error}") from None
    format = _output_format(options)
    _refuse_own_input(options.output, options.data or (query.path or "-",))
    with closing(_source(query, options, live)) as source:
        _work(query, source, options, format)


def _work(query: Query, source: Source, options: Options, format: Any) -> None:
    job = Run(
        query,
        source,
        ties=options.ties,
        lateness=options.lateness,
        on_late=options.on_late,
        sort=options.sort,
    )
    schema = job.binding.result_schema
    if format == "table":
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        live = options.lateness is not None and options.data == ("-",)
        output: Output = TableOutput(schema, limit=options.limit, width=width, live=live)
    else:
        try:
            output = open_output(
                None if options.output in (None, "-") else options.output, format, schema
            )
        except OSError as error:
            raise UsageError(str(error)) from None
    started = time.perf_counter()
    try:
        with _interrupts() as interrupted, _progress(source, options.quiet) as tick:
            for rows in job.results():
                output.write(rows)
                tick(job.stream.progress)
                interrupted()
        output.close()
    except BaseException:
        output.abandon()
        raise
    seconds = time.perf_counter() - started
    if not options.quiet:
        if isinstance(output, TableOutput) and options.limit is not None:
            hidden = output.rows - options.limit
            if hidden > 0:
                print(
                    f"the first {options.limit:,} of {output.rows:,} rows; --all prints all, "
                    "-o FILE writes them",
                    file=sys.stderr,
                )
        print(summary(job.stream.statistics, seconds), file=sys.stderr)


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


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Ctrl-C between two chunks, or while waiting for data; at any instant only the second time.

    Compiled loops and Polars do not bear to be broken off wherever they are.
    """
    wanted = False

    def came(_: int, frame: FrameType | None) -> None:
        nonlocal wanted
        if wanted or (frame is not None and frame.f_code is has_come.__code__):
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


def _output_format(options: Options) -> Any:
    output = options.output
    if output is None:
        return options.output_format or "table"
    if output == "-":
        return options.output_format or ("table" if sys.stdout.isatty() else "csv")
    if options.output_format == "table":
        raise UsageError("a table is printed, not written: leave out -o, or choose another format")
    suffix = Path(output).suffix.lower()
    if options.output_format is None and suffix not in FORMATS:
        raise UsageError(
            f"{output}: which format? Its name should end in {', '.join(FORMATS)}, "
            "or say it with --output-format"
        )
    return options.output_format or FORMATS[suffix]


def _refuse_own_input(output: str | None, data: tuple[str, ...]) -> None:
    """A result must not be written over what it is made of."""
    if output is None or output == "-" or not Path(output).exists():
        return
    for name in data:
        for path in glob(name) or [name]:
            if Path(path).exists() and Path(path).samefile(output):
                raise UsageError(f"{output} is the input: write the matches to another file")


def _source(query: Query, options: Options, live: bool) -> Source:
    if options.data:
        data, types = options.data, options.types or {}
        return opened(data, options.format, types, live, options.delimiter, options.decimal_comma)
    if query.path is None:
        raise UsageError("there is no data: name files after the query, or write FROM 'path'")
    try:
        types = options.types or {}
        return opened(
            (query.path,), options.format, types, False, options.delimiter, options.decimal_comma
        )
    except UsageError as error:  # it stands in the query
        raise query.fault(("source",), str(error)) from None


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
