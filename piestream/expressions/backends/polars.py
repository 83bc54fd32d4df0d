"""A typed predicate as a Polars expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, assert_never

import polars as pl

from piestream.expressions.backends.polars_runtime import quotient
from piestream.expressions.casts import NUMBER_TEXT, WHOLE_NUMBER_TEXT
from piestream.expressions.coercion import constant
from piestream.expressions.columns import column_named
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.functions.record import Implementation
from piestream.expressions.like import like_regex
from piestream.expressions.limits import TOO_LARGE, is_too_large
from piestream.expressions.syntax import ArithmeticOperator
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
    Previous,
    Until,
    Window,
    children,
)
from piestream.expressions.types import LEAST_WIDE, MOST_WIDE, Kind, Type

__all__ = [
    "constant_expression",
    "for_every_row",
    "polars_expression",
    "polars_value",
    "value_expression",
]


def polars_expression(
    expression: Expression, past_prefix: str, schema: Mapping[str, Any]
) -> pl.Expr:
    """The predicate as a Boolean expression in which NULL is false.

    What reads the past is read from the column of the prefix and its key.
    """
    if is_too_large(expression, _operands, _mentions):
        raise QueryError(TOO_LARGE)
    condition = _Writer(past_prefix, schema).true(expression).fill_null(False)
    return for_every_row(condition) if _may_fold(expression) else condition


def polars_value(expression: Expression, past_prefix: str, schema: Mapping[str, Any]) -> pl.Expr:
    """The value of an expression, NULL where that is a NaN."""
    if is_too_large(expression, _operands, _mentions):
        raise QueryError(TOO_LARGE)
    return _Writer(past_prefix, schema).clean(expression)


def _operands(expression: Expression) -> tuple[Expression, ...]:
    """The operands that are written; those of what reads the past are evaluated before."""
    return () if isinstance(expression, _PAST) else children(expression)


def constant_expression(value: Any, type: Type) -> pl.Expr:
    """A constant of a type."""
    return _Writer("", {})._const(value, type)


def value_expression(expression: Expression, schema: Mapping[str, Any]) -> pl.Expr:
    """An expression that may give a value of any type, one for each row of a frame."""
    if is_too_large(expression, children, _mentions):
        raise QueryError(TOO_LARGE)
    value = _Writer("", schema).clean(expression)
    return pl.when(pl.int_range(pl.len()) >= 0).then(value)


def for_every_row(expression: pl.Expr) -> pl.Expr:
    """The expression with as many rows as the frame, also where Polars finds it constant."""
    return expression & (pl.int_range(pl.len()) >= 0)


def _may_fold(expression: Expression) -> bool:
    """Whether Polars may find a constant here, and give one row for it.

    It does where all rows choose an operand that is a constant, such as the NULL in the place of a
    NaN, and where a constant meets a column that is one value for all rows. It does not where a
    column comes before a column or a constant, nor in what AND and OR make of these.
    """
    pending = [expression]
    while pending:
        part = pending.pop()
        if isinstance(part, (And, Or)):
            pending += part.operands
        elif isinstance(part, Comparison):
            if not _is_column(part.left):
                return True
            if not isinstance(part.right, Const) and not _is_column(part.right):
                return True
        elif not _is_column(part):
            return True
    return False


def _is_column(expression: Expression) -> bool:
    if isinstance(expression, Convert) and expression.operand.type.kind is Kind.INT:
        return _is_column(expression.operand)
    return isinstance(expression, (Field, *_PAST)) and expression.type.kind is not Kind.NULL


def _mentions(expression: Expression) -> int:
    """How often the Polars expression of a node mentions its operands, at most."""
    match expression:
        case Arithmetic("%"):
            return 6
        case Arithmetic(type=type) if type.is_wide:
            return 3
        case Convert(operand, type):
            number_in_text = operand.type.kind is Kind.STRING and type.kind is not Kind.STRING
            return 2 if number_in_text or type.kind is Kind.STRING else _cleaned(operand)
        case Case() | Coalesce() | Extreme():
            return max(map(_cleaned, children(expression)))
        case Call(function, operands, numbers):
            return _mentions_of(function, len(operands), numbers)
        case _:
            return 1


def _cleaned(operand: Expression) -> int:
    return 3 if operand.type.kind is Kind.FLOAT and not isinstance(operand, _NAN_FREE) else 1


@lru_cache
def _mentions_of(function: Implementation, count: int, numbers: tuple[int, ...]) -> int:
    column = pl.col("x")
    leaves = len(function.polars(*[column] * count, *numbers).meta.root_names())
    return -(-leaves // count)


class _Writer:
    def __init__(
        self, past_prefix: str, schema: Mapping[str, Any], in_microseconds: bool = False
    ) -> None:
        self.past_prefix = past_prefix
        self.schema = schema
        #: Whether columns of times in milliseconds become columns of microseconds.
        self.in_microseconds = in_microseconds
        self.types = {
            Kind.BOOL: pl.Boolean,
            Kind.INT: pl.Int64,
            Kind.FLOAT: pl.Float64,
            Kind.STRING: pl.String,
            Kind.DATE: pl.Date,
            Kind.NULL: pl.Boolean,
        }

    def dtype(self, type: Type) -> Any:
        if type.kind is Kind.DATETIME:
            return pl.Datetime("us", type.zone)
        if type.is_wide:
            return pl.Int128
        return self.types[type.kind]

    def true(self, expression: Expression) -> pl.Expr:
        """An expression that is true exactly where the condition is; else it is false or NULL.

        Outside of NOT it does not matter which of both, so a NaN need not become NULL first,
        which would copy the column: it must only not pass. Polars orders it above every number.
        """
        match expression:
            case And(operands):
                return _balanced([self.true(o) for o in operands], lambda a, b: a & b)
            case Or(operands):
                return _balanced([self.true(o) for o in operands], lambda a, b: a | b)
            case Comparison(operator, left, right) if left.type.kind is Kind.FLOAT:
                a, b = self._with_nan(left), self._with_nan(right)
                tested = _COMPARISON[operator](a, b)
                if operator in (">", ">=", "=", "<>") and not isinstance(left, Const):
                    tested = tested & a.is_not_nan()
                if operator in ("<", "<=", "=", "<>") and not isinstance(right, Const):
                    tested = tested & b.is_not_nan()
                return tested
        return self.write(expression)

    def _with_nan(self, expression: Expression) -> pl.Expr:
        match expression:
            case Field(name) if expression.type.kind is Kind.FLOAT:
                column = column_named(name)
                return column if self.schema[name] == pl.Float64 else column.cast(pl.Float64)
            case Arithmetic("/", left, right):
                return self._quotient(left, right)
            case Arithmetic(operator, left, right, type) if type.kind is Kind.FLOAT:
                a, b = self._with_nan(left), self._with_nan(right)
                return self._arithmetic(operator, a, b, type)
        return self.write(expression)

    def write(self, expression: Expression) -> pl.Expr:
        """The expression of a node; a float may still be a calculated NaN (see `clean`)."""
        match expression:
            case Field(name, type):
                return self._field(name, type)
            case Previous(key) | Window(key) | Until(key):
                return column_named(self.past_prefix + key)
            case Const(value, type):
                return self._const(value, type)
            case Arithmetic("/", left, right):
                return self._quotient(left, right)
            case Arithmetic(operator, left, right, type):
                return self._arithmetic(operator, self.write(left), self.write(right), type)
            case Comparison(operator, left, right):
                return _COMPARISON[operator](self._compared(left), self._compared(right))
            case And(operands):
                return _balanced([self.write(o) for o in operands], lambda a, b: a & b)
            case Or(operands):
                return _balanced([self.write(o) for o in operands], lambda a, b: a | b)
            case Not(operand):
                return ~self.write(operand)
            case IsNull(operand):
                return self.clean(operand).is_null()
            case Member(operand, values):
                tested = self._compared(operand)
                if operand.type.kind is Kind.DATETIME:
                    equal = [tested == self._const(v, operand.type) for v in values]
                    return _balanced(equal, lambda a, b: a | b)
                if any(constant(value).type.is_wide for value in values):
                    return tested.cast(pl.Int128).is_in(pl.lit([*values], pl.List(pl.Int128)))
                return tested.is_in(list(values))
            case Like(operand, parts):
                return self.write(operand).str.contains(like_regex(parts, r"\z"))
            case Case(branches, otherwise):
                chain: Any = pl
                for condition, result in branches:
                    chain = chain.when(self.write(condition).fill_null(False))
                    chain = chain.then(self.clean(result))
                chosen: pl.Expr = chain.otherwise(self.clean(otherwise))
                return chosen
            case Coalesce(operands):
                return pl.coalesce([self.clean(o) for o in operands])
            case Extreme(greatest, operands):
                horizontal = pl.max_horizontal if greatest else pl.min_horizontal
                return horizontal([self.clean(o) for o in operands])
            case Call():
                return self._call(expression)
            case Convert(operand, type, tick):
                return self._convert(operand, type) if tick is None else self._ticks(operand, tick)
            case _:
                assert_never(expression)

    def clean(self, expression: Expression) -> pl.Expr:
        """The expression with a NaN made NULL."""
        written = self.write(expression)
        # Polars writes fill_nan with three mentions of its operand.
        return written.fill_nan(None) if _cleaned(expression) > 1 else written

    def _compared(self, expression: Expression) -> pl.Expr:
        """An operand of a comparison, without NaN; a time in microseconds, as constants are.

        Beside a column of milliseconds Polars would take the finer digits from a constant.
        """
        if expression.type.kind is not Kind.DATETIME or self.in_microseconds:
            return self.clean(expression)
        return _Writer(self.past_prefix, self.schema, in_microseconds=True).clean(expression)

    def _field(self, name: str, type: Type) -> pl.Expr:
        column = column_named(name)
        own = self.schema[name]
        if type.kind is Kind.FLOAT:
            if own != pl.Float64:
                column = column.cast(pl.Float64)
            return column.fill_nan(None)
        if type.kind is Kind.INT and own != self.dtype(type):
            return column.cast(self.dtype(type))
        if type.kind is Kind.STRING and own != pl.String:
            return column.cast(pl.String)
        if type.kind is Kind.NULL:
            return pl.lit(None, dtype=pl.Boolean)
        if self.in_microseconds and own == pl.Datetime("ms", type.zone):
            return column.cast(self.dtype(type), strict=False)
        return column

    def _const(self, value: Any, type: Type) -> pl.Expr:
        if value is not None and type.kind is Kind.DATETIME:
            # A column with a zone reads a timestamp without one on its own clock.
            assert isinstance(value, datetime)
            if type.zone is None:
                return pl.lit(value, dtype=pl.Datetime("us"))
            if value.tzinfo is None:
                wall = pl.lit(value, dtype=pl.Datetime("us"))
                return wall.dt.replace_time_zone(type.zone, ambiguous="earliest")
            instant = pl.lit(value.astimezone(UTC).replace(tzinfo=None))
            return instant.dt.replace_time_zone("UTC").dt.convert_time_zone(type.zone)
        return pl.lit(value, dtype=self.dtype(type))

    def _quotient(self, left: Expression, right: Expression) -> pl.Expr:
        dividend = self._with_nan(left)
        if not isinstance(right, Const):
            return quotient(dividend, self._with_nan(right))
        if not right.value:
            return quotient(dividend, math.nan)
        if math.frexp(right.value)[0] in (0.5, -0.5):
            return dividend / float(right.value)  # the reciprocal of a power of two is exact
        return quotient(dividend, float(right.value))

    def _arithmetic(
        self, operator: ArithmeticOperator, left: pl.Expr, right: pl.Expr, type: Type
    ) -> pl.Expr:
        match operator:
            case "%":
                divisor = pl.when(right != 0).then(right)
                floored = left % divisor
                # SQL's remainder has the sign of the dividend, Polars' that of the divisor.
                wrong = (floored != 0) & ((left < 0) != (divisor < 0))
                return pl.when(wrong).then(floored - divisor).otherwise(floored)
            case "+" | "-" | "*" | "/":
                if type.kind is Kind.FLOAT:
                    return _ARITHMETIC[operator](left, right)
                wide = _ARITHMETIC[operator](left.cast(pl.Int128), right.cast(pl.Int128))
                if not type.is_wide:
                    return wide.cast(pl.Int64, strict=False)
                # 128 bits overflow beyond 1.7e38: far from there a float tells whether they have
                about = _ARITHMETIC[operator](left.cast(pl.Float64), right.cast(pl.Float64))
                least, most = (pl.lit(limit, dtype=pl.Int128) for limit in (LEAST_WIDE, MOST_WIDE))
                fits = about.is_between(-1.6e38, 1.6e38) & wide.is_between(least, most)
                return pl.when(fits).then(wide)
            case _:
                assert_never(operator)

    def _convert(self, operand: Expression, type: Type) -> pl.Expr:
        value = self.clean(operand)
        match operand.type.kind, type.kind:
            case Kind.STRING, Kind.INT | Kind.FLOAT:
                trimmed = value.str.strip_chars(" ")
                pattern = WHOLE_NUMBER_TEXT if type.kind is Kind.INT else NUMBER_TEXT
                number = pl.when(trimmed.str.contains(pattern)).then(trimmed.str.strip_prefix("+"))
                return number.cast(self.dtype(type), strict=False)
            case Kind.INT | Kind.FLOAT, Kind.BOOL:
                return value != 0
            case Kind.BOOL, Kind.STRING:
                return pl.when(value).then(pl.lit("true")).when(~value).then(pl.lit("false"))
            case Kind.DATE, Kind.DATETIME if type.zone is not None:
                midnight = value.cast(pl.Datetime("us"))
                return midnight.dt.replace_time_zone(type.zone, ambiguous="earliest")
            case Kind.DATE | Kind.DATETIME, Kind.INT:  # ticks of the column
                return value.to_physical().cast(pl.Int64)
            case Kind.DATETIME, Kind.DATETIME:
                assert type.zone is not None
                return value.dt.convert_time_zone(type.zone)
            case (
                (Kind.INT | Kind.BOOL, Kind.FLOAT)
                | (Kind.INT | Kind.FLOAT | Kind.BOOL, Kind.INT)
                | (Kind.INT | Kind.DATE, Kind.STRING)
                | (Kind.DATE, Kind.DATETIME)
            ):
                return value.cast(self.dtype(type), strict=False)
        raise AssertionError(f"no conversion from {operand.type} to {type}")

    def _ticks(self, operand: Expression, tick: int) -> pl.Expr:
        """A date or timestamp of any unit as a number of ticks of so many nanoseconds; NULL beyond 64 bits."""
        value = self.clean(operand)
        if tick % _MICROSECOND == 0:
            return value.dt.timestamp("us") // (tick // _MICROSECOND)
        whole = value.dt.timestamp("us").cast(pl.Int128) * _MICROSECOND
        if operand.type.kind is Kind.DATETIME:
            whole += value.dt.nanosecond().cast(pl.Int128) % _MICROSECOND
        return whole.cast(pl.Int64, strict=False)

    def _call(self, call: Call) -> pl.Expr:
        # Every function of floats gives NaN or NULL for a NaN.
        operands = (self._with_nan(operand) for operand in call.operands)
        result = call.function.polars(*operands, *call.numbers)
        whole = call.type.kind is Kind.INT
        return result.cast(self.dtype(call.type), strict=False) if whole else result


_MICROSECOND = 1_000  # nanoseconds

#: What is never a calculated NaN.
_NAN_FREE = (Field, Const, Case, Coalesce, Extreme, Previous, Window)
_PAST = (Previous, Window, Until)


def _balanced(parts: list[pl.Expr], join: Callable[[Any, Any], Any]) -> pl.Expr:
    """The parts joined as a tree of logarithmic depth: long clauses must not nest deeply."""
    while len(parts) > 1:
        paired = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


_COMPARISON: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_ARITHMETIC: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
