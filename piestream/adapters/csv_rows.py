"""Rows of CSV before they are parsed: how many fields each has, on which line, and which are blank.

Polars looks at the number of fields only where it reads all columns. Here it is looked at always.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from piestream.adapters.text_faults import fault_in_row
from piestream.errors import FileError

__all__ = ["RowShape", "line_count", "rows_of"]

#: What may be wrong if already the line below the names has more fields.
_NAMES_BELOW = (
    "a CSV file begins with the names of its columns; if they stand further down, leave out the "
    "lines above: tail -n +2 FILE | piestream run QUERY.SQL - --format csv"
)

_BLANK_LINE = re.compile(rb"(?:\A|\n)[ \t\r]*(?=\n)")


class RowShape:
    """What separates the fields of a CSV file, and how many there are in its line of names."""

    def __init__(self, delimiter: str, names: bytes) -> None:
        self._sign = delimiter.encode()
        kept = self._sign + b'\n"'
        self._others = bytes(byte for byte in range(256) if byte not in kept)
        self.columns = self.fields(names)

    def fields(self, row: bytes) -> int:
        """How many fields a row has."""
        return self._separators(row).count(self._sign) + 1

    def checked(self, name: str, block: bytes, line: int) -> bytes:
        """A block without its blank lines; `FileError` if a row has more fields than there are names.

        ``line`` is that of its first row. What a short row lacks is missing.
        """
        separators = self._separators(block)
        if not separators.endswith(b"\n"):
            separators += b"\n"
        row = self._sign * (self.columns - 1) + b"\n"
        if separators == row * (len(separators) // len(row)) and not self._may_have_blank(block):
            return block
        fields = separators.split(b"\n")
        if max(map(len, fields)) < self.columns and b"" not in fields[:-1]:
            return block
        kept = []
        for number, text in rows_of(block, line):
            count = self.fields(text)
            if count > self.columns:
                hint = _NAMES_BELOW if number == 2 else None
                raise FileError(fault_in_row(name, number, text, self._too_many(count), hint))
            kept.append(text)
        return block if len(kept) == len(fields) - 1 else b"".join(kept)

    def _too_many(self, count: int) -> str:
        names = "column has a name" if self.columns == 1 else "columns have names"
        return f"the row has {count} fields, and {self.columns} {names}"

    def _may_have_blank(self, block: bytes) -> bool:
        return self.columns == 1 and _BLANK_LINE.search(block) is not None

    def _separators(self, text: bytes) -> bytes:
        """The separators and line ends that are not in quotes."""
        found = text.translate(None, self._others)
        if b'"' not in found:
            return found
        found = found.replace(b'""', b"")
        # If no quote is left after this, each that was removed was closed by the one after it.
        unquoted = found.replace(b'"' + self._sign + b'"', b"")
        return unquoted if b'"' not in unquoted else b"".join(found.split(b'"')[::2])


def rows_of(block: bytes, line: int = 1) -> Iterator[tuple[int, bytes]]:
    """The rows of a block of whole lines, and the line on which each begins; blank ones are left out.

    >>> list(rows_of(b'1,"a\\nb"\\n\\n2,c\\n'))
    [(1, b'1,"a\\nb"\\n'), (4, b'2,c\\n')]
    """
    at = 0
    while at < len(block):
        end, quotes = at, 0
        while end < len(block):
            following = block.find(b"\n", end) + 1 or len(block)
            quotes += block.count(b'"', end, following)
            end = following
            if quotes % 2 == 0:
                break
        row = block[at:end]
        if row.strip():
            yield line, row
        line += row.count(b"\n")
        at = end


def line_count(block: bytes) -> int:
    """How many lines end in a block."""
    return int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
