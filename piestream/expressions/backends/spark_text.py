"""Names and values as Spark SQL text. Whatever is not fixed text is written here.

Spark reads the same text in different ways, depending on settings of the session:

* With ``spark.sql.parser.escapedStringLiterals`` off, a backslash in a string literal begins an
  escape sequence; with it on, a backslash is a backslash, and a quote cannot be escaped.
* With ``spark.sql.variable.substitute`` on (the default), ``${name}`` is replaced by a setting or
  by an environment variable before the text is parsed, inside literals and quoted names too. What
  it is replaced by is then parsed as SQL.
* With ``spark.sql.parser.quotedRegexColumnNames`` on, a quoted name of more than letters, digits
  and ``_`` is a pattern of names.

So the text written here never holds a backslash, an escaped quote or a ``$``: a string is put
together from literals and ``chr()``, and a name of more than letters, digits and ``_`` becomes
``IDENTIFIER('…')`` of such a string. Spark folds both into constants. There is no such form for the name after ``AS``: name the
columns of a result with ``DataFrame.toDF``, which parses nothing.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime

__all__ = ["column", "literal", "string"]

#: Names that no setting makes a pattern or a variable of.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
#: Characters that no literal holds: they are written by their numbers.
_BY_NUMBER = re.compile(r"(['\\$])")


def column(*path: str) -> str:
    """A column, or a field of a struct column.

    >>> print(column("speed"), column("position", "x"), column("a`b"))
    `speed` `position`.`x` IDENTIFIER('`a``b`')
    >>> print(column("${HOME}"))
    IDENTIFIER(concat('`', chr(36), '{HOME}`'))
    """
    text = ".".join("`" + name.replace("`", "``") + "`" for name in path)
    return text if all(map(_PLAIN.fullmatch, path)) else f"IDENTIFIER({string(text)})"


def string(value: str) -> str:
    r"""A string.

    >>> print(string("Berlin"), string("it's"))
    'Berlin' concat('it', chr(39), 's')
    """
    parts = [
        f"chr({ord(part)})" if _BY_NUMBER.fullmatch(part) else f"'{part}'"
        for part in _BY_NUMBER.split(value)
        if part
    ]
    if not parts:
        return "''"
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def literal(value: bool | int | float | str | date | datetime | None) -> str:
    """A constant with a type of its own, whatever the session's settings.

    >>> print(literal(7), literal(0.5), literal(True), literal(date(2024, 3, 1)))
    7L 0.5D true DATE '2024-03-01'
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP_LTZ"
        return f"{kind} '{value.isoformat(sep=' ')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, int):
        # The smallest integer cannot be written: its digits without the sign do not fit.
        if not -(2**63) <= value < 2**63:
            return f"{value}BD"
        return f"({value + 1}L - 1L)" if value == -(2**63) else f"{value}L"
    if math.isfinite(value):
        return f"{value!r}D"
    return f"DOUBLE('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}')"
