"""Where in the rows of a partition a match of a row pattern is expected."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.diagnosis.parts import partitioned_by
from piestream.diagnosis.row_conditions import conditions_and
from piestream.diagnosis.row_parts import (
    FIRST,
    MATCH,
    VARIABLE,
    measures,
    of_match,
    other_pattern,
    rewritten,
    with_all_rows,
)
from piestream.diagnosis.row_places import PLACE, Places, numbered
from piestream.diagnosis.rows import GivenRows
from piestream.diagnosis.target import Target
from piestream.expressions.columns import column_named
from piestream.expressions.diagnostics import QueryError
from piestream.language.model import Query
from piestream.language.row_patterns import (
    EmptyMatches,
    MatchMode,
    PatternNode,
    RowPattern,
    Skip,
    SkipMode,
)
from piestream.show.table import cell_text

if TYPE_CHECKING:
    from typing import Self

__all__ = ["RowTarget"]

#: Of more places where a match is expected, only matches that do not overlap are looked at.
_MOST_PLACES = 1_000


class RowTarget(Target):
    """Where a match is expected: its first row lies between ``first`` and ``last``, which are places.

    For each variable in ``near`` it has a row between two places. The rows are `numbered`.
    """

    @classmethod
    def between(
        cls, rows: GivenRows, first: int, last: int, near: Mapping[str, tuple[int, int]]
    ) -> Self:
        """The same of times in ticks."""
        rows, _ = numbered(rows)
        places = Places.of(rows)

        def span(start: int, end: int) -> tuple[int, int]:
            """The first place that is not before a time, and the last one that is not behind another."""
            inside = places.numbers[
                bisect_left(places.times, start) : bisect_right(places.times, end)
            ]
            return (inside[0], inside[-1]) if inside else (INT64_MAX, INT64_MIN)

        found = {name: span(*ends) for name, ends in near.items()}
        return cls(rows, *span(first, last), found)

    @property
    def pattern(self) -> RowPattern:
        """The row pattern."""
        assert self.rows.query.rows is not None
        return self.rows.query.rows

    @cached_property
    def _rows(self) -> Places:
        return Places.of(self.rows)

    @property
    def places(self) -> list[int]:
        """The places of the partition's rows, in order."""
        return self._rows.numbers

    @property
    def expected(self) -> list[int]:
        """Those at which a match may begin."""
        return self.places[
            bisect_left(self.places, self.first) : bisect_right(self.places, self.last)
        ]

    def at(self, place: int) -> Any:
        """What shows a row: its time, or its `Instant`."""
        return self._rows.shown[bisect_left(self.places, place)]

    def shown(self, place: int) -> str:
        """The same in words."""
        return cell_text(self.at(place))

    def ticks(self, place: int) -> int:
        """The time of a row."""
        return self._rows.times[bisect_left(self.places, place)]

    @property
    def duration(self) -> int:
        """The time from the first row to the last one."""
        return self._rows.times[-1] - self._rows.times[0] if self.places else 0

    def upto(self, time: int) -> int:
        """How many rows there are up to a time."""
        return bisect_right(self._rows.times, time)

    def following(self, place: int) -> int | None:
        """The place behind another one, if there is a row."""
        behind = bisect_right(self.places, place)
        return self.places[behind] if behind < len(self.places) else None

    @property
    def everywhere(self) -> Self:
        """The same rows, with a match expected at each."""
        ends = (self.places[0], self.places[-1]) if self.places else (INT64_MAX, INT64_MIN)
        return type(self)(self.rows, *ends, {})

    def matches(self, query: Query, rows: GivenRows | None = None) -> pl.DataFrame:
        """The matches with rows of a query where one is expected: the places of first and last row."""
        rows = rows or self.rows
        assert query.rows is not None
        plain = replace(query.rows, measures=of_match(PLACE), all_rows=False)
        found = rows.run(replace(query, rows=plain))
        found = found.drop_nulls(FIRST)
        found = found.filter(pl.col(FIRST).is_between(self.first, self.last))
        if not self.near or found.is_empty():
            return found
        return self._near(query, rows, found)

    def _near(self, query: Query, rows: GivenRows, found: pl.DataFrame) -> pl.DataFrame:
        """Those that have rows of some variables where they are asked for."""
        assert query.rows is not None
        every = self.every_row(query, rows)
        of = [*query.partition_by, MATCH]
        place = pl.col(PLACE)
        for name, (start, end) in self.near.items():
            mine = pl.col(VARIABLE).is_in(query.rows.members(name)) & place.is_between(start, end)
            keys = every.filter(mine).select(map(column_named, of)).unique()
            found = found.join(keys, on=of, how="semi", nulls_equal=True, maintain_order="left")
        return found

    def every_row(self, query: Query, rows: GivenRows | None = None) -> pl.DataFrame:
        """All rows of the matches of a query, with the number of their match and their variable.

        Beside them the measures that the query has.
        """
        rows = rows or self.rows
        pattern = query.rows
        assert pattern is not None
        told = measures(
            f'MATCH_NUMBER() AS "{MATCH}", CLASSIFIER() AS "{VARIABLE}", FIRST("{PLACE}") AS "{FIRST}"'
        )
        own = tuple(m for m in pattern.measures if m.alias not in (MATCH, VARIABLE, FIRST))
        shown = replace(
            pattern,
            pattern=with_all_rows(pattern.pattern),
            measures=(*told, *own),
            all_rows=True,
            empty_matches=EmptyMatches.OMIT,
        )
        return rows.run(replace(query, rows=shown))

    def placed(self, query: Query) -> tuple[Query, GivenRows]:
        """A query whose matches begin where one is expected, whatever there is before; and its rows.

        Of very many places some are left out that lie in a match that begins before.
        """
        assert query.rows is not None
        n_places = len(self.expected)
        is_one = n_places == 1 or n_places > _MOST_PLACES
        until = self._until(query, self.expected[-1]) if n_places else None
        rows = self.marked(self.first, (), until)
        return self._from_marks(query, is_one, {}), rows

    def begun(self, query: Query, tried: pl.DataFrame | None = None) -> pl.DataFrame:
        """The matches of a query that begin where one is expected, whatever there is before.

        They are looked for with each value that is ``tried``, a column that the query reads.
        """
        asked, rows = self.placed(query)
        if tried is not None:
            (column,) = tried.columns
            asked = partitioned_by(asked, column)
            crossed = {k: f.join(tried, how="cross") for k, f in rows.inputs.items()}
            rows = rows.with_inputs(crossed)
        return self.matches(asked, rows)

    def rows_from(
        self, query: Query, start: int, conditions: Mapping[str, str] | None = None,
        here: Sequence[int] = (),
    ) -> pl.DataFrame:  # fmt: skip
        """All rows of the match of a query that begins at one row, whatever matches there are before.

        The rows at the places ``here`` have a mark that ``conditions`` may read.
        """
        only = self._from_marks(query, True, conditions or {})
        found = self.every_row(only, self.marked(start, here, self._until(query, start)))
        return found.filter(pl.col(FIRST) == start)

    def _from_marks(self, query: Query, is_one: bool, conditions: Mapping[str, str]) -> Query:
        """A query whose matches have marked rows alone; of those that overlap, perhaps one."""
        assert query.rows is not None
        past = is_one and query.rows.mode is not MatchMode.INCREMENTAL
        onward = SkipMode.PAST_LAST_ROW if past else SkipMode.TO_NEXT_ROW
        plain = replace(query, rows=replace(query.rows, skip=Skip(onward)))
        return rewritten(plain, {**conditions_and(query, "from"), **conditions})

    def _until(self, query: Query, last: int) -> int | None:
        """The last row that matters to matches that begin up to another one; None if all rows may."""
        pattern = query.rows
        assert pattern is not None
        if pattern.within is None:
            return None
        within = self.rows.time.ticks(pattern.within, "WITHIN")
        read = [item for condition in pattern.conditions for _, item in condition.all_items]
        read += [item for measure in pattern.measures for _, item in measure.items]
        ahead = max([0, *(item.shift for item in read)])
        behind = self.upto(self.ticks(last) + within) + ahead
        return self.places[behind] if behind < len(self.places) else None

    def longest(self, pattern: PatternNode) -> Query:
        """The longest matches of another pattern that begin at each row, within WITHIN."""
        changes = {"within": self.pattern.within, "mode": MatchMode.MAXIMAL}
        return other_pattern(self.rows.query, pattern, **changes)

    def can_begin(self, query: Query) -> bool:
        """Whether a match of a changed query can begin where one is expected, whatever SKIP says."""
        try:
            return len(self.begun(query)) > 0
        except QueryError:  # it would be too large
            return False

    def marked(self, since: int, here: Sequence[int], until: int | None) -> GivenRows:
        """The rows up to a place, with marks of those from one on, and of those at some places."""
        rows, place = self.rows, pl.col(PLACE)
        marks = {"from:": place >= since, "here:": place.is_in(list(here))}
        columns = [mark.cast(pl.Int64).fill_null(0).alias(name) for name, mark in marks.items()]
        kept = pl.lit(True) if until is None else (place <= until)
        return rows.with_inputs(
            {key: frame.filter(kept).with_columns(columns) for key, frame in rows.inputs.items()}
        )
