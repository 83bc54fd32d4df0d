"""The rows of one stream that are looked into: of any kind, only the columns that the query reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
from piestream.archives.archive import Archive
from piestream.archives.partition_rows import rows_of_partition
from piestream.archives.planning import refuse_row_order
from piestream.archives.source import directory_archive, source_of
from piestream.engine.stream import Stream
from piestream.expressions.columns import column_named, columns_named
from piestream.language.model import Query
from piestream.language.options import BoundedOptions, FileOptions
from piestream.language.parts import Symbol
from piestream.plan.binding import Binding, input_key
from piestream.plan.columns import TimeColumn

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "ALL",
    "TIME",
    "EventRows",
    "Extent",
    "GivenRows",
    "Rows",
    "Wanted",
    "in_partition",
    "in_partitions",
    "joined_by",
    "latest_rows",
    "read_rows",
    "rows_of_source",
    "with_missing_keys",
]

#: Behind all rows that there are, and all that is waited for.
_FAR = 1 << 61
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
class Wanted:
    """Which rows of an archive are asked about: of one partition, perhaps around a span of time."""

    partition: Mapping[str, Any] = field(default_factory=dict)
    is_all: bool = False
    #: Gives the span in ticks by what the query is bound to; None is all of time.
    span: Callable[[Binding], tuple[int, int] | None] | None = None


#: All rows.
ALL = Wanted(is_all=True)


@dataclass(frozen=True)
class GivenRows(ABC):
    """Rows of one stream or of several, with the query that is asked about them.

    What is asked of them about one ``partition`` gives that partition's results alone.
    """

    query: Query
    options: BoundedOptions
    kind: Kind = "polars"
    is_lazy: bool = False
    partition: Mapping[str, Any] | None = None

    @property
    @abstractmethod
    def binding(self) -> Binding:
        """The query bound to the columns."""

    @property
    @abstractmethod
    def inputs(self) -> Mapping[str, pl.DataFrame]:
        """The rows of each input by its name, with the types that all inputs have in common."""

    @property
    @abstractmethod
    def time_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that hold times, by input: one of events, two of intervals."""

    @property
    @abstractmethod
    def event_streams(self) -> list[EventRows]:
        """The rows of each stream of events that the query reads itself."""

    @abstractmethod
    def with_inputs(self, inputs: Mapping[str, pl.DataFrame]) -> Self:
        """Other rows of the inputs, with the columns of these or more."""

    @abstractmethod
    def key_of(self, stream: int) -> str | None:
        """The name of the input that a stream is; None of matches of another query."""

    @abstractmethod
    def _run(self, query: Query, limit: int | None) -> pl.DataFrame:
        """All that another query of the same streams finds in the rows."""

    @abstractmethod
    def _opened(self, query: Query) -> tuple[Stream, list[pl.DataFrame]]:
        """The open stream of another query that has got all rows, and what it has found so far."""

    @cached_property
    def times(self) -> pl.DataFrame:
        """The partition and, as `TIME`, the time of every row; of intervals of each end."""
        frames, dtype = self.inputs, self.time.dtype
        return pl.concat(
            frames[key]
            .select(*map(column_named, self.keys), column_named(name).cast(dtype).alias(TIME))
            .drop_nulls(TIME)
            for key, names in self.time_columns.items()
            for name in names
        )

    def of_partitions(self, keys: pl.DataFrame) -> Self:
        """The rows of some partitions."""
        return self.with_inputs({k: in_partitions(f, keys) for k, f in self.inputs.items()})

    def of_partitions_in_time(self, keys: pl.DataFrame) -> Self:
        """The same, with the latest rows of all: they say how late it is."""
        if not keys.width:
            return self
        found = {}
        for key, frame in self.inputs.items():
            latest = latest_rows(frame, self.time_columns[key])
            others = latest.join(keys, on=keys.columns, how="anti", nulls_equal=True)
            found[key] = pl.concat([in_partitions(frame, keys), others])
        return self.with_inputs(found)

    @property
    def extent(self) -> Extent:
        """How much there is of them."""
        times = self.times
        partitions = times.select(pl.struct(self.keys).n_unique()).item() if self.keys else 1
        counts = {key: len(frame) for key, frame in self.inputs.items()}
        return Extent(counts, partitions, times[TIME].min(), times[TIME].max())

    def with_last_times(self, table: pl.DataFrame, name: str) -> pl.DataFrame:
        """A table of partitions with a column of each one's last time."""
        return joined_by(table, self.times, self.keys, name)

    def frame_of(self, symbol: Symbol) -> pl.DataFrame | None:
        """The rows of a symbol's stream; None where they are matches of another query."""
        key = self.key_of(symbol.stream)
        return None if key is None else self.inputs[key]

    @property
    def inner(self) -> Mapping[int, GivenRows]:
        """The rows that each query in brackets reads, by the number of the stream that it is."""
        return {}

    def results_of(self, symbol: Symbol) -> pl.DataFrame | None:
        """The rows of a symbol's stream, also where they are matches of another query."""
        inner = self.inner.get(symbol.stream)
        return self.frame_of(symbol) if inner is None else inner.run(inner.query)

    def run(self, query: Query, limit: int | None = None) -> pl.DataFrame:
        """All that another query of the same streams finds in the rows."""
        return self._only(self._run(query, limit))

    def ends(self, query: Query) -> tuple[pl.DataFrame, pl.DataFrame]:
        """What another query finds in the rows, and what it would if what is open ended with them."""
        stream, found = self._opened(query)
        ended = [stream.no_results, *found, *stream.last_portions("open")]
        closed = [stream.no_results, *stream.last_portions("close")]
        return self._only(pl.concat(ended)), self._only(pl.concat(closed))

    def later(self, query: Query) -> pl.DataFrame:
        """What another query finds if time goes on behind the rows, and nothing more comes."""
        stream, found = self._opened(query)
        stream.observe_time(_FAR)
        return self._only(pl.concat([stream.no_results, *found, *stream.last_portions("open")]))

    def _only(self, found: pl.DataFrame) -> pl.DataFrame:
        if not self.partition:
            return found
        return found.filter(in_partition(found.schema, self.partition))

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
    def _key(self) -> str:
        return self.query.streams[0].name or ""

    @property
    def inputs(self) -> Mapping[str, pl.DataFrame]:
        """The rows of the only input."""
        return {self._key: self.frame}

    @property
    def time_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The time column of the only input."""
        return {self._key: (self.time.name,)}

    @property
    def event_streams(self) -> list[EventRows]:
        """The only stream."""
        columns = list(self.binding.predicate_columns)
        if self.query.rows is not None:
            columns += self.query.rows.condition_columns
        return [EventRows(0, self.frame, self.time.name, tuple(dict.fromkeys(columns)))]

    def with_inputs(self, inputs: Mapping[str, pl.DataFrame]) -> Self:
        """Other rows of the only input."""
        return replace(self, frame=inputs[self._key])

    def key_of(self, stream: int) -> str:
        """The name of the only input."""
        return self._key

    def _run(self, query: Query, limit: int | None) -> pl.DataFrame:
        result: pl.DataFrame = self._timed(query).run(
            self.frame, ties=self.options.ties, at_end=self.options.at_end, limit=limit
        )
        return result

    def _timed(self, query: Query) -> Query:
        """Another query of the rows alone, all of which are here, with the time column written out."""
        stream = replace(query.streams[0], order_by=self.time.name, archive=False)
        return replace(query, streams=(stream,))

    def _opened(self, query: Query) -> tuple[Stream, list[pl.DataFrame]]:
        stream = Stream(
            bound(query, self.frame.schema), ties=self.options.ties, lateness=None, closable=True
        )
        return stream, list(stream.portions(stream.project(self.frame)))


def with_missing_keys(query: Query, frame: pl.DataFrame) -> pl.DataFrame:
    """Rows in whose keys a NaN is NULL: both are one partition."""
    floats = [name for name in query.partition_by if frame.schema[name].is_float()]
    return frame.with_columns(column_named(name).fill_nan(None) for name in floats)


def in_partition(schema: Mapping[str, pl.DataType], keys: Mapping[str, Any]) -> pl.Expr:
    """Whether a row is of the partition with these keys, whose columns have these types."""
    chosen = pl.lit(True)
    for name, value in keys.items():
        column = column_named(name)
        if schema[name].is_float():
            column = column.fill_nan(None)
            value = None if value != value else value
        chosen &= column.is_null() if value is None else column.eq_missing(pl.lit(value))
    return chosen


def in_partitions(frame: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows of some partitions; without PARTITION BY all."""
    if not keys.width:
        return frame
    return frame.join(keys, on=keys.columns, how="semi", nulls_equal=True, maintain_order="left")


def latest_rows(frame: pl.DataFrame, times: Sequence[str]) -> pl.DataFrame:
    """The rows of one input with the latest time, of each column of times that it has."""
    latest = {frame[name].arg_max() for name in times}
    return frame[sorted(row for row in latest if row is not None)]


def joined_by(table: pl.DataFrame, times: pl.DataFrame, keys: list[str], name: str) -> pl.DataFrame:
    """A table with the greatest value for its keys; ``times`` has the keys and a column of values."""
    greatest = pl.nth(len(keys)).max().alias(name)
    if not keys:
        return table.with_columns(pl.lit(times.select(greatest).to_series()).first().alias(name))
    found = times.group_by(keys).agg(greatest)
    return table.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")


def read_rows(query: Query, given: Any, options: BoundedOptions, wanted: Wanted = ALL) -> Rows:
    """The rows of a frame of any kind, of a list of events, of an archive, or (None) of the files of FROM.

    Of an archive no more is read than is ``wanted``.
    """
    if given is None:
        path = query.streams[0].path
        if path is None:
            raise query.fault(
                ("source",), "the query names no file to read", "give a frame, or write FROM 'path'"
            )
        given = directory_archive(path)
        if given is None:
            with closing(open_source([str(path)], options=FileOptions())) as source:
                return rows_of_source(query, source, options)
    if isinstance(given, Archive):
        return _rows_of_archive(query, given.refresh(), options, wanted)
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


def _rows_of_archive(
    query: Query, archive: Archive, options: BoundedOptions, wanted: Wanted
) -> Rows:
    """The rows of an archive: all of them, or those of a partition and a span of time and around it."""
    refuse_row_order(query, {input_key(query.streams[0]): archive.pages})
    keys = {name: wanted.partition.get(name) for name in query.partition_by}
    binding = bound(query, archive.schema)
    if not wanted.is_all and all(name in wanted.partition for name in keys):
        span = None if wanted.span is None else wanted.span(binding)
        frame = rows_of_partition(
            archive, binding.columns, binding.time.name, keys,
            in_partition(archive.schema, keys), span,
        )  # fmt: skip
        if len(frame.filter(in_partition(frame.schema, keys))):
            return _bound_rows(query, frame, options)
    return rows_of_source(query, source_of(archive), options)


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
    needed = with_missing_keys(query, frame.select(columns_named(binding.columns)))
    return Rows(replace(query, streams=(stream,)), options, kind, is_lazy, frame=needed)
