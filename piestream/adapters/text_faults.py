"""What is wrong with a text file, and where, in words for somebody who gave the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

__all__ = ["MISSING", "fault_in_row", "first_line", "first_unreadable", "missing_advice", "reason"]

#: How others write that a value is missing.
MISSING = frozenset(
    ("na", "n/a", "#n/a", "nan", "null", "none", "nil", "-", "--", ".", "?", "missing", "\\n")
)
#: A row that is shown is cut after so many characters.
_ROW_WIDTH = 200
_UNPARSED = re.compile(
    r"could not parse `(?P<value>.*)` as dtype `(?P<type>\w+).*` at column '(?P<column>.*)'"
)
_UNPARSED_JSON = re.compile(r"cannot parse '(?P<value>.*)' \(\w+\) as (?P<type>\w+)")
_KINDS = {"i": "whole number", "u": "whole number", "f": "number", "b": "true or false"}


def first_unreadable(rows: Sequence[bytes], read: Callable[[bytes], Any]) -> int | None:
    """The number of the first row that cannot be read; None if each can by itself."""
    low, high = 0, len(rows)
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(b"".join(rows[low:middle]), read):
            low = middle
        else:
            high = middle
    return None if not rows or _reads(rows[low], read) else low


def _reads(text: bytes, read: Callable[[bytes], Any]) -> bool:
    try:
        read(text)
    except pl.exceptions.PolarsError:
        return False
    return True


def fault_in_row(name: str, line: int, row: bytes, fault: str, hint: str | None = None) -> str:
    """A fault with the line of the file that it is on, and the row as it stands there.

    >>> print(fault_in_row("a.csv", 3, b"1,2,3", "the row has 3 fields", "quote the text"))
    a.csv, line 3: the row has 3 fields
      | 1,2,3
      = quote the text
    """
    text = row.removesuffix(b"\n").removesuffix(b"\r").decode(errors="backslashreplace")
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode()
        for sign in text[: _ROW_WIDTH + 1]
    )
    if len(shown) > _ROW_WIDTH:
        shown = f"{shown[:_ROW_WIDTH]} ..."
    return f"{name}, line {line}: {fault}\n  | {shown}" + (f"\n  = {hint}" if hint else "")


def missing_advice(words: Sequence[str]) -> str:
    """How to say that some words stand for missing values.

    >>> missing_advice(["NA"])
    "if NA stands for a missing value, say so: --null NA, in Python run(null='NA')"
    """
    option = " ".join(f"--null {word}" for word in words)
    value = repr(words[0]) if len(words) == 1 else repr(list(words))
    return (
        f"if {' and '.join(words)} stand{'s' * (len(words) == 1)} for a missing value, say so: "
        f"{option}, in Python run(null={value})"
    )


def reason(error: BaseException) -> tuple[str, str | None]:
    """What Polars says of a text, in words for somebody who does not know Polars, and what to do."""
    text = first_line(error)
    found = _UNPARSED.search(text) or _UNPARSED_JSON.search(text)
    if found is not None:
        column = found.groupdict().get("column")
        return _not_of_type(found["value"], found["type"], column)
    if any(word in text for word in ("Syntax", "TapeError", "JSON object", "error parsing line")):
        return "this is no JSON object; NDJSON has one object a line, not an array", None
    return text, None


def _not_of_type(value: str, dtype: str, column: str | None) -> tuple[str, str]:
    """A value that is not of its column's type, in NDJSON perhaps of an unknown column."""
    kind = _KINDS.get(dtype[0].lower(), dtype)
    fault = f"{value!r} is no {kind}"
    if column is not None:
        fault = f"column {column}: {fault}"
        if value.strip().lower() in MISSING:
            return fault, missing_advice([value])
    name, type = column or "COLUMN", "float" if _is_number(value) else "text"
    return fault, (
        "the types of columns are those of the first rows; where these mislead, say the type: "
        f"--type {name}={type}, in Python run(types={{{name!r}: {type!r}}})"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """What an error says, without the advice of Polars to its own users."""
    return str(error).strip().split("\n", 1)[0]
