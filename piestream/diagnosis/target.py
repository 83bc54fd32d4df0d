"""What was expected: where in the rows of a partition a match should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from piestream.diagnosis.counting import MOST, some_matches
from piestream.diagnosis.intervals import runs
from piestream.diagnosis.parts import END, START, endpoints, without_limits
from piestream.diagnosis.rows import Rows
from piestream.language.model import Emit, Query, Return
from piestream.show.table import cell_text

__all__ = ["Target"]

_OPEN = 1 << 62
#: Of more matches of a changed query than so many the first are looked at.
_MOST = 1_000


@dataclass
class Target:
    """Rows of one partition, and where in them a match is expected, in ticks.

    All its intervals start between ``first`` and ``last``, and each symbol in ``near`` has one that
    shares an instant with what is given there.
    """

    rows: Rows
    first: int
    last: int
    near: Mapping[str, tuple[int, int]]
    _runs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)

    def matches(self, query: Query, rows: Rows | None = None) -> pl.DataFrame:
        """The matches of a query where one is expected: ``report``, starts and ends in ticks."""
        hidden = endpoints([symbol.name for symbol in query.symbols])
        found = self._found(rows or self.rows, query, hidden)
        report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
        times = [item.alias for item in hidden]
        found = found.select(
            pl.exclude(report, *times),
            *(pl.col(name).to_physical().cast(pl.Int64) for name in times),
            pl.col(report).to_physical().cast(pl.Int64).alias("report"),
        )
        starts = [name for name in times if name.startswith(START)]
        here = pl.all_horizontal(pl.col(name).is_between(self.first, self.last) for name in starts)
        for name, (start, end) in self.near.items():
            here &= (pl.col(f"{START}{name}") <= end) & (
                pl.col(f"{END}{name}").fill_null(_OPEN) >= start
            )
        return found.filter(here)

    def _found(self, rows: Rows, query: Query, hidden: tuple[Return, ...]) -> pl.DataFrame:
        """The matches of a query; if ends are asked for, with those that are known later."""
        if not self.near or query.emit is Emit.COMPLETION:
            return some_matches(rows, query, hidden)
        all_matches = replace(without_limits(query), returns=hidden, emit=Emit.BOTH)
        both = rows.run(all_matches, limit=2 * MOST)
        names = [item.alias for item in hidden]
        ends = [name for name in names if name.startswith(END)]
        same = [*query.partition_by, *(name for name in names if name.startswith(START))]
        complete = both.filter(phase="completion").select(*same, *ends)
        triggers = both.filter(phase="trigger").drop("phase")
        if query.limits:
            triggers = some_matches(rows, query, hidden)
        joined = triggers.join(complete, on=same, how="left", nulls_equal=True, suffix=" later")
        later = [pl.coalesce(pl.col(name), pl.col(f"{name} later")).alias(name) for name in ends]
        return joined.with_columns(later).select(triggers.columns)

    def nearest(
        self, query: Query, size: Callable[[dict[str, Any]], float], count: int
    ) -> list[dict[str, Any]]:
        """The matches of a changed query that need the smallest changes of these sizes, one a size."""
        found: dict[float, dict[str, Any]] = {}
        for match in self.matches(query).head(_MOST).rows(named=True):
            found.setdefault(size(match), match)
        return [found[key] for key in sorted(found)[:count]]

    def run_of(self, name: str, start: int) -> dict[str, Any]:
        """The run of a symbol that starts at a time."""
        if name not in self._runs:
            table = runs(self.rows, self.rows.query.symbol(name))
            mine = {row["ts"]: row for row in table.rows(named=True)}
            self._runs[name] = mine
        return self._runs[name][start]

    def span(self, name: str, match: Mapping[str, Any]) -> tuple[int, int]:
        """The start and the end of a symbol's interval; what is open ends after all others."""
        run = self.run_of(name, match[f"{START}{name}"])
        return run["ts"], _OPEN if run["open"] and not self.rows.closes else run["te"]

    def time(self, ticks: int) -> Any:
        """A time as a value of the time column."""
        return self.rows.time.as_times(pl.Series([ticks], dtype=pl.Int64))[0]

    def shown(self, ticks: int) -> str:
        """A time in words."""
        return "open" if ticks == _OPEN else cell_text(self.time(ticks))

    def length(self, ticks: int) -> Any:
        """A length as users read it."""
        return self.rows.time.as_lengths(pl.Series([ticks], dtype=pl.Int64))[0]
