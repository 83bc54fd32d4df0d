"""A predicate with types: few kinds of node, every conversion written out.

The three engines (Polars, Python, Spark) translate this form, so what an expression means is
decided here, once:

* A value is NULL or it is there; a NaN, read or calculated, is NULL.
* Whole numbers are 64-bit; a result that does not fit is NULL. ``/`` divides floats.
* Dividing by zero, ``SQRT`` of a negative and ``LN`` of a number not positive are NULL.
* ``AND``, ``OR``, ``NOT`` are Kleene's; a predicate that is NULL is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Union

__all__ = [
    "BOOL",
    "FLOAT",
    "INT",
    "NUMBER",
    "NUMERIC",
    "STRING",
    "WHOLE_NUMBER",
    "And",
    "Case",
    "Coalesce",
    "Compare",
    "Const",
    "Convert",
    "Core",
    "Extreme",
    "Field",
    "Function",
    "IsNull",
    "Kind",
    "LikeText",
    "Math",
    "Member",
    "Negation",
    "Or",
    "Type",
    "like_pattern",
    "type_of_dtype",
]


class Kind(Enum):
    """The kind of a value. UNKNOWN and NUMBER occur only where there is no schema."""

    BOOL = "a truth value"
    INT = "a whole number"
    FLOAT = "a float"
    STRING = "a string"
    DATE = "a date"
    DATETIME = "a timestamp"
    NULL = "NULL"
    NUMBER = "a number"
    UNKNOWN = "of unknown type"


NUMERIC = (Kind.INT, Kind.FLOAT, Kind.NUMBER)


@dataclass(frozen=True, slots=True)
class Type:
    """A kind, for timestamps the time zone of the column, and how the column is stored."""

    kind: Kind
    zone: str | None = None
    stored: str | None = field(default=None, compare=False, repr=False)


BOOL, INT, FLOAT, STRING = (Type(k) for k in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STRING))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the current or the previous event."""

    name: str
    previous: bool
    type: Type


@dataclass(frozen=True, slots=True)
class Const:
    """A constant; None is NULL."""

    value: Any
    type: Type


@dataclass(frozen=True, slots=True)
class Math:
    """``+ - * / %`` of two operands of one type; ``/`` only of floats, ``%`` only of integers."""

    sign: str
    left: Core
    right: Core
    type: Type


@dataclass(frozen=True, slots=True)
class Compare:
    """``= <> < <= > >=`` of two operands of one type."""

    sign: str
    left: Core
    right: Core
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class And:
    """AND."""

    operands: tuple[Core, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Or:
    """OR."""

    operands: tuple[Core, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT."""

    operand: Core
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is NULL; never NULL itself."""

    operand: Core
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Member:
    """Whether a value is one of some constants of its type, none of them NULL."""

    operand: Core
    values: tuple[Any, ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class LikeText:
    """LIKE: ``parts`` are literal texts, and ``%`` and ``_`` as (True, sign)."""

    operand: Core
    parts: tuple[tuple[bool, str], ...]
    type: Type = BOOL


@dataclass(frozen=True, slots=True)
class Case:
    """The result of the first branch whose condition is true, else ``otherwise``."""

    branches: tuple[tuple[Core, Core], ...]
    otherwise: Core
    type: Type


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first operand that is not NULL."""

    operands: tuple[Core, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Extreme:
    """GREATEST or LEAST of the operands that are not NULL."""

    greatest: bool
    operands: tuple[Core, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Function:
    """A function that is NULL when an argument is."""

    name: str
    arguments: tuple[Core, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Convert:
    """A value as another type; NULL where it cannot be."""

    operand: Core
    type: Type


Core = Union[
    Field, Const, Math, Compare, And, Or, Negation, IsNull, Member, LikeText, Case,
    Coalesce, Extreme, Function, Convert,
]  # fmt: skip

_BY_NAME = {
    **dict.fromkeys(
        [
            "Int8",
            "Int16",
            "Int32",
            "Int64",
            "Int128",
            "UInt8",
            "UInt16",
            "UInt32",
            "UInt64",
            "UInt128",
            "int",
        ],
        Kind.INT,
    ),
    **dict.fromkeys(["Float16", "Float32", "Float64", "Decimal", "float"], Kind.FLOAT),
    **dict.fromkeys(["String", "Utf8", "Categorical", "Enum", "str"], Kind.STRING),
    **dict.fromkeys(["Boolean", "bool"], Kind.BOOL),
    **dict.fromkeys(["Date", "date"], Kind.DATE),
    **dict.fromkeys(["Datetime", "datetime"], Kind.DATETIME),
    **dict.fromkeys(["Null", "NoneType"], Kind.NULL),
}


def type_of_dtype(dtype: Any) -> Type | None:
    """The type of a Polars dtype or of a Python class; None if predicates cannot use it.

    >>> type_of_dtype(float)
    Type(kind=<Kind.FLOAT: 'a float'>, zone=None)
    """
    name = dtype.__name__ if isinstance(dtype, type) else type(dtype).__name__
    kind = _BY_NAME.get(name)
    return None if kind is None else Type(kind, getattr(dtype, "time_zone", None), name)


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$#&-~" else c for c in text)


def like_pattern(parts: Sequence[tuple[bool, str]], end: str) -> str:
    """A regular expression that matches what the LIKE pattern does."""
    body = "".join(
        _escaped(text) if not is_sign else {"%": ".*", "_": "."}[text] for is_sign, text in parts
    )
    return rf"(?s)\A(?:{body}){end}"


#: Texts that CAST reads as numbers; no engine's own taste (``1.5d``, ``Infinity``) counts.
WHOLE_NUMBER = "^[+-]?[0-9]+$"
NUMBER = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
