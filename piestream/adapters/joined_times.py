"""Times whose date and time of day stand in columns of their own, of text: one column is made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.adapters.text_files import TextSource
from piestream.adapters.text_types import TextType, as_times
from piestream.errors import FileError
from piestream.expressions.columns import column_named

__all__ = ["JoinedSource", "JoinedTime", "joined_times"]

_WRITTEN = re.compile(r"datetime\s*\((?P<columns>.*)\)(?P<format>:.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JoinedTime:
    """A column that is made of the texts of others, with a blank between them."""

    columns: tuple[str, ...]
    type: TextType

    def of(self, name: str, rows: pl.DataFrame) -> pl.Series:
        """The times of rows."""
        texts = [column_named(column).str.strip_chars() for column in self.columns]
        text = rows.select(pl.concat_str(texts, separator=" ").alias("")).to_series()
        return as_times(text.alias(name), self.type.dtype, self.type.format)


def joined_times(types: Mapping[str, Any]) -> tuple[dict[str, JoinedTime], dict[str, Any]]:
    """The columns that are made of others, as ``datetime(Date, Time):%d/%m/%Y %H:%M``; and the rest.

    >>> joined, others = joined_times({"when": "datetime(Date, Time)", "x": "float"})
    >>> joined["when"].columns, others
    (('Date', 'Time'), {'x': 'float', 'Date': 'text', 'Time': 'text'})
    """
    joined = {}
    others = dict(types)
    for name, written in types.items():
        found = _WRITTEN.fullmatch(written) if isinstance(written, str) else None
        if found is None:
            continue
        columns = tuple(column.strip() for column in found["columns"].split(","))
        if len(columns) < 2 or not all(columns) or name in columns:
            raise ValueError(
                f"the type of {name}: a time is made of several other columns, as in "
                "datetime(Date, Time)"
            )
        joined[name] = JoinedTime(columns, TextType.of(f"datetime{found['format'] or ''}"))
        del others[name]
        for column in columns:
            if others.setdefault(column, "text") != "text":
                raise ValueError(f"{name} is made of the text of {column}: leave its type out")
    return joined, others


class JoinedSource:
    """Text with columns of times that are made of others."""

    def __init__(self, source: TextSource, joined: Mapping[str, JoinedTime]) -> None:
        self._source, self._joined = source, joined
        self.name, self.total = source.name, source.total

    @property
    def advice(self) -> dict[str, str]:
        """By column: what to say if the query does not fit its type."""
        return self._source.advice

    @property
    def done(self) -> int:
        """Bytes read so far."""
        return self._source.done

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""
        schema = self._source.schema
        for name in self._joined:
            if name in schema:
                raise FileError(f"{self.name} has a column {name}: make the times another one")
        return {**schema, **{name: joined.type.dtype for name, joined in self._joined.items()}}

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only, in order."""
        wanted = [name for name in columns if name in self._joined]
        read = [name for name in columns if name not in self._joined]
        read += [column for name in wanted for column in self._joined[name].columns]
        for rows in self._source.chunks(list(dict.fromkeys(read))):
            times = [self._times(name, rows) for name in wanted]
            yield rows.with_columns(times).select(map(column_named, columns))

    def _times(self, name: str, rows: pl.DataFrame) -> pl.Series:
        joined = self._joined[name]
        try:
            return joined.of(name, rows)
        except pl.exceptions.PolarsError:
            row = _first_unreadable(name, joined, rows)
        try:
            return joined.of(name, rows[row : row + 1])
        except pl.exceptions.PolarsError as error:
            made = f"datetime({','.join(joined.columns)})"
            fault = str(error).replace("=datetime:", f"={made}:").replace('"datetime:', f'"{made}:')
            raise FileError(self.fault_in_row(row, fault)) from None

    def fault_in_row(self, row: int, fault: str) -> str:
        """A fault with the place of a row of the last chunk."""
        return self._source.fault_in_row(row, fault)

    def close(self) -> None:
        """No more is read."""
        self._source.close()


def _first_unreadable(name: str, joined: JoinedTime, rows: pl.DataFrame) -> int:
    """The first row whose time cannot be read; up to it all can."""
    low, high = 0, len(rows)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            joined.of(name, rows[low:middle])
            low = middle
        except pl.exceptions.PolarsError:
            high = middle
    return low
