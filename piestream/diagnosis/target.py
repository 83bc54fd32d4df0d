"""What was expected: where in the rows of a partition a match should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from piestream.diagnosis.bindings import BoundIntervals, telling_apart
from piestream.diagnosis.counting import MOST, some_matches
from piestream.diagnosis.parts import END, END_INSTANT, START, identity, without_limits
from piestream.diagnosis.rows import GivenRows
from piestream.language.model import Query
from piestream.language.parts import Emit, Return
from piestream.show.table import cell_text

__all__ = ["OPEN", "Target"]

#: The end of what is open: after all others.
OPEN = 1 << 62
#: Of more matches of a changed query than so many the first are looked at.
_MOST = 1_000


@dataclass
class Target:
    """Rows of one partition, and where in them a match is expected, in ticks.

    All its intervals start between ``first`` and ``last``, or the earliest of them does; and each symbol
    in ``near`` has one that shares an instant with what is given there.
    """

    rows: GivenRows
    first: int
    last: int
    near: Mapping[str, tuple[int, int]]
    by_earliest: bool = False
    count: int = 3  # of each place in the query so many of the nearest changes are proposed

    @cached_property
    def _intervals(self) -> BoundIntervals:
        return BoundIntervals(self.rows)

    def matches(self, query: Query, rows: GivenRows | None = None) -> pl.DataFrame:
        """The matches of a query where one is expected: ``report``, starts and ends in ticks."""
        hidden = identity(query)
        return self._expected(query, self._found(rows or self.rows, query, hidden))

    def later(self, query: Query) -> pl.DataFrame:
        """The same of those that there would be if time went on, and nothing more came."""
        plain = replace(query, returns=identity(query))
        if query.emit is Emit.BOTH:
            plain = replace(plain, emit=Emit.TRIGGER)
        return self._expected(plain, self.rows.later(plain))

    def _expected(self, query: Query, found: pl.DataFrame) -> pl.DataFrame:
        report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
        aliases = (item.alias for item in identity(query))
        times = [alias for alias in aliases if alias.startswith((START, END))]
        found = found.select(
            pl.exclude(report, *times),
            *(pl.col(name).to_physical().cast(pl.Int64) for name in times),
            pl.col(report).to_physical().cast(pl.Int64).alias("report"),
        )
        starts = [pl.col(name) for name in times if name.startswith(START)]
        starts = [pl.min_horizontal(starts)] if self.by_earliest else starts
        here = pl.all_horizontal(start.is_between(self.first, self.last) for start in starts)
        for name, (start, end) in self.near.items():
            here &= (pl.col(f"{START}{name}") <= end) & (
                pl.col(f"{END}{name}").fill_null(OPEN) >= start
            )
        return found.filter(here)

    def _found(self, rows: GivenRows, query: Query, hidden: tuple[Return, ...]) -> pl.DataFrame:
        """The matches of a query; if ends are asked for, with those that are known later."""
        if not self.near or query.emit is Emit.COMPLETION:
            return some_matches(rows, query, hidden)
        all_matches = replace(without_limits(query), returns=hidden, emit=Emit.BOTH)
        both = rows.run(all_matches, limit=2 * MOST)
        same = [*query.partition_by, *telling_apart(query)]
        later = END, END_INSTANT
        ends = [i.alias for i in hidden if i.alias.startswith(later) and i.alias not in same]
        complete = both.filter(phase="completion").select(*same, *ends).unique(same)
        triggers = both.filter(phase="trigger").drop("phase")
        if query.limits:
            triggers = some_matches(rows, query, hidden)
        joined = triggers.join(complete, on=same, how="left", nulls_equal=True, suffix=" later")
        known = [pl.coalesce(pl.col(name), pl.col(f"{name} later")).alias(name) for name in ends]
        return joined.with_columns(known).select(triggers.columns)

    def nearest(
        self, query: Query, size: Callable[[dict[str, Any]], float]
    ) -> list[dict[str, Any]]:
        """The matches of a changed query that need the smallest changes of these sizes, one a size."""
        found: dict[float, dict[str, Any]] = {}
        for match in self.matches(query).head(_MOST).rows(named=True):
            found.setdefault(size(match), match)
        return [found[key] for key in sorted(found)[: self.count]]

    def interval(self, name: str, match: Mapping[str, Any]) -> dict[str, Any]:
        """The interval of a symbol in a match: ``ts``, ``te``, ``events``, ``open``."""
        return self._intervals.of(name, match)

    def span(self, name: str, match: Mapping[str, Any]) -> tuple[int, int]:
        """The start and the end of a symbol's interval; what is open ends after all others."""
        found = self.interval(name, match)
        return found["ts"], OPEN if found["open"] and not self.rows.closes else found["te"]

    def instants(self, name: str, match: Mapping[str, Any]) -> tuple[int, int]:
        """The same as they are compared: as numbers, where events have one time."""
        found = self.interval(name, match)
        return found["start"], OPEN if found["open"] and not self.rows.closes else found["end"]

    def time(self, ticks: int) -> Any:
        """A time as a value of the time column."""
        return self.rows.time.as_times(pl.Series([ticks], dtype=pl.Int64))[0]

    def shown(self, ticks: int) -> str:
        """A time in words."""
        return "open" if ticks == OPEN else cell_text(self.time(ticks))

    def length(self, ticks: int) -> Any:
        """A length as users read it."""
        return self.rows.time.as_lengths(pl.Series([ticks], dtype=pl.Int64))[0]
