"""A run that gives very many rows: a warning that says why, and what would narrow it."""

from __future__ import annotations

from threading import Lock
from typing import Any

from piestream.copies import copied_but
from piestream.errors import warn_of_result
from piestream.language.model import Query
from piestream.language.printer import constraint_text
from piestream.plan.join_order import Estimate

__all__ = ["MANY_ROWS", "RowCount"]

#: A run that passes so many rows warns.
MANY_ROWS = 10_000_000
#: From so many rows on it is known which constraint has the most partners.
_WORTH_A_SAMPLE = 1_000_000
#: The threads of a run share a counter.
_COUNTING = Lock()


class RowCount:
    """Counts the rows of a run, from any of its threads, and warns once."""

    def __init__(self, query: Query | None) -> None:
        self._query = query
        self.warns = True
        self._rows = 0
        self._sample_at = _WORTH_A_SAMPLE
        self._warn_at = MANY_ROWS
        self._estimate = Estimate()

    def __deepcopy__(self, memo: dict[int, Any]) -> RowCount:
        return copied_but(self, memo, _query=self._query)

    def add(self, rows: int) -> bool:
        """Count rows; whether the state is to be sampled now, for `sampled`."""
        with _COUNTING:
            self._rows += rows
            if self._rows < self._sample_at:
                return False
            self._sample_at = 2 * self._rows
            return True

    def sampled(self, estimate: Estimate) -> None:
        """Take over how many partners there are now; warn if there are very many rows."""
        with _COUNTING:
            if estimate.partners:
                self._estimate = estimate
            if self._rows < self._warn_at:
                self._sample_at = min(self._sample_at, self._warn_at)
                return
            self._warn_at = 1 << 63
        if self.warns:
            text = f"more than {MANY_ROWS:,} rows so far: {self.advice}"
            warn_of_result(text)

    @property
    def advice(self) -> str:
        """Which constraint has the most partners, and what would narrow it."""
        stops = "limit=N stops early (--limit N on the command line)"
        found = [
            (partners, number, side)
            for (number, side, of_seed), partners in self._estimate.partners.items()
            if not of_seed
        ]
        if not found or self._query is None:
            return f"a shorter WITHIN would give fewer; {stops}"
        partners, number, side = max(found)
        constraint = self._query.constraints[number]
        one, other = constraint.x, constraint.y
        if side == 1:
            one, other = other, one
        return (
            f"in {constraint_text(constraint)}, an interval of {one} has about "
            f"{partners:,.0f} of {other} as partners at a time; a shorter WITHIN, AT LEAST on {other}, "
            f"a stricter predicate or fewer relations would narrow it; {stops}"
        )
