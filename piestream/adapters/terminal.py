"""Text for a terminal, which obeys what control characters in it say."""

from __future__ import annotations

import re

__all__ = ["printable"]

#: Control characters but tab and line end, separators of lines, changes of the direction of writing,
#: and halves of characters.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""A text in which what a terminal would obey is written out.

    >>> print(printable("\x1b[31mred\x07, and\nthe next line"))
    \x1b[31mred\x07, and
    the next line
    """
    return _OBEYED.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
