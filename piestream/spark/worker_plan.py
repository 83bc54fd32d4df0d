"""What is sent to the workers of Spark: a query, and how its rows travel to them and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.inputs import bound_inputs
from piestream.engine.combined import CombinedStream, open_stream
from piestream.engine.stream import Stream, StreamKeywords
from piestream.language.model import Query
from piestream.language.options import Ties
from piestream.plan.binding import Binding
from piestream.plan.combined import input_readers
from piestream.spark.codec.rows import InputCodec, ResultCodec
from piestream.spark.codec.union import UnionCodec

__all__ = ["EventsPlan", "FramePlan", "InputsPlan", "WorkerPlan", "sql_functions"]

#: The columns of a frame and their types.
Columns = tuple[tuple[str, pl.DataType], ...]


@dataclass(frozen=True)
class WorkerPlan(ABC):
    """What the workers need to know of a query. Each of them binds it anew."""

    query: Query
    result: ResultCodec
    ties: Ties

    @property
    @abstractmethod
    def binding(self) -> Binding:
        """The bound query."""

    @property
    @abstractmethod
    def key_columns(self) -> list[str]:
        """The wire columns of the keys."""

    @property
    def has_gaps(self) -> bool:
        """Whether time alone brings something: what is known then depends on the time elsewhere."""
        readers = list(input_readers(self.binding))
        if self.query.has_silences:
            return True
        queries = (self.query, *(one.binding.query for one in readers))
        return any(one.source.max_gap is not None for one in readers) or any(
            query.absences or any(symbol.bridging is not None for symbol in query.symbols)
            for query in queries
        )

    def opened(self, **options: Unpack[StreamKeywords]) -> Stream:
        """A new stream of the query."""
        options["ties"] = self.ties
        return open_stream(self.binding, **options)

    @property
    def order_columns(self) -> list[str]:
        """The wire columns that order rows of one time, if ORDER BY names a column."""
        return []

    @abstractmethod
    def process(self, stream: Stream, wire: pl.DataFrame) -> pl.DataFrame:
        """Process wire rows in order of time."""

    @abstractmethod
    def process_unordered(
        self, stream: Stream, wires: Sequence[pl.DataFrame], seen: int
    ) -> pl.DataFrame:
        """Process the wire rows of a micro-batch, before which the time ``seen`` was seen."""


@dataclass(frozen=True)
class EventsPlan(WorkerPlan):
    """That of a query over one stream of events, whose predicates are evaluated in the JVM."""

    schema: Columns
    input: InputCodec

    @property
    def binding(self) -> Binding:
        """The bound query."""
        return bound(self.query, dict(self.schema))

    @property
    def key_columns(self) -> list[str]:
        """The wire columns of the keys."""
        return self.input.key_columns

    @property
    def order_columns(self) -> list[str]:
        """The wire columns that order rows of one time, if ORDER BY names a column."""
        return self.input.order_columns

    def process(self, stream: Stream, wire: pl.DataFrame) -> pl.DataFrame:
        """Process wire rows in order of time."""
        return stream.process_projected(self.input.decode(wire))

    def process_unordered(
        self, stream: Stream, wires: Sequence[pl.DataFrame], seen: int
    ) -> pl.DataFrame:
        """Process the wire rows of a micro-batch, before which the time ``seen`` was seen."""
        parts = [self.input.decode(wire) for wire in wires]
        if not parts:
            parts = [stream.project(pl.DataFrame(schema=dict(self.binding.schema)))]
        return stream.process_unordered(parts[0] if len(parts) == 1 else pl.concat(parts), seen)


@dataclass(frozen=True)
class InputsPlan(WorkerPlan):
    """That of a query over several inputs, or over intervals, all in one union of rows."""

    schemas: tuple[tuple[str, Columns], ...]
    input: UnionCodec

    @property
    def binding(self) -> Binding:
        """The bound query."""
        return bound_inputs(self.query, {key: dict(types) for key, types in self.schemas}).binding

    @property
    def key_columns(self) -> list[str]:
        """The wire columns of the keys."""
        return self.input.key_columns

    def process(self, stream: Stream, wire: pl.DataFrame) -> pl.DataFrame:
        """Process wire rows in order of time."""
        return self.process_unordered(stream, [wire], stream.latest)

    def process_unordered(
        self, stream: Stream, wires: Sequence[pl.DataFrame], seen: int
    ) -> pl.DataFrame:
        """Process the wire rows of a micro-batch, before which the time ``seen`` was seen."""
        assert isinstance(stream, CombinedStream)
        stream.observe_time(seen)
        frames, latest = self.input.decode(wires)
        return stream.process_inputs(frames, max(latest, stream.latest), unordered=True)


@dataclass(frozen=True)
class FramePlan:
    """The plan of the workers, and the Spark SQL on both sides of them."""

    worker: WorkerPlan
    encode: tuple[tuple[str, ...], ...]  # the wire columns of each input, but for their time
    decode: dict[str, str]  # each result column

    def decoded(self, found: Any) -> Any:
        """The result, from its wire columns."""
        columns = [f"{sql} AS c{number}" for number, sql in enumerate(self.decode.values())]
        return found.selectExpr(*columns).toDF(*self.decode)


def sql_functions(frame: Any) -> Any:
    """The functions of the kind of Spark that a frame belongs to."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.functions import builtin

        return builtin
    from pyspark.sql import functions

    return functions
