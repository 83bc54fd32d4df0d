"""The columns of a row pattern's result: its measures, and the columns of the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import polars as pl

from piestream.compiled.constants import NONE
from piestream.expressions.backends.polars import value_expression
from piestream.expressions.typed import Expression, children
from piestream.intervals.aggregates import CellKind
from piestream.language.model import Query
from piestream.language.parts import Aggregate
from piestream.language.row_patterns import (
    EmptyMatches,
    Measure,
    RowItem,
    RowPattern,
)
from piestream.plan.aggregate_outputs import SelectedValue, aggregate_output
from piestream.plan.aggregates import Selection
from piestream.plan.calculated import CalculatedColumns
from piestream.plan.columns import (
    Attribute,
    InputColumns,
    TimeColumn,
    is_moment,
    own_form,
    tick_of,
)
from piestream.plan.outputs import (
    MATCH_END,
    MATCH_KNOWN,
    MATCH_START,
    Output,
    ReportTime,
    ResultRows,
    nullable,
    of_type,
)
from piestream.plan.program import Cell, OutputWord
from piestream.row_patterns.loops.records import (
    What,
)

__all__ = ["RowOutputs"]

#: What selects one row: its words are whether the value is known, and the value.
_OF_ROW = Selection(CellKind.FIRST)


@dataclass(frozen=True)
class VariableName(Output):
    """``CLASSIFIER()``: the name of the variable of a row."""

    item: int
    names: tuple[str, ...]

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _words(self.item, CellKind.FIRST, NONE)

    def column(self, found: ResultRows) -> pl.Series:
        known, number = (found[word] for word in self.words)
        return pl.Series(self.names).gather(nullable(number * (known == 1), known != 1))


@dataclass(frozen=True)
class MatchNumber(Output):
    """``MATCH_NUMBER()``; rows without a match have none."""

    item: int

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.item, "number"),)

    def column(self, found: ResultRows) -> pl.Series:
        numbers = found[self.words[0]]
        return nullable(numbers, numbers == 0)


@dataclass(frozen=True)
class MeasureValue(Output):
    """A measure: an expression over items, or one of them as it is."""

    items: tuple[Output, ...]  # each by its text
    expression: pl.Expr | None = field(repr=False)
    #: Where rows may be of no match: the number of their match, by which these are told.
    number: MatchNumber | None = None
    #: Where it is a difference of times: the column of whose ticks it is a number.
    length_of: TimeColumn | None = None

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        read = self.items if self.number is None else (*self.items, self.number)
        return tuple(dict.fromkeys(word for item in read for word in item.words))

    @property
    def values_of(self) -> str | None:
        return self.items[0].values_of if self.expression is None else None

    def column(self, found: ResultRows) -> pl.Series:
        values = self._values(found)
        if self.number is None:
            return values
        return values.set(self.number.column(found).is_null(), None)

    def _values(self, found: ResultRows) -> pl.Series:
        if self.expression is None:
            return of_type(self.items[0].column(found), self.dtype)
        columns = [of_type(i.column(found), i.dtype).alias(i.name) for i in self.items]
        rows = pl.int_range(len(found.rows), eager=True).alias("row:")
        frame = pl.DataFrame([rows, *columns])
        found_values = frame.select(self.expression.alias(self.name)).to_series()
        return found_values if self.length_of is None else self.length_of.as_lengths(found_values)


@dataclass(frozen=True)
class IntervalBound(Output):
    """The start or the end of the interval that a match is in a larger query."""

    time: TimeColumn
    item: int

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.item, "bound"),)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_times(nullable(found[self.words[0]]))


class RowOutputs:
    """Finds the column of each item; numbers the items and attributes as they come up."""

    def __init__(self, query: Query, columns: InputColumns) -> None:
        assert query.rows is not None
        self.query = query
        self.rows: RowPattern = query.rows
        self.columns = columns
        self.attributes: dict[Attribute, int] = {}
        self.calculated = CalculatedColumns(columns.schema)
        #: What each number stands for: an item, or the column of the result's own row.
        self.numbers: dict[RowItem | str | What, int] = {}

    def measure(self, measure: Measure) -> Output:
        items = tuple(self.item(text, item) for text, item in measure.items)
        number = None
        if self.rows.all_rows and self.rows.empty_matches is EmptyMatches.WITH_UNMATCHED:
            number = self._match_number("number:")
        if measure.expression.only_name is not None:
            (item,) = items
            return MeasureValue(measure.alias, item.dtype, items, None, number)
        schema = {item.name: item.dtype for item in items}
        typed = measure.expression.typed(schema)
        expression = value_expression(typed, schema)
        time = self._time_of_lengths(measure, items) if _has_length(typed) else None
        if time is not None and typed.type.is_length:
            dtype = time.length_dtype
            return MeasureValue(measure.alias, dtype, items, expression, number, time)
        frame = pl.DataFrame(schema={"row:": pl.Int64(), **schema})
        dtype = frame.select(expression.alias(measure.alias)).schema[measure.alias]
        return MeasureValue(measure.alias, dtype, items, expression, number)

    def _time_of_lengths(self, measure: Measure, items: tuple[Output, ...]) -> TimeColumn:
        """The column of whose ticks a difference of times is a number."""
        times = [item for item in items if is_moment(item.dtype)]
        kinds = {(tick_of(t.dtype), getattr(t.dtype, "time_zone", None) is None) for t in times}
        if len(kinds) > 1:
            listed = " and ".join(f"{t.name} is {t.dtype}" for t in times)
            raise self.query.fault(
                ("return", measure.alias),
                f"{measure.alias} subtracts times that are not of one type: {listed}",
                "make columns of one type of them first",
            )
        return TimeColumn(times[0].name, times[0].dtype, tick_of(times[0].dtype))

    def _match_number(self, text: str) -> MatchNumber:
        return MatchNumber(text, pl.Int64(), self._number(RowItem("MATCH_NUMBER")))

    def item(self, text: str, item: RowItem) -> Output:
        if item.function == "MATCH_NUMBER":
            return self._match_number(text)
        number = self._number(item)
        if item.column is None and item.function in ("FIRST", "LAST"):
            return VariableName(text, pl.String(), number, self.rows.variables)
        columns, column = self.columns, item.column
        if item.expression is not None:
            found = self.calculated.of(item.expression.typed(columns.schema))
            column = found.name
            columns = replace(columns, schema={**columns.schema, column: found.dtype})
        if item.function in ("FIRST", "LAST"):
            place = ("column", text)
            return self._value(text, str(column), number, place, item.function, columns)
        aggregate = Aggregate(item.function, "", column, text)
        return aggregate_output(self.query, columns, aggregate, number, self.attributes)

    def current(self, name: str) -> Output:
        """A column of the row itself."""
        number = self._number(name)
        return self._value(name, name, number, None, "ALL ROWS PER MATCH", self.columns)

    def _value(
        self, text: str, column: str, number: int, where: tuple[str, ...] | None, clause: str,
        columns: InputColumns,
    ) -> Output:  # fmt: skip
        dtype = columns.dtype(column, where or ("all",), clause)
        if dtype.is_nested():
            message = f"{clause} cannot give the column {column}: its type is {dtype}"
            raise self.query.fault(where or ("all",), message)
        attribute = Attribute(column, own_form(dtype))
        place = self.attributes.setdefault(attribute, len(self.attributes))
        return SelectedValue(text, dtype, number, place, attribute, _OF_ROW)

    def bounds(self, time: TimeColumn) -> list[Output]:
        """Where a match lies as an interval, and when it becomes known."""
        start, end = self._number(What.START), self._number(What.END)
        return [
            IntervalBound(MATCH_START, time.dtype, time, start),
            IntervalBound(MATCH_END, time.dtype, time, end),
            ReportTime(MATCH_KNOWN, time.dtype, time),
        ]

    def _number(self, what: RowItem | str | What) -> int:
        return self.numbers.setdefault(what, len(self.numbers))


def _has_length(expression: Expression) -> bool:
    """Whether times are subtracted somewhere in an expression."""
    return expression.type.is_length or any(map(_has_length, children(expression)))


def _words(item: int, kind: CellKind, column: int) -> tuple[OutputWord, ...]:
    return tuple(OutputWord(item, Cell(item, kind, column), part) for part in range(2))
