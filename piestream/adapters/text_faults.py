"""What is wrong with a text file, and where, in words for somebody who gave the file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

__all__ = ["first_line", "first_unreadable", "place", "reason"]


def first_unreadable(block: bytes, read: Callable[[bytes], Any]) -> int | None:
    """The number of the first line that cannot be read, from 0; None if each can by itself."""
    lines = block.splitlines(keepends=True)
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        if _reads(b"".join(lines[low:middle]), read):
            low = middle
        else:
            high = middle
    return None if not lines or _reads(lines[low], read) else low


def _reads(block: bytes, read: Callable[[bytes], Any]) -> bool:
    try:
        if block.strip():
            read(block)
    except pl.exceptions.PolarsError:
        return False
    return True


def place(name: str, row: int | None, before: int) -> str:
    """Where in a file something is wrong: in a row, counted from 1, or after some rows."""
    if row is not None:
        return f"{name}, row {before + row + 1}"
    return f"{name} (after row {before})" if before else name


def reason(error: BaseException) -> str:
    """What Polars says of a text, in words for somebody who does not know Polars."""
    text = first_line(error)
    if "fields than" in text or "n_extra" in text:
        return "it has more fields than there are columns"
    if any(word in text for word in ("Syntax", "TapeError", "JSON object", "error parsing line")):
        return "this is no JSON object; NDJSON has one object a line, not an array"
    return text


def first_line(error: BaseException) -> str:
    """What an error says, without the advice of Polars to its own users."""
    return str(error).strip().split("\n", 1)[0]
