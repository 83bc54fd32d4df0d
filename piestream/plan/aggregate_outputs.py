"""The columns of aggregates over the events of a symbol, as RETURN and MEASURES have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from piestream.intervals.aggregates import CellKind
from piestream.language.model import Query
from piestream.language.parts import Aggregate
from piestream.plan.aggregates import AGGREGATIONS, Calculation, Computation, Selection
from piestream.plan.columns import (
    CODE,
    COUNTED,
    FLOAT,
    INTEGER,
    ROW,
    SUMMED,
    Attribute,
    InputColumns,
)
from piestream.plan.outputs import Output, PartitionKey, ResultRows, nullable
from piestream.plan.program import Cell, OutputWord

__all__ = ["SelectedValue", "aggregate_output"]

#: What looks at one event, whatever the rows of other streams besides.
_OF_ONE_EVENT = (Selection(CellKind.FIRST), Selection(CellKind.LAST))


@dataclass(frozen=True)
class CalculatedValue(Output):
    """An aggregate that calculates a number, from the values of a column or from the events."""

    symbol: int
    calculation: Calculation
    number: int = 0  # of the attribute that holds the values; cells of events read none
    #: Where rows stand for groups of rows: of each kind of cell the attribute that has what groups add to it.
    of_groups: tuple[tuple[CellKind, int], ...] = ()

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        if not self.of_groups:
            return _cell_words(self.symbol, self.calculation, self.number)
        numbers = dict(self.of_groups)
        return tuple(
            OutputWord(self.symbol, Cell(self.symbol, CellKind.SUM_INT, numbers[kind]), part)
            for kind, part in self.calculation.words
        )

    def column(self, found: ResultRows) -> pl.Series:
        return nullable(*self.calculation.finish(*(found[word] for word in self.words)))


@dataclass(frozen=True)
class SelectedValue(Output):
    """An aggregate that gives one of the values of a column."""

    symbol: int
    number: int
    attribute: Attribute
    selection: Selection

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _cell_words(self.symbol, self.selection, self.number)

    @property
    def values_of(self) -> str:
        return self.attribute.name

    def column(self, found: ResultRows) -> pl.Series:
        known, value = (found[word] for word in self.words)
        unknown = known != 1
        if self.attribute.form == FLOAT:
            return nullable(np.ascontiguousarray(value).view(np.float64), unknown)
        column = nullable(np.where(unknown, 0, value), unknown)
        if self.attribute.form == CODE:
            return found.dictionaries[self.number].gather(column)
        return column.cast(pl.Int32) if self.dtype == pl.Date else column


def aggregate_output(
    query: Query,
    columns: InputColumns,
    item: Aggregate,
    symbol: int,
    attributes: dict[Attribute, int],
    clause: str | None = None,
) -> Output:
    """The output of an aggregate over the events of a symbol; a new attribute gets a number."""
    stream = columns.stream
    aggregation = AGGREGATIONS[item.function]

    def number_of(attribute: Attribute) -> int:
        return attributes.setdefault(attribute, len(attributes))

    if item.column is None and query.is_combined:
        rows = aggregation.over[INTEGER]
        assert isinstance(rows, Calculation), "what needs no column counts rows"
        number = number_of(Attribute(ROW, INTEGER, stream))
        return CalculatedValue(item.alias, rows.dtype, symbol, rows, number)
    if item.column is None:
        over_events = aggregation.over_events
        assert over_events is not None, "the language declares that it needs a column"
        of_groups = _of_groups(columns, ROW, over_events, number_of)
        return CalculatedValue(item.alias, over_events.dtype, symbol, over_events, 0, of_groups)
    where = ("column", item.alias)
    dtype = columns.dtype(item.column, where, clause or item.function)
    form = aggregation.form_of(dtype)
    if form is None:
        raise query.fault(
            where, f"{item.function} needs a numeric column; {item.column} has type {dtype}"
        )
    computation = aggregation.over[form]
    is_selected = isinstance(computation, Selection)
    if is_selected and item.column in query.partition_by and query.rows is None:
        return PartitionKey(item.alias, dtype, item.column)
    of_groups = _of_groups(columns, item.column, computation, number_of)
    if of_groups and isinstance(computation, Calculation):
        return CalculatedValue(item.alias, computation.dtype, symbol, computation, 0, of_groups)
    carried = query.is_combined and computation in _OF_ONE_EVENT
    attribute = Attribute(item.column, form, stream, carried)
    number = number_of(attribute)
    if isinstance(computation, Selection):
        return SelectedValue(item.alias, dtype, symbol, number, attribute, computation)
    return CalculatedValue(item.alias, computation.dtype, symbol, computation, number)


#: What a group of rows adds to the cells of which the order of rows does not count.
_FORMS_OF_GROUPS = {CellKind.ROWS: SUMMED, CellKind.COUNT: COUNTED, CellKind.SUM_INT: SUMMED}


def _of_groups(
    columns: InputColumns,
    name: str,
    computation: Computation,
    number_of: Callable[[Attribute], int],
) -> tuple[tuple[CellKind, int], ...]:
    """The attributes with what groups of rows add to each cell; none where single rows are needed."""
    kinds = dict.fromkeys(kind for kind, _ in computation.words)
    if not columns.is_grouped or not kinds.keys() <= _FORMS_OF_GROUPS.keys():
        return ()
    return tuple((kind, number_of(Attribute(name, _FORMS_OF_GROUPS[kind]))) for kind in kinds)


def _cell_words(symbol: int, computation: Computation, column: int) -> tuple[OutputWord, ...]:
    return tuple(
        OutputWord(symbol, Cell(symbol, kind, column), part) for kind, part in computation.words
    )
