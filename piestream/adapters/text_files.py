"""CSV and NDJSON as frames: the columns of a text, and the rows of each block."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import polars as pl

from piestream.adapters.csv_rows import RowShape, line_count, rows_of
from piestream.adapters.csv_text import CsvText
from piestream.adapters.json_text import JsonText
from piestream.adapters.text_blocks import TextFile, TextPipe, count_last_fields, whole_lines
from piestream.adapters.text_decoding import as_utf8, check_utf8
from piestream.adapters.text_faults import fault_in_row, first_unreadable, reason
from piestream.adapters.text_types import TextType
from piestream.errors import FileError
from piestream.language.options import FileOptions

__all__ = ["TextSource"]

#: The types of text columns are those that these rows at the beginning have.
TYPED_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class _Block:
    """Some whole lines of a text."""

    text: bytes
    line: int  # the number of the first line, from 1


@dataclass
class _Opened:
    """The first lines of a text, which say its columns, and the rest."""

    shape: RowShape | None  # of CSV
    first: _Block
    rest: Iterator[_Block]
    columns: dict[str, pl.DataType] = field(default_factory=dict)


class TextSource:
    """CSV or NDJSON, from files or a pipe, in blocks of whole lines."""

    def __init__(
        self,
        parts: Sequence[TextFile | TextPipe],
        csv: bool,
        types: Mapping[str, TextType],
        options: FileOptions,
    ) -> None:
        self.name = parts[0].name if len(parts) == 1 else f"{parts[0].name} …"
        #: What to say if a column that is text turns out to be needed as something else.
        self.advice: dict[str, str] = {}
        self._parts = parts
        self._csv = CsvText(options, types) if csv else None
        self._json = JsonText(types)
        self._delimiter = (options.delimiter or ",") if csv else None
        self._types = {name: given.dtype for name, given in types.items()}
        self._encoding = options.encoding
        self._before = 0  # bytes of the parts that are read
        self._at: TextFile | TextPipe = parts[0]
        self._opened: _Opened | None = None  # the first part, waiting to be read on
        self._schema: dict[str, pl.DataType] | None = None
        self._block = _Block(b"", 1)  # that of the last chunk
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
            self._at = part
            opened, self._opened = self._opened or self._open(part, schema), None
            if self._csv:
                self._check_columns(part.name, opened, columns)
            for block in chain([opened.first], opened.rest):
                self._block = block
                yield self._parsed(part.name, opened, block, columns)
            self._before += part.size or 0

    def fault_in_row(self, row: int, fault: str) -> str:
        """A fault with the line on which a row of the last chunk stands, and the row."""
        rows = rows_of(self._block.text, self._block.line) if self._csv else _lines(self._block)
        line, text = next(islice(rows, row, None))
        return fault_in_row(self._at.name, line, text, fault)

    def close(self) -> None:
        """No more is read."""
        for part in self._parts:
            part.close()

    # -- the beginning of a part ------------------------------------------------------------------
    def _blocks(self, part: TextFile | TextPipe) -> Iterator[_Block]:
        """The text of a part in whole lines."""
        text = as_utf8(part.name, part.blocks(bool(self._csv)), self._encoding)
        line = 1
        for block in whole_lines(text, part.name, self._delimiter):
            check_utf8(part.name, block, line)
            yield _Block(block, line)
            line += line_count(block)

    def _open(
        self, part: TextFile | TextPipe, schema: Mapping[str, pl.DataType] | None = None
    ) -> _Opened:
        """Read the names and, if no schema is given yet, the types of the columns."""
        blocks = self._blocks(part)
        if self._csv:
            names, first = _names(part.name, blocks)
        else:
            names, first = b"", next(blocks, _Block(b"", 1))
        while not first.text.strip():  # what comes first may be the names alone
            more = next(blocks, None)
            if more is None:
                break
            first = more
        shape = self._csv.shape(part.name, names) if self._csv else None
        opened = _Opened(shape, first, blocks)
        found = self._inferred(part.name, opened, names)
        if schema is None:
            opened.columns = self._typed(part.name, found, first)
        elif self._csv:
            opened.columns = {name: schema.get(name, dtype) for name, dtype in found.items()}
        else:
            opened.columns = dict(schema)
        return opened

    def _inferred(self, name: str, opened: _Opened, names: bytes) -> dict[str, pl.DataType]:
        rows = self._checked(name, opened, opened.first)
        if self._csv:
            found, advice = self._csv.columns(name, names, rows, TYPED_ROWS)
            self.advice = advice | self.advice
            return found
        if not rows.strip():
            return {}
        rows = b"".join(islice(io.BytesIO(rows), TYPED_ROWS))
        try:
            return self._json.columns(rows, TYPED_ROWS)
        except pl.exceptions.PolarsError as error:
            block = _Block(rows, opened.first.line)
            raise self._unreadable(name, block, pl.read_ndjson, error) from None

    def _typed(
        self, name: str, found: dict[str, pl.DataType], first: _Block
    ) -> dict[str, pl.DataType]:
        """The columns with the types that were given for them."""
        for column in self._types:
            if column not in found and (self._csv or first.text.strip()):
                raise FileError(f"{name} has no column {column}, whose type was given")
        found = {**found, **self._types}
        if not first.text.strip() and not (found and set(found) <= set(self._types)):
            raise FileError(
                f"{name} holds no rows, so the types of its columns are not known; say them for all "
                "columns: --type COLUMN=int and so on, in Python run(types={'COLUMN': 'int', …})"
            )
        return found

    def _check_columns(self, name: str, opened: _Opened, columns: Sequence[str]) -> None:
        for column in columns:
            if column not in opened.columns:
                raise FileError(f"{name} has no column {column}")
            if f"{column}_duplicated_0" in opened.columns:
                raise FileError(f"{name} has several columns that are named {column}")

    # -- rows -------------------------------------------------------------------------------------
    def _checked(self, name: str, opened: _Opened, block: _Block) -> bytes:
        """The text of a block, with rows that have no more fields than there are columns."""
        if opened.shape is None:
            return block.text
        return opened.shape.checked(name, block.text, block.line)

    def _parsed(
        self, name: str, opened: _Opened, block: _Block, columns: Sequence[str]
    ) -> pl.DataFrame:
        if not block.text.strip():
            return pl.DataFrame(schema={column: opened.columns[column] for column in columns})
        text = self._checked(name, opened, block)
        self._check_end(name, opened, block.text)

        def read(rows: bytes) -> pl.DataFrame:
            return (self._csv or self._json).rows(rows, opened.columns, columns)

        try:
            return read(text)
        except pl.exceptions.PolarsError as error:
            raise self._unreadable(name, block, read, error) from None

    def _check_end(self, name: str, opened: _Opened, text: bytes) -> None:
        """Refuse what ends in the middle of a row: only before a line end what a row lacks is missing."""
        if self._delimiter is None or text.endswith(b"\n"):
            return
        found = count_last_fields(text, self._delimiter)
        if found is None or found >= len(opened.columns) or not text[text.rfind(b"\n") :].strip():
            return
        raise FileError(
            f"{name} ends in the middle of a row, after {found} of {len(opened.columns)} fields: it "
            "seems to have been cut; if the row is meant so, end it with a line end"
        )

    def _unreadable(
        self, name: str, block: _Block, read: Callable[[bytes], object], error: Exception
    ) -> FileError:
        """The error that names the first row that cannot be read, and says why."""
        lines = rows_of(block.text, block.line) if self._csv else _lines(block)
        rows = list(lines)
        found = first_unreadable([text for _, text in rows], read)
        if found is None:
            fault, hint = reason(error)
            place = f"{name} (from line {block.line} on)"
            return FileError(f"{place}: {fault}" + (f"\n  = {hint}" if hint else ""))
        line, text = rows[found]
        try:
            read(text)
        except pl.exceptions.PolarsError as of_row:
            error = of_row
        return FileError(fault_in_row(name, line, text, *reason(error)))


def _lines(block: _Block) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, and their numbers."""
    for line, text in enumerate(block.text.splitlines(keepends=True), block.line):
        if text.strip():
            yield line, text


def _names(name: str, blocks: Iterator[_Block]) -> tuple[bytes, _Block]:
    """The line of names, and what is left of its block."""
    for block in blocks:
        for line, names in rows_of(block.text, block.line):
            if b"\r" in names.replace(b"\r\n", b""):
                raise FileError(
                    f"{name} ends its lines with CR alone; convert it first, for example with "
                    "tr '\\r' '\\n'"
                )
            at = block.text.index(names) + len(names)
            return names, _Block(block.text[at:], line + line_count(names))
    raise FileError(f"{name} is empty: a CSV file begins with its column names")
