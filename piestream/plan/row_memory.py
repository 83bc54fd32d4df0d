"""Conditions that read other rows of a match become registers and steps on a stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from piestream.compiled.constants import INT64_MAX, NONE
from piestream.expressions.backends.python import value_function
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.functions import FUNCTIONS, Function
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
    Like,
    Member,
    Not,
    Or,
    children,
    past_of,
)
from piestream.expressions.types import BOOL, Kind, TickLength, type_of_dtype
from piestream.intervals.aggregates import CellKind
from piestream.language.model import Query
from piestream.plan.calculated import CalculatedColumns, columns_read, is_null, with_columns
from piestream.plan.columns import CODE, Attribute, InputColumns, TimeColumn, own_form, tick_of
from piestream.plan.program import Cell, JoinKey
from piestream.plan.row_items import HINT, ItemWriter
from piestream.plan.row_registers import MOST_REGISTERS, RowMemory
from piestream.row_patterns.loops.records import Operator

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
_CALLS = {
    id(FUNCTIONS["ABS"]): Operator.ABS_FLOAT,
    id(FUNCTIONS["ABS"].of_whole_numbers): Operator.ABS_INT,
    id(FUNCTIONS["CEIL"]): Operator.CEILING,
    id(FUNCTIONS["EXP"]): Operator.EXPONENTIAL,
    id(FUNCTIONS["FLOOR"]): Operator.FLOOR,
    id(FUNCTIONS["LN"]): Operator.LOGARITHM,
    id(FUNCTIONS["POWER"]): Operator.POWER,
    id(FUNCTIONS["ROUND"]): Operator.ROUND,
    id(FUNCTIONS["SQRT"]): Operator.ROOT,
}
_SIGN = id(FUNCTIONS["SIGN"])


def row_memory(
    query: Query, columns: InputColumns, time: TimeColumn, attributes: dict[Attribute, int],
    calculated: CalculatedColumns,
) -> RowMemory:  # fmt: skip
    """The memory of a row pattern; what it reads is added to the attributes, and to what is calculated."""
    assert query.rows is not None
    memory = RowMemory({name: n for n, name in enumerate(query.rows.variables)})
    for condition in query.rows.conditions:
        _Writer(query, columns, time, attributes, calculated, memory, condition).write()
    if len(memory.registers) > MOST_REGISTERS:
        raise query.fault(
            ("define",),
            f"the conditions read more than {MOST_REGISTERS} different values of the match so far",
        )
    return memory


class _Writer(ItemWriter):
    """Writes one condition as steps."""

    def write(self) -> None:
        for text, item in self.items.items():
            if item.expression is not None:
                typed = item.expression.typed(self.columns.schema)
                self.operands[text] = self.calculated.of(typed)
        schema: dict[str, Any] = {text: self._dtype(text) for text in self.items}
        self._find_lengths(schema.values())
        schema |= dict.fromkeys(self.lengths, TickLength if self._needs_units else pl.Int64())
        schema |= dict.fromkeys(self.bits, pl.Boolean())
        self.schema = schema
        self._expression(self.condition.memory.typed(schema))
        self.memory.steps[self.variable] = self.steps
        self.memory.read[self.variable] = self.used

    def _expression(self, expression: Expression) -> None:
        """Put the value of an expression on the stack.

        What these steps cannot do is calculated of each row before, if it reads one row alone.
        """
        n_steps, n_registers = len(self.steps), len(self.memory.registers)
        n_words = self.memory.n_words
        try:
            self._written(expression)
        except QueryError:
            del self.steps[n_steps:]
            del self.memory.registers[n_registers:]
            self.used = {number for number in self.used if number < n_registers}
            self.memory.n_words = n_words
            if is_null(expression):
                self._step(Operator.NULL)
            elif self._calculated(expression) == NONE:
                raise

    def _written(self, expression: Expression) -> None:
        match expression:
            case Field(name):
                if name in self.bits:
                    self._step(Operator.BIT, self.bits[name])
                elif name in self.lengths:
                    self._step(Operator.CONSTANT, self.lengths[name])
                else:
                    self._item(name)
            case Const(value):
                self._constant(value)
            case Arithmetic(operator, left, right, type):
                if type.is_wide:
                    raise self.refused("numbers of more than 64 bits")
                self._both(left, right)
                self._step((_FLOAT if type.kind is Kind.FLOAT else _INT)[operator])
            case Comparison(operator, left, right):
                is_constant = isinstance(left, Const) or isinstance(right, Const)
                if not is_constant or not self._calculated_text(expression, left):
                    self._comparison(operator, left, right)
            case And(operands):
                self._all(operands, Operator.AND)
            case Or(operands):
                self._all(operands, Operator.OR)
            case Coalesce() | Extreme() | Case() if expression.type.kind is Kind.STRING:
                self._share_codes(self._text(expression))
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
            case Member(operand) if self._calculated_text(expression, operand):
                pass
            case Member(operand, values):
                for number, value in enumerate(values):
                    self._comparison("=", operand, Const(value, operand.type))
                    if number:
                        self._step(Operator.OR)
            case Case(branches, otherwise):
                self._case(list(branches), otherwise)
            case Convert(operand, type):
                self._convert(operand, type.kind)
            case Call(function, (operand,)) if id(function) == _SIGN:
                self._expression(operand)
                is_float = operand.type.kind is Kind.FLOAT
                self._step(Operator.SIGN_FLOAT if is_float else Operator.SIGN_INT)
            case Call(function, operands, numbers) if id(function) in _CALLS:
                self._all(operands, _CALLS[id(function)], *numbers)
            case Call(function) if isinstance(function, Function):
                hint = "write LN(x) / LN(10)" if function.name == "LOG10" else HINT
                raise self.refused(f"{function.name} of values of several rows", hint)
            case Like():
                raise self.refused("LIKE of values of several rows")
            case _:
                raise self.refused("windows beside values of other rows")

    def _calculated_text(self, expression: Expression, text: Expression) -> bool:
        """Read what is true of a text of one row as an attribute of it, if that can be."""
        return text.type.kind is Kind.STRING and self._calculated(expression) != NONE

    def _calculated(self, expression: Expression) -> int:
        """Read an expression of one row as an attribute of it; NONE if it is none.

        Where there is no such row, its columns are NULL.
        """
        read = columns_read(expression)
        if not read or any(name not in self.items for name in read) or past_of([expression]):
            return NONE
        if expression.type.is_wide or _counts_ticks(expression):
            return NONE
        items = [self.items[name] for name in read]
        rows = {replace(item, column=None, expression=None) for item in items}
        first = items[0]
        if len(rows) > 1 or first.function not in ("FIRST", "LAST") or first.column is None:
            return NONE
        typed = with_columns(expression, {name: self._operand(name) for name in read})
        column = self.calculated.of(typed)
        if (tick_of(column.dtype) or self.tick) != self.tick:
            return NONE
        missing = value_function(typed)
        value = None if missing is None else missing(dict.fromkeys(column.schema), None)
        number = self._attribute(column.name, own_form(column.dtype))
        if value is None:
            self._navigation(first, number)
            return number
        if isinstance(value, str):
            return NONE
        there = self.calculated.of(Const(True, BOOL))
        self._navigation(first, self._attribute(there.name, own_form(there.dtype)))
        self._step(Operator.IS_NULL)
        self._constant(value)
        self._navigation(first, number)
        self._step(Operator.SELECT)
        return number

    def _operand(self, text: str) -> Expression:
        """The operand that an item reads in its row."""
        if text in self.operands:
            return self.operands[text].typed
        type = type_of_dtype(self._own_dtype(text))
        assert type is not None
        return Field(str(self.items[text].column), type)

    def _both(self, left: Expression, right: Expression) -> None:
        self._expression(left)
        self._expression(right)

    def _all(self, operands: tuple[Expression, ...], operator: int, operand: int = 0) -> None:
        for number, each in enumerate(operands):
            self._expression(each)
            if number or (len(operands) == 1 and operator in _CALLS.values()):
                self._step(operator, operand)

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
            self._texts(operator, left, right)
            self._step(_COMPARED[operator][False])
            return
        if left.type.is_wide or right.type.is_wide:
            raise self.refused("numbers of more than 64 bits")
        self._both(left, right)
        self._step(_COMPARED[operator][left.type.kind is Kind.FLOAT])

    def _texts(self, operator: str, left: Expression, right: Expression) -> None:
        """Put two texts that can be compared on the stack: names of variables, or values of columns."""
        names = [self._is_name(side) for side in (left, right)]
        if any(names):
            if operator not in ("=", "<>"):
                raise self.refused("an order of names of variables", "compare them with = or <>")
            for side, is_name in zip((left, right), names, strict=True):
                if not is_name and not isinstance(side, Const):
                    raise self.refused("names of variables beside values", None)
                self._expression(self._numbered(side))
            return
        self._share_codes(self._text(left) | self._text(right))

    def _share_codes(self, attributes: set[int]) -> None:
        """Give attributes whose texts are compared with each other one dictionary."""
        cells = [Cell(0, CellKind.FIRST, number) for number in sorted(attributes)]
        for cell in cells[1:]:
            key = JoinKey(cells[0], cell)
            if key not in self.memory.compared:
                self.memory.compared += (key,)

    def _is_name(self, side: Expression) -> bool:
        """Whether a text is the name of a variable."""
        return isinstance(side, Field) and self.items[side.name].column is None

    def _text(self, text: Expression) -> set[int]:
        """Put a text on the stack; gives the attributes of whose values it may be one.

        A constant is an attribute too, as codes are known while rows come.
        """
        match text:
            case Const(None):
                self._step(Operator.NULL)
                return set()
            case Const():
                number = self._attribute(self.calculated.of(text).name, CODE)
                self._step(Operator.CURRENT, number)
                return {number}
            case Field(name) if self.items[name].column is None:
                raise self.refused("names of variables beside values", None)
            case Field(name) if self._own_dtype(name) == pl.String():
                self._item(name)
                column = self.operands.get(name)
                own = self.items[name].column if column is None else column.name
                return {self._attribute(str(own), CODE)}
            case Field(name) if self.items[name].function in ("MIN", "MAX"):
                raise self.refused("an extreme of texts of a type other than String", None)
            case Coalesce(operands):
                return self._texts_joined(operands, Operator.COALESCE)
            case Extreme(greatest, operands):
                which = Operator.GREATEST_INT if greatest else Operator.LEAST_INT
                return self._texts_joined(operands, which)
            case Case(branches, otherwise):
                found: set[int] = set()
                for condition, result in branches:
                    self._expression(condition)
                    found |= self._text(result)
                found |= self._text(otherwise)
                for _ in branches:
                    self._step(Operator.SELECT)
                return found
        number = self._calculated(text)
        if number == NONE:
            raise self.refused("a text made of values of several rows")
        return {number}

    def _texts_joined(self, operands: tuple[Expression, ...], operator: int) -> set[int]:
        found = self._text(operands[0])
        for operand in operands[1:]:
            found |= self._text(operand)
            self._step(operator)
        return found

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
        elif kind is Kind.DATETIME and of is Kind.DATE:
            pass  # all times are in the same ticks
        elif kind is not of and not (kind is Kind.INT and of in _WHOLE):
            raise self.refused(f"{of.value} as {kind.value}")


def _counts_ticks(expression: Expression) -> bool:
    """Whether times become numbers in it: those of each column have ticks of their own."""
    if isinstance(expression, Convert) and expression.type.kind is Kind.INT:
        return expression.operand.type.kind in (Kind.DATE, Kind.DATETIME) or _counts_ticks(
            expression.operand
        )
    return any(map(_counts_ticks, children(expression)))


#: What is a whole number inside.
_WHOLE = (Kind.BOOL, Kind.DATE, Kind.DATETIME)
