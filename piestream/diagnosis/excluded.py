"""The intervals that a NOT excludes beside a match that would be there without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.diagnosis.changes import wide
from piestream.diagnosis.intervals import bounds_of, runs
from piestream.diagnosis.parts import ID
from piestream.diagnosis.target import OPEN, Target
from piestream.language.absences import Absence
from piestream.language.distances import Distance
from piestream.language.parts import Constraint
from piestream.relations import Relation, relation_of

__all__ = [
    "Excluded",
    "Span",
    "difference",
    "excluded",
    "excluded_text",
    "lengths_of",
    "named",
    "satisfies",
]

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Excluded:
    """An interval of an absent symbol that satisfies all of its NOT, as far as is known."""

    symbol: str
    span: Span  # its times; what is open ends after all others
    instants: Span  # the same as they are compared
    events: int | None
    number: Any = None  # the ID of its row

    def text(self, target: Target) -> str:
        """It as it is shown."""
        return f"{self.symbol} [{target.shown(self.span[0])}, {target.shown(self.span[1])})"

    def held(self, target: Target, constraint: Constraint, match: Mapping[str, Any]) -> Relation:
        """In which relation of a constraint it is with an interval of a match."""
        instants = {
            name: self.instants if name == self.symbol else target.instants(name, match)
            for name in (constraint.x, constraint.y)
        }
        return relation_of(*instants[constraint.x], *instants[constraint.y])

    def follows_at_once(
        self, target: Target, constraint: Constraint, match: Mapping[str, Any]
    ) -> bool:
        """Whether no interval of two symbols that lie apart touches the gap between it and one of a match."""
        symbols = (constraint.x, constraint.y)
        (other,) = (name for name in symbols if name != self.symbol)
        first, later = sorted([self.instants, target.instants(other, match)])
        gap = (pl.col("start") < later[0]) & (pl.col("end") > first[1])
        goes_on = pl.col("open") & ~pl.col("interrupted") & pl.lit(not target.rows.closes)
        end = pl.when(goes_on).then(OPEN).otherwise("end").alias("end")
        found = (runs(target.rows, target.rows.query.symbol(name)) for name in symbols)
        return all(table.with_columns(end).filter(gap).is_empty() for table in found)

    def spans(
        self, target: Target, constraint: Constraint, match: Mapping[str, Any]
    ) -> dict[str, Span]:
        """The times of it and of the interval of a match that a constraint is about."""
        return {
            name: self.span if name == self.symbol else target.span(name, match)
            for name in (constraint.x, constraint.y)
        }


def excluded(target: Target, absence: Absence, match: Mapping[str, Any]) -> Iterator[Excluded]:
    """The intervals of an absent symbol that satisfy all of its NOT, as far as their ends are known."""
    for one in _intervals(target, absence.symbol, match):
        if satisfies(target, absence, one, match):
            yield one


def satisfies(target: Target, absence: Absence, one: Excluded, match: Mapping[str, Any]) -> bool:
    """Whether an interval of an absent symbol satisfies all of its NOT, as far as its end is known."""
    return all(_fits(target, one, c, match) for c in absence.constraints)


def named(target: Target, there: Sequence[Excluded]) -> str:
    """The first of some intervals, and how many more there are."""
    more = f" and {len(there) - 1:,} more" * (len(there) > 1)
    return f"{there[0].text(target)}{more}"


def excluded_text(target: Target, there: Sequence[Excluded]) -> str:
    """That these intervals are excluded, of which it is said why."""
    return f"{named(target, there)} {'is' if len(there) == 1 else 'are'} excluded:"


def _intervals(target: Target, name: str, match: Mapping[str, Any]) -> Iterator[Excluded]:
    """The valid intervals of an absent symbol that are none of the match's own."""
    rows, query = target.rows, target.rows.query
    symbol = query.symbol(name)
    found = runs(rows, symbol).filter(bounds_of(rows, symbol).valid(rows.closes))
    ended = pl.lit(True) if rows.closes else ~pl.col("open")
    ends = (pl.when(ended).then(end).otherwise(OPEN).alias(end) for end in ("te", "end"))
    id_of = [pl.col("id") if "id" in found.columns else pl.lit(None).alias("id")]
    own = [
        (target.instants(other.name, match), match.get(f"{ID}{other.name}"))
        for other in query.present
        if query.same_predicate(symbol, other)
        or (symbol.stream == other.stream and query.stream_of(name).is_ready_made)
    ]
    is_run = not query.stream_of(name).is_ready_made
    for row in found.with_columns(ends).select("ts", "te", "start", "end", "events", *id_of).rows():
        ts, te, start, end, events, number = row
        if any(start == o[0] if is_run else (start, end, number) == (*o, i) for o, i in own):
            continue
        yield Excluded(name, (ts, te), (start, end), events, number)


def _fits(target: Target, one: Excluded, constraint: Constraint, match: Mapping[str, Any]) -> bool:
    held = one.held(target, constraint, match)
    if not held & wide(constraint.relations):
        return False
    if not held & constraint.relations and not one.follows_at_once(target, constraint, match):
        return False
    spans = one.spans(target, constraint, match)
    lengths = lengths_of(target, one.symbol, constraint)
    return all(
        _keeps(distance, difference(distance, spans), length)
        for distance, length in zip(constraint.distances, lengths, strict=True)
    )


def lengths_of(target: Target, absent: str, constraint: Constraint) -> tuple[int, ...]:
    """The lengths of the distances in a constraint of a NOT, in ticks."""
    query = target.rows.query
    number = [absence.symbol for absence in query.absences].index(absent)
    place = query.absences[number].constraints.index(constraint)
    return target.rows.binding.compiled.ticks.absent_distances[number][place]


def difference(distance: Distance, spans: Mapping[str, Span]) -> int:
    """The time between the two endpoints that a distance is about."""
    end = spans[distance.symbol][distance.which == "te"]
    return end - spans[distance.other][distance.other_which == "te"]


def _keeps(distance: Distance, difference: int, length: int) -> bool:
    if distance.is_upper:
        return difference < length + (not distance.is_strict)
    return difference > length - (not distance.is_strict)
