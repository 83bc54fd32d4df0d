"""NDJSON as frames: what its columns are, and the rows of a block of whole lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from piestream.adapters.text_types import TextType, as_times, is_time, time_type

__all__ = ["JsonText"]


class JsonText:
    """How the rows of NDJSON are read."""

    def __init__(self, types: Mapping[str, TextType]) -> None:
        self._types = types

    def columns(self, rows: bytes, typed_rows: int) -> dict[str, pl.DataType]:
        """The columns, with the types of these rows."""
        sample = pl.read_ndjson(rows, infer_schema_length=typed_rows)
        return {column.name: time_type(column) for column in sample}

    def rows(
        self, rows: bytes, columns: Mapping[str, pl.DataType], read: Sequence[str]
    ) -> pl.DataFrame:
        """The rows of a block, of some columns only."""
        needed = {column: columns[column] for column in read}
        as_text = {n: pl.String() if is_time(t) else t for n, t in needed.items()}
        found = pl.read_ndjson(rows, schema=as_text)
        times = [self._as_times(found[n], t) for n, t in needed.items() if is_time(t)]
        return found.with_columns(times)

    def _as_times(self, text: pl.Series, dtype: pl.DataType) -> pl.Series:
        given = self._types.get(text.name)
        return as_times(text, dtype, given.format if given else None)
