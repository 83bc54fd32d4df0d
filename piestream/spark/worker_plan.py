"""A query on a Spark frame: bound in the driver, and made ready to be sent to the workers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.language.model import Query
from piestream.language.options import Ties
from piestream.plan.binding import Binding
from piestream.spark.codec.rows import (
    InputCodec,
    ResultCodec,
    WireTime,
    input_codec,
    result_codec,
)
from piestream.spark.codec.types import polars_schema, zone_of

__all__ = [
    "BoundFrame",
    "FramePlan",
    "WorkerPlan",
    "sql_functions",
]


@dataclass(frozen=True)
class WorkerPlan:
    """What the workers need to know of a query. Each of them binds it anew."""

    query: Query
    schema: tuple[tuple[str, pl.DataType], ...]
    input: InputCodec
    result: ResultCodec
    ties: Ties

    @property
    def binding(self) -> Binding:
        """The bound query."""
        return bound(self.query, dict(self.schema))


@dataclass(frozen=True)
class FramePlan:
    """The plan of the workers, and the Spark SQL on both sides of them."""

    worker: WorkerPlan
    encode: tuple[str, ...]  # the wire columns of events, but for their time
    decode: dict[str, str]  # each result column

    def decoded(self, found: Any) -> Any:
        """The result, from its wire columns."""
        columns = [f"{sql} AS c{number}" for number, sql in enumerate(self.decode.values())]
        return found.selectExpr(*columns).toDF(*self.decode)


class BoundFrame:
    """A query bound to a Spark frame, in the driver."""

    def __init__(self, query: Query, frame: Any) -> None:
        self.query = query
        self.frame = frame
        schema = frame.schema
        zone = zone_of(frame.sparkSession.conf.get("spark.sql.session.timeZone"))
        self.schema = polars_schema(schema, zone)
        #: The types in Spark, and the metadata in which Spark notes a watermark.
        self.types = {column.name: column.dataType for column in schema.fields}
        self.metadata = {column.name: column.metadata for column in schema.fields}

    @cached_property
    def binding(self) -> Binding:
        """The bound query; raises what is wrong with it."""
        return bound(self.query, self.schema)

    def plan(self, ties: Ties, time: WireTime) -> FramePlan:
        """The plan of a run over the frame."""
        binding = self.binding
        encoder, encode = input_codec(binding, self.types, time)
        result, decode = result_codec(binding, self.types)
        schema = tuple((name, binding.schema[name]) for name in binding.columns)
        worker = WorkerPlan(self.query, schema, encoder, result, ties)
        return FramePlan(worker, tuple(encode), decode)


def sql_functions(frame: Any) -> Any:
    """The functions of the kind of Spark that a frame belongs to."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.functions import builtin

        return builtin
    from pyspark.sql import functions

    return functions
