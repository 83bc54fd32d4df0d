"""The values that a condition of a row pattern reads: what is kept of a match, and steps that read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from piestream.compiled.constants import NONE
from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language.model import Query
from piestream.language.row_patterns import RowCondition, RowItem
from piestream.plan.aggregates import AGGREGATIONS, Calculation
from piestream.plan.calculated import CalculatedColumn, CalculatedColumns
from piestream.plan.columns import (
    CODE,
    Attribute,
    InputColumns,
    TimeColumn,
    is_text,
    own_form,
    tick_of,
)
from piestream.plan.row_registers import RowMemory
from piestream.row_patterns.loops.records import Holding, Operator

__all__ = ["HINT", "ItemWriter"]

_FINISHED = {
    ("SUM", CellKind.SUM_INT): Operator.SUM_INT,
    ("SUM", CellKind.SUM_FLOAT): Operator.SUM_FLOAT,
    ("AVG", CellKind.SUM_INT): Operator.MEAN_INT,
    ("AVG", CellKind.SUM_FLOAT): Operator.MEAN_FLOAT,
    ("VARIANCE", CellKind.SPREAD): Operator.VARIANCE,
    ("STDDEV", CellKind.SPREAD): Operator.DEVIATION,
}
HINT = "make a column of it first, or say it of each row alone"


class ItemWriter:
    """Writes steps that put the items of one condition on the stack."""

    def __init__(
        self, query: Query, columns: InputColumns, time: TimeColumn,
        attributes: dict[Attribute, int], calculated: CalculatedColumns, memory: RowMemory,
        condition: RowCondition,
    ) -> None:  # fmt: skip
        assert query.rows is not None
        self.query, self.rows, self.columns, self.time = query, query.rows, columns, time
        self.attributes, self.calculated = attributes, calculated
        self.memory, self.condition = memory, condition
        self.items = dict(condition.items)
        #: What items that are expressions calculate.
        self.operands: dict[str, CalculatedColumn] = {}
        self.lengths: dict[str, int] = {}
        #: Nanoseconds of the ticks in which times are compared; None where there are none.
        self.tick: int | None = None
        self.variable = condition.variable
        names = [symbol.name for symbol in query.symbols]
        self.bits = {name: names.index(name) for name, _ in condition.facts}
        self.steps: list[tuple[int, int, int]] = []
        self.used: set[int] = set()

    def refused(self, what: str, hint: str | None = HINT) -> Exception:
        where = ("predicate", self.variable)
        return self.query.fault(
            where, f"a condition that reads other rows of the match cannot have {what}", hint
        )

    def _step(self, operator: int, operand: int = 0, other: int = 0) -> None:
        self.steps.append((int(operator), int(operand), int(other)))

    # -- items ------------------------------------------------------------------------------------

    def _find_lengths(self, types: Iterable[pl.DataType]) -> None:
        """The lengths of time in ticks: those of the times that are read, else of the time column."""
        ticks = [tick for dtype in types if (tick := tick_of(dtype)) is not None]
        self.tick = min(ticks, default=None)
        tick, needs_units = self.tick, bool(ticks)
        if tick is None:
            tick, needs_units = self.time.nanoseconds_per_tick, self.time.needs_units
        self._needs_units = needs_units
        where = ("predicate", self.variable)
        for text, duration in self.condition.lengths:
            self.lengths[text] = self.query.ticks(where, duration, tick, needs_units)

    def _own_dtype(self, text: str) -> pl.DataType:
        """The type of the column that an item reads."""
        if text in self.operands:
            return self.operands[text].dtype
        column = self.items[text].column
        assert column is not None
        return self.columns.dtype(column, ("predicate", self.variable), "DEFINE")

    def _dtype(self, text: str) -> pl.DataType:
        """The type of the value of an item."""
        item = self.items[text]
        if item.column is None:
            names = item.function in ("FIRST", "LAST")
            return pl.String() if names else pl.Int64()
        dtype = self._own_dtype(text)
        if item.function in ("FIRST", "LAST", "MIN", "MAX"):
            return pl.String() if isinstance(dtype, pl.Categorical | pl.Enum) else dtype
        computation = AGGREGATIONS[item.function].over[self._form(item, dtype)]
        assert isinstance(computation, Calculation)
        return computation.dtype

    def _form(self, item: RowItem, dtype: pl.DataType) -> str:
        form = AGGREGATIONS[item.function].form_of(dtype)
        if form is None:
            raise self.refused(f"{item.function} of {item.column}, whose type is {dtype}", None)
        return form

    def _attribute(self, column: str, form: str) -> int:
        return self.attributes.setdefault(Attribute(column, form), len(self.attributes))

    def _item(self, text: str) -> None:
        """Put the value of an item on the stack."""
        item = self.items[text]
        if item.function == "MATCH_NUMBER":
            self._step(Operator.NUMBER)
            return
        if item.column is not None:
            dtype = self._own_dtype(text)
            kept = item.function in ("FIRST", "LAST", "MIN", "MAX")
            if kept and own_form(dtype) == CODE and not is_text(dtype):
                raise self.refused(f"values of {item.column}, whose type is {dtype}")
        if item.function in ("FIRST", "LAST"):
            column = NONE
            if item.column is not None:
                name = self.operands[text].name if text in self.operands else item.column
                column = self._attribute(name, own_form(dtype))
            self._navigation(item, column)
        else:
            self._aggregate(text)
        tick = None if item.column is None else tick_of(self._dtype(text))
        if tick is not None and self.tick is not None and tick != self.tick:
            self._step(Operator.CONSTANT, tick // self.tick)
            self._step(Operator.MULTIPLY_INT)

    def _navigation(self, item: RowItem, column: int) -> None:
        """Put the value of an attribute, or the name of the variable, at a row on the stack."""
        if column != NONE:
            self.memory.context = max(self.memory.context, -item.shift)
            self.memory.horizon = max(self.memory.horizon, item.shift)
        members = self.rows.members(item.variable)
        is_current = item.function == "LAST" and not item.offset and self.variable in members
        if is_current and column == NONE:
            self._step(Operator.CONSTANT, self.rows.variables.index(self.variable))
        elif is_current:
            self._step(Operator.CURRENT, column, item.shift)
        else:
            is_first = item.function == "FIRST"
            holding = Holding.FIRST if is_first else Holding.LAST
            size = 3 if is_first else 2 * (item.offset + 1)
            place = self._register(
                holding, item, column, size, [0, 0, 0], offset=item.offset, shift=item.shift
            )
            self._step(Operator.REGISTER, place + (1 if is_first else 2 * item.offset))

    def _aggregate(self, text: str) -> None:
        item = self.items[text]
        aggregation = AGGREGATIONS[item.function]
        column = 0
        computation: Any = aggregation.over_events
        if item.column is not None:
            form = self._form(item, self._own_dtype(text))
            name = self.operands[text].name if text in self.operands else item.column
            column = self._attribute(name, form)
            computation = aggregation.over[form]
        kinds = dict.fromkeys(kind for kind, _ in computation.words)
        places = [
            self._register(Holding.CELL, item, column, CELL_SIZE[kind], [kind, column, 0])
            for kind in kinds
        ]
        first = next(iter(kinds))
        if not isinstance(computation, Calculation):
            self._step(Operator.REGISTER, places[0])
        elif item.function == "COUNT":
            self._step(Operator.COUNT, places[0])
        else:
            self._step(_FINISHED[item.function, first], places[0], places[-1])

    def _register(
        self, holding: int, item: RowItem, column: int, size: int, cell: list[int],
        offset: int = 0, shift: int = 0,
    ) -> int:  # fmt: skip
        """The first word of a register, which may be there already."""
        variables = self.rows.variables
        members = [name for name in self.rows.members(item.variable) if name in variables]
        mask = sum(1 << variables.index(name) for name in members)
        wanted = {
            "holding": int(holding), "variables": mask, "skipped": offset, "shift": shift,
            "column": column, "n_words": size, "cell": [int(word) for word in cell],
        }  # fmt: skip
        for number, each in enumerate(self.memory.registers):
            if wanted.items() <= each.items():
                self.used.add(number)
                return int(each["place"])
        self.used.add(len(self.memory.registers))
        place = self.memory.n_words
        self.memory.registers.append({**wanted, "place": place})
        self.memory.n_words += size
        return place
