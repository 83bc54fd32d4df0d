"""The matches that a report is about, counted and chosen from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from piestream.diagnosis.row_parts import MATCH, measures
from piestream.diagnosis.rows import GivenRows
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.pictures.row_scene import row_matches
from piestream.pictures.scene import Clock
from piestream.show.matches import (
    Match,
    Matches,
    TimeScale,
    checked_matches,
    read_matches,
    with_endpoints,
)

__all__ = ["Found", "found_in"]


@dataclass(frozen=True)
class Found:
    """The matches of a result; times are in ticks."""

    query: Query
    rows: GivenRows
    frame: pl.DataFrame  # what is shown of each
    starts: pl.Series
    reports: pl.Series
    #: Those of a row pattern, whose endpoints do not stand in the frame.
    of_rows: Sequence[Match] | None = field(default=None, repr=False)

    @property
    def clock(self) -> Clock:
        """The clock that they are read on."""
        return Clock(TimeScale.of(self.query, self.rows.time.dtype))

    def listed(self, chosen: Sequence[int]) -> Matches:
        """Some of them, with their intervals."""
        if self.of_rows is None:
            return read_matches(self.query, self.frame[list(chosen)])
        shown = self.frame[list(chosen)].rows(named=True)
        found = (
            replace(self.of_rows[number], row=row)
            for number, row in zip(chosen, shown, strict=True)
        )
        return Matches(self.query, self.clock.scale, tuple(found))


def found_in(rows: GivenRows) -> Found:
    """The matches of a query in rows, with all endpoints of their intervals."""
    if rows.query.rows is not None:
        return _of_row_pattern(rows)
    query = with_endpoints(rows.query)
    result = rows.run(query)
    frame, report, columns = checked_matches(query, result)
    scale = TimeScale.of(query, frame.schema[report])
    starts = pl.select(
        pl.min_horizontal(scale.ticks(frame[columns[s.name, "ts"]]) for s in query.present)
    ).to_series()
    return Found(query, rows, frame, starts, scale.ticks(frame[report]))


def _of_row_pattern(rows: GivenRows) -> Found:
    """The matches with rows: their measures, and as reports the times at which they are certain."""
    query, pattern = rows.query, rows.query.rows
    assert pattern is not None
    number = measures(f'MATCH_NUMBER() AS "{MATCH}"')
    one = replace(pattern, measures=(*pattern.measures, *number), all_rows=False)
    frame = rows.run(replace(query, rows=one))
    of = [*rows.keys, MATCH]
    found = {(*match.partition, match.row["match"]): match for match in row_matches(rows)}
    known = [found.get(key) for key in frame.select(columns_named(of)).rows()]
    matches = [match for match in known if match is not None]
    frame = frame.filter(pl.Series([match is not None for match in known], dtype=pl.Boolean))
    starts = pl.Series([match.start for match in matches], dtype=pl.Int64)
    reports = pl.Series([match.reported for match in matches], dtype=pl.Int64)
    return Found(query, rows, frame.drop(MATCH), starts, reports, matches)
