"""The patterns of LIKE: read into wildcards and literal texts, written as regular expressions."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LikeParts", "has_dangling_escape", "like_parts", "like_regex"]

#: Wildcards as (True, "%" or "_"), literal texts between them as (False, text).
LikeParts = tuple[tuple[bool, str], ...]


def like_parts(pattern: str, escape: str | None) -> LikeParts:
    """A LIKE pattern as its wildcards and the literal texts between them.

    >>> like_parts("50!%_x", "!")
    ((False, '50%'), (True, '_'), (False, 'x'))
    """
    parts: list[tuple[bool, str]] = []
    literal = ""
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if escape is not None and character == escape:
            position += 1
            literal += pattern[position]
        elif character in "%_":
            if literal:
                parts.append((False, literal))
                literal = ""
            parts.append((True, character))
        else:
            literal += character
        position += 1
    if literal:
        parts.append((False, literal))
    return tuple(parts)


def has_dangling_escape(pattern: str, escape: str) -> bool:
    """Whether an escape character stands before something that needs no escape."""
    position = 0
    while position < len(pattern):
        if pattern[position] == escape:
            if pattern[position + 1 : position + 2] not in ("%", "_", escape):
                return True
            position += 1
        position += 1
    return False


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$#&-~" else c for c in text)


def like_regex(parts: Sequence[tuple[bool, str]], end: str) -> str:
    """A regular expression for the pattern; ``end`` is the engine's anchor for the end of the text."""
    body = "".join(
        _escaped(text) if not is_wildcard else {"%": ".*", "_": "."}[text]
        for is_wildcard, text in parts
    )
    return rf"(?s)\A(?:{body}){end}"
