"""Files and standard input in chunks: what is larger than memory streams through.

Text (CSV, NDJSON) is cut into blocks of whole lines, Parquet is read by row groups; only the
columns that the query needs are parsed. All of it goes through one `Stream`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path
from typing import BinaryIO, Protocol

import polars as pl

from piestream.adapters.formats import TABS, Format, format_of, suffix_of
from piestream.adapters.joined_times import JoinedSource, joined_times
from piestream.adapters.text_blocks import TextFile, TextPipe
from piestream.adapters.text_faults import first_line
from piestream.adapters.text_files import TextSource
from piestream.adapters.text_types import given_types
from piestream.engine.calls import make_ready
from piestream.errors import FileError
from piestream.expressions.columns import column_named
from piestream.language.options import FileOptions

__all__ = ["Source", "open_source"]

#: Rows worked on at a time where an input can be cut: enough to amortise, and few enough for the cache.
CHUNK_ROWS = 1 << 18

#: What Polars raises where it cannot read.
_UNREADABLE = (pl.exceptions.PolarsError, OSError)


class Source(Protocol):
    """Rows in chunks, and how far the reading is."""

    name: str
    total: int | None  # bytes or rows; None: not known

    @property
    def advice(self) -> dict[str, str]:
        """By column: what to say if the query does not fit its type."""

    @property
    def done(self) -> int:
        """Bytes or rows read so far."""

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""

    def fault_in_row(self, row: int, fault: str) -> str:
        """A fault with the place of a row of the last chunk."""

    def close(self) -> None:
        """No more is read."""


def open_source(
    names: Sequence[str],
    *,
    format: Format | None = None,
    live: bool = False,
    options: FileOptions | None = None,
    idle: Callable[[], None] | None = None,
) -> Source:
    """Files by their names or globs, or standard input (``-``), as one source of rows.

    ``format`` says what they hold where the names do not. A ``live`` standard input is handed on as
    it comes, not in large blocks; ``idle`` is called several times a second while text of it is waited
    for. Of the options those count that say how text is written.
    """
    options = options or FileOptions()
    if list(names) == ["-"]:
        return _standard_input(format, live, options, idle)
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
    _check_text(kind, options)
    label = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if kind == "parquet":
        return ScanSource(label, _scanned(remote, files))
    if remote:
        raise ValueError(
            f"{remote[0]} is remote, and of remote files only Parquet is read; text comes from the "
            f"disk or from standard input: curl -s {remote[0]} | piestream run QUERY.SQL - "
            f"--format {kind}"
        )
    for name in files:
        if os.path.isdir(name):
            raise ValueError(f"{name} is a directory: name its files, for example {name}/*.{kind}")
    return _text(list(map(TextFile, files)), kind, options)


def _scanned(remote: Sequence[str], files: Sequence[str]) -> pl.LazyFrame:
    """Parquet files, the remote ones first; the names of those on the disk are no patterns any more."""
    for name in filter(os.path.isdir, files):
        inside = [path for path in Path(name).rglob("*") if path.is_file()]
        if not inside or any(path.suffix != ".parquet" for path in inside):
            folders = sorted(path.parent for path in inside if path.suffix == ".parquet")
            raise ValueError(
                f"{name} is a directory, and not of Parquet files alone: name its files, for example "
                f"{folders[0] if folders else name}/*.parquet"
            )
    scans = [pl.scan_parquet(list(remote))] if remote else []
    if files:
        scans.append(pl.scan_parquet(list(files), glob=False))
    return scans[0] if len(scans) == 1 else pl.concat(scans)


def _standard_input(
    format: Format | None, live: bool, options: FileOptions, idle: Callable[[], None] | None
) -> Source:
    if format is None:
        raise ValueError(
            "standard input has no name that says what it holds: give the format (--format csv)"
        )
    if format == "parquet":
        spool = _spooled(sys.stdin.buffer)
        return ScanSource("standard input", pl.scan_parquet(spool), spool)
    _check_text(format, options)
    make_ready()  # what has to be compiled is there when the first rows come
    return _text([TextPipe(sys.stdin.buffer, live, idle)], format, options)


def _text(parts: Sequence[TextFile | TextPipe], format: Format, options: FileOptions) -> Source:
    joined, types = joined_times(options.types or {})
    source = TextSource(parts, format == "csv", given_types(types), options)
    return JoinedSource(source, joined) if joined else source


def _check_text(format: Format, options: FileOptions) -> None:
    """Refuse options that say how text is written where there is no such text."""
    if options.delimiter is not None and format != "csv":
        raise ValueError(f"a delimiter is for CSV, not for {format}")
    if options.decimal_comma and format != "csv":
        raise ValueError(f"decimal commas are for CSV, not for {format}")
    if options.null is not None and format != "csv":
        raise ValueError(f"words for missing values are for CSV, not for {format}")
    if options.decimal_comma and options.delimiter in (None, ","):
        raise ValueError(
            "with decimal commas columns are separated by another sign: say the delimiter"
        )
    if format == "parquet" and options.types:
        raise ValueError("Parquet has types of its own: none can be given for its columns")
    if format == "parquet" and options.encoding is not None:
        raise ValueError("an encoding is for CSV and NDJSON, not for parquet")


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
    """What Polars scans by itself: Parquet by row groups, also from remote places."""

    def __init__(self, name: str, frame: pl.LazyFrame, spool: BinaryIO | None = None) -> None:
        self.name = name
        self._spool = spool  # what is scanned, if it has no name: read once
        self.done = 0
        self.total: int | None = None
        self.advice: dict[str, str] = {}
        self._frame = frame
        self._n_before = 0  # rows before the last chunk

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""
        try:
            return dict(self._frame.collect_schema())
        except _UNREADABLE as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> FileError:
        text = first_line(error)
        if "://" not in self.name:
            return FileError(f"{self.name}: {text}")
        return FileError(
            f"{self.name} cannot be read: {text}; remote Parquet is read from s3, gs, az, abfss, hf, "
            "http and https, with the credentials of the environment"
        )

    def fault_in_row(self, row: int, fault: str) -> str:
        """A fault with the number of a row of the last chunk."""
        return f"{self.name}, row {self._n_before + row + 1}: {fault}"

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""
        self.done = 0
        needed = self._frame.select(map(column_named, columns))
        try:
            self.total = self._frame.select(pl.len()).collect().item()
            for chunk in needed.collect_batches(
                chunk_size=CHUNK_ROWS, maintain_order=True, lazy=True
            ):
                self._n_before = self.done
                self.done += len(chunk)
                yield chunk
        except _UNREADABLE as error:
            raise self._unreadable(error) from None

    def close(self) -> None:
        """No more is read."""
        if self._spool is not None:
            self._spool.close()
