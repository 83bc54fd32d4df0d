"""A typed predicate as a Polars expression."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import polars as pl

from piestream.expressions.typed import (
    NUMBER,
    WHOLE_NUMBER,
    And,
    Case,
    Coalesce,
    Compare,
    Const,
    Convert,
    Core,
    Extreme,
    Field,
    Function,
    IsNull,
    Kind,
    LikeText,
    Math,
    Member,
    Negation,
    Or,
    Type,
    like_pattern,
)

__all__ = ["for_every_row", "polars_expression"]


def polars_expression(core: Core, previous_prefix: str, schema: Mapping[str, Any]) -> pl.Expr:
    """The predicate as a Boolean expression in which NULL is false."""
    written = _Writer(previous_prefix, schema).true(core).fill_null(False)
    return for_every_row(written) if _may_fold(core) else written


def for_every_row(expression: pl.Expr) -> pl.Expr:
    """The expression with as many rows as the frame, also where Polars finds it constant."""
    return expression & (pl.int_range(pl.len()) >= 0)


def _may_fold(core: Core) -> bool:
    """Whether Polars may find a constant here: without columns, or by choosing among operands."""
    pending, has_columns = [core], False
    while pending:
        part = pending.pop()
        match part:
            case Coalesce() | Case():
                return True
            case Field(type=type):
                has_columns |= type.kind is not Kind.NULL
            case Math(_, left, right) | Compare(_, left, right):
                pending += [left, right]
            case And(operands) | Or(operands) | Extreme(_, operands) | Function(_, operands):
                pending += operands
            case Negation(operand) | IsNull(operand) | Member(operand) | LikeText(operand):
                pending.append(operand)
            case Convert(operand):
                pending.append(operand)
    return not has_columns


class _Writer:
    def __init__(self, previous_prefix: str, schema: Mapping[str, Any]) -> None:
        self.previous_prefix = previous_prefix
        self.schema = schema
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
        return self.types[type.kind]

    def true(self, core: Core) -> pl.Expr:
        """An expression that is true exactly where the condition is; else it is false or NULL.

        Outside of NOT it does not matter which of both, so a NaN need not become NULL first,
        which would copy the column: it must only not pass. Polars orders it above every number.
        """
        match core:
            case And(operands):
                return _balanced([self.true(o) for o in operands], lambda a, b: a & b)
            case Or(operands):
                return _balanced([self.true(o) for o in operands], lambda a, b: a | b)
            case Compare(sign, left, right) if left.type.kind is Kind.FLOAT:
                a, b = self._with_nan(left), self._with_nan(right)
                tested = _COMPARE[sign](a, b)
                if sign in (">", ">=", "=", "<>") and not isinstance(left, Const):
                    tested = tested & a.is_not_nan()
                if sign in ("<", "<=", "=", "<>") and not isinstance(right, Const):
                    tested = tested & b.is_not_nan()
                return tested
        return self.write(core)

    def _with_nan(self, core: Core) -> pl.Expr:
        match core:
            case Field(name, previous) if core.type.kind is Kind.FLOAT:
                column = pl.col(self.previous_prefix + name if previous else name)
                return column if self.schema[name] == pl.Float64 else column.cast(pl.Float64)
            case Math(sign, left, right, type) if type.kind is Kind.FLOAT:
                return self._math(sign, self._with_nan(left), self._with_nan(right), type)
        return self.write(core)

    def write(self, core: Core) -> pl.Expr:
        """The expression of a node; a float may still be a calculated NaN (see `clean`)."""
        match core:
            case Field(name, previous, type):
                return self._field(name, previous, type)
            case Const(value, type):
                return self._const(value, type)
            case Math(sign, left, right, type):
                return self._math(sign, self.write(left), self.write(right), type)
            case Compare(sign, left, right):
                return _COMPARE[sign](self.clean(left), self.clean(right))
            case And(operands):
                return _balanced([self.write(o) for o in operands], lambda a, b: a & b)
            case Or(operands):
                return _balanced([self.write(o) for o in operands], lambda a, b: a | b)
            case Negation(operand):
                return ~self.write(operand)
            case IsNull(operand):
                return self.clean(operand).is_null()
            case Member(operand, values):
                tested = self.clean(operand)
                if operand.type.kind is Kind.DATETIME:
                    alike = [tested == self._const(v, operand.type) for v in values]
                    return _balanced(alike, lambda a, b: a | b)
                return tested.is_in(list(values))
            case LikeText(operand, parts):
                return _like(self.write(operand), parts)
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
            case Function(name, arguments, type):
                return self._function(name, arguments, type)
            case Convert(operand, type):
                return self._convert(operand, type)
        raise AssertionError(core)

    def clean(self, core: Core) -> pl.Expr:
        """The expression with a NaN made NULL."""
        written = self.write(core)
        nan_free = isinstance(core, (Field, Const, Case, Coalesce, Extreme))
        if core.type.kind is Kind.FLOAT and not nan_free:
            return written.fill_nan(None)
        return written

    def _field(self, name: str, previous: bool, type: Type) -> pl.Expr:
        column = pl.col(self.previous_prefix + name if previous else name)
        own = self.schema[name]
        if type.kind is Kind.FLOAT:
            if own != pl.Float64:
                column = column.cast(pl.Float64)
            return column.fill_nan(None)
        if type.kind is Kind.INT and own != pl.Int64:
            return column.cast(pl.Int64, strict=False)
        if type.kind is Kind.STRING and own != pl.String:
            return column.cast(pl.String)
        if type.kind is Kind.NULL:
            return pl.lit(None, dtype=pl.Boolean)
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

    def _math(self, sign: str, left: pl.Expr, right: pl.Expr, type: Type) -> pl.Expr:
        if sign == "/":
            return left / pl.when(right != 0).then(right)
        if type.kind is Kind.FLOAT:
            return _MATH[sign](left, right)
        if sign == "%":
            divisor = pl.when(right != 0).then(right)
            floored = left % divisor
            # SQL's remainder has the sign of the dividend, Polars' that of the divisor.
            wrong = (floored != 0) & ((left < 0) != (divisor < 0))
            return pl.when(wrong).then(floored - divisor).otherwise(floored)
        wide = _MATH[sign](left.cast(pl.Int128), right.cast(pl.Int128))
        return wide.cast(pl.Int64, strict=False)

    def _convert(self, operand: Core, type: Type) -> pl.Expr:
        written = self.clean(operand)
        if operand.type.kind is Kind.STRING:
            trimmed = written.str.strip_chars(" ")
            pattern = WHOLE_NUMBER if type.kind is Kind.INT else NUMBER
            number = pl.when(trimmed.str.contains(pattern)).then(trimmed.str.strip_prefix("+"))
            return number.cast(self.dtype(type), strict=False)
        if type.kind is Kind.BOOL:
            return written != 0
        if operand.type.kind is Kind.BOOL and type.kind is Kind.STRING:
            return pl.when(written).then(pl.lit("true")).when(~written).then(pl.lit("false"))
        if operand.type.kind is Kind.DATE and type.zone is not None:
            return written.cast(pl.Datetime("us")).dt.replace_time_zone(
                type.zone, ambiguous="earliest"
            )
        if operand.type.kind is Kind.DATETIME:
            assert type.zone is not None
            return written.dt.convert_time_zone(type.zone)
        return written.cast(self.dtype(type), strict=False)

    def _function(self, name: str, arguments: tuple[Core, ...], type: Type) -> pl.Expr:
        if name == "SUBSTRING":
            text = self.write(arguments[0])
            start, *length = (a.value for a in arguments[1:] if isinstance(a, Const))
            return text.str.slice(start - 1, *length)
        first, *rest = (self.clean(a) for a in arguments)
        if name == "ABS":
            if type.kind is Kind.INT:
                return first.cast(pl.Int128).abs().cast(pl.Int64, strict=False)
            return first.abs()
        if name == "CONCAT":
            return pl.concat_str([first, *rest])
        if name == "SQRT":
            return pl.when(first >= 0).then(first).sqrt()
        if name == "LN":
            return pl.when(first > 0).then(first).log()
        if name == "POWER":
            return first.pow(rest[0])
        result = _SIMPLE[name](first)
        return result.cast(pl.Int64, strict=False) if type.kind is Kind.INT else result


def _balanced(parts: list[pl.Expr], join: Callable[[Any, Any], Any]) -> pl.Expr:
    """The parts joined as a tree of logarithmic depth: long clauses must not nest deeply."""
    while len(parts) > 1:
        paired = [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = paired + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


def _like(text: pl.Expr, parts: Sequence[tuple[bool, str]]) -> pl.Expr:
    return text.str.contains(like_pattern(parts, r"\z"))


_COMPARE: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_MATH: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
_SIMPLE: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "LOWER": lambda x: x.str.to_lowercase(),
    "UPPER": lambda x: x.str.to_uppercase(),
    "TRIM": lambda x: x.str.strip_chars(" "),
    "LTRIM": lambda x: x.str.strip_chars_start(" "),
    "RTRIM": lambda x: x.str.strip_chars_end(" "),
    "LENGTH": lambda x: x.str.len_chars(),
    "SIGN": lambda x: x.sign(),
    "FLOOR": lambda x: x.floor(),
    "CEIL": lambda x: x.ceil(),
    "ROUND": lambda x: x.round(0, mode="half_away_from_zero"),
    "EXP": lambda x: x.exp(),
    "EXTRACT YEAR": lambda x: x.dt.year(),
    "EXTRACT MONTH": lambda x: x.dt.month(),
    "EXTRACT DAY": lambda x: x.dt.day(),
    "EXTRACT HOUR": lambda x: x.dt.hour(),
    "EXTRACT MINUTE": lambda x: x.dt.minute(),
    "EXTRACT SECOND": lambda x: x.dt.second(),
    "EXTRACT DOW": lambda x: x.dt.weekday() % 7,
}
