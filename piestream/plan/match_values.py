"""Expressions on a match, over result rows: what they read, and the columns that are calculated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from piestream.expressions.backends.polars import value_expression
from piestream.expressions.durations import Duration
from piestream.expressions.types import Tick, TickLength
from piestream.language.model import Query
from piestream.language.parts import Calculated, Where
from piestream.plan.columns import Errors, TimeColumn, tick_of
from piestream.plan.outputs import IntervalDuration, Output, ResultRows, of_type
from piestream.plan.program import OutputWord

__all__ = ["CalculatedColumn", "MatchValues", "calculated_value", "lengths_in_ticks"]

#: A column that a frame has also where an expression reads nothing.
_ROW = ""


@dataclass(frozen=True)
class MatchValues:
    """The values that an expression on a match reads: outputs by their texts, lengths of time in ticks."""

    outputs: tuple[Output, ...]
    lengths: Mapping[str, int]

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        """The words that result rows must have for it."""
        return tuple(dict.fromkeys(word for output in self.outputs for word in output.words))

    def schema(self, time: TimeColumn) -> dict[str, Any]:
        """The types of what it reads."""
        length: Any = TickLength if time.needs_units else pl.Int64()
        found: dict[str, Any] = {
            output.name: length if _is_length(output) else output.dtype for output in self.outputs
        }
        return found | dict.fromkeys(self.lengths, length)

    def tick(self, time: TimeColumn) -> Tick | None:
        """What differences of times are counted in: the clock's ticks, or the finest of what is read."""
        if time.nanoseconds_per_tick is not None:
            return Tick(time.nanoseconds_per_tick, time.needs_units)
        ticks = [tick_of(output.dtype) for output in self.outputs]
        finest = min((tick for tick in ticks if tick is not None), default=None)
        return None if finest is None else Tick(finest, needs_unit=True)

    def frame(self, found: ResultRows) -> pl.DataFrame:
        """The values that it reads, for these result rows."""
        columns = {_ROW: pl.Series(found.times)}
        columns |= {output.name: _values(output, found) for output in self.outputs}
        lengths = [pl.lit(ticks, dtype=pl.Int64).alias(n) for n, ticks in self.lengths.items()]
        return pl.DataFrame(columns).with_columns(lengths)


def lengths_in_ticks(
    query: Query, where: Where, lengths: tuple[tuple[str, Duration], ...], time: TimeColumn
) -> dict[str, int]:
    """The lengths of time that an expression mentions, by their texts; faults are raised together."""
    errors = Errors()
    found = {
        text: errors.attempt(
            query.ticks, where, duration, time.nanoseconds_per_tick, time.needs_units
        )
        for text, duration in lengths
    }
    errors.raise_all()
    return {text: ticks for text, ticks in found.items() if ticks is not None}


def _is_length(output: Output) -> bool:
    return isinstance(output, IntervalDuration)


def _values(output: Output, found: ResultRows) -> pl.Series:
    """What an expression reads of an output: lengths of time in ticks."""
    if isinstance(output, IntervalDuration):
        return output.ticks(found)
    return of_type(output.column(found), output.dtype)


@dataclass(frozen=True)
class CalculatedColumn(Output):
    """``MAX(a.x) - MIN(a.x) AS rise``: an expression over what a match gives."""

    values: MatchValues
    expression: pl.Expr = field(repr=False)
    length_of: TimeColumn | None = None  # where it gives lengths of time, in ticks of this column

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return self.values.words

    def column(self, found: ResultRows) -> pl.Series:
        column = self.values.frame(found).select(self.expression.alias(self.name)).to_series()
        return column if self.length_of is None else self.length_of.as_lengths(column)


def calculated_value(item: Calculated, values: MatchValues, time: TimeColumn) -> Output:
    """The output of a calculation."""
    schema, tick = values.schema(time), values.tick(time)
    typed = item.expression.typed(schema, tick)
    expression = value_expression(typed, schema)
    if typed.type.is_length:
        if tick is not None and not time.needs_units:  # they are lengths of other times
            finest = tick.nanoseconds
            dtype = next(o.dtype for o in values.outputs if tick_of(o.dtype) == finest)
            time = TimeColumn("", dtype, finest)
        return CalculatedColumn(item.alias, time.length_dtype, values, expression, time)
    known = {name: pl.Int64() if dtype is TickLength else dtype for name, dtype in schema.items()}
    empty = pl.DataFrame(schema={_ROW: pl.Int64(), **known})
    dtype = empty.select(expression.alias(item.alias)).schema[item.alias]
    return CalculatedColumn(item.alias, dtype, values, expression)
