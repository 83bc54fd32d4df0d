"""A query bound to Spark frames in the driver: one frame of events, or a frame for each input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

import polars as pl
from pyspark.sql import types as spark

from piestream.adapters.binding import bound
from piestream.adapters.inputs import bound_inputs
from piestream.expressions.backends import spark_text
from piestream.language.model import Query
from piestream.language.options import Ties
from piestream.language.parts import StreamKind
from piestream.plan.binding import Binding
from piestream.plan.combined import InputReader, input_columns, input_readers
from piestream.spark.clock import NO_EVENT_TIME, NO_START, WATERMARK_DELAY, ticks_sql
from piestream.spark.codec.rows import WireTime, input_codec, key_sql, result_codec
from piestream.spark.codec.types import converted_sql, polars_schema, spark_type, zone_of
from piestream.spark.codec.union import InputColumns, union_codec
from piestream.spark.worker_plan import Columns, EventsPlan, FramePlan, InputsPlan

__all__ = ["BoundEvents", "BoundFrames", "BoundInputs", "bound_frames", "refuse_row_order"]

#: More wire columns, from the SQL of a row's time in ticks.
OfTime = Callable[[str], Sequence[str]]


def refuse_row_order(query: Query) -> None:
    """Refuse ROW: rows of Spark stand in no order, also those of an archive that it reads."""
    for number, stream in enumerate(query.streams):
        read = (stream,) if stream.query is None else stream.query.inputs
        for by_row in (one for one in read if one.row_order):
            raise query.fault(
                query.part(number, "order_by" if by_row is stream else "source"),
                "the rows of a Spark frame stand in no order that ROW could take",
                f"name a column that orders events of one time: ORDER BY {by_row.order_by or 'ts'}, seq",
            )


def bound_frames(query: Query, frames: Any) -> BoundFrames:
    """A query bound to its frame, or to the frames of its inputs by their names."""
    refuse_row_order(query)
    if isinstance(frames, Mapping):
        return BoundInputs(query, frames)
    return BoundEvents(query, frames)


class BoundFrames(ABC):
    """What runs over Spark need of a query and its frames."""

    query: Query
    frame: Any  # any of the frames, for its session and its kind

    @property
    @abstractmethod
    def binding(self) -> Binding:
        """The bound query; raises what is wrong with it."""

    @property
    @abstractmethod
    def read_types(self) -> dict[str, spark.DataType]:
        """The columns that the query reads, and their types."""

    @property
    @abstractmethod
    def own_delay(self) -> int | None:
        """The delay in milliseconds of a watermark that the frame brings along."""

    @property
    @abstractmethod
    def keys(self) -> list[str]:
        """The SQL of the keys, equal where they are."""

    @abstractmethod
    def plan(self, ties: Ties, time: WireTime) -> FramePlan:
        """The plan of a run over the frames."""

    @abstractmethod
    def wire_rows(self, plan: FramePlan, of_time: OfTime, max_tick: int | None = None) -> Any:
        """The rows on their way to the workers."""

    @abstractmethod
    def latest(self, plan: FramePlan) -> Any:
        """One row with the largest instant of all rows."""


def _zone(frame: Any) -> str:
    return zone_of(frame.sparkSession.conf.get("spark.sql.session.timeZone"))


class BoundEvents(BoundFrames):
    """A query over one stream of events."""

    def __init__(self, query: Query, frame: Any) -> None:
        self.query = query
        self.frame = frame
        schema = frame.schema
        self.schema = polars_schema(schema, _zone(frame))
        #: The types in Spark, and the metadata in which Spark notes a watermark.
        self.types = {column.name: column.dataType for column in schema.fields}
        self.metadata = {column.name: column.metadata for column in schema.fields}

    @cached_property
    def binding(self) -> Binding:
        """The bound query; raises what is wrong with it."""
        return bound(self.query, self.schema)

    @property
    def read_types(self) -> dict[str, spark.DataType]:
        """The columns that the query reads, and their types."""
        return {name: self.types[name] for name in self.binding.columns}

    @property
    def own_delay(self) -> int | None:
        """The delay in milliseconds of a watermark that the frame brings along."""
        delay: int | None = self.metadata[self.binding.time.name].get(WATERMARK_DELAY)
        return delay

    @property
    def keys(self) -> list[str]:
        """The SQL of the keys, equal where they are."""
        return [key_sql(name, self.types[name]) for name in self.query.partition_by]

    def plan(self, ties: Ties, time: WireTime) -> FramePlan:
        """The plan of a run over the frame."""
        binding = self.binding
        encoder, encode = input_codec(binding, self.types, time)
        result, decode = result_codec(binding, self.types)
        schema = tuple((name, binding.schema[name]) for name in binding.columns)
        worker = EventsPlan(self.query, result, ties, schema, encoder)
        return FramePlan(worker, (tuple(encode),), decode)

    def time_sql(self, max_tick: int | None = None) -> str:
        """The time of an event in ticks."""
        time = self.binding.time
        ticks = [(time.name, self.types[time.name])]
        return ticks_sql(ticks, time.nanoseconds_per_tick, NO_EVENT_TIME, max_tick)

    def wire_rows(self, plan: FramePlan, of_time: OfTime, max_tick: int | None = None) -> Any:
        """The rows on their way to the workers."""
        return self.frame.selectExpr(*plan.encode[0], *of_time(self.time_sql(max_tick)))

    def latest(self, plan: FramePlan) -> Any:
        """One row with the largest instant of all."""
        return self.frame.selectExpr(f"{self.time_sql(None)} AS time").selectExpr(
            "max(time) AS latest"
        )


class BoundInputs(BoundFrames):
    """A query over several inputs, or over intervals: a frame for each, by its name.

    Each frame is brought to the types that all have in common, and they become one union.
    """

    def __init__(self, query: Query, frames: Mapping[str, Any]) -> None:
        self.query = query
        self.frames = dict(frames)
        if not frames:
            raise TypeError("a query runs over frames: give those of its streams by their names")
        self.frame = next(iter(frames.values()))
        zone = _zone(self.frame)
        schemas = {key: polars_schema(frame.schema, zone) for key, frame in frames.items()}
        found = bound_inputs(query, schemas)
        self._binding = found.binding
        self._readers = _readers_by_input(query, found.binding)
        read = input_columns(found.binding)
        self._inputs: list[InputColumns] = []
        self._rows: list[Any] = []
        for key, reader in self._readers.items():
            given = {column.name: column.dataType for column in frames[key].schema.fields}
            self._refuse_watermark(key, frames[key])
            columns = {
                name: _converted(name, given[name], schemas[key][name], dtype)
                for name, dtype in read[key].items()
            }
            self._rows.append(frames[key].selectExpr(*(sql for sql, _ in columns.values())))
            is_event = reader.source.kind is StreamKind.EVENTS
            self._inputs.append(
                InputColumns(
                    key,
                    read[key],
                    {name: data_type for name, (_, data_type) in columns.items()},
                    reader.times[0] if is_event else None,
                )
            )

    @staticmethod
    def _refuse_watermark(key: str, frame: Any) -> None:
        for column in frame.schema.fields:
            if frame.isStreaming and WATERMARK_DELAY in column.metadata:
                raise ValueError(
                    f"the frame of {key} has a watermark on {column.name}: all streams of a query "
                    "have one watermark, so leave withWatermark out and give a lateness"
                )

    @property
    def binding(self) -> Binding:
        """The bound query."""
        return self._binding

    @property
    def read_types(self) -> dict[str, spark.DataType]:
        """The columns that the query reads, and their types."""
        return {
            f"{one.key}.{name}": data_type
            for one in self._inputs
            for name, data_type in one.types.items()
        }

    @property
    def own_delay(self) -> int | None:
        """Frames with watermarks of their own are refused."""
        return None

    @property
    def keys(self) -> list[str]:
        """The SQL of the keys, equal where they are."""
        types = self._inputs[0].types
        return [key_sql(name, types[name]) for name in self.query.partition_by]

    def plan(self, ties: Ties, time: WireTime) -> FramePlan:
        """The plan of a run over the frames."""
        encoder, encode = union_codec(self.binding, self._inputs, time)
        result, decode = result_codec(self.binding, {})
        schemas: tuple[tuple[str, Columns], ...] = tuple(
            (one.key, tuple(one.schema.items())) for one in self._inputs
        )
        worker = InputsPlan(self.query, result, ties, schemas, encoder)
        return FramePlan(worker, tuple(map(tuple, encode)), decode)

    def latest(self, plan: FramePlan) -> Any:
        """One row with the largest instant of all: ends that are known before they come included."""
        return self._union(plan, lambda ticks: [f"{ticks} AS time"], with_ends=True).selectExpr(
            "max(time) AS latest"
        )

    def wire_rows(self, plan: FramePlan, of_time: OfTime, max_tick: int | None = None) -> Any:
        """The rows on their way to the workers: those of all inputs in one frame."""
        return self._union(plan, of_time, max_tick)

    def _union(
        self,
        plan: FramePlan,
        of_time: OfTime,
        max_tick: int | None = None,
        with_ends: bool = False,
    ) -> Any:
        unit = self.binding.time.nanoseconds_per_tick
        parts = []
        for one, rows, encode in zip(self._inputs, self._rows, plan.encode, strict=True):
            reader = self._readers[one.key]
            source = reader.source
            ahead = [source.end] if with_ends and source.known_at_start else []
            times = [(str(name), one.types[str(name)]) for name in (*ahead, *reader.times)]
            missing = NO_START if reader.source.is_ready_made else NO_EVENT_TIME
            ticks = ticks_sql(times, unit, missing, max_tick)
            parts.append(rows.selectExpr(*encode, *of_time(ticks)))
        return reduce(lambda one, other: one.union(other), parts)


def _readers_by_input(query: Query, binding: Binding) -> dict[str, InputReader]:
    """Who reads each input; where there are several, all read its times from the same columns."""
    found: dict[str, InputReader] = {}
    for reader in input_readers(binding):
        first = found.setdefault(reader.key, reader)
        if first.times != reader.times:
            raise query.fault(
                ("source",),
                f"the rows of {reader.key} are read with times in {_listed(first)}, and with times "
                f"in {_listed(reader)}",
                "on Spark a row has one time: give the frame twice, by two names",
            )
    return found


def _listed(reader: InputReader) -> str:
    return " or ".join(reader.times)


def _converted(
    name: str, given: spark.DataType, own: pl.DataType, dtype: pl.DataType
) -> tuple[str, spark.DataType]:
    """A column in Spark SQL with the type that all inputs have in common, and that type."""
    sql = spark_text.column(name)
    is_plain = given == spark.StringType() or not isinstance(given, spark.StringType)
    if own == dtype and is_plain:
        return f"{sql} AS {sql}", given
    wanted = spark_type(dtype)
    return f"{converted_sql(sql, given, wanted)} AS {sql}", wanted
