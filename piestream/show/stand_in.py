"""Columns that fit a query, where its input is not known yet: enough to compile it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.expressions.syntax import And, Literal
from piestream.language.model import Query
from piestream.language.parser import query as read_query
from piestream.language.parts import Aggregate, Calculated, Condition, Source, Symbol, Value
from piestream.language.row_patterns import Measure
from piestream.plan.binding import Binding, bind, input_key
from piestream.plan.combined import bind_combined, unified
from piestream.plan.conditions import equalities

if TYPE_CHECKING:
    import polars as pl

__all__ = ["bound_to", "bound_to_stand_in"]

#: What a column may not be called, so that the stand-ins are no columns of the query.
_TIME, _PREDICATE = "time:", "predicate:"


def bound_to(query: Query, schema: Mapping[str, pl.DataType]) -> Binding:
    """A query bound to the columns of its only input."""
    if not query.is_combined:
        return bind(query, schema)
    keys = {input_key(stream) for stream in query.inputs}
    schemas = unified(query, dict.fromkeys(keys, schema))
    return bind_combined(query, schemas)


def bound_to_stand_in(query: Query) -> Binding:
    """A query with the same plan, bound to columns that fit it."""
    stand_in, schemas = _stand_in(query)
    if not query.is_combined:
        return bind(stand_in, schemas[input_key(stand_in.streams[0])])
    return bind_combined(stand_in, unified(stand_in, schemas))


def _stand_in(query: Query) -> tuple[Query, dict[str, dict[str, pl.DataType]]]:
    """A query with the same plan, and the columns of each of its inputs."""
    schemas: dict[str, dict[str, pl.DataType]] = {}
    streams = []
    for number, stream in enumerate(query.streams):
        if stream.silence is not None:
            streams.append(stream)
            continue
        if stream.query is not None:
            inner, below = _stand_in(stream.query)
            streams.append(replace(stream, query=inner))
        else:
            clock, columns = _clock(query, number)
            streams.append(clock)
            below = {input_key(stream): columns}
        for key, columns in below.items():
            schemas[key] = {**schemas.get(key, {}), **columns}
    symbols = tuple(_symbol(query, symbol) for symbol in query.symbols)
    if query.rows is not None:
        counts = tuple(replace(_count(), alias=m.alias) for m in query.rows.measures)
        rows = replace(query.rows, measures=counts)
        return replace(query, symbols=symbols, streams=tuple(streams), rows=rows), schemas
    where = None if query.where is None else _equalities_of(query.where)
    returns = tuple(
        item for one in query.returns for item in (one.items if isinstance(one, Calculated) else (one,))
    )  # fmt: skip
    return (
        replace(query, symbols=symbols, streams=tuple(streams), where=where, returns=returns),
        schemas,
    )


@cache
def _count() -> Measure:
    """A measure that reads no column."""
    text = (
        "FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n PATTERN (A) DEFINE A AS x > 1)"
    )
    rows = read_query(text).rows
    assert rows is not None
    return rows.measures[0]


def _equalities_of(where: Condition) -> Condition:
    """Of a condition the equalities of one column's values: those that may be join keys."""
    columns = {item.alias: getattr(item, "column", None) for item in where.items}
    kept = tuple(
        comparison for comparison, x, y in equalities(where) if columns.get(x) == columns.get(y)
    )
    return replace(where, predicate=replace(where.predicate, tree=And(kept or (Literal(True),))))


def _clock(query: Query, number: int) -> tuple[Source, dict[str, pl.DataType]]:
    """A stream of rows whose time is an integer with a unit, and its columns."""
    import polars as pl

    own = query.over(number)
    columns: dict[str, pl.DataType] = {
        item.column: pl.Float64()
        for item in own.returns
        if isinstance(item, Aggregate | Value) and item.column is not None
    }
    columns |= {name: pl.Int64() for name in query.partition_by}
    # integers with a unit take durations with and without one
    stream = replace(query.streams[number], time_unit=query.streams[number].time_unit or "ns")
    if not stream.is_ready_made:
        stream = replace(stream, order_by=stream.order_by or _TIME)
    times = (stream.order_by, stream.sequence, stream.start, stream.end, stream.id)
    columns |= {name: pl.Int64() for name in times if name is not None}
    return stream, columns | {_PREDICATE: pl.Int64()}


def _symbol(query: Query, symbol: Symbol) -> Symbol:
    """A symbol with a predicate that can be told from those of others."""
    if not query.streams[symbol.stream].is_input:
        return replace(symbol, predicate=EVERY_INTERVAL)
    distinct = list(dict.fromkeys(s.predicate for s in query.symbols))
    number = distinct.index(symbol.predicate)
    return replace(symbol, predicate=Predicate.parse(f'"{_PREDICATE}" = {number}'))
