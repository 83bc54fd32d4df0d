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
from dataclasses import replace
from glob import glob, has_magic
from typing import BinaryIO, Protocol

import polars as pl

from piestream.adapters.formats import TABS, Format, TypeName, format_of, suffix_of
from piestream.adapters.text_blocks import TextFile, TextPipe
from piestream.adapters.text_faults import first_line
from piestream.adapters.text_files import TextSource
from piestream.errors import FileError
from piestream.expressions.columns import column_named
from piestream.language.options import FileOptions

__all__ = ["TYPES", "Source", "open_source"]

#: Rows worked on at a time where an input can be cut: enough to amortise, and few enough for the cache.
CHUNK_ROWS = 1 << 18

#: The types that a user may say for a column of text.
TYPES: Mapping[TypeName, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}


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
    options: FileOptions | None = None,
) -> Source:
    """Files by their names or globs, or standard input (``-``), as one source of rows.

    ``format`` says what they hold where the names do not. ``types`` overrides the types of text
    columns. A ``live`` standard input is handed on as it comes, not in large blocks. Of the
    options those count that say how CSV is written.
    """
    options = options or FileOptions()
    if list(names) == ["-"]:
        return _standard_input(format, types or {}, live, options)
    if "-" in names:
        raise ValueError("standard input (-) cannot be read together with files")
    remote = [name for name in names if "://" in name]
    files = [path for name in names if name not in remote for path in _expanded(name)]
    formats = {format or format_of(name) for name in (*remote, *files)}
    tabs = {format is None and suffix_of(name) == TABS for name in (*remote, *files)}
    if len(formats) > 1 or len(tabs) > 1:
        kinds = sorted(formats | {"tsv"} if len(tabs) > 1 else formats)
        raise ValueError(f"files of one kind are read together, not {', '.join(kinds)}")
    (kind,) = formats
    if options.delimiter is None and tabs == {True}:
        options = replace(options, delimiter="\t")
    _check_csv(kind, options)
    label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if kind == "parquet":
        return ScanSource(label, pl.scan_parquet([*remote, *files]))
    if remote and files:
        raise ValueError("remote and local text files cannot be read together")
    if remote:
        return ScanSource(label, _remote_text(remote, kind, options))
    for name in files:
        if os.path.isdir(name):
            raise ValueError(f"{name} is a directory: name its files, for example {name}/*.{kind}")
    return _text(list(map(TextFile, files)), kind, types or {}, options)


def _standard_input(
    format: Format | None, types: Mapping[str, pl.DataType], live: bool, options: FileOptions
) -> Source:
    if format is None:
        raise ValueError(
            "standard input has no name that says what it holds: give the format (--format csv)"
        )
    if format == "parquet":
        spool = _spooled(sys.stdin.buffer)
        return ScanSource("standard input", pl.scan_parquet(spool), spool)
    _check_csv(format, options)
    return _text([TextPipe(sys.stdin.buffer, live)], format, types, options)


def _text(
    parts: Sequence[TextFile | TextPipe],
    format: Format,
    types: Mapping[str, pl.DataType],
    options: FileOptions,
) -> TextSource:
    return TextSource(parts, format == "csv", types, options.delimiter, options.decimal_comma)


def _remote_text(names: list[str], format: Format, options: FileOptions) -> pl.LazyFrame:
    if format == "ndjson":
        return pl.scan_ndjson(names)
    return pl.scan_csv(
        names,
        try_parse_dates=True,
        separator=options.delimiter or ",",
        decimal_comma=bool(options.decimal_comma),
    )


def _check_csv(format: Format, options: FileOptions) -> None:
    if options.delimiter is not None and format != "csv":
        raise ValueError(f"a delimiter is for CSV, not for {format}")
    if options.decimal_comma and format != "csv":
        raise ValueError(f"decimal commas are for CSV, not for {format}")
    if options.decimal_comma and options.delimiter in (None, ","):
        raise ValueError(
            "with decimal commas columns are separated by another sign: say the delimiter"
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


def _spooled(stream: BinaryIO) -> BinaryIO:
    """On disk, because Parquet is read from its end."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the scan)
    try:
        shutil.copyfileobj(stream, spool, 1 << 20)
    except OSError as error:
        raise FileError(f"standard input cannot be copied: {error.strerror}") from None
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
        needed = self._frame.select(map(column_named, columns))
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
