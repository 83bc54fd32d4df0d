"""The rows of one stream that are looked into: of any kind, only the columns that the query reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.event_columns import event_list, event_types, events_frame
from piestream.adapters.file_run import bound_to
from piestream.adapters.files import Source, open_source
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.adapters.read_columns import lazily_read
from piestream.engine.stream import Stream
from piestream.expressions.columns import column_named, columns_named
from piestream.language.model import Query, Symbol
from piestream.language.options import BoundedOptions, FileOptions
from piestream.plan.binding import Binding
from piestream.plan.columns import TimeColumn

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "TIME",
    "EventRows",
    "Extent",
    "GivenRows",
    "Rows",
    "in_partitions",
    "joined_by",
    "read_rows",
    "refuse_combined",
    "rows_of_source",
]

#: The column of all times; no column of a user's is called so.
TIME = "time of a row"


@dataclass(frozen=True)
class Extent:
    """How many rows there are of each stream, in how many partitions, and from when to when."""

    rows: dict[str, int]
    partitions: int
    first: Any
    last: Any


@dataclass(frozen=True)
class EventRows:
    """The rows of one stream of events."""

    stream: int  # its number in the query
    frame: pl.DataFrame
    time: str  # the column of their times
    columns: tuple[str, ...]  # those that predicates read


@dataclass(frozen=True)
class GivenRows(ABC):
    """Rows of one stream or of several, with the query that is asked about them."""

    query: Query
    options: BoundedOptions
    kind: Kind = "polars"
    is_lazy: bool = False

    @property
    @abstractmethod
    def binding(self) -> Binding:
        """The query bound to the columns."""

    @property
    @abstractmethod
    def row_counts(self) -> dict[str, int]:
        """How many rows there are of each stream of rows."""

    @property
    @abstractmethod
    def times(self) -> pl.DataFrame:
        """The partition and, as `TIME`, the time of every row; of intervals of each end."""

    @property
    @abstractmethod
    def event_streams(self) -> list[EventRows]:
        """The rows of each stream of events."""

    @abstractmethod
    def of_partitions(self, keys: pl.DataFrame) -> Self:
        """The rows of some partitions."""

    @property
    def extent(self) -> Extent:
        """How much there is of them."""
        times = self.times
        partitions = times.select(pl.struct(self.keys).n_unique()).item() if self.keys else 1
        return Extent(self.row_counts, partitions, times[TIME].min(), times[TIME].max())

    def with_last_times(self, table: pl.DataFrame, name: str) -> pl.DataFrame:
        """A table of partitions with a column of each one's last time."""
        return joined_by(table, self.times, self.keys, name)

    @abstractmethod
    def ends(self, query: Query) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What another query finds in the rows, and what it would if what is open ended with them."""

    @abstractmethod
    def frame_of(self, symbol: Symbol) -> pl.DataFrame | None:
        """The rows of a symbol's stream; None where they are matches of another query."""

    @abstractmethod
    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same streams finds in the rows."""

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


@dataclass(frozen=True)
class Rows(GivenRows):
    """Rows of one stream of events, whose time column is written out in the query."""

    frame: pl.DataFrame = field(default_factory=pl.DataFrame)

    @cached_property
    def binding(self) -> Binding:
        """The query bound to the columns."""
        return bound(self.query, self.frame.schema)

    @property
    def row_counts(self) -> dict[str, int]:
        """How many rows there are."""
        return {self.query.streams[0].name or "": len(self.frame)}

    @property
    def times(self) -> pl.DataFrame:
        """The partition and, as `TIME`, the time of every row."""
        return self.frame.select(*self.keys, column_named(self.time.name).alias(TIME))

    @property
    def event_streams(self) -> list[EventRows]:
        """The only stream."""
        return [EventRows(0, self.frame, self.time.name, self.binding.predicate_columns)]

    def of_partitions(self, keys: pl.DataFrame) -> Self:
        """The rows of some partitions."""
        return replace(self, frame=in_partitions(self.frame, keys))

    def ends(self, query: Query) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What another query finds in the rows, and what it would if what is open ended with them."""
        stream = Stream(
            bound(query, self.frame.schema), ties=self.options.ties, lateness=None, closable=True
        )
        ended = [*stream.portions(stream.project(self.frame)), *stream.last_portions("open")]
        closed = stream.last_portions("close")
        return pl.concat([stream.no_results, *ended]), pl.concat([stream.no_results, *closed])

    def frame_of(self, symbol: Symbol) -> pl.DataFrame | None:
        """The rows of a symbol's stream."""
        return self.frame

    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same stream finds in the rows."""
        result: pl.DataFrame = query.run(
            self.frame, ties=self.options.ties, at_end=self.options.at_end, limit=limit
        )
        return result


def in_partitions(frame: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of some partitions; without PARTITION BY all."""
    if not keys.width:
        return frame
    return frame.join(keys, on=keys.columns, how="semi", nulls_equal=True, maintain_order="left")


def joined_by(table: pl.DataFrame, times: pl.DataFrame, keys: list[str], name: str) -> pl.DataFrame:
    """A table with the greatest value for its keys; ``times`` has the keys and a column of values."""
    greatest = pl.nth(len(keys)).max().alias(name)
    if not keys:
        return table.with_columns(pl.lit(times.select(greatest).to_series()).first().alias(name))
    found = times.group_by(keys).agg(greatest)
    return table.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")


def read_rows(query: Query, given: Any, options: BoundedOptions, what: str) -> Rows:
    """The rows of a frame of any kind, of a list of events, or (None) of the files of FROM.

    ``what`` is asked for is said where a query reads more than one stream of events.
    """
    refuse_combined(query, what)
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


def refuse_combined(query: Query, what: str) -> None:
    """Refuse what is there for queries over one stream of events alone."""
    if query.is_combined:
        raise query.fault(
            ("source",),
            f"{what} takes a query over one stream of events, and this one reads several, or intervals",
            "intervals, diagnose, timeline and report take it",
        )


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
    if query.rows is not None:
        raise query.fault(("pattern",), "a row pattern cannot be looked into yet")
    binding = bound(query, frame.schema)
    stream = replace(query.streams[0], order_by=binding.time.name)
    needed = frame.select(columns_named(binding.columns))
    return Rows(replace(query, streams=(stream,)), options, kind, is_lazy, needed)
