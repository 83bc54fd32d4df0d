"""Counts of what a query finds, and of the pairs of two tables, with an end where they are very many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from warnings import catch_warnings, simplefilter

import polars as pl

from piestream.diagnosis.rows import GivenRows
from piestream.errors import ResultWarning
from piestream.language.model import Query
from piestream.language.parts import Emit, Return

__all__ = ["MOST", "Count", "count", "some_matches"]

#: Nobody wants to know exactly how many more there are, and to find them all may take very long.
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of things, or that there are at least so many.

    >>> print(Count(12), Count(1_000_000, is_more=True))
    12 1,000,000 or more
    """

    number: int
    is_more: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}" + " or more" * self.is_more


def some_matches(rows: GivenRows, query: Query, returns: tuple[Return, ...]) -> pl.DataFrame:
    """Up to `MOST` matches of a query, once each."""
    emit = Emit.COMPLETION if query.emit is Emit.COMPLETION else Emit.TRIGGER
    with catch_warnings():
        simplefilter("ignore", ResultWarning)
        return rows.run(replace(query, returns=returns, emit=emit), limit=MOST)


def count(rows: GivenRows, query: Query) -> Count:
    """How many matches a query has in the rows."""
    found = len(some_matches(rows, query, query.returns[:1]))
    return Count(found, is_more=found == MOST)
