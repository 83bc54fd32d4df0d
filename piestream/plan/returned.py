"""The outputs of a query: one for each item of RETURN, and for each value that WHERE reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import polars as pl

from piestream.language.model import Query
from piestream.language.parts import (
    Aggregate,
    Calculated,
    DurationOf,
    Endpoint,
    Instant,
    MatchItem,
    RelationOf,
    Return,
    Value,
)
from piestream.plan.aggregate_outputs import aggregate_output
from piestream.plan.columns import Attribute, Errors, InputColumns, TimeColumn
from piestream.plan.match_values import MatchValues, calculated_value, lengths_in_ticks
from piestream.plan.outputs import (
    EndpointTime,
    InstantNumber,
    IntervalDuration,
    Output,
)
from piestream.plan.relation_name import RelationName
from piestream.relations import ANY, Relation, inverse

__all__ = ["Returned", "returned_columns"]


@dataclass(frozen=True)
class Returned:
    """The outputs of a query, and the attributes that they read."""

    outputs: tuple[Output, ...]  # the columns of RETURN
    tested: tuple[Output, ...]  # what WHERE reads, each by its text
    attributes: tuple[Attribute, ...]  # that they aggregate


def returned_columns(query: Query, streams: Sequence[InputColumns], time: TimeColumn) -> Returned:
    """The columns of RETURN, those that WHERE reads, and the attributes that they aggregate."""
    returns = _Returns(query, streams, time)
    errors = Errors()
    outputs = [errors.attempt(returns.returned, item) for item in query.returns]
    where = () if query.where is None else query.where.items
    tested = [errors.attempt(returns.output, item) for item in where]
    errors.raise_all()
    return Returned(
        tuple(output for output in outputs if output is not None),
        tuple(output for output in tested if output is not None),
        tuple(returns.attributes),
    )


class _Returns:
    """Finds the output of each item of RETURN; numbers the attributes as they come up."""

    def __init__(self, query: Query, streams: Sequence[InputColumns], time: TimeColumn) -> None:
        self.query = query
        self.streams = streams
        self.time = time
        self.symbols = {symbol.name: n for n, symbol in enumerate(query.symbols)}
        self.attributes: dict[Attribute, int] = {}

    def returned(self, item: Return) -> Output:
        return self.calculated(item) if isinstance(item, Calculated) else self.output(item)

    def calculated(self, item: Calculated) -> Output:
        """The output of a calculation; its faults are raised together."""
        errors = Errors()
        outputs = [errors.attempt(self.output, one) for one in item.items]
        lengths = errors.attempt(
            lengths_in_ticks, self.query, ("return", item.alias), item.lengths, self.time
        )
        errors.raise_all()
        assert lengths is not None
        read = tuple(output for output in outputs if output is not None)
        return calculated_value(item, MatchValues(read, lengths), self.time)

    def output(self, item: MatchItem) -> Output:
        time, symbols = self.time, self.symbols
        match item:
            case Endpoint(symbol, which, alias):
                return EndpointTime(alias, time.dtype, time, symbols[symbol], which)
            case Instant(symbol, which, alias):
                return InstantNumber(alias, pl.Int64(), symbols[symbol], which)
            case DurationOf(symbol, alias):
                return IntervalDuration(alias, time.length_dtype, time, symbols[symbol])
            case RelationOf(x, y, alias):
                allowed = _allowed(self.query, x, y)
                sequenced = self.query.is_sequenced
                bridged = frozenset(
                    symbols[s.name] for s in self.query.symbols if s.bridging is not None
                )
                pair = symbols[x], symbols[y]
                listed = not bridged.isdisjoint(pair) or any(
                    self.query.stream_of(one).is_ready_made for one in (x, y)
                )
                return RelationName(alias, pl.String(), *pair, allowed, sequenced, bridged, listed)
            case Aggregate():
                return self.aggregate(item)
            case Value(symbol, column, alias):
                return self.aggregate(Aggregate("FIRST", symbol, column, alias), f"{symbol}.")
            case _:
                assert_never(item)

    def aggregate(self, item: Aggregate, clause: str | None = None) -> Output:
        symbol = self.symbols[item.symbol]
        columns = self.streams[self.query.symbols[symbol].stream]
        return aggregate_output(self.query, columns, item, symbol, self.attributes, clause)


def _allowed(query: Query, x: str, y: str) -> Relation:
    """The relations that the pattern allows between two symbols; all of Allen's if they have no constraint."""
    for constraint in query.constraints:
        if (constraint.x, constraint.y) == (x, y):
            return constraint.relations
        if (constraint.x, constraint.y) == (y, x):
            return inverse(constraint.relations)
    return ANY
