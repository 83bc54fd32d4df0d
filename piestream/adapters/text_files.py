"""CSV and NDJSON in blocks of whole lines, from files and from pipes."""

from __future__ import annotations

import gzip
import io
import os
import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, BinaryIO

import polars as pl

from piestream.adapters.text_times import as_moments, is_moment, moment_type
from piestream.errors import FileError

__all__ = ["BLOCK_BYTES", "Filed", "Piped", "TextSource", "first_line", "has_come"]

#: Bytes of text parsed at a time.
BLOCK_BYTES = 16 << 20

#: A block ends at a line end that is looked for in so many bytes, so that it need not be cut again.
_WINDOW_BYTES = 64 << 10

#: The types of text columns are those that these rows at the beginning have.
TYPED_ROWS = 10_000

#: A quoted field may hold line ends; one that is longer than this is taken for a stray quote.
_LONGEST_FIELD = 4 * BLOCK_BYTES

#: How long a live stream may be silent before what has come is worked on.
_PATIENCE_SECONDS = 0.02


class Filed:
    """A text file, perhaps compressed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.size: int | None = os.path.getsize(name)
        self._raw: BinaryIO | None = None

    def blocks(self, names: bool = False) -> Iterator[bytes]:
        """Its bytes, as they are read; a line of ``names`` comes alone where it can."""
        with open(self.name, "rb", buffering=0) as self._raw:
            compressed = self.name.endswith(".gz")
            if not compressed and os.path.isfile(self.name):
                yield from self._plain(self._raw, names)
                return
            stream: Any = gzip.GzipFile(fileobj=self._raw) if compressed else self._raw
            try:
                while block := stream.read(BLOCK_BYTES):
                    yield block
            except (gzip.BadGzipFile, EOFError) as error:
                raise FileError(f"{self.name} cannot be decompressed: {error}") from None

    def _plain(self, stream: BinaryIO, names: bool) -> Iterator[bytes]:
        """Large blocks that end with a line where one is near.

        Cutting text elsewhere copies it, which costs a quarter of what parsing does.
        """
        file, at = stream.fileno(), 0
        near = min(_WINDOW_BYTES, BLOCK_BYTES)
        if names:
            line = stream.read(os.pread(file, near, 0).find(b"\n") + 1)
            at = len(line)
            yield line
        while True:
            window = os.pread(file, near, at + BLOCK_BYTES - near)
            after = len(window) - (window.rfind(b"\n") + 1)
            block = stream.read(BLOCK_BYTES - (after if after < len(window) == near else 0))
            if not block:
                return
            yield block
            at += len(block)

    def close(self) -> None:
        """No more is read."""
        if self._raw is not None:
            self._raw.close()

    @property
    def position(self) -> int:
        """Bytes of the file read so far."""
        return 0 if self._raw is None or self._raw.closed else self._raw.tell()


class Piped:
    """Standard input; ``live`` hands on what has come instead of waiting for large blocks."""

    name = "standard input"
    size: int | None = None

    def __init__(self, stream: BinaryIO, live: bool) -> None:
        self.position = 0
        self._stream = stream
        self._live = live

    def blocks(self, names: bool = False) -> Iterator[bytes]:
        """Its bytes, as they are read, wherever a line of ``names`` ends."""
        read = getattr(self._stream, "read1", self._stream.read)
        ended = False
        while not ended:
            pieces: list[bytes] = []
            n_bytes = 0
            while n_bytes < BLOCK_BYTES:
                patience = _PATIENCE_SECONDS if self._live and pieces else None
                if not has_come(self._stream, patience):
                    break
                piece: bytes = read(BLOCK_BYTES - n_bytes)
                if not piece:
                    ended = True
                    break
                pieces.append(piece)
                n_bytes += len(piece)
            self.position += n_bytes
            if pieces:
                yield b"".join(pieces)

    def close(self) -> None:
        """Standard input is not ours to close."""


def has_come(stream: BinaryIO, patience: float | None) -> bool:
    """Whether a read will not wait; without patience given, only once that is so.

    Waiting here and not in the read lets Ctrl-C through: Polars has reads restarted after it.
    """
    try:
        return bool(select.select([stream], [], [], patience)[0])
    except (OSError, ValueError):  # not something that can be waited for
        return patience is None


@dataclass
class _Opened:
    """The first lines of a text, which say its columns, and the rest."""

    head: bytes  # the line of names in CSV, nothing in NDJSON
    first: bytes
    rest: Iterator[bytes]
    columns: dict[str, pl.DataType] = field(default_factory=dict)


class TextSource:
    """CSV or NDJSON, from files or a pipe, in blocks of whole lines."""

    def __init__(
        self,
        parts: Sequence[Filed | Piped],
        csv: bool,
        types: Mapping[str, pl.DataType],
        delimiter: str | None = None,
        decimal_comma: bool | None = None,
    ) -> None:
        self.name = parts[0].name if len(parts) == 1 else f"{parts[0].name} …"
        self._parts = parts
        self._csv = csv
        self._said = types
        self._is_told = delimiter is not None
        self._delimiter = delimiter or ","
        self._decimal_comma = decimal_comma
        self._before = 0  # bytes of the parts that are read
        self._at: Filed | Piped = parts[0]
        self._opened: _Opened | None = None  # the first part, waiting to be read on
        self._schema: dict[str, pl.DataType] | None = None
        sizes = [part.size for part in parts]
        known = [size for size in sizes if size is not None]
        self.total = sum(known) if len(known) == len(sizes) else None

    @property
    def done(self) -> int:
        """Bytes read so far."""
        return self._before + self._at.position

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns of the first part, with the types that its first block has."""
        if self._schema is None:
            self._opened = self._open(self._parts[0])
            self._schema = self._opened.columns
        return self._schema

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""
        schema = self.schema
        self._before = 0
        for part in self._parts:
            self._at, n_rows = part, 0
            opened, self._opened = self._opened or self._open(part, schema), None
            missing = [name for name in columns if name not in opened.columns]
            if missing and self._csv:
                raise FileError(f"{part.name} has no column {missing[0]}")
            for column in columns:
                if self._csv and f"{column}_duplicated_0" in opened.columns:
                    raise FileError(f"{part.name} has several columns that are named {column}")
            for block in chain([opened.first], opened.rest):
                chunk = self._parsed(part.name, opened, block, columns, n_rows)
                n_rows += len(chunk)
                yield chunk
            self._before += part.size or 0

    def close(self) -> None:
        """No more is read."""
        for part in self._parts:
            part.close()

    def _open(
        self, part: Filed | Piped, schema: Mapping[str, pl.DataType] | None = None
    ) -> _Opened:
        """Read the names and, if no schema is given yet, the types of the columns."""
        blocks = _whole_lines(part.blocks(self._csv), quotes=self._csv)
        first = next(blocks, b"").removeprefix(b"\xef\xbb\xbf")
        head = b""
        if self._csv:
            head, _, first = first.partition(b"\n")
            head += b"\n"
            while not first.strip():  # what comes first may be the names alone
                more = next(blocks, None)
                if more is None:
                    break
                first = more
            if not head.strip():
                raise FileError(f"{part.name} is empty: a CSV file begins with its column names")
        opened = _Opened(head, first, blocks)
        found = self._inferred(part.name, opened)
        self._check_delimiter(part.name, found)
        self._check_decimals(part.name, opened, found)
        if schema is None:
            for name in self._said:
                if name not in found:
                    raise FileError(f"{part.name} has no column {name}, whose type was given")
            found.update(self._said)
            if not first.strip() and not (found and set(found) <= set(self._said)):
                raise FileError(
                    f"{part.name} holds no rows, so the types of its columns are not known; say "
                    "them for all columns with --type COLUMN=int and so on"
                )
        opened.columns = (
            found
            if schema is None
            else (
                {name: schema.get(name, dtype) for name, dtype in found.items()}
                if self._csv
                else dict(schema)
            )
        )
        return opened

    def _check_delimiter(self, name: str, found: Mapping[str, pl.DataType]) -> None:
        """One column whose name holds a usual separator is no column."""
        meant = [sign for sign in (";", "\t", "|", ",") for column in found if sign in column]
        if self._csv and not self._is_told and len(found) == 1 and meant:
            raise FileError(
                f"{name} has one column, {next(iter(found))!r}: its columns seem to be parted by "
                f"{meant[0]!r}; say so with --delimiter, in Python with run(delimiter={meant[0]!r})"
            )

    def _check_decimals(self, name: str, opened: _Opened, found: Mapping[str, pl.DataType]) -> None:
        """Texts that are numbers if their commas are decimal ones are probably numbers."""
        if not self._csv or self._decimal_comma is not None or self._delimiter == ",":
            return
        otherwise = self._scanned(opened.head + opened.first, decimal_comma=True).collect_schema()
        meant = [
            column
            for column, dtype in found.items()
            if dtype == pl.String and otherwise[column].is_float() and column not in self._said
        ]
        if meant:
            raise FileError(
                f"{name}: the column {meant[0]} seems to hold numbers with decimal commas; say "
                "that it does with --decimal-comma, in Python with run(decimal_comma=True), "
                "or that it does not with --no-decimal-comma, run(decimal_comma=False)"
            )

    def _scanned(
        self,
        text: bytes,
        schema: Mapping[str, pl.DataType] | None = None,
        decimal_comma: bool | None = None,
    ) -> pl.LazyFrame:
        """Rows of CSV: with a schema rows alone, and without one a line of names before them."""
        if decimal_comma is None:
            decimal_comma = bool(self._decimal_comma)
        if schema is None:
            return pl.scan_csv(
                text, separator=self._delimiter, decimal_comma=decimal_comma,
                try_parse_dates=True, infer_schema_length=TYPED_ROWS,
            )  # fmt: skip
        # What a short row lacks is missing, also in the first row of a block.
        return pl.scan_csv(
            text, separator=self._delimiter, decimal_comma=decimal_comma,
            has_header=False, schema=schema, missing_columns="insert",
        )  # fmt: skip

    def _inferred(self, name: str, opened: _Opened) -> dict[str, pl.DataType]:
        lines = opened.first
        if not self._csv:
            if not lines.strip():
                return {}
            lines = b"".join(islice(io.BytesIO(lines), TYPED_ROWS))
        try:
            if not self._csv:
                sample = pl.read_ndjson(lines, infer_schema_length=TYPED_ROWS)
                return {column.name: moment_type(column) for column in sample}
            return dict(self._scanned(opened.head + lines).collect_schema())
        except pl.exceptions.PolarsError as error:
            row = None if self._csv else first_faulty(lines, pl.read_ndjson)
            raise FileError(f"{_place(name, row, 0)}: {_told(error)}") from None

    def _parsed(
        self, name: str, opened: _Opened, block: bytes, columns: Sequence[str], before: int
    ) -> pl.DataFrame:
        if not block.strip():
            return pl.DataFrame(schema={column: opened.columns[column] for column in columns})
        try:
            return self._rows(opened, block, columns)
        except pl.exceptions.PolarsError as error:
            whole = not self._csv or b'"' not in block  # a row is a line
            row = first_faulty(block, lambda b: self._rows(opened, b, columns)) if whole else None
            told = _told(error)
            hint = (
                ""
                if told != first_line(error)
                else (
                    f"\n  = the types of columns are those of the first {TYPED_ROWS:,} rows; where these "
                    "mislead, say the type (--type COLUMN=float on the command line), or use Parquet"
                )
            )
            raise FileError(f"{_place(name, row, before)}: {told}{hint}") from None

    def _rows(self, opened: _Opened, block: bytes, columns: Sequence[str]) -> pl.DataFrame:
        if self._csv:
            return self._scanned(block, opened.columns).select(columns).collect()
        wanted = {column: opened.columns[column] for column in columns}
        as_text = {n: pl.String() if is_moment(t) else t for n, t in wanted.items()}
        rows = pl.read_ndjson(block, schema=as_text)
        moments = [as_moments(rows[n], t) for n, t in wanted.items() if is_moment(t)]
        return rows.with_columns(moments)


def first_faulty(block: bytes, read: Callable[[bytes], Any]) -> int | None:
    """The number of the first line that cannot be read, from 0; None if each can by itself."""
    lines = block.splitlines(keepends=True)
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(b"".join(lines[low:middle]), read):
            low = middle
        else:
            high = middle
    return None if not lines or _reads(lines[low], read) else low


def _reads(block: bytes, read: Callable[[bytes], Any]) -> bool:
    try:
        if block.strip():
            read(block)
    except pl.exceptions.PolarsError:
        return False
    return True


def _place(name: str, row: int | None, before: int) -> str:
    """Where in a file something is wrong: in a row, counted from 1, or after some rows."""
    if row is not None:
        return f"{name}, row {before + row + 1}"
    return f"{name} (after row {before})" if before else name


def _told(error: BaseException) -> str:
    """What Polars says of a text, in words that fit a user who gave it a file."""
    said = first_line(error)
    if "fields than" in said or "n_extra" in said:
        return "it has more fields than there are columns"
    if any(word in said for word in ("Syntax", "TapeError", "JSON object", "error parsing line")):
        return "this is no JSON object; NDJSON has one object a line, not an array"
    return said


def first_line(error: BaseException) -> str:
    """What an error says, without the advice of Polars to its own users."""
    return str(error).strip().split("\n", 1)[0]


def _whole_lines(blocks: Iterator[bytes], quotes: bool) -> Iterator[bytes]:
    """The same bytes, cut after line ends only; with ``quotes`` not at those inside of quotes."""
    held = b""
    for block in blocks:
        held = held + block if held else block
        cut = _last_line_end(held) if quotes else held.rfind(b"\n") + 1
        if not cut and len(held) > _LONGEST_FIELD:
            cut = held.rfind(b"\n") + 1
        if cut:
            yield held[:cut]  # no copy if that is all
            held = held[cut:]
    if held:
        yield held


def _last_line_end(text: bytes) -> int:
    """Where the last line ends that has all its quotes closed; 0 if there is none."""
    if b'"' not in text:
        return text.rfind(b"\n") + 1
    inside = text.count(b'"') % 2 == 1
    end = len(text)
    while (at := text.rfind(b"\n", 0, end)) >= 0:
        inside ^= text.count(b'"', at, end) % 2 == 1
        if not inside:
            return at + 1
        end = at
    return 0
