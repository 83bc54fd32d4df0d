"""Why a match of a row pattern is one: its rows, what was chosen, and what made it certain."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from piestream.diagnosis.history import MatchInterval
from piestream.diagnosis.partition import numbers_of
from piestream.diagnosis.row_conditions import (
    certain_parts,
    conditions_and,
    items_of,
    shown_condition,
    shown_values,
    with_items,
)
from piestream.diagnosis.row_parts import (
    FIRST,
    LAST,
    MATCH,
    VARIABLE,
    of_match,
    other_pattern,
    places_in,
    rewritten,
)
from piestream.diagnosis.row_patterns import row_stretches
from piestream.diagnosis.row_places import PLACE, Instant, numbered
from piestream.diagnosis.row_reached import goes_on, path_text, skip_clause
from piestream.diagnosis.row_target import RowTarget
from piestream.diagnosis.rows import GivenRows, in_partition
from piestream.language.model import Query
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_patterns import (
    Alternation,
    MatchMode,
    PatternNode,
    Repetition,
    Skip,
    SkipMode,
)
from piestream.language.row_printer import row_condition_text

__all__ = ["RowHistory", "RowOfMatch"]

#: So many matches that were left out are named.
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class RowOfMatch:
    """A row of a match: its time, the variable that it is, the condition, and what that reads there.

    Where several rows have one time, ``sequence`` is what tells it apart: its value of that column, or
    with ROW its number among those of its time, from 1 on.
    """

    time: Any
    variable: str
    condition: str
    values: str
    sequence: Any = None


@dataclass(frozen=True)
class RowHistory:
    """A match of a row pattern in the rows of its partition; ``first`` and ``last`` are places."""

    target: RowTarget
    number: int
    first: int
    last: int

    @classmethod
    def of(cls, rows: GivenRows, row: Mapping[str, Any]) -> RowHistory:
        """The history of the match that a row of the result is about."""
        rows, _ = numbered(rows)
        found = _found(rows, row)
        target = RowTarget(rows, found[FIRST], found[FIRST], {})
        return cls(target, found[MATCH], found[FIRST], found[LAST])

    @property
    def _query(self) -> Query:
        return self.target.rows.query

    # -- its rows ---------------------------------------------------------------------------------

    def rows(self) -> Iterator[RowOfMatch]:
        """Its rows, in order."""
        query = self._query
        assert query.rows is not None
        read = {name: items_of(query, name) for name in query.rows.variables}
        items = list(dict.fromkeys(text for texts in read.values() for text in texts))
        every = self.target.every_row(with_items(query, items))
        for row in every.filter(pl.col(MATCH) == self.number).iter_rows(named=True):
            variable, at = row[VARIABLE], self.target.at(row[PLACE])
            is_instant = isinstance(at, Instant)
            yield RowOfMatch(
                at.time if is_instant else at,
                variable,
                shown_condition(query, variable),
                shown_values(items, read[variable], row),
                at.value if is_instant else None,
            )

    def intervals(self) -> Iterator[MatchInterval]:
        """The stretches of its rows that are of one variable."""
        found = row_stretches(self.target.rows).filter(pl.col(MATCH) == self.number)
        for variable, start, end, events in found.select(VARIABLE, "ts", "te", "events").rows():
            te = None if end is None else self.target.time(end)
            since = self.reported_at
            yield MatchInterval(variable, self.target.time(start), te, events, since)

    # -- what was chosen --------------------------------------------------------------------------

    def choices(self) -> Iterator[str]:
        """Where the search for it began, and what it preferred to what."""
        yield from self._begun()
        pattern = self.target.pattern
        if pattern.mode is MatchMode.MAXIMAL:
            yield "MAXIMAL MATCH: it is the longest that begins at its first row"
        elif pattern.mode is MatchMode.INCREMENTAL:
            yield "INCREMENTAL MATCH: it is the longest that ends at its last row"
        else:
            yield from self._preferred()
        yield from self._left_out()

    def _begun(self) -> Iterator[str]:
        """The match before it, behind which the search went on."""
        if self.target.pattern.skip.mode is SkipMode.TO_NEXT_ROW:
            return
        before = self._matches.filter(pl.col(MATCH) < self.number).tail(1)
        for number, first, last in before.select(MATCH, FIRST, LAST).rows():
            at = goes_on(self.target, number, first, last)
            if at is not None:
                yield (
                    f"behind the match from {self.target.shown(first)} to {self.target.shown(last)} the search "
                    f"went on at {self.target.shown(at)} ({skip_clause(self.target)})"
                )

    @cached_property
    def _matches(self) -> pl.DataFrame:
        """All matches with rows of the partition."""
        return self.target.everywhere.matches(self._query)

    def _path(self, pattern: PatternNode) -> list[tuple[Any, str]]:
        """The rows of the match of another pattern that begins where this one does."""
        other = other_pattern(self._query, pattern, within=self.target.pattern.within)
        found = self.target.rows_from(other, self.first)
        rows = found.select(PLACE, VARIABLE).rows()
        return [(self.target.at(place), variable) for place, variable in rows]

    def _preferred(self) -> Iterator[str]:
        """The quantifiers and alternatives without which it would be another match."""
        pattern = self.target.pattern.pattern
        own = self._path(pattern)
        for part, whole in places_in(pattern):
            match part:
                case Repetition(_, least, most, is_greedy) if least != most:
                    how, else_how = ("greedy", "reluctant")[:: 1 if is_greedy else -1]
                    path = self._path(whole(replace(part, is_greedy=not is_greedy)))
                case Alternation(parts):
                    how, else_how = "tried from left to right", "from right to left"
                    path = self._path(whole(Alternation(parts[::-1])))
                case _:
                    continue
            if path != own:
                instead = f"be {path_text(path)}" if path else "have no rows"
                yield f"{row_pattern_text(part)} is {how}: {else_how}, the match would {instead}"

    def _left_out(self) -> Iterator[str]:
        """Matches that begin in it, and are not given."""
        target = self.target
        onward = goes_on(target, self.number, self.first, self.last)
        until = target.places[-1] + 1 if onward is None else onward
        inside = [place for place in target.places if self.first < place < until]
        if not inside:
            return
        every = replace(target.pattern, skip=Skip(SkipMode.TO_NEXT_ROW))
        within = RowTarget(target.rows, inside[0], inside[-1], {})
        starts = within.matches(replace(self._query, rows=every))[FIRST].to_list()
        if starts:
            named = ", ".join(map(self.target.shown, starts[:_MOST_NAMED]))
            more = f" and {len(starts) - _MOST_NAMED} more" * (len(starts) > _MOST_NAMED)
            yield f"left out, because they begin in it: those at {named}{more} ({skip_clause(target)})"

    # -- when it was certain ----------------------------------------------------------------------

    @cached_property
    def _decided(self) -> int | None:
        """The row with which it is given; None if only the end of the rows decides."""
        places = self.target.places
        low = first = bisect_left(places, self.last)
        high = len(places)
        step = 1
        while first + step < high:  # most are decided soon
            if self._given(self._query, self._upto(places[first + step - 1])) is not None:
                high = first + step - 1
                break
            low, step = first + step, 2 * step
        while low < high:
            middle = (low + high) // 2
            if self._given(self._query, self._upto(places[middle])) is not None:
                high = middle
            else:
                low = middle + 1
        return places[low] if low < len(places) else None

    @property
    def reported_at(self) -> Any:
        """The time of the row with which it is given, at the latest the last."""
        at = self._decided
        place = self.target.places[-1] if at is None else at
        return self.target.time(self.target.ticks(place))

    def waited_for(self) -> Iterator[str]:
        """What made it certain: its last row, or a row behind that does not go on with it."""
        at = self._decided
        if at is not None and at == self.last:
            yield "its last row: whatever comes next, it is the match"
            return
        open_ways = list(self._open_ways(at))
        if at is None:
            go_on = " or ".join(open_ways)
            yield "the end of the rows" + (
                f": the row behind might have been {go_on}" * bool(go_on)
            )
            return
        yield from open_ways
        if not open_ways:
            yield self._other_reason(at)

    def _other_reason(self, at: int) -> str:
        pattern = self.target.pattern
        within = self.target.rows.binding.compiled.ticks.within
        taken = self.target.ticks(at) - self.target.ticks(self.first)
        # where several rows have one time, another one may still come at the last that WITHIN allows
        if pattern.within is not None and taken >= within + self._query.is_sequenced:
            return f"the row at {self.target.shown(at)}: WITHIN {pattern.within} is over"
        conditions = [items for condition in pattern.conditions for items in condition.all_items]
        measures = [items for measure in pattern.measures for items in measure.items]
        if any(item.shift > 0 for _, item in (*conditions, *measures)):
            return f"the row at {self.target.shown(at)}: NEXT reads rows behind"
        return f"the row at {self.target.shown(at)}: with it the matches before are certain, which come first"

    def _open_ways(self, at: int | None) -> Iterator[str]:
        """The variables of which the row that decided would have gone on with another match."""
        query = self._query
        assert query.rows is not None
        behind = self.target.places[-1] + 1 if at is None else at
        rows = self._upto(behind)
        if at is None:
            last = self.target.ticks(self.target.places[-1])
            time = self.target.time(last + (not query.is_sequenced))
            fake = pl.DataFrame({self.target.rows.time.name: [time], PLACE: [behind]})
            keys = {name: rows[name][0] for name in self.target.rows.keys}
            fake = fake.with_columns(pl.lit(v).alias(name) for name, v in keys.items())
            types = {name: rows.schema[name] for name in fake.columns}
            rows = pl.concat([rows, fake.cast(types)], how="diagonal")  # type: ignore[arg-type]
        rows = rows.with_columns((pl.col(PLACE) == behind).cast(pl.Int64).alias("here:"))
        for variable in query.rows.variables:
            if at is None and query.symbol(variable).predicate.is_never_true:
                continue
            other = rewritten(query, self._only_way(variable, at is None))
            if self._given(other, rows) == (self.first, self.last):
                continue
            if at is None:
                yield variable
            else:
                condition, values = shown_condition(query, variable), self._values(variable, behind)
                yield f"{self.target.shown(behind)}, which is not {variable} ({condition}){values}"

    def _only_way(self, variable: str, is_end: bool) -> dict[str, str]:
        """The conditions with which the row behind is of a variable, at the end of no other one.

        There its values are not known: only what does not depend on them need be true.
        """
        query = self._query
        assert query.rows is not None
        text = row_condition_text(query, variable)
        held = f'({text}) OR "here:" = 1' if text else '"here:" >= 0'
        if not is_end:
            return {variable: held}
        found = {}
        for name in query.rows.variables:
            other = row_condition_text(query, name)
            found[name] = f'({other}) AND "here:" = 0' if other else '"here:" = 0'
        if text:
            here = " AND ".join(['"here:" = 1', *certain_parts(query, variable)])
            held = f'(({text}) AND "here:" = 0) OR ({here})'
        return {**found, variable: held}

    def _values(self, variable: str, at: int) -> str:
        """What the condition of a variable reads at the row that might have gone on with the match."""
        query = self._query
        marked = conditions_and(query, "from")[variable]
        held = {variable: f'({marked}) OR "here:" = 1'}
        items = items_of(query, variable)
        found = self.target.rows_from(with_items(query, items), self.first, held, [at])
        here = (pl.col(PLACE) == at) & (pl.col(VARIABLE) == variable)
        row = found.filter(here).head(1)
        values = shown_values(items, items, row.row(0, named=True)) if len(row) else ""
        return f": {values}" if values else ""

    def _upto(self, place: int) -> pl.DataFrame:
        """The rows of the partition up to a place, in order."""
        rows = self.target.rows
        (frame,) = rows.inputs.values()
        if rows.partition:
            frame = frame.filter(in_partition(frame.schema, rows.partition))
        return frame.filter(pl.col(PLACE) <= place).sort(PLACE, maintain_order=True)

    def _given(self, query: Query, frame: pl.DataFrame) -> tuple[int, int] | None:
        """The first and the last row of the match of this number, if a session has given it by then."""
        assert query.rows is not None
        own = tuple(m for m in query.rows.measures if m.alias not in (MATCH, FIRST, LAST))
        asked = replace(query.rows, measures=(*of_match(PLACE), *own), all_rows=False)
        query = replace(query, rows=asked)
        if query.is_sequenced:  # what orders rows, orders their places
            stream = replace(query.streams[0], sequence=PLACE, row_order=False)
            query = replace(query, streams=(stream,))
        session = query.open(ties=self.target.rows.options.ties)
        found = session.push(frame).filter(pl.col(MATCH) == self.number).select(FIRST, LAST)
        return found.row(0) if len(found) else None


def _found(rows: GivenRows, row: Mapping[str, Any]) -> dict[str, Any]:
    """The number of a match, and the places of its first and last row."""
    query = rows.query
    assert query.rows is not None
    own = tuple(m for m in query.rows.measures)
    asked = replace(query.rows, measures=(*own, *of_match(PLACE)))
    result = rows.run(replace(query, rows=asked))
    same = numbers_of(result, row)
    numbers = result[same][MATCH].unique().drop_nulls().to_list()
    if not numbers:
        raise ValueError("this row is of no match")
    if len(numbers) > 1:
        raise ValueError(
            f"{len(numbers)} matches have these values: give the whole row, and let MEASURES have "
            "MATCH_NUMBER() AS match, which tells them apart"
        )
    plain_rows = replace(query.rows, measures=of_match(PLACE), all_rows=False)
    found = rows.run(replace(query, rows=plain_rows)).filter(pl.col(MATCH) == numbers[0])
    told = found.row(0, named=True)
    if told[FIRST] is None:
        raise ValueError("this match has no rows: nothing can be said of them")
    return told
