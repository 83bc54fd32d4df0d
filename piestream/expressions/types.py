"""The types of values in a predicate."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = [
    "BOOL",
    "FLOAT",
    "INT",
    "LEAST_WIDE",
    "MOST_WIDE",
    "NUMBER",
    "NUMERIC",
    "STRING",
    "WIDE",
    "Kind",
    "Tick",
    "TickLength",
    "Type",
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
    """A kind, for timestamps the time zone of the column, and how the column is stored.

    Where times are dates or timestamps, a number may be a length of time: so many of their ticks.
    """

    kind: Kind
    zone: str | None = None
    stored: str | None = field(default=None, compare=False, repr=False)
    is_length: bool = field(default=False, compare=False, repr=False)

    @property
    def is_wide(self) -> bool:
        """Whether it is a whole number that 64 bits may not hold."""
        return self.kind is Kind.INT and self.stored in _WIDE


@dataclass(frozen=True, slots=True)
class Tick:
    """What differences of times are counted in, and whether they may be put together with bare numbers."""

    nanoseconds: int
    needs_unit: bool


class TickLength:
    """The type of a column of lengths of time, in ticks that nobody counts without a unit."""


#: Columns whose values may be beyond 64 bits with a sign.
_WIDE = ("UInt64", "Int128")
#: What is calculated from wide numbers lies between these two.
MOST_WIDE = 10**38 - 1
LEAST_WIDE = -MOST_WIDE

BOOL, INT, FLOAT, STRING = (Type(k) for k in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.STRING))
#: Whole numbers of up to 38 digits, as SQL's DECIMAL(38, 0).
WIDE = Type(Kind.INT, None, "Int128")
#: A number of either kind; see `Kind`.
NUMBER = Type(Kind.NUMBER)

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
            "int",
            TickLength.__name__,
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
    if kind is None:
        return None
    return Type(kind, getattr(dtype, "time_zone", None), name, name == TickLength.__name__)
