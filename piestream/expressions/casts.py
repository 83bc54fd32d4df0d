"""What CAST converts, and which texts it reads as numbers."""

from __future__ import annotations

from piestream.expressions.types import BOOL, FLOAT, INT, STRING, Kind, Type

__all__ = [
    "CASTABLE",
    "CAST_HINT",
    "CAST_HINTS",
    "CAST_SPELLINGS",
    "CAST_TYPES",
    "NUMBER_TEXT",
    "WHOLE_NUMBER_TEXT",
]

#: The types that CAST converts to, by their canonical names.
CAST_TYPES: dict[str, Type] = {"BIGINT": INT, "DOUBLE": FLOAT, "BOOLEAN": BOOL, "STRING": STRING}

#: The canonical name of every spelling of a type.
CAST_SPELLINGS: dict[str, str] = {
    **dict.fromkeys(["TINYINT", "SMALLINT", "INT", "BIGINT"], "BIGINT"),
    **dict.fromkeys(["FLOAT", "DOUBLE"], "DOUBLE"),
    "BOOLEAN": "BOOLEAN",
    **dict.fromkeys(["TEXT", "VARCHAR", "CHAR", "STRING"], "STRING"),
}

CAST_HINT = "allowed are BIGINT, DOUBLE, BOOLEAN, STRING, and DATE or TIMESTAMP of a text"

#: What each kind of value can be cast to, besides itself.
CASTABLE: dict[Kind, tuple[Kind, ...]] = {
    Kind.INT: (Kind.FLOAT, Kind.BOOL, Kind.STRING),
    Kind.FLOAT: (Kind.INT, Kind.BOOL),
    Kind.NUMBER: (Kind.INT, Kind.FLOAT, Kind.BOOL),
    Kind.BOOL: (Kind.INT, Kind.FLOAT, Kind.STRING),
    Kind.STRING: (Kind.INT, Kind.FLOAT),
    Kind.DATE: (Kind.STRING,),
}

#: What to do instead of a cast that is not there.
CAST_HINTS: dict[Kind, str] = {
    Kind.FLOAT: "engines print floats differently; cast to BIGINT first",
    Kind.STRING: "compare the string instead: flag = 'true'",
}

#: Texts that CAST reads as numbers. Spellings that only one engine knows (``1.5d``,
#: ``Infinity``) are not among them.
WHOLE_NUMBER_TEXT = "^[+-]?[0-9]+$"
NUMBER_TEXT = "^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
