"""The rows that are looked into: of any kind, and only the columns that the query reads."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.event_columns import event_list, event_types, events_frame
from piestream.adapters.file_run import bound_to
from piestream.adapters.files import Source, open_source
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.read_columns import lazily_read
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.options import FileOptions, Ties
from piestream.plan.binding import Binding
from piestream.plan.columns import TimeColumn

__all__ = ["Rows", "read_rows", "rows_of_source"]


@dataclass(frozen=True)
class Rows:
    """Rows with the query that is asked about them, whose time column is written out."""

    query: Query
    frame: pl.DataFrame
    ties: Ties = "error"
    kind: Kind = "polars"
    is_lazy: bool = False

    @cached_property
    def binding(self) -> Binding:
        """The query bound to the columns."""
        return bound(self.query, self.frame.schema)

    @property
    def time(self) -> TimeColumn:
        """The time column."""
        return self.binding.time

    @property
    def keys(self) -> list[str]:
        """The columns of PARTITION BY."""
        return list(self.query.partition_by)

    def same_kind(self, result: pl.DataFrame) -> Any:
        """A result as the kind of the rows."""
        return result.lazy() if self.is_lazy else as_kind(self.kind, result)

    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same stream finds in the rows."""
        result: pl.DataFrame = query.run(self.frame, ties=self.ties, limit=limit)
        return result


def read_rows(query: Query, given: Any, ties: Ties = "error") -> Rows:
    """The rows of a frame of any kind, of a list of events, or (None) of the files of FROM."""
    if query.is_combined:
        raise query.fault(
            ("source",),
            "a query over several streams, or over intervals, cannot be looked into yet",
            "take the part of it that reads one stream of events",
        )
    if given is None:
        if query.streams[0].path is None:
            raise query.fault(
                ("source",), "the query names no file to read", "give a frame, or write FROM 'path'"
            )
        with closing(open_source([str(query.streams[0].path)], options=FileOptions())) as source:
            return rows_of_source(query, source, ties)
    if type(given).__module__.startswith("pyspark.sql"):
        raise TypeError("Spark frames cannot be looked into: take a part of it, frame.toPandas()")
    if isinstance(given, pl.LazyFrame):
        return _bound_rows(query, lazily_read(query, given).collect(), ties, "polars", True)
    events = event_list(given)
    if events is None:
        return _bound_rows(query, *_ordered(as_polars(given, query), ties))
    if not events:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    binding = bound(query, event_types(events, query))
    frame = events_frame(events, binding.columns, binding.schema)
    return _bound_rows(query, frame, ties, "events")


def _ordered(read: tuple[pl.DataFrame, Kind], ties: Ties) -> tuple[pl.DataFrame, Ties, Kind]:
    return read[0], ties, read[1]


def rows_of_source(query: Query, source: Source, ties: Ties = "error") -> Rows:
    """The rows of files or of standard input, all of them in memory."""
    binding = bound_to(query, source)
    schema = {name: binding.schema[name] for name in binding.columns}
    chunks = [pl.DataFrame(schema=schema), *source.chunks(binding.columns)]
    return _bound_rows(query, pl.concat(chunks), ties)


def _bound_rows(
    query: Query, frame: pl.DataFrame, ties: Ties, kind: Kind = "polars", is_lazy: bool = False
) -> Rows:
    binding = bound(query, frame.schema)
    stream = replace(query.streams[0], order_by=binding.time.name)
    needed = frame.select(columns_named(binding.columns))
    return Rows(replace(query, streams=(stream,)), needed, ties, kind, is_lazy)
