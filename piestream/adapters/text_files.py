"""CSV and NDJSON as frames: the types of the columns, and the rows of each block."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import polars as pl

from piestream.adapters.text_blocks import TextFile, TextPipe, count_last_fields, whole_lines
from piestream.adapters.text_faults import first_line, first_unreadable, place, reason
from piestream.adapters.text_times import as_times, is_time, time_type
from piestream.errors import FileError
from piestream.expressions.columns import column_named

__all__ = ["TextSource"]

#: The types of text columns are those that these rows at the beginning have.
TYPED_ROWS = 10_000


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
        parts: Sequence[TextFile | TextPipe],
        csv: bool,
        types: Mapping[str, pl.DataType],
        delimiter: str | None = None,
        decimal_comma: bool | None = None,
    ) -> None:
        self.name = parts[0].name if len(parts) == 1 else f"{parts[0].name} …"
        self._parts = parts
        self._csv = csv
        self._given_types = types
        self._delimiter_given = delimiter is not None
        self._delimiter = delimiter or ","
        self._decimal_comma = decimal_comma
        self._before = 0  # bytes of the parts that are read
        self._at: TextFile | TextPipe = parts[0]
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
        self, part: TextFile | TextPipe, schema: Mapping[str, pl.DataType] | None = None
    ) -> _Opened:
        """Read the names and, if no schema is given yet, the types of the columns."""
        blocks = whole_lines(
            part.blocks(self._csv), part.name, self._delimiter if self._csv else None
        )
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
            for name in self._given_types:
                if name not in found:
                    raise FileError(f"{part.name} has no column {name}, whose type was given")
            found.update(self._given_types)
            if not first.strip() and not (found and set(found) <= set(self._given_types)):
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
        if self._csv and not self._delimiter_given and len(found) == 1 and meant:
            raise FileError(
                f"{name} has one column, {next(iter(found))!r}: its columns seem to be separated by "
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
            if dtype == pl.String
            and otherwise[column].is_float()
            and column not in self._given_types
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
                return {column.name: time_type(column) for column in sample}
            return dict(self._scanned(opened.head + lines).collect_schema())
        except pl.exceptions.PolarsError as error:
            row = None if self._csv else first_unreadable(lines, pl.read_ndjson)
            raise FileError(f"{place(name, row, 0)}: {reason(error)}") from None

    def _parsed(
        self, name: str, opened: _Opened, block: bytes, columns: Sequence[str], before: int
    ) -> pl.DataFrame:
        if not block.strip():
            return pl.DataFrame(schema={column: opened.columns[column] for column in columns})
        if self._csv and not block.endswith(b"\n"):
            self._check_end(name, opened, block)
        try:
            return self._rows(opened, block, columns)
        except pl.exceptions.PolarsError as error:
            whole = not self._csv or b'"' not in block  # a row is a line
            row = (
                first_unreadable(block, lambda b: self._rows(opened, b, columns)) if whole else None
            )
            why = reason(error)
            hint = (
                ""
                if why != first_line(error)
                else (
                    f"\n  = the types of columns are those of the first {TYPED_ROWS:,} rows; where these "
                    "mislead, say the type (--type COLUMN=float on the command line), or use Parquet"
                )
            )
            raise FileError(f"{place(name, row, before)}: {why}{hint}") from None

    def _check_end(self, name: str, opened: _Opened, block: bytes) -> None:
        """Refuse a text that ends in the middle of a row: what a row lacks before its line end is missing."""
        last = block[block.rfind(b"\n") + 1 :]
        found = count_last_fields(block, self._delimiter)
        if found is not None and found < len(opened.columns) and last.strip():
            raise FileError(
                f"{name} ends in the middle of a row, after {found} of {len(opened.columns)} fields: "
                "it seems to have been cut; if the row is meant so, end it with a line end"
            )

    def _rows(self, opened: _Opened, block: bytes, columns: Sequence[str]) -> pl.DataFrame:
        if self._csv:
            return self._scanned(block, opened.columns).select(map(column_named, columns)).collect()
        needed = {column: opened.columns[column] for column in columns}
        as_text = {n: pl.String() if is_time(t) else t for n, t in needed.items()}
        rows = pl.read_ndjson(block, schema=as_text)
        times = [as_times(rows[n], t) for n, t in needed.items() if is_time(t)]
        return rows.with_columns(times)
