"""Where result rows go: files that grow as rows come, standard output, a table.

A file gets its name only once it is complete; what fails halfway leaves nothing behind.
"""

from __future__ import annotations

import io
import os
import queue
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import polars as pl

from piestream.cli.table import PAGE_ROWS, table_text
from piestream.files import Format

__all__ = ["Output", "ParquetOutput", "TableOutput", "TextOutput", "open_output"]

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


def open_output(path: str | None, format: Format, schema: Schema) -> Output:
    """A file, or standard output where ``path`` is None."""
    target: _Target = _Named(Path(path)) if path is not None else _Standard()
    return ParquetOutput(target, schema) if format == "parquet" else (
        TextOutput(target, schema, csv=format == "csv")
    )


class _Named:
    """A file that takes its place when it is complete. A pipe or device is written to directly."""

    def __init__(self, path: Path) -> None:
        self.path = path
        special = path.exists() and not path.is_file()
        if special and path.is_dir():
            raise IsADirectoryError(f"{path} is a directory, not a file to write")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no directory {path.parent} to write {path.name} in")
        self._partial = path if special else path.with_name(f".{path.name}.{os.getpid()}.part")
        self.file: BinaryIO = open(self._partial, "wb")  # noqa: SIM115 (closed by done or undone)

    def done(self) -> None:
        self.file.close()
        if self._partial != self.path:
            os.replace(self._partial, self.path)

    def undone(self) -> None:
        self.file.close()
        if self._partial != self.path:
            self._partial.unlink(missing_ok=True)


class _Standard:
    """Standard output."""

    def __init__(self) -> None:
        self.file: BinaryIO = sys.stdout.buffer

    def done(self) -> None:
        self.file.flush()

    def undone(self) -> None:
        pass


_Target = _Named | _Standard


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
                self._target.file.flush()

    def _put(self, rows: pl.DataFrame, header: bool = False) -> None:
        text = io.BytesIO()
        if self._csv:
            rows = rows.with_columns(pl.col(name).dt.to_string("iso") for name in self._lengths)
            rows.write_csv(text, include_header=header)
        else:
            rows.write_ndjson(text)
        self._target.file.write(text.getbuffer())

    def close(self) -> None:
        """All rows have come."""
        self._target.done()

    def abandon(self) -> None:
        """Something failed."""
        self._target.undone()


class ParquetOutput:
    """Parquet, whose row groups Polars writes on a thread of its own while rows come.

    The rows wait in a short queue, so that what is larger than memory streams through.
    """

    def __init__(self, target: _Target, schema: Schema) -> None:
        self._target = target
        self._schema = dict(schema)
        self._rows: queue.Queue[pl.DataFrame | None] = queue.Queue(maxsize=4)
        self._failure: BaseException | None = None
        # Parquet is not written to a pipe directly: its writer may want to know where it is.
        self._spool = tempfile.TemporaryFile() if isinstance(target, _Standard) else None  # noqa: SIM115
        self._thread = threading.Thread(target=self._sink, daemon=True)
        self._thread.start()

    def _sink(self) -> None:
        from polars.io.plugins import register_io_source

        file: Any = self._spool if self._spool is not None else self._target.file
        try:
            frame = register_io_source(self._taken, schema=self._schema)
            frame.sink_parquet(file, row_group_size=_ROW_GROUP, engine="streaming")
        except BaseException as error:
            self._failure = error

    def _taken(self, columns: list[str] | None, *_: object) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame(schema=self._schema)
        while (rows := self._rows.get()) is not None:
            yield rows if columns is None else rows.select(columns)

    def _hand_over(self, rows: pl.DataFrame | None) -> None:
        while True:
            if self._failure is not None:
                raise self._failure
            if not self._thread.is_alive():
                return
            try:
                return self._rows.put(rows, timeout=0.1)
            except queue.Full:
                continue

    def write(self, rows: pl.DataFrame) -> None:
        """Take rows."""
        if len(rows):
            self._hand_over(rows)

    def close(self) -> None:
        """All rows have come."""
        self._hand_over(None)
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        if self._spool is not None:
            self._spool.seek(0)
            shutil.copyfileobj(self._spool, self._target.file)
            self._spool.close()
        self._target.done()

    def abandon(self) -> None:
        """Something failed: the thread is daemonic and dies with the process if it must."""
        try:
            self._hand_over(None)
            self._thread.join(timeout=1)
        except BaseException:  # whatever it is, it is not what failed first
            pass
        if self._spool is not None:
            self._spool.close()
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
