"""CSV as frames: what its columns are, and the rows of a block of whole lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from piestream.adapters.csv_rows import RowShape
from piestream.adapters.text_faults import MISSING, missing_advice
from piestream.adapters.text_types import (
    TextType,
    ambiguous_advice,
    as_times,
    first_stray,
    is_time,
)
from piestream.errors import FileError
from piestream.expressions.columns import columns_named
from piestream.language.options import FileOptions

__all__ = ["CsvText"]


class CsvText:
    """How a CSV file is written, and how its rows are read."""

    def __init__(self, options: FileOptions, types: Mapping[str, TextType]) -> None:
        self._options = options
        self._types = types
        self._delimiter = options.delimiter or ","
        self._null = [options.null] if isinstance(options.null, str) else options.null

    def shape(self, name: str, names: bytes) -> RowShape:
        """What the line of names says of the rows."""
        shape = RowShape(self._delimiter, names)
        if self._options.delimiter is None and shape.columns == 1 and b'"' not in names:
            self._check_delimiter(name, names.decode().strip())
        return shape

    def columns(
        self, name: str, names: bytes, rows: bytes, typed_rows: int
    ) -> tuple[dict[str, pl.DataType], dict[str, str]]:
        """The columns with the types of the first rows, and advice where these may mislead."""
        found = dict(self._inferred(names + rows, typed_rows).collect_schema())
        self._check_decimals(name, names + rows, typed_rows, found)
        return found, self._advice(rows, typed_rows, found)

    def rows(
        self, rows: bytes, columns: Mapping[str, pl.DataType], read: Sequence[str]
    ) -> pl.DataFrame:
        """The rows of a block, of some columns only. What a short row lacks is missing."""
        times = [column for column in read if is_time(columns[column])]
        types = {**columns, **dict.fromkeys(times, pl.String())}
        found = self._scanned(rows, types).select(columns_named(read)).collect()
        return found.with_columns(self._as_times(found[name], columns[name]) for name in times)

    def _as_times(self, text: pl.Series, dtype: pl.DataType) -> pl.Series:
        given = self._types.get(text.name)
        return as_times(text, dtype, given.format if given else None)

    def _scanned(self, rows: bytes, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        return pl.scan_csv(
            rows, separator=self._delimiter, decimal_comma=bool(self._options.decimal_comma),
            null_values=self._null, has_header=False, schema=types, missing_columns="insert",
        )  # fmt: skip

    def _inferred(
        self, text: bytes, typed_rows: int, decimal_comma: bool | None = None
    ) -> pl.LazyFrame:
        if decimal_comma is None:
            decimal_comma = bool(self._options.decimal_comma)
        return pl.scan_csv(
            text, separator=self._delimiter, decimal_comma=decimal_comma,
            null_values=self._null, try_parse_dates=True, infer_schema_length=typed_rows,
        )  # fmt: skip

    def _check_delimiter(self, name: str, column: str) -> None:
        """One column whose name holds a usual separator is no column."""
        meant = [sign for sign in (";", "\t", "|", ",") if sign in column]
        if meant:
            raise FileError(
                f"{name} has one column, {column!r}: its columns seem to be separated by "
                f"{meant[0]!r}; say so with --delimiter, in Python with run(delimiter={meant[0]!r})"
            )

    def _check_decimals(
        self, name: str, text: bytes, typed_rows: int, found: Mapping[str, pl.DataType]
    ) -> None:
        """Texts that are numbers if their commas are decimal ones are probably numbers."""
        if self._options.decimal_comma is not None or self._delimiter == ",":
            return
        otherwise = self._inferred(text, typed_rows, decimal_comma=True).collect_schema()
        meant = [
            column
            for column, dtype in found.items()
            if dtype == pl.String and otherwise[column].is_float() and column not in self._types
        ]
        if meant:
            raise FileError(
                f"{name}: the column {meant[0]} seems to hold numbers with decimal commas; say "
                "that it does with --decimal-comma, in Python with run(decimal_comma=True), "
                "or that it does not with --no-decimal-comma, run(decimal_comma=False)"
            )

    def _advice(
        self, rows: bytes, typed_rows: int, found: dict[str, pl.DataType]
    ) -> dict[str, str]:
        """What to say if a column that is text turns out to be needed as something else.

        A date that is not written year first is text: Polars would take its first number for the day.
        """
        names = [
            name
            for name, dtype in found.items()
            if name not in self._types and (dtype == pl.String or is_time(dtype))
        ]
        if not names:
            return {}
        as_text = self._scanned(rows, dict.fromkeys(found, pl.String()))
        sample = as_text.select(columns_named(names)).head(typed_rows).collect()
        advice = {}
        for values in sample:
            is_text = found[values.name] == pl.String
            about = self._advice_about(values.name, values.alias("").drop_nulls(), is_text)
            if about is not None:
                advice[values.name] = about
                found[values.name] = pl.String()
        return advice

    def _advice_about(self, name: str, text: pl.Series, is_text: bool) -> str | None:
        ambiguous = ambiguous_advice(name, text[0]) if len(text) else None
        if ambiguous is not None:
            return ambiguous
        words = text.filter(text.str.strip_chars().str.to_lowercase().is_in(MISSING))
        others = text.filter(~text.is_in(words.unique().implode()))
        if len(words) and len(others):
            is_number = not others.cast(pl.Float64, strict=False).null_count()
            if is_number or others.str.contains(r"^\d{4}[-/.]\d").all():
                kind = "numbers" if is_number else "times"
                return (
                    f"column {name} holds {kind}, and {words[0]!r}: "
                    f"{missing_advice(words.unique(maintain_order=True).to_list())}"
                )
        stray = first_stray(others) if is_text else None
        if stray is None:
            return None
        value, type = stray
        return (
            f"column {name} holds {'numbers' if type in ('int', 'float') else 'times'}, and {value!r}: "
            f'--type "{name}={type}", in Python run(types={{{name!r}: {type!r}}}), says on which line'
        )
