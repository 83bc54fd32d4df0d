"""What a query on a Spark frame needs on both sides: bound, and ready to be sent to workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from piestream.adapters.binding import bound
from piestream.language.model import Query
from piestream.language.options import Ties
from piestream.plan.binding import Binding
from piestream.spark.codec.columns import polars_schema, zone_of
from piestream.spark.codec.rows import Incoming, Outgoing, arrivals, departures

__all__ = ["Plan", "planned", "sql_functions"]


@dataclass(frozen=True)
class Plan:
    """What the workers need to know of a query. The binding is made anew in each of them."""

    query: Query
    schema: tuple[tuple[str, pl.DataType], ...]
    incoming: Incoming
    outgoing: Outgoing
    ties: Ties

    @property
    def binding(self) -> Binding:
        """The bound query."""
        return bound(self.query, dict(self.schema))


@dataclass
class Bound:
    """A query bound to a Spark frame, in the driver."""

    query: Query
    frame: Any
    types: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.frame.schema
        zone = zone_of(self.frame.sparkSession.conf.get("spark.sql.session.timeZone"))
        self.types = {f.name: f.dataType for f in schema.fields}
        self.schema = polars_schema(schema, zone)
        self.metadata = {f.name: f.metadata for f in schema.fields}

    @cached_property
    def binding(self) -> Binding:
        """The bound query; raises what is wrong with it."""
        return bound(self.query, self.schema)

    def plan(self, ties: Ties, clock: tuple[int, int]) -> tuple[Plan, list[str], list[str]]:
        """The plan, the SQL that sends events, and the SQL that reads results."""
        binding = self.binding
        incoming, send = arrivals(binding, self.types, clock)
        outgoing, read = departures(binding, self.types)
        schema = {name: binding.schema[name] for name in binding.columns}
        return Plan(self.query, tuple(schema.items()), incoming, outgoing, ties), send, read


def planned(query: Query, frame: Any) -> Bound:
    """A query bound to a Spark frame."""
    return Bound(query, frame)


def sql_functions(frame: Any) -> Any:
    """The functions of the kind of Spark that a frame belongs to."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.functions import builtin

        return builtin
    from pyspark.sql import functions

    return functions
