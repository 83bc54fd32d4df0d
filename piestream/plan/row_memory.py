"""Conditions that read other rows of a match become registers and steps on a stack."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.expressions.functions import FUNCTIONS
from piestream.expressions.typed import (
    And,
    Arithmetic,
    Call,
    Case,
    Coalesce,
    Comparison,
    Const,
    Convert,
    Expression,
    Extreme,
    Field,
    IsNull,
    Member,
    Not,
    Or,
)
from piestream.expressions.types import Kind
from piestream.intervals.aggregates import CELL_SIZE, CellKind
from piestream.language.model import Query
from piestream.language.row_patterns import RowCondition, RowItem
from piestream.plan.aggregates import AGGREGATIONS, Calculation
from piestream.plan.columns import CODE, Attribute, InputColumns, own_form
from piestream.plan.row_registers import MOST_REGISTERS, RowMemory
from piestream.row_patterns.loops.records import Holding, Operator

__all__ = ["row_memory"]

_INT = {
    "+": Operator.ADD_INT, "-": Operator.SUBTRACT_INT, "*": Operator.MULTIPLY_INT,
    "%": Operator.REMAINDER,
}  # fmt: skip
_FLOAT = {
    "+": Operator.ADD_FLOAT, "-": Operator.SUBTRACT_FLOAT, "*": Operator.MULTIPLY_FLOAT,
    "/": Operator.DIVIDE,
}  # fmt: skip
_COMPARED = {
    "=": (Operator.EQUAL_INT, Operator.EQUAL_FLOAT),
    "<>": (Operator.UNEQUAL_INT, Operator.UNEQUAL_FLOAT),
    "<": (Operator.LESS_INT, Operator.LESS_FLOAT),
    "<=": (Operator.AT_MOST_INT, Operator.AT_MOST_FLOAT),
}
_TURNED = {">": "<", ">=": "<="}
_FINISHED = {
    ("SUM", CellKind.SUM_INT): Operator.SUM_INT,
    ("SUM", CellKind.SUM_FLOAT): Operator.SUM_FLOAT,
    ("AVG", CellKind.SUM_INT): Operator.MEAN_INT,
    ("AVG", CellKind.SUM_FLOAT): Operator.MEAN_FLOAT,
    ("VARIANCE", CellKind.SPREAD): Operator.VARIANCE,
    ("STDDEV", CellKind.SPREAD): Operator.DEVIATION,
}
_CALLS = {
    id(FUNCTIONS["ABS"]): Operator.ABS_FLOAT,
    id(FUNCTIONS["ABS"].of_whole_numbers): Operator.ABS_INT,
    id(FUNCTIONS["SQRT"]): Operator.ROOT,
}
_HINT = "make a column of it first, or say it of the row alone"


def row_memory(query: Query, columns: InputColumns, attributes: dict[Attribute, int]) -> RowMemory:
    """The memory of a row pattern; the attributes that it reads are added to these."""
    assert query.rows is not None
    memory = RowMemory({name: n for n, name in enumerate(query.rows.variables)})
    for condition in query.rows.conditions:
        _Writer(query, columns, attributes, memory, condition).write()
    if len(memory.registers) > MOST_REGISTERS:
        raise query.fault(
            ("define",),
            f"the conditions read more than {MOST_REGISTERS} different values of the match so far",
        )
    return memory


class _Writer:
    """Writes one condition as steps."""

    def __init__(
        self, query: Query, columns: InputColumns, attributes: dict[Attribute, int],
        memory: RowMemory, condition: RowCondition,
    ) -> None:  # fmt: skip
        assert query.rows is not None
        self.query, self.rows, self.columns = query, query.rows, columns
        self.attributes, self.memory, self.condition = attributes, memory, condition
        self.items = dict(condition.items)
        self.variable = condition.variable
        names = [symbol.name for symbol in query.symbols]
        self.bits = {name: names.index(name) for name, _ in condition.facts}
        self.steps: list[tuple[int, int, int]] = []
        self.used: set[int] = set()

    def write(self) -> None:
        schema: dict[str, Any] = {text: self._dtype(item) for text, item in self.items.items()}
        schema |= dict.fromkeys(self.bits, pl.Boolean())
        self._expression(self.condition.memory.typed(schema))
        self.memory.steps[self.variable] = self.steps
        self.memory.read[self.variable] = self.used

    def refused(self, what: str, hint: str | None = _HINT) -> Exception:
        where = ("predicate", self.variable)
        return self.query.fault(
            where, f"a condition that reads other rows of the match cannot have {what}", hint
        )

    def _step(self, operator: int, operand: int = 0, other: int = 0) -> None:
        self.steps.append((int(operator), int(operand), int(other)))

    # -- items ------------------------------------------------------------------------------------

    def _dtype(self, item: RowItem) -> pl.DataType:
        if item.column is None:
            names = item.function in ("FIRST", "LAST")
            return pl.String() if names else pl.Int64()
        dtype = self.columns.dtype(item.column, ("predicate", self.variable), "DEFINE")
        if item.function in ("FIRST", "LAST", "MIN", "MAX"):
            if own_form(dtype) == CODE and dtype not in (pl.String, pl.Categorical, pl.Enum):
                raise self.refused(f"values of {item.column}, whose type is {dtype}")
            if dtype == pl.Categorical or isinstance(dtype, pl.Enum):
                return pl.String()
            return dtype
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

    def _item(self, item: RowItem) -> None:
        """Put the value of an item on the stack."""
        if item.function == "MATCH_NUMBER":
            self._step(Operator.NUMBER)
        elif item.function in ("FIRST", "LAST"):
            self._navigation(item)
        else:
            self._aggregate(item)

    def _navigation(self, item: RowItem) -> None:
        column = NONE
        if item.column is not None:
            dtype = self.columns.dtype(item.column, ("predicate", self.variable), "DEFINE")
            column = self._attribute(item.column, own_form(dtype))
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

    def _aggregate(self, item: RowItem) -> None:
        aggregation = AGGREGATIONS[item.function]
        column = 0
        computation: Any = aggregation.over_events
        if item.column is not None:
            dtype = self.columns.dtype(item.column, ("predicate", self.variable), "DEFINE")
            form = self._form(item, dtype)
            column = self._attribute(item.column, form)
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

    # -- what is done with them -------------------------------------------------------------------

    def _expression(self, expression: Expression) -> None:
        match expression:
            case Field(name):
                if name in self.bits:
                    self._step(Operator.BIT, self.bits[name])
                else:
                    self._item(self.items[name])
            case Const(value):
                self._constant(value)
            case Arithmetic(operator, left, right, type):
                if type.is_wide:
                    raise self.refused("numbers of more than 64 bits")
                self._both(left, right)
                self._step((_FLOAT if type.kind is Kind.FLOAT else _INT)[operator])
            case Comparison(operator, left, right):
                self._comparison(operator, left, right)
            case And(operands):
                self._all(operands, Operator.AND)
            case Or(operands):
                self._all(operands, Operator.OR)
            case Coalesce(operands):
                self._all(operands, Operator.COALESCE)
            case Extreme(greatest, operands, type):
                is_float = type.kind is Kind.FLOAT
                which = (Operator.LEAST_INT, Operator.GREATEST_INT) if not is_float else (
                    Operator.LEAST_FLOAT, Operator.GREATEST_FLOAT)  # fmt: skip
                self._all(operands, which[greatest])
            case Not(operand):
                self._expression(operand)
                self._step(Operator.NOT)
            case IsNull(operand):
                self._expression(operand)
                self._step(Operator.IS_NULL)
            case Member(operand, values):
                for number, value in enumerate(values):
                    self._comparison("=", operand, Const(value, operand.type))
                    if number:
                        self._step(Operator.OR)
            case Case(branches, otherwise):
                self._case(list(branches), otherwise)
            case Convert(operand, type):
                self._convert(operand, type.kind)
            case Call(function, operands) if id(function) in _CALLS:
                self._all(operands, _CALLS[id(function)])
            case _:
                raise self.refused("functions other than ABS and SQRT, LIKE, or windows")

    def _both(self, left: Expression, right: Expression) -> None:
        self._expression(left)
        self._expression(right)

    def _all(self, operands: tuple[Expression, ...], operator: int) -> None:
        if len(operands) == 1:
            self._expression(operands[0])
            if operator in _CALLS.values():
                self._step(operator)
            return
        for number, operand in enumerate(operands):
            self._expression(operand)
            if number:
                self._step(operator)

    def _constant(self, value: Any) -> None:
        if value is None:
            self._step(Operator.NULL)
        elif isinstance(value, bool | int) and abs(value) <= INT64_MAX:
            self._step(Operator.CONSTANT, value)
        elif isinstance(value, float):
            self._step(Operator.CONSTANT, np.float64(value).view(np.int64).item())
        else:
            raise self.refused(f"the constant {value}")

    def _comparison(self, operator: str, left: Expression, right: Expression) -> None:
        if operator in _TURNED:
            operator, left, right = _TURNED[operator], right, left
        if left.type.kind is Kind.STRING:
            left, right = self._texts(operator, left, right)
        if left.type.is_wide or right.type.is_wide:
            raise self.refused("numbers of more than 64 bits")
        self._both(left, right)
        self._step(_COMPARED[operator][left.type.kind is Kind.FLOAT])

    def _texts(
        self, operator: str, left: Expression, right: Expression
    ) -> tuple[Expression, Expression]:
        """Two texts that can be compared: of one column, or names of variables."""
        sources = [self._text_source(side) for side in (left, right)]
        if "" in sources and None in sources:  # CLASSIFIER() = 'A'
            if operator not in ("=", "<>"):
                raise self.refused("an order of names of variables", "compare them with = or <>")
            return self._numbered(left), self._numbered(right)
        if sources[0] != sources[1] or None in sources:
            raise self.refused("texts of different columns, or constants", _HINT)
        if sources[0] == "" and operator not in ("=", "<>"):
            raise self.refused("an order of names of variables", "compare them with = or <>")
        return left, right

    def _text_source(self, side: Expression) -> str | None:
        """The column that a text is of, "" for the name of a variable, None for a constant."""
        match side:
            case Field(name) if name in self.items:
                return self.items[name].column or ""
            case Const():
                return None
        raise self.refused("functions of texts")

    def _numbered(self, side: Expression) -> Expression:
        if not isinstance(side, Const):
            return side
        variables = self.rows.variables
        number = variables.index(side.value) if side.value in variables else -1
        return Const(number, side.type)

    def _case(self, branches: list[tuple[Expression, Expression]], otherwise: Expression) -> None:
        if not branches:
            self._expression(otherwise)
            return
        condition, result = branches[0]
        self._both(condition, result)
        self._case(branches[1:], otherwise)
        self._step(Operator.SELECT)

    def _convert(self, operand: Expression, kind: Kind) -> None:
        self._expression(operand)
        of = operand.type.kind
        if kind is Kind.FLOAT and of in (Kind.INT, Kind.BOOL):
            self._step(Operator.TO_FLOAT)
        elif kind is Kind.INT and of is Kind.FLOAT:
            self._step(Operator.TO_INT)
        elif kind is not of and not (kind is Kind.INT and of in _WHOLE):
            raise self.refused(f"{of.value} as {kind.value}")


#: What is a whole number inside.
_WHOLE = (Kind.BOOL, Kind.DATE, Kind.DATETIME)
