"""A typed predicate as Spark SQL that means the same with ANSI mode on and off.

ANSI mode turns a failing conversion, an overflow and a division by zero into an error of the
whole job, its absence into NULL or a wrapped number. So only forms are written that are NULL in
both: ``try_add``, ``try_divide``, ``try_cast``. Spark's NaN equals itself and is larger than every
number; it is made NULL where it is read and wherever a calculation may make one.
"""

from __future__ import annotations

from typing import Any, assert_never

from piestream.expressions.backends import spark_text
from piestream.expressions.casts import NUMBER_TEXT, WHOLE_NUMBER_TEXT
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.like import LikeParts
from piestream.expressions.limits import MOST_WRITTEN, TOO_LARGE
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
)
from piestream.expressions.types import Kind, Type

__all__ = ["spark_sql", "spark_value"]

_TYPES = {
    Kind.BOOL: "BOOLEAN",
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STRING: "STRING",
    Kind.DATE: "DATE",
    Kind.DATETIME: "TIMESTAMP",
}
_NAN = "DOUBLE('NaN')"


def spark_sql(expression: Expression, past_prefix: str) -> str:
    """The predicate as a Spark SQL expression in which NULL is false.

    What reads the past is read from the column of the prefix and its key.
    """
    return f"coalesce({_Writer(past_prefix).write(expression)}, false)"


def spark_value(expression: Expression) -> str:
    """An expression of one row that may give a value of any type, as Spark SQL."""
    return _Writer("").clean(expression)


class _Writer:
    def __init__(self, past_prefix: str) -> None:
        self.past_prefix = past_prefix

    def write(self, expression: Expression) -> str:
        """The expression of a node; a float may still be a calculated NaN (see `clean`)."""
        written = self._written(expression)
        if len(written) > MOST_WRITTEN:
            raise QueryError(TOO_LARGE)
        return written

    def _written(self, expression: Expression) -> str:
        match expression:
            case Field(name, type):
                return self._field(name, type)
            case Previous(key, _, _, type) | Window(key, _, _, _, _, type) | Until(key, _, _, type):
                return self._field(self.past_prefix + key, type)
            case Const(value, type):
                return _constant(value, type.kind)
            case Arithmetic(operator, left, right, type):
                return self._arithmetic(operator, left, right, type.kind)
            case Comparison(operator, left, right):
                return f"({self.clean(left)} {operator} {self.clean(right)})"
            case And(operands):
                return "(" + " AND ".join(self.write(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " OR ".join(self.write(o) for o in operands) + ")"
            case Not(operand):
                return f"(NOT {self.write(operand)})"
            case IsNull(operand):
                return f"({self.clean(operand)} IS NULL)"
            case Member(operand, values):
                listed = ", ".join(_constant(v, operand.type.kind) for v in values)
                return f"({self.clean(operand)} IN ({listed}))"
            case Like(operand, parts):
                pattern = spark_text.string(_like_pattern(parts))
                return f"({self.write(operand)} LIKE {pattern} ESCAPE '!')"
            case Case(branches, otherwise):
                whens = "".join(f" WHEN {self.write(c)} THEN {self.clean(r)}" for c, r in branches)
                return f"(CASE{whens} ELSE {self.clean(otherwise)} END)"
            case Coalesce(operands):
                return f"coalesce({', '.join(self.clean(o) for o in operands)})"
            case Extreme(greatest, operands):
                cleaned = [self.clean(o) for o in operands]
                if len(cleaned) == 1:
                    return cleaned[0]
                return f"{'greatest' if greatest else 'least'}({', '.join(cleaned)})"
            case Call(function, operands, numbers):
                return function.spark(*(self.clean(o) for o in operands), *numbers)
            case Convert(operand, type):
                return self._convert(operand, type.kind)
            case _:
                assert_never(expression)

    def clean(self, expression: Expression) -> str:
        """The expression with a NaN made NULL."""
        written = self.write(expression)
        nan_free = isinstance(expression, (Field, Const, Case, Coalesce, Extreme, Previous, Window))
        if expression.type.kind in (Kind.FLOAT, Kind.NUMBER) and not nan_free:
            return f"nullif({written}, {_NAN})"
        return written

    def _field(self, name: str, type: Type) -> str:
        kind = type.kind
        column = spark_text.column(name)
        if kind is Kind.FLOAT:
            return f"nullif(CAST({column} AS DOUBLE), {_NAN})"
        if kind is Kind.INT:
            return f"CAST({column} AS {'DECIMAL(38, 0)' if type.is_wide else 'BIGINT'})"
        if kind is Kind.NUMBER:
            return f"nullif({column}, {_NAN})"
        if kind is Kind.UNKNOWN:
            # typeof folds to a constant, so only columns of floats pay for the test.
            floats = f"typeof({column}) IN ('double', 'float')"
            return f"if({floats} AND CAST({column} AS STRING) = 'NaN', NULL, {column})"
        return column

    def _arithmetic(
        self, operator: ArithmeticOperator, left: Expression, right: Expression, kind: Kind
    ) -> str:
        a, b = self.write(left), self.write(right)
        match operator:
            case "/":
                return f"try_divide({a}, {b})"
            case "%":
                # The remainder by -1 is 0; the smallest integer by -1 overflows in some engines.
                return f"({a} % nullif({b}, 0L))"
            case "+" | "-" | "*":
                if kind is Kind.FLOAT:
                    return f"({a} {operator} {b})"
                if kind is Kind.NUMBER:
                    # A width of 32 bits, unknown without a schema, must not overflow: widen to 64.
                    a = f"({a} + 0L)" if isinstance(left, Field) else a
                    b = f"({b} + 0L)" if isinstance(right, Field) else b
                return f"{_TRY[operator]}({a}, {b})"
            case _:
                assert_never(operator)

    def _convert(self, operand: Expression, kind: Kind) -> str:
        written = self.clean(operand)
        to = _TYPES[kind]
        match operand.type.kind, kind:
            case Kind.STRING, Kind.INT | Kind.FLOAT:
                # Java's $ also stands before a last line break; (?!.) excludes that.
                number = WHOLE_NUMBER_TEXT if kind is Kind.INT else NUMBER_TEXT
                pattern = spark_text.string(f"(?s){number}(?!.)")
                text = f"trim({written})"
                return f"(CASE WHEN {text} RLIKE {pattern} THEN try_cast({text} AS {to}) END)"
            case Kind.INT | Kind.FLOAT | Kind.NUMBER, Kind.BOOL:
                return f"({written} <> 0)"
            case Kind.INT | Kind.BOOL | Kind.NUMBER | Kind.UNKNOWN, Kind.FLOAT:
                return f"CAST({written} AS {to})"
            case (
                (Kind.INT | Kind.FLOAT | Kind.BOOL | Kind.NUMBER, Kind.INT)
                | (Kind.INT | Kind.BOOL | Kind.DATE, Kind.STRING)
                | (Kind.DATE | Kind.DATETIME, Kind.DATETIME)
                | (Kind.UNKNOWN, _)
            ):
                return f"try_cast({written} AS {to})"
        raise AssertionError(f"no conversion from {operand.type.kind} to {kind}")


_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def _constant(value: Any, kind: Kind) -> str:
    if value is None:
        return f"CAST(NULL AS {_TYPES[kind]})" if kind in _TYPES else "NULL"
    return spark_text.literal(value)


def _like_pattern(parts: LikeParts) -> str:
    def escaped(text: str) -> str:
        return "".join(f"!{c}" if c in "!%_" else c for c in text)

    return "".join(text if is_wildcard else escaped(text) for is_wildcard, text in parts)
