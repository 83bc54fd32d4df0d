"""What diagnoses say of absences: the intervals that are there, and when none could come any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from piestream.diagnosis.changes import Proposal
from piestream.diagnosis.intervals import bounds_of, runs
from piestream.diagnosis.parts import (
    duration_of_ticks,
    forever,
    identity,
    with_window,
    without_absences,
)
from piestream.diagnosis.target import OPEN, Target
from piestream.language.absences import Absence
from piestream.language.distances import Distance, distances_of, normalized
from piestream.language.emission import NO_LIMITS
from piestream.language.model import Query
from piestream.language.parts import Constraint, Emit
from piestream.language.printer import absence_text
from piestream.plan.columns import TimeColumn
from piestream.relations import relation_of
from piestream.show.table import cell_text

__all__ = ["AbsenceDecision", "absences", "alone"]

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AbsenceDecision:
    """A NOT of a match, and from when on no interval could satisfy it, the match being there."""

    text: str
    symbol: str
    decided_at: Any


def alone(query: Query, absence: Absence, time: TimeColumn) -> Query:
    """The matches of a query with one of its absences alone, each when that is decided."""
    others = {other.symbol for other in query.absences} - {absence.symbol}
    part = with_window(without_absences(query, others), forever(time))
    return replace(part, returns=identity(part), emit=Emit.TRIGGER, where=None, limits=NO_LIMITS)


def absences(target: Target) -> Iterator[Proposal]:
    """Shorter distances in a NOT, which leave out the intervals that are there; or none of it."""
    query = target.rows.query
    for absence in query.absences:
        without = without_absences(query, {absence.symbol})
        for match in target.nearest(without, lambda match: int(match["report"])):
            there = list(_satisfying(target, absence, match))
            for constraint in absence.constraints:
                for place in range(len(constraint.distances)):
                    yield from _other_distance(target, absence, constraint, place, match, there)
            yield Proposal("absence", without, 1, _without_text(target, absence, there))


def _without_text(target: Target, absence: Absence, there: list[Span]) -> str:
    text = absence_text(absence)
    if not there:
        return f"{text} is not decided in time; without it it matches"
    start, end = there[0]
    more = f" and {len(there) - 1:,} more" * (len(there) > 1)
    shown = f"[{target.shown(start)}, {target.shown(end)})"
    return f"{absence.symbol} {shown}{more} is what {text} excludes; without it it matches"


def _satisfying(target: Target, absence: Absence, match: dict[str, Any]) -> Iterator[Span]:
    """The intervals of an absent symbol that satisfy all of its NOT, as far as their ends are known."""
    rows, symbol = target.rows, target.rows.query.symbol(absence.symbol)
    found = runs(rows, symbol).filter(bounds_of(rows, symbol).valid(rows.closes))
    ended = pl.lit(True) if rows.closes else ~pl.col("open")
    ends = (pl.when(ended).then(end).otherwise(OPEN).alias(end) for end in ("te", "end"))
    for start, start_instant, end, end_instant in found.select("ts", "start", *ends).rows():
        span, instants = (start, end), (start_instant, end_instant)
        if all(
            _fits(target, absence.symbol, c, span, instants, match) for c in absence.constraints
        ):
            yield span


def _fits(
    target: Target,
    absent: str,
    constraint: Constraint,
    span: Span,
    instants: Span,
    match: dict[str, Any],
) -> bool:
    names = constraint.x, constraint.y
    compared = {name: target.instants(name, match) for name in names if name != absent}
    compared[absent] = instants
    if not relation_of(*compared[names[0]], *compared[names[1]]) & constraint.relations:
        return False
    of = {name: span if name == absent else target.span(name, match) for name in names}
    lengths = _lengths(target, absent, constraint)
    return all(
        _keeps(distance, _difference(distance, of), length)
        for distance, length in zip(constraint.distances, lengths, strict=True)
    )


def _lengths(target: Target, absent: str, constraint: Constraint) -> tuple[int, ...]:
    """The lengths of a constraint's distances, in ticks."""
    query = target.rows.query
    number = [absence.symbol for absence in query.absences].index(absent)
    place = query.absences[number].constraints.index(constraint)
    return target.rows.binding.compiled.ticks.absent_distances[number][place]


def _difference(distance: Distance, of: dict[str, Span]) -> int:
    end = of[distance.symbol][distance.which == "te"]
    return end - of[distance.other][distance.other_which == "te"]


def _keeps(distance: Distance, difference: int, length: int) -> bool:
    if distance.is_upper:
        return difference < length + (not distance.is_strict)
    return difference > length - (not distance.is_strict)


def _other_distance(
    target: Target,
    absence: Absence,
    constraint: Constraint,
    place: int,
    match: dict[str, Any],
    there: list[Span],
) -> Iterator[Proposal]:
    """A length with which none of the intervals that are there satisfies the NOT."""
    distance = constraint.distances[place]
    bound = _lengths(target, absence.symbol, constraint)[place]
    other = constraint.y if constraint.x == absence.symbol else constraint.x
    spans = {other: target.span(other, match)}
    found = [_difference(distance, {**spans, absence.symbol: span}) for span in there]
    if not found or max(map(abs, found)) >= OPEN >> 1:
        return
    reached = min(found) if distance.is_upper else max(found)
    length = duration_of_ticks(reached, target.rows.time)
    end, since = (distance.symbol, distance.which), (distance.other, distance.other_which)
    instead = distances_of(
        end, since, "<" if distance.is_upper else ">", length.amount, length.in_ticks
    )
    kept = constraint.distances[:place] + instead + constraint.distances[place + 1 :]
    fitting = replace(constraint, distances=normalized(constraint.x, constraint.y, kept))
    changed = replace(
        absence,
        constraints=tuple(fitting if c == constraint else c for c in absence.constraints),
    )
    query = target.rows.query
    others = tuple(changed if one == absence else one for one in query.absences)
    shown = cell_text(target.length(reached))
    text = (
        f"{'.'.join(end)} - {'.'.join(since)} is {shown} (NOT: {distance}); "
        f"with {instead[0]} it matches"
    )
    size = abs(reached - bound) / max(bound, 1)
    yield Proposal("distance", replace(query, absences=others), size, text)
