"""Which of an input's columns a query reads: no others are converted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any

import polars as pl

from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.parts import Aggregate, StreamKind, Value
from piestream.plan.columns import is_moment

__all__ = ["columns_to_read", "lazily_read", "named_columns", "pandas_may_be_time"]


def named_columns(query: Query) -> set[str]:
    """The columns that a query names. One whose ORDER BY is left out reads its time besides."""
    names = set(query.partition_by)
    for stream in query.streams:
        own = (stream.order_by, stream.sequence, stream.start, stream.end, stream.id)
        names.update(column for column in own if column is not None)
    for symbol in query.symbols:
        names.update(symbol.predicate.columns)
    if query.rows is not None:
        names.update(query.rows.columns)
    returned = (item.column for item in query.items if isinstance(item, Aggregate | Value))
    return names | {column for column in returned if column is not None}


def columns_to_read(
    query: Query, names: Sequence[str], may_be_time: Callable[[str], bool]
) -> list[str]:
    """The columns that must be converted, in the order of the input.

    Where ORDER BY is left out, these are also the columns that may hold times. Where the query
    names a column that is missing they are all, because the error names what there is.
    """
    named = named_columns(query)
    if query.rows is not None and query.rows.all_rows:
        return list(names)
    if not named <= set(names):
        return list(names)
    times: Collection[str] = ()
    if any(s.order_by is None and s.kind is StreamKind.EVENTS for s in query.streams):
        times = {name for name in names if name not in named and may_be_time(name)}
    return [name for name in names if name in named or name in times]


def lazily_read(query: Query, frame: pl.LazyFrame) -> pl.LazyFrame:
    """A lazy frame with the columns that a query reads."""
    schema = frame.collect_schema()
    read = columns_to_read(query, schema.names(), lambda name: is_moment(schema[name]))
    return frame.select(columns_named(read))


def pandas_may_be_time(column: Any) -> bool:
    """Whether a pandas column may hold dates or datetimes, by its type or its first value."""
    if column.dtype.kind != "O":
        return str(column.dtype).startswith(("datetime", "timestamp", "date32", "date64"))
    first = column.first_valid_index()
    return first is not None and isinstance(_at(column, first), date)


def _at(column: Any, label: Any) -> Any:
    value = column.loc[label]
    return value.iloc[0] if hasattr(value, "iloc") else value  # the label stands several times
