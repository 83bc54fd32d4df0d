"""What the builder's arguments must be: said where they are given, not where they are first used."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

from piestream.expressions.diagnostics import QueryError

__all__ = ["check_mapping", "check_name"]


def check_name(name: object, what: str) -> None:
    """Refuse what cannot be the name of ``what``.

    >>> check_name(5, "a column")
    Traceback (most recent call last):
    piestream.expressions.diagnostics.QueryError: the name of a column is a text, not 5
    """
    if not isinstance(name, str) or not name:
        raise QueryError(f"the name of {what} is a text, not {reprlib.repr(name)}")
    if "\0" in name:
        raise QueryError(f"the name of {what} cannot hold the character U+0000: {name!r}")


def check_mapping(given: object, what: str, example: str) -> None:
    """Refuse what is no mapping; nothing given is none.

    >>> check_mapping(5, "let", "{'smooth': 'AVG(x) OVER 5 s'}")
    Traceback (most recent call last):
    piestream.expressions.diagnostics.QueryError: let is a dict such as {'smooth': 'AVG(x) OVER 5 s'}, not 5
    """
    if given is not None and not isinstance(given, Mapping):
        raise QueryError(f"{what} is a dict such as {example}, not {reprlib.repr(given)}")
