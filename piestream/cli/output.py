"""Where result rows go: files that grow as rows come, standard output, a table.

A file gets its name only once it is complete; what fails halfway leaves nothing behind.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, BinaryIO, Protocol

import polars as pl

from piestream.adapters.formats import Format
from piestream.adapters.named_files import NamedFile, write_faults
from piestream.expressions.columns import column_named
from piestream.language.model import Query
from piestream.show.exports import ExportFormat, export, is_export
from piestream.show.table import PAGE_ROWS, table_text

__all__ = ["Output", "ParquetOutput", "TableOutput", "TextOutput", "open_output", "write_text"]

_ROW_GROUP = 1 << 18

Schema = Mapping[str, pl.DataType]


class Output(Protocol):
    """Takes result rows until it is closed, or abandoned because something failed."""

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows."""

    def close(self) -> None:
        """All rows have come: make the result complete."""

    def abandon(self) -> None:
        """Something failed: leave nothing behind."""


def open_output(
    path: str | None, format: Format | ExportFormat, query: Query, schema: Schema
) -> Output:
    """A file, or standard output where ``path`` is None."""
    target: _Target = NamedFile(Path(path)) if path is not None else _Standard()
    if is_export(format):
        return ExportOutput(target, query, format, schema)
    return (
        ParquetOutput(target, schema)
        if format == "parquet"
        else (TextOutput(target, schema, csv=format == "csv"))
    )


def write_text(path: str | None, text: str) -> None:
    """Write a text to a file as a whole, or to standard output where ``path`` is None."""
    target: _Target = NamedFile(Path(path)) if path is not None else _Standard()
    try:
        with write_faults(target.name):
            target.file.write(text.encode())
        target.done()
    except BaseException:
        target.undone()
        raise


class _Standard:
    """Standard output."""

    name = "standard output"

    def __init__(self) -> None:
        self.file: BinaryIO = sys.stdout.buffer
        self.folder: Path | None = None  # where temporary files belong

    def done(self) -> None:
        with write_faults(self.name):
            self.file.flush()

    def undone(self) -> None:
        pass


_Target = NamedFile | _Standard


class TextOutput:
    """CSV or NDJSON. CSV has no durations: they are written as ISO 8601, ``PT4.5S``."""

    def __init__(self, target: _Target, schema: Schema, *, csv: bool) -> None:
        self._target = target
        self._csv = csv
        self._lengths = [name for name, dtype in schema.items() if dtype == pl.Duration]
        if csv:
            self._put(pl.DataFrame(schema=dict(schema)), header=True)

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows."""
        if len(rows):
            self._put(rows)
            if isinstance(self._target, _Standard):
                self._target.done()

    def _put(self, rows: pl.DataFrame, header: bool = False) -> None:
        text = io.BytesIO()
        if self._csv:
            rows = rows.with_columns(
                column_named(name).dt.to_string("iso") for name in self._lengths
            )
            rows.write_csv(text, include_header=header)
        else:
            rows.write_ndjson(text)
        with write_faults(self._target.name):
            self._target.file.write(text.getbuffer())

    def close(self) -> None:
        """All rows have come."""
        self._target.done()

    def abandon(self) -> None:
        """Something failed."""
        self._target.undone()


class ParquetOutput:
    """Parquet. Row groups that are full wait on disk as files of their own, until all have come.

    Polars could write them from a generator as rows come, but a query of Polars that runs for so
    long on a thread takes Ctrl-C away from the main thread.
    """

    def __init__(self, target: _Target, schema: Schema) -> None:
        self._target = target
        self._held = [pl.DataFrame(schema=dict(schema))]
        self._n_held = 0
        self._parts: list[Path] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows."""
        if not len(rows):
            return
        self._held.append(rows)
        self._n_held += len(rows)
        if self._n_held >= _ROW_GROUP:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(
                    dir=self._target.folder, prefix=".piestream-", suffix=".part"
                )
            part = Path(self._folder.name) / f"{len(self._parts)}.parquet"
            with write_faults(self._target.name):
                pl.concat(self._held).write_parquet(part, row_group_size=_ROW_GROUP)
            self._parts.append(part)
            self._held, self._n_held = self._held[:1], 0

    def close(self) -> None:
        """All rows have come."""
        if isinstance(self._target, _Standard):  # Polars would not tell a broken pipe as such
            with tempfile.TemporaryFile() as spool:
                self._put(spool)
                spool.seek(0)
                with write_faults(self._target.name):
                    shutil.copyfileobj(spool, self._target.file, 1 << 20)
        else:
            self._put(self._target.file)
        self._clear()
        self._target.done()

    def _put(self, file: IO[bytes]) -> None:
        last = pl.concat(self._held)
        with write_faults(self._target.name):
            if not self._parts:
                last.write_parquet(file, row_group_size=_ROW_GROUP)
            else:
                whole = pl.concat([pl.scan_parquet(self._parts, glob=False), last.lazy()])
                whole.sink_parquet(file, row_group_size=_ROW_GROUP, engine="streaming")

    def abandon(self) -> None:
        """Something failed."""
        self._clear()
        self._target.undone()

    def _clear(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


class ExportOutput:
    """A text for another tool, made of all matches once they have come."""

    def __init__(self, target: _Target, query: Query, format: ExportFormat, schema: Schema) -> None:
        self._target = target
        self._query = query
        self._format: ExportFormat = format
        self._held = [pl.DataFrame(schema=dict(schema))]

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows."""
        self._held.append(rows)

    def close(self) -> None:
        """All rows have come."""
        text = export(self._query, pl.concat(self._held), self._format)
        with write_faults(self._target.name):
            self._target.file.write(text.encode())
        self._target.done()

    def abandon(self) -> None:
        """Something failed."""
        self._target.undone()


class TableOutput:
    """A readable table on standard output: of the first rows, or of all in pages.

    ``live`` prints rows as they come, each time with their own widths.
    """

    def __init__(
        self, schema: Schema, *, limit: int | None, width: int | None, live: bool = False
    ) -> None:
        self._schema = dict(schema)
        self._limit = limit
        self._width = width
        self._page_rows = 1 if live else PAGE_ROWS
        self._held: list[pl.DataFrame] = []
        self._n_held = 0
        self._printed = False
        self.rows = 0

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows; prints what fills pages."""
        room = self._limit - self.rows if self._limit is not None else len(rows)
        self.rows += len(rows)
        kept = rows.head(max(room, 0))
        if not len(kept):
            return
        self._held.append(kept)
        self._n_held += len(kept)
        if self._n_held >= self._page_rows:
            self._print_full_pages()

    def _print_full_pages(self) -> None:
        held = pl.concat(self._held)
        full = self._n_held // self._page_rows * self._page_rows
        for page in held.head(full).iter_slices(PAGE_ROWS):
            self._print(page)
        self._held = [held.slice(full)]
        self._n_held -= full

    def _print(self, rows: pl.DataFrame) -> None:
        text = ("\n" if self._printed else "") + table_text(rows, self._width)
        encoding = sys.stdout.encoding or "utf-8"
        if not encoding.lower().startswith("utf"):
            text = text.replace("─", "-").encode(encoding, "replace").decode(encoding)
        with write_faults(_Standard.name):
            sys.stdout.write(text)
            sys.stdout.flush()
        self._printed = True

    def close(self) -> None:
        """Print what is left; an empty result shows its columns."""
        if self._n_held or not self._printed:
            empty = pl.DataFrame(schema=self._schema)
            self._print(pl.concat([empty, *self._held]))

    def abandon(self) -> None:
        """What was found before the fault is not shown."""
