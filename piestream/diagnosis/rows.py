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
from piestream.language.options import BoundedOptions, FileOptions
from piestream.plan.binding import Binding
from piestream.plan.columns import TimeColumn

__all__ = ["Rows", "read_rows", "refuse_combined", "rows_of_source"]


@dataclass(frozen=True)
class Rows:
    """Rows with the query that is asked about them, whose time column is written out."""

    query: Query
    frame: pl.DataFrame
    options: BoundedOptions
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
    def closes(self) -> bool:
        """Whether what is open ends with the rows."""
        return self.options.at_end == "close"

    @property
    def keys(self) -> list[str]:
        """The columns of PARTITION BY."""
        return list(self.query.partition_by)

    def same_kind(self, result: pl.DataFrame) -> Any:
        """A result as the kind of the rows."""
        return result.lazy() if self.is_lazy else as_kind(self.kind, result)

    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same stream finds in the rows."""
        result: pl.DataFrame = query.run(
            self.frame, ties=self.options.ties, at_end=self.options.at_end, limit=limit
        )
        return result


def read_rows(query: Query, given: Any, options: BoundedOptions) -> Rows:
    """The rows of a frame of any kind, of a list of events, or (None) of the files of FROM."""
    refuse_combined(query)
    if given is None:
        if query.streams[0].path is None:
            raise query.fault(
                ("source",), "the query names no file to read", "give a frame, or write FROM 'path'"
            )
        with closing(open_source([str(query.streams[0].path)], options=FileOptions())) as source:
            return rows_of_source(query, source, options)
    if type(given).__module__.startswith("pyspark.sql"):
        raise TypeError("Spark frames cannot be looked into: take a part of it, frame.toPandas()")
    if isinstance(given, pl.LazyFrame):
        return _bound_rows(query, lazily_read(query, given).collect(), options, "polars", True)
    events = event_list(given)
    if events is None:
        frame, kind = as_polars(given, query)
        return _bound_rows(query, frame, options, kind)
    if not events:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    binding = bound(query, event_types(events, query))
    frame = events_frame(events, binding.columns, binding.schema)
    return _bound_rows(query, frame, options, "events")


def refuse_combined(query: Query) -> None:
    """Refuse a query that reads anything but one stream of events."""
    if query.is_combined:
        raise query.fault(
            ("source",),
            "a query over several streams, or over intervals, cannot be looked into yet",
            "take the part of it that reads one stream of events",
        )
    if query.rows is not None:
        raise query.fault(("pattern",), "a row pattern cannot be looked into yet")


def rows_of_source(query: Query, source: Source, options: BoundedOptions) -> Rows:
    """The rows of files or of standard input, all of them in memory."""
    binding = bound_to(query, source)
    schema = {name: binding.schema[name] for name in binding.columns}
    chunks = [pl.DataFrame(schema=schema), *source.chunks(binding.columns)]
    return _bound_rows(query, pl.concat(chunks), options)


def _bound_rows(
    query: Query, frame: pl.DataFrame, options: BoundedOptions, kind: Kind = "polars",
    is_lazy: bool = False,
) -> Rows:  # fmt: skip
    binding = bound(query, frame.schema)
    stream = replace(query.streams[0], order_by=binding.time.name)
    needed = frame.select(columns_named(binding.columns))
    return Rows(replace(query, streams=(stream,)), needed, options, kind, is_lazy)
