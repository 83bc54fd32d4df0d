"""How far a row pattern came where a match was expected, and at which row it stopped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import polars as pl

from piestream.diagnosis.row_conditions import (
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
    beginnings,
    parts_of,
)
from piestream.diagnosis.row_places import PLACE
from piestream.diagnosis.row_target import RowTarget
from piestream.language.row_pattern_text import row_pattern_text
from piestream.language.row_patterns import Anchor, Concatenation, PatternNode, SkipMode
from piestream.show.table import cell_text

__all__ = [
    "Failed", "Reached", "Skipped", "goes_on", "path_text", "reached", "skip_clause", "skipped",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failed:
    """A variable that the row behind could have been, if its condition held of it."""

    variable: str
    condition: str
    values: str  # of what the condition reads


@dataclass(frozen=True, slots=True)
class Reached:
    """The beginning of a match that was there: its rows and their variables, and what came then.

    ``parts`` is what of the pattern is complete; ``stopped_at`` the time of the first row that does not fit,
    None where there is none. Where several rows have one time, each is shown by its `Instant`.
    """

    path: tuple[tuple[Any, str], ...]
    parts: str
    stopped_at: Any
    failed: tuple[Failed, ...]
    reason: str = ""

    def lines(self) -> Iterator[str]:
        """What is said of it."""
        if not self.path and not self.reason:
            yield "no row there can be the first of a match"
        elif self.path:
            complete = f"; complete: {self.parts}" if self.parts else ""
            yield f"the pattern came to {path_text(self.path)}{complete}"
        if self.reason:
            yield self.reason
        for each in self.failed:
            values = f": {each.values}" if each.values else ""
            yield f"{cell_text(self.stopped_at)} is not {each.variable} ({each.condition}){values}"


@dataclass(frozen=True, slots=True)
class Skipped:
    """An earlier match behind which the search went on, so that none was looked for where it is asked."""

    first: Any
    last: Any
    until: Any  # the row at which the search went on; None behind the last one
    clause: str

    def __str__(self) -> str:
        onward = "is over" if self.until is None else f"goes on at {cell_text(self.until)}"
        return (
            f"skipped over: behind the match from {cell_text(self.first)} to {cell_text(self.last)} "
            f"the search {onward} ({self.clause})"
        )


def path_text(path: Sequence[tuple[Any, str]]) -> str:
    """The rows of a path, those of one variable put together.

    >>> path_text([(1, "A"), (2, "B"), (3, "B")])
    'A at 1, B from 2 to 3'
    """
    found = []
    for variable, group in groupby(path, key=lambda one: one[1]):
        times = [time for time, _ in group]
        where = f"at {cell_text(times[0])}"
        if len(times) > 1:
            where = f"from {cell_text(times[0])} to {cell_text(times[-1])}"
        found.append(f"{variable} {where}")
    return ", ".join(found)


def reached(target: RowTarget) -> Reached | None:
    """The beginning of a match that came farthest in the pattern, of these the longest."""
    parts = parts_of(target.pattern)
    if not target.expected:
        return Reached((), "", None, (), "there is no row in that time")
    for done in range(len(parts) - 1, -1, -1):
        grown = Concatenation((*parts[:done], beginnings(Concatenation(parts[done:]))))
        found = target.begun(target.longest(grown))
        if len(found):
            taken = [
                target.ticks(last) - target.ticks(first)
                for first, last in found.select(FIRST, LAST).rows()
            ]
            longest = max(range(len(taken)), key=lambda n: taken[n])
            start = found[FIRST][longest]
            return _stopped(
                target, grown, row_pattern_text(Concatenation(parts[:done])), int(start)
            )
    return _stopped(target, beginnings(target.pattern.pattern), "", target.expected[0])


def _stopped(target: RowTarget, grown: PatternNode, complete: str, start: int) -> Reached:
    """What the row behind the beginning of a match at one row would have had to be."""
    places = target.places
    every = target.rows_from(target.longest(grown), start)
    path = [(target.at(place), v) for place, v in every.select(PLACE, VARIABLE).rows()]
    behind = bisect_left(places, start) + len(path)
    if behind == len(places):
        return Reached(tuple(path), complete, None, (), "there is no row behind")
    at = places[behind]
    failed = tuple(_failures(target, grown, start, at))
    reason = "" if failed else _other_reason(target, start, at)
    return Reached(tuple(path), complete, target.at(at), failed, reason)


def _failures(target: RowTarget, grown: PatternNode, start: int, at: int) -> Iterator[Failed]:
    """The variables of which a row would go on with the match, if their conditions held."""
    query = target.longest(grown)
    assert query.rows is not None
    plain = conditions_and(query, "from")
    for variable in query.rows.variables:
        if shown_condition(query, variable) == "TRUE":
            continue
        held = {variable: f'({plain[variable]}) OR "here:" = 1'}
        items = items_of(query, variable)
        found = target.rows_from(with_items(query, items), start, held, [at])
        here = pl.col(PLACE) == at
        row = found.filter(here & (pl.col(VARIABLE) == variable)).head(1)
        if len(row):
            values = shown_values(items, items, row.row(0, named=True))
            yield Failed(variable, shown_condition(query, variable), values)


def _other_reason(target: RowTarget, start: int, at: int) -> str:
    """Why no row could go on with the match, whatever its conditions are."""
    pattern = target.pattern
    within = target.rows.binding.compiled.ticks.within
    took = target.ticks(at) - target.ticks(start)
    if pattern.within is not None and took > within:
        length = cell_text(target.length(took))
        return f"{target.shown(at)} is {length} behind the first row (WITHIN {pattern.within})"
    if any(isinstance(part, Anchor) and not part.at_start for part in parts_of(pattern)):
        return f"{target.shown(at)} is behind what should be the last row of the partition ($)"
    if any(isinstance(part, Anchor) for part in parts_of(pattern)):
        return "a match begins at the first row of the partition only (^)"
    return ""


def skip_clause(target: RowTarget) -> str:
    """AFTER MATCH SKIP as it is written."""
    skip = target.pattern.skip
    to = f" {skip.variable}" if skip.variable is not None else ""
    return f"AFTER MATCH SKIP {skip.mode.value}{to}"


def skipped(target: RowTarget) -> Skipped | None:
    """The match behind which the search went on past all that was asked for."""
    pattern = target.pattern
    if pattern.skip.mode is SkipMode.TO_NEXT_ROW:
        return None
    if not target.expected:
        return None
    found = target.everywhere.matches(target.rows.query)
    before = found.filter(pl.col(FIRST) < target.first).tail(1)
    if before.is_empty():
        return None
    number, first, last = before.select(MATCH, FIRST, LAST).row(0)
    onward = goes_on(target, number, first, last)
    if onward is not None and onward <= target.expected[-1]:
        return None
    until = None if onward is None else target.at(onward)
    return Skipped(target.at(first), target.at(last), until, skip_clause(target))


def goes_on(target: RowTarget, number: int, first: int, last: int) -> int | None:
    """The row at which the search goes on behind a match; None behind the last row."""
    skip = target.pattern.skip
    if skip.variable is None:
        last = first if skip.mode is SkipMode.TO_NEXT_ROW else last
        return target.following(last)
    every = target.every_row(target.rows.query).filter(pl.col(MATCH) == number)
    mine = every.filter(pl.col(VARIABLE).is_in(target.pattern.members(skip.variable)))
    places = mine[PLACE]
    found: Any = places.min() if skip.mode is SkipMode.TO_FIRST else places.max()
    return int(found)
