"""Files and standard input in chunks: what is larger than memory streams through.

Text (CSV, NDJSON) is cut into blocks of whole lines, Parquet is read by row groups; only the
columns that the query needs are parsed. All of it goes through one `Stream`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import polars as pl

from piestream.adapters.frames import CHUNK_ROWS, bound, check_options, lateness_ticks
from piestream.adapters.text_files import Filed, FileError, Piped, TextSource, first_line
from piestream.engine.reordering import OnLate, Ties
from piestream.engine.stream import Stream
from piestream.errors import OrderError, TimeError
from piestream.language.model import Query
from piestream.language.symbols import DurationLike

__all__ = ["FORMATS", "TYPES", "FileError", "Format", "Run", "Source", "open_source", "run_from"]

Format = Literal["parquet", "csv", "ndjson"]

#: What a file holds, from the end of its name.
FORMATS: Mapping[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
}

#: CSV whose columns are parted by tabs.
TABS = ".tsv"

#: The types that a user may say for a column of text.
TYPES: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}

#: Inputs of up to so many rows are taken whole, and so need not be in order of time.
WHOLE_ROWS = 1 << 20


class Source(Protocol):
    """Rows in chunks, and how far the reading is."""

    name: str
    total: int | None  # bytes or rows; None: not known

    @property
    def done(self) -> int:
        """Bytes or rows read so far."""

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""

    def close(self) -> None:
        """No more is read."""


def open_source(
    names: Sequence[str],
    *,
    format: Format | None = None,
    types: Mapping[str, pl.DataType] | None = None,
    live: bool = False,
    delimiter: str | None = None,
    decimal_comma: bool | None = None,
) -> Source:
    """Files by their names or globs, or standard input (``-``), as one source of rows.

    ``format`` says what they hold where the names do not. ``types`` overrides the types of text
    columns. A ``live`` standard input is handed on as it comes, not in large blocks. A
    ``delimiter`` parts the columns of CSV, where it is no comma (and no tab in ``.tsv``);
    ``decimal_comma`` says whether its numbers are written like 9,5.
    """
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        raise ValueError(f"a delimiter is one character like ; or a tab, not {delimiter!r}")
    if list(names) == ["-"]:
        if format is None:
            raise ValueError(
                "standard input has no name that says what it holds: give the format (--format csv)"
            )
        if format == "parquet":
            spool = _spooled(sys.stdin.buffer)
            return ScanSource("standard input", pl.scan_parquet(spool), spool)
        _check_csv(format, delimiter, decimal_comma)
        piped = Piped(sys.stdin.buffer, live)
        return TextSource([piped], format == "csv", types or {}, delimiter, decimal_comma)
    if "-" in names:
        raise ValueError("standard input (-) cannot be read together with files")
    remote = [name for name in names if "://" in name]
    files = [path for name in names if name not in remote for path in _expanded(name)]
    formats = {format or _format_of(name) for name in (*remote, *files)}
    tabs = {format is None and _suffix(name) == TABS for name in (*remote, *files)}
    if len(formats) > 1 or len(tabs) > 1:
        kinds = sorted(formats | {"tsv"} if len(tabs) > 1 else formats)
        raise ValueError(f"files of one kind are read together, not {', '.join(kinds)}")
    (kind,) = formats
    if delimiter is None and tabs == {True}:
        delimiter = "\t"
    _check_csv(kind, delimiter, decimal_comma)
    label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if kind == "parquet":
        return ScanSource(label, pl.scan_parquet([*remote, *files]))
    if remote:
        if files:
            raise ValueError("remote and local text files cannot be read together")
        scanned = (
            pl.scan_ndjson(remote)
            if kind == "ndjson"
            else (
                pl.scan_csv(
                    remote,
                    try_parse_dates=True,
                    separator=delimiter or ",",
                    decimal_comma=bool(decimal_comma),
                )
            )
        )
        return ScanSource(label, scanned)
    for name in files:
        if os.path.isdir(name):
            raise ValueError(f"{name} is a directory: name its files, for example {name}/*.{kind}")
    texts = [Filed(name) for name in files]
    return TextSource(texts, kind == "csv", types or {}, delimiter, decimal_comma)


def _check_csv(kind: str | None, delimiter: str | None, decimal_comma: bool | None) -> None:
    if delimiter is not None and kind != "csv":
        raise ValueError(f"a delimiter is for CSV, not for {kind}")
    if decimal_comma and kind != "csv":
        raise ValueError(f"decimal commas are for CSV, not for {kind}")
    if decimal_comma and delimiter in (None, ","):
        raise ValueError(
            "with decimal commas columns are parted by another sign: say the delimiter"
        )


def _expanded(name: str) -> list[str]:
    if has_magic(name) and not os.path.exists(name):
        found = sorted(path for path in glob(name, recursive=True) if os.path.isfile(path))
        if not found:
            raise FileNotFoundError(f"no file matches {name}")
        return found
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name}")
    return [name]


def _format_of(name: str) -> Format:
    if os.path.isdir(name):
        return "parquet"
    suffix = _suffix(name)
    if suffix == TABS:
        return "csv"
    if suffix not in FORMATS or (name.endswith(".gz") and suffix == ".parquet"):
        raise ValueError(
            f"{name}: what kind of file is this? Its name should end in "
            f"{', '.join([*FORMATS, TABS])} (text also with .gz), or give the format (--format ndjson)"
        )
    return FORMATS[suffix]


def _suffix(name: str) -> str:
    """The end of a name that says what a file holds."""
    path = Path(name)
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def _spooled(stream: BinaryIO) -> BinaryIO:
    """On disk, because Parquet is read from its end."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the scan)
    shutil.copyfileobj(stream, spool, 1 << 20)
    spool.seek(0)
    return spool


class ScanSource:
    """What Polars scans by itself: Parquet by row groups, and remote files."""

    def __init__(self, name: str, frame: pl.LazyFrame, spool: BinaryIO | None = None) -> None:
        self.name = name
        self._spool = spool  # what is scanned, if it has no name: read once
        self.done = 0
        self.total: int | None = None
        self._frame = frame

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""
        try:
            return dict(self._frame.collect_schema())
        except pl.exceptions.PolarsError as error:
            raise FileError(f"{self.name}: {first_line(error)}") from None

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""
        self.done = 0
        needed = self._frame.select(columns)
        try:
            self.total = self._frame.select(pl.len()).collect().item()
            for chunk in needed.collect_batches(
                chunk_size=CHUNK_ROWS, maintain_order=True, lazy=True
            ):
                self.done += len(chunk)
                yield chunk
        except pl.exceptions.PolarsError as error:
            raise FileError(f"{self.name}: {first_line(error)}") from None

    def close(self) -> None:
        """No more is read."""
        if self._spool is not None:
            self._spool.close()


class Run:
    """One query over one source, in chunks.

    Up to `WHOLE_ROWS` rows are taken whole, in any order; a longer input has to be in order of
    time within each partition, or has to be sorted (``sort``: then all of it is held in memory),
    or is out of order by no more than a ``lateness``.
    """

    def __init__(
        self,
        query: Query,
        source: Source,
        *,
        ties: Ties = "error",
        lateness: DurationLike | None = None,
        on_late: OnLate = "error",
        sort: bool = False,
    ) -> None:
        check_options(ties, on_late)
        self.source = source
        self.sort = sort
        self.binding = bound(query, source.schema)
        ticks = None if lateness is None else lateness_ticks(self.binding, lateness)
        self.stream = Stream(self.binding, ties=ties, lateness=ticks, on_late=on_late)

    def results(self) -> Iterator[pl.DataFrame]:
        """The result rows as they become known; frames without rows tell that a chunk is done."""
        stream = self.stream
        held: list[pl.DataFrame] | None = [] if stream.lateness is None else None
        n_held = n_rows = 0
        for chunk in self.source.chunks(self.binding.columns):
            self._check_times(chunk, n_rows)
            n_rows += len(chunk)
            rows = stream.project(chunk)
            if held is not None:
                held.append(rows)
                n_held += len(rows)
                if self.sort or n_held <= WHOLE_ROWS:
                    yield pl.DataFrame(schema=self.binding.result_schema)
                    continue
                rows, held = pl.concat(held), None
            yield stream.process_projected(rows)
        if held:
            yield stream.process_projected(pl.concat(held))
        yield stream.finish()

    def _check_times(self, chunk: pl.DataFrame, before: int) -> None:
        times = chunk[self.binding.time.name]
        if times.null_count():
            row = before + int(times.is_null().arg_max() or 0) + 1
            raise TimeError(
                f"{self.source.name}: the time column {times.name} is NULL in row {row}; every "
                "event needs a time: filter these rows out"
            )


def run_from(
    query: Query,
    *,
    ties: Ties = "error",
    delimiter: str | None = None,
    decimal_comma: bool | None = None,
) -> pl.DataFrame:
    """Every match in the files that a query's FROM names."""
    if query.path is None:
        raise query.fault(
            ("source",),
            "the query names no file to read",
            "give a frame, or write FROM 'path/*.parquet'",
        )

    def collected(sort: bool) -> pl.DataFrame:
        path = str(query.path)
        source = open_source([path], delimiter=delimiter, decimal_comma=decimal_comma)
        with closing(source):
            run = Run(query, source, ties=ties, sort=sort)
            results = [result for result in run.results() if len(result)]
        return pl.concat([pl.DataFrame(schema=run.binding.result_schema), *results])

    try:
        return collected(sort=False)
    except OrderError:  # a bounded input need not be in order: once more, sorted
        return collected(sort=True)
