"""A typed predicate as Spark SQL that means the same with ANSI mode on and off.

ANSI mode turns a failing conversion, an overflow and a division by zero into an error of the
whole job, its absence into NULL or a wrapped number. So only forms are written that are NULL in
both: ``try_add``, ``try_divide``, ``try_cast``. Spark's NaN equals itself and is larger than every
number; it is made NULL where it is read and wherever a calculation may make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from piestream.expressions.typed import (
    NUMBER,
    NUMERIC,
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
)

__all__ = ["spark_sql"]

_TYPES = {
    Kind.BOOL: "BOOLEAN",
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.STRING: "STRING",
    Kind.DATE: "DATE",
    Kind.DATETIME: "TIMESTAMP",
}
_NAN = "DOUBLE('NaN')"


def spark_sql(core: Core, previous_prefix: str) -> str:
    """The predicate as a Spark SQL expression in which NULL is false."""
    return f"coalesce({_Writer(previous_prefix).write(core)}, false)"


class _Writer:
    def __init__(self, previous_prefix: str) -> None:
        self.previous_prefix = previous_prefix

    def write(self, core: Core) -> str:
        """The expression of a node; a float may still be a calculated NaN (see `clean`)."""
        match core:
            case Field(name, previous, type):
                return self._field(name, previous, type.kind)
            case Const(value, type):
                return _constant(value, type.kind)
            case Math(sign, left, right, type):
                return self._math(sign, left, right, type.kind)
            case Compare(sign, left, right):
                return f"({self.clean(left)} {sign} {self.clean(right)})"
            case And(operands):
                return "(" + " AND ".join(self.write(o) for o in operands) + ")"
            case Or(operands):
                return "(" + " OR ".join(self.write(o) for o in operands) + ")"
            case Negation(operand):
                return f"(NOT {self.write(operand)})"
            case IsNull(operand):
                return f"({self.clean(operand)} IS NULL)"
            case Member(operand, values):
                listed = ", ".join(_constant(v, operand.type.kind) for v in values)
                return f"({self.clean(operand)} IN ({listed}))"
            case LikeText(operand, parts):
                return f"({self.write(operand)} LIKE {_text(_like_pattern(parts))} ESCAPE '!')"
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
            case Function(name, arguments, type):
                return self._function(name, arguments, type.kind)
            case Convert(operand, type):
                return self._convert(operand, type.kind)
        raise AssertionError(core)

    def clean(self, core: Core) -> str:
        """The expression with a NaN made NULL."""
        written = self.write(core)
        nan_free = isinstance(core, (Field, Const, Case, Coalesce, Extreme))
        if core.type.kind in (Kind.FLOAT, Kind.NUMBER) and not nan_free:
            return f"nullif({written}, {_NAN})"
        return written

    def _field(self, name: str, previous: bool, kind: Kind) -> str:
        whole = self.previous_prefix + name if previous else name
        column = "`" + whole.replace("`", "``") + "`"
        if kind is Kind.FLOAT:
            return f"nullif(CAST({column} AS DOUBLE), {_NAN})"
        if kind is Kind.INT:
            return f"CAST({column} AS BIGINT)"
        if kind is Kind.NUMBER:
            return f"nullif({column}, {_NAN})"
        if kind is Kind.UNKNOWN:
            # typeof folds to a constant, so only columns of floats pay for the test.
            floats = f"typeof({column}) IN ('double', 'float')"
            return f"if({floats} AND CAST({column} AS STRING) = 'NaN', NULL, {column})"
        return column

    def _math(self, sign: str, left: Core, right: Core, kind: Kind) -> str:
        a, b = self.write(left), self.write(right)
        if sign == "/":
            return f"try_divide({a}, {b})"
        if sign == "%":
            # The remainder by -1 is 0; the smallest integer by -1 overflows in some engines.
            return f"({a} % nullif({b}, 0L))"
        if kind is Kind.NUMBER:
            # A width of 32 bits, unknown without a schema, must not overflow: widen to 64.
            a, b = (f"({x} + 0L)" if isinstance(o, Field) else x
                    for o, x in ((left, a), (right, b)))  # fmt: skip
        if kind is Kind.FLOAT:
            return f"({a} {sign} {b})"
        return f"{_TRY[sign]}({a}, {b})"

    def _convert(self, operand: Core, kind: Kind) -> str:
        written = self.clean(operand)
        to = _TYPES[kind]
        if operand.type.kind is Kind.STRING:
            pattern = WHOLE_NUMBER if kind is Kind.INT else NUMBER
            text = f"trim({written})"
            # Java's $ also stands before a last line break; (?!.) excludes that.
            return (
                f"(CASE WHEN {text} RLIKE '(?s){pattern}(?!.)' THEN try_cast({text} AS {to}) END)"
            )
        if kind is Kind.BOOL and operand.type.kind in NUMERIC:
            return f"({written} <> 0)"
        if kind is Kind.FLOAT:
            return f"CAST({written} AS {to})"
        return f"try_cast({written} AS {to})"

    def _function(self, name: str, arguments: Sequence[Core], kind: Kind) -> str:
        values = [self.clean(a) for a in arguments]
        if name.startswith("EXTRACT "):
            part = name.split()[1].lower()
            return f"(dayofweek({values[0]}) - 1)" if part == "dow" else f"{part}({values[0]})"
        if name == "SUBSTRING":
            written = [values[0], *(str(a.value) for a in arguments[1:] if isinstance(a, Const))]
            return f"substring({', '.join(written)})"
        if name == "ABS" and kind is Kind.INT:
            x = values[0]
            return f"(CASE WHEN {x} < 0L THEN try_subtract(0L, {x}) ELSE {x} END)"
        if name == "SIGN":
            return f"CAST(sign({values[0]}) AS BIGINT)"
        if name in ("FLOOR", "CEIL"):
            # Spark's floor gives a BIGINT; from 2^52 on every double is whole already.
            x = values[0]
            whole = f"CAST({name.lower()}({x}) AS DOUBLE)"
            return f"(CASE WHEN abs({x}) < 4503599627370496D THEN {whole} ELSE {x} END)"
        if name == "ROUND":
            x = values[0]
            return f"(CASE WHEN abs({x}) < 4503599627370496D THEN round({x}) ELSE {x} END)"
        if name == "SQRT":
            return f"(CASE WHEN {values[0]} >= 0 THEN sqrt({values[0]}) END)"
        if name == "LN":
            return f"(CASE WHEN {values[0]} > 0 THEN ln({values[0]}) END)"
        return f"{name.lower()}({', '.join(values)})"


_TRY = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def _constant(value: Any, kind: Kind) -> str:
    if value is None:
        return f"CAST(NULL AS {_TYPES[kind]})" if kind in _TYPES else "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        # The smallest integer cannot be written: its digits without the sign do not fit.
        return f"({value + 1}L - 1L)" if value == -(2**63) else f"{value}L"
    return f"{value!r}D"


def _text(value: str) -> str:
    """A string literal; quotes and backslashes are spelt by chr, for Spark reads them variously."""
    if "'" not in value and "\\" not in value:
        return f"'{value}'"
    parts: list[str] = []
    plain = ""
    for character in value:
        if character in "'\\":
            parts += [f"'{plain}'"] if plain else []
            parts.append(f"chr({ord(character)})")
            plain = ""
        else:
            plain += character
    parts += [f"'{plain}'"] if plain else []
    return f"concat({', '.join(parts)})"


def _like_pattern(parts: Sequence[tuple[bool, str]]) -> str:
    def escaped(text: str) -> str:
        return "".join(f"!{c}" if c in "!%_" else c for c in text)

    return "".join(text if is_sign else escaped(text) for is_sign, text in parts)
