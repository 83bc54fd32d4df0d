"""A query meets the columns of its input: types, ticks, its program, output columns.

Everything here happens once per query and schema. What it makes is handed to the detector, which
knows of integers only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from piestream.errors import SchemaError
from piestream.expressions.durations import Duration
from piestream.expressions.predicate import PREVIOUS_PREFIX, Predicate
from piestream.language.model import Query, Where
from piestream.plan.columns import Attribute, Errors, InputColumns, TimeColumn
from piestream.plan.compiler import compile_query
from piestream.plan.outputs import Output, report_columns, returned_columns
from piestream.plan.program import CompiledQuery, Ticks


@dataclass(frozen=True)
class Binding:
    """A query bound to the schema of its input."""

    query: Query
    schema: Mapping[str, pl.DataType] = field(repr=False)
    time: TimeColumn
    attributes: tuple[Attribute, ...]
    outputs: tuple[Output, ...]  # the columns of the result
    compiled: CompiledQuery = field(repr=False)
    predicates: tuple[pl.Expr, ...] = field(repr=False)  # each distinct one once
    bit_of_symbol: tuple[int, ...] = ()
    previous: tuple[str, ...] = ()  # columns inside PREV(...)

    @cached_property
    def predicate_columns(self) -> tuple[str, ...]:
        """The input columns that predicates read, without those of PREV."""
        columns: dict[str, None] = {}
        for symbol in self.query.symbols:
            columns.update(dict.fromkeys(symbol.predicate.columns))
        return tuple(columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All the input columns that are read."""
        read = [*self.query.partition_by, self.time.name, *self.predicate_columns]
        read += [*self.previous, *(a.name for a in self.attributes)]
        return tuple(dict.fromkeys(read))

    @cached_property
    def result_schema(self) -> dict[str, pl.DataType]:
        """The columns of the result and their types."""
        return {output.name: output.dtype for output in self.outputs}

    @cached_property
    def fingerprint(self) -> bytes:
        """What a stored state must agree with: the query's meaning and the types it works on."""
        query = self.query if self.query.path else replace(self.query, source=None)
        parts = [str(query), str(self.time.dtype), *map(str, self.attributes)]
        parts += [f"{name} {self.schema[name]}" for name in self.columns]
        return hashlib.sha256("\n".join(parts).encode()).digest()


def bind(query: Query, schema: Mapping[str, pl.DataType]) -> Binding:
    """Bind a query to the columns of its input. All faults found are raised together."""
    columns = InputColumns(query, dict(schema))
    errors = Errors()
    time = errors.attempt(columns.time)
    if time is not None:
        errors.attempt(columns.check_unit, time)
    for name in query.partition_by:
        errors.attempt(columns.dtype, name, ("partition_by", name), "PARTITION BY")
    distinct = dict.fromkeys(symbol.predicate for symbol in query.symbols)
    bits = {predicate: bit for bit, predicate in enumerate(distinct)}
    predicates = [errors.attempt(predicate.to_polars, columns.schema) for predicate in distinct]
    ticks = None if time is None else errors.attempt(_ticks, query, time)
    returned = None if time is None else errors.attempt(returned_columns, columns, time)
    previous = tuple(dict.fromkeys(name for p in distinct for name in p.previous))
    errors.raise_all()
    _refuse_reserved(distinct, previous)
    assert time is not None
    assert ticks is not None
    assert returned is not None
    outputs, attributes = returned
    outputs = (*report_columns(columns, time), *outputs)
    words = tuple(word for output in outputs for word in output.words)
    return Binding(
        query=query,
        schema=columns.schema,
        time=time,
        attributes=attributes,
        outputs=outputs,
        compiled=compile_query(query, ticks, words),
        predicates=tuple(predicate for predicate in predicates if predicate is not None),
        bit_of_symbol=tuple(bits[symbol.predicate] for symbol in query.symbols),
        previous=previous,
    )


def _refuse_reserved(predicates: Iterable[Predicate], previous: Iterable[str]) -> None:
    """Refuse a column whose name is that of what PREV reads."""
    read = {name for predicate in predicates for name in predicate.columns}
    for name in previous:
        if PREVIOUS_PREFIX + name in read:
            raise SchemaError(
                f"the column {PREVIOUS_PREFIX}{name} has the name that PREV({name}) has inside: "
                "rename it"
            )


def _ticks(query: Query, time: TimeColumn) -> Ticks:
    """The durations of a query in ticks of its time column."""
    errors = Errors()

    def of(where: Where, duration: Duration | None) -> int | None:
        if duration is None:
            return None
        return errors.attempt(
            query.ticks, where, duration, time.nanoseconds_per_tick, time.needs_units
        )

    at_least = tuple(of(("at_least", s.name), s.at_least) for s in query.symbols)
    at_most = tuple(of(("at_most", s.name), s.at_most) for s in query.symbols)
    max_gap = of(("max_gap",), query.max_gap)
    within = of(("within",), query.within)
    errors.raise_all()
    assert within is not None
    return Ticks(within, max_gap, at_least, at_most)
