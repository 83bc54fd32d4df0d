"""Which intervals a match binds, as results tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piestream.diagnosis.intervals import runs
from piestream.diagnosis.parts import (
    END,
    END_INSTANT,
    ID,
    REPORT_INSTANT,
    START,
    START_INSTANT,
    identity,
)
from piestream.diagnosis.rows import GivenRows
from piestream.language.model import Query

__all__ = ["BoundIntervals", "telling_apart"]

#: What tells intervals apart, as tables of runs call it.
_CALLED = {START: "ts", START_INSTANT: "start", END: "te", ID: "id"}


def telling_apart(query: Query) -> list[str]:
    """The columns of `identity` that are the same in all rows that a match makes.

    An end may be known at one report and not at another, but for the end of a row without an ID: that is
    known whenever the row is.
    """
    later = END, END_INSTANT, REPORT_INSTANT
    known = {f"{END}{s.name}" for s in query.symbols if query.streams[s.stream].is_ready_made}
    twice = {
        f"{END}{symbol.name}"
        for symbol in query.symbols
        for source in [query.streams[symbol.stream]]
        if source.id is not None or source.silence is not None
    }
    return [
        item.alias
        for item in identity(query)
        if not item.alias.startswith(later) or item.alias in known - twice
    ]


class BoundIntervals:
    """The intervals of each symbol in rows of one partition, found by what tells matches apart."""

    def __init__(self, rows: GivenRows) -> None:
        self.rows = rows
        self._tables: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}

    def of(self, name: str, match: Mapping[str, Any]) -> dict[str, Any]:
        """The interval of a symbol in a match: ``ts``, ``te``, ``events``, ``open``."""
        query = self.rows.query
        columns = [c for c in _CALLED if f"{c}{name}" in telling_apart(query)]
        if name not in self._tables:
            found = runs(self.rows, query.symbol(name))
            by = found.select(_CALLED[column] for column in columns).rows()
            self._tables[name] = dict(zip(by, found.rows(named=True), strict=True))
        return self._tables[name][tuple(match[f"{column}{name}"] for column in columns)]
