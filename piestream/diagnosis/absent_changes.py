"""What could be changed in a NOT, or in what is absent, so that an expected match appears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from piestream.diagnosis.changes import Proposal, shift, wide, with_symbol
from piestream.diagnosis.excluded import (
    Excluded,
    Span,
    difference,
    excluded,
    excluded_text,
    lengths_of,
    named,
    satisfies,
)
from piestream.diagnosis.intervals import bounds_of
from piestream.diagnosis.moved_endpoints import moved_endpoint, moved_text, rows_with, step_of
from piestream.diagnosis.parts import (
    START,
    duration_of_ticks,
    forever,
    length_above,
    length_below,
    with_window,
    without_absences,
)
from piestream.diagnosis.target import OPEN, Target
from piestream.language.absences import Absence
from piestream.language.distances import distances_of, normalized
from piestream.language.model import Query
from piestream.language.parts import Constraint, StreamKind
from piestream.language.printer import absence_text
from piestream.relations import ANY, PRECISE_FORM, Relation, inverse, names, said
from piestream.show.table import cell_text

__all__ = ["absences"]


def absences(target: Target) -> Iterator[Proposal]:
    """A NOT, or an absent symbol, that leaves out the intervals that are there; or none of the NOT."""
    query = target.rows.query
    for absence in query.absences:
        without = without_absences(query, {absence.symbol})
        for match in target.nearest(without, lambda match: int(match["report"])):
            there = tuple(excluded(target, absence, match))
            if there:
                yield from _LeftOut(target, absence, match, there).proposals()
                text = f"{named(target, there)} is what {absence_text(absence)} excludes"
            else:
                text = _undecided(target, absence, match)
            yield Proposal("absence", without, 1, f"{text}; without it it matches")


def _undecided(target: Target, absence: Absence, match: dict[str, Any]) -> str:
    """That a NOT is decided too late for the windows, or not at all in the rows."""
    text, query = absence_text(absence), target.rows.query
    starts = [name for name in match if name.startswith(START)]
    whenever = with_window(query, forever(target.rows.time))

    def report(found: pl.DataFrame) -> int | None:
        same = [row for row in found.rows(named=True) if all(row[n] == match[n] for n in starts)]
        return same[0]["report"] if same else None

    at = report(target.matches(whenever))
    if at is not None:
        return f"{text} is not decided before {target.shown(at)} (WITHIN {query.within_text})"
    at = report(target.later(whenever))
    until = "" if at is None else f": if nothing more comes, it is at {target.shown(at)}"
    return f"{text} is not decided when the rows end{until}"


@dataclass(frozen=True)
class _LeftOut:
    """A match that is left out for some intervals of an absent symbol."""

    target: Target
    absence: Absence
    match: dict[str, Any]
    there: tuple[Excluded, ...]

    def proposals(self) -> Iterator[Proposal]:
        """The changes with which none of these intervals is what the NOT excludes."""
        yield from self._durations()
        yield from self._moved()
        for constraint in self.absence.constraints:
            yield from self._relations(constraint)
            for place in range(len(constraint.distances)):
                yield from self._distance(constraint, place)

    @property
    def _query(self) -> Query:
        return self.target.rows.query

    # -- how long it lasts ------------------------------------------------------------------------

    def _durations(self) -> Iterator[Proposal]:
        """Bounds that the intervals which are there do not keep."""
        bounds = bounds_of(self.target.rows, self._query.symbol(self.absence.symbol))
        ended = [one for one in self.there if one.span[1] != OPEN]
        if len(ended) < len(self.there):
            return
        lasts = [one.span[1] - one.span[0] for one in ended]
        if bounds.at_least is not None:
            longest = max(lasts)
            new = length_above(longest, self.target.rows.time)
            yield self._bound("at_least", bounds.at_least, longest, new)
        if bounds.at_most is not None and min(lasts) > 1:
            new = length_below(min(lasts), self.target.rows.time)
            yield self._bound("at_most", bounds.at_most, min(lasts), new)
        counts = [one.events for one in ended if one.events is not None]
        if bounds.fewest is not None and counts:
            most = max(counts)
            yield self._bound("at_least_events", bounds.fewest, most, most + 1)
        if bounds.most is not None and counts and min(counts) > 1:
            yield self._bound("at_most_events", bounds.most, min(counts), min(counts) - 1)

    def _bound(self, attribute: str, bound: int, reached: int, new: Any) -> Proposal:
        symbol = self._query.symbol(self.absence.symbol)
        is_least, of_events = attribute.startswith("at_least"), attribute.endswith("events")
        word, events = "AT LEAST" if is_least else "AT MOST", " EVENTS" * of_events
        one = "it" if len(self.there) == 1 else "the longest" if is_least else "the shortest"
        lasts = f"lasts {cell_text(self.target.length(reached))}"
        has = f"has {reached:,} events" if of_events else lasts
        was = f"{word} {getattr(symbol, attribute)}{events}"
        text = f"{self._excluded} {one} {has} ({was}); with {word} {new}{events} it matches"
        changed = with_symbol(self._query, replace(symbol, **{attribute: new}))
        return Proposal("duration", changed, abs(reached - bound) / max(bound, 1), text)

    @property
    def _excluded(self) -> str:
        return excluded_text(self.target, self.there)

    # -- where it begins and ends -----------------------------------------------------------------

    def _moved(self) -> Iterator[Proposal]:
        """The nearest other start, and end, of the only row that is there, with which it is not excluded."""
        symbol, is_one = self.absence.symbol, len(self.there) == 1
        source = self._query.stream_of(symbol)
        if source.kind is not StreamKind.INTERVALS or not is_one:
            return
        (one,) = self.there
        step = step_of(self.target)
        for which in (0, 1):
            was = one.span[which]
            near = {at + by for at in self._points(which) for by in (-step, 0, step)}
            for _, at in sorted((abs(at - was), at) for at in near):
                span = (at, one.span[1]) if which == 0 else (one.span[0], at)
                if OPEN in (was, at) or not span[0] < span[1] or at == was:
                    continue
                if not self._is_excluded_with(which, at, span):
                    yield self._with_endpoint(which, at)
                    break

    def _is_excluded_with(self, which: int, at: int, span: Span) -> bool:
        """Whether the row would still be what the NOT excludes, with another start or end."""
        (one,) = self.there
        if not self._query.is_sequenced:
            moved = replace(one, span=span, instants=span)
            return satisfies(self.target, self.absence, moved, self.match)
        # which instant a time is depends on all events, so it is tried
        elsewhere = moved_endpoint(self.target, one.symbol, one.span, one.number, which, at)
        return self.target.matches(self._query, rows_with(self.target, elsewhere)).is_empty()

    def _points(self, which: int) -> Iterator[int]:
        """Where an endpoint of the row may change what it is: at those of the match, and so far from them."""
        (one,) = self.there
        for constraint in self.absence.constraints:
            spans = one.spans(self.target, constraint, self.match)
            (other,) = (name for name in spans if name != one.symbol)
            yield from (at for at in spans[other] if at != OPEN)
            lengths = lengths_of(self.target, one.symbol, constraint)
            for distance, length in zip(constraint.distances, lengths, strict=True):
                if distance.symbol == one.symbol and (distance.which == "te") == which:
                    since = spans[other][distance.other_which == "te"]
                    yield from [since + length] * (since != OPEN)
                if distance.other == one.symbol and (distance.other_which == "te") == which:
                    end = spans[other][distance.which == "te"]
                    yield from [end - length] * (end != OPEN)

    def _with_endpoint(self, which: int, at: int) -> Proposal:
        (one,) = self.there
        moved = moved_endpoint(self.target, one.symbol, one.span, one.number, which, at)
        text = f"{one.text(self.target)} is what {absence_text(self.absence)} excludes"
        spans = [
            span
            for constraint in self.absence.constraints
            for span in one.spans(self.target, constraint, self.match).values()
        ]
        size = abs(at - one.span[which]) / max(min(end - start for start, end in spans), 1)
        text = f"{text}; with {moved_text(moved)} it matches"
        return Proposal("endpoint", self._query, size, text, moved)

    # -- how it lies to the match -----------------------------------------------------------------

    def _changed(self, constraint: Constraint, instead: Constraint) -> Query:
        """The query with another constraint in this NOT."""
        changed = replace(
            self.absence,
            constraints=tuple(instead if c == constraint else c for c in self.absence.constraints),
        )
        others = tuple(changed if one == self.absence else one for one in self._query.absences)
        return replace(self._query, absences=others)

    def _relations(self, constraint: Constraint) -> Iterator[Proposal]:
        """Without the relations in which the intervals are that are there."""
        held = Relation(0)
        for one in self.there:
            held |= one.held(self.target, constraint, self.match)
        held |= sum(precise for loose, precise in PRECISE_FORM.items() if held & loose)
        kept = constraint.relations & ~held
        if not kept or constraint.relations == ANY:
            return
        first, is_x = self.there[0], constraint.x == self.absence.symbol
        other = constraint.y if is_x else constraint.x
        start, end = (self.target.shown(at) for at in self.target.span(other, self.match))
        is_now, left, written = (
            some if is_x else inverse(some)
            for some in (
                first.held(self.target, constraint, self.match), kept, constraint.relations
            )
        )  # fmt: skip
        text = (
            f"{self._excluded} {names(is_now)[0]} {other} [{start}, {end}) (NOT: {said(written)}); "
            f"with {said(left)} in NOT it matches"
        )
        others = Relation(ANY & ~wide(constraint.relations))
        spans = [one.spans(self.target, constraint, self.match) for one in self.there]
        size = max(shift(of[constraint.x], of[constraint.y], others) for of in spans)
        instead = replace(constraint, relations=kept)
        yield Proposal("relation", self._changed(constraint, instead), size, text)

    def _distance(self, constraint: Constraint, place: int) -> Iterator[Proposal]:
        """A length with which none of the intervals that are there satisfies the NOT."""
        target, distance = self.target, constraint.distances[place]
        bound = lengths_of(target, self.absence.symbol, constraint)[place]
        found = [
            difference(distance, one.spans(target, constraint, self.match)) for one in self.there
        ]
        if max(map(abs, found)) >= OPEN >> 1:
            return
        nearest = min if distance.is_upper else max
        reached = nearest(found)
        length = duration_of_ticks(reached, target.rows.time)
        end, since = (distance.symbol, distance.which), (distance.other, distance.other_which)
        instead = distances_of(
            end, since, "<" if distance.is_upper else ">", length.amount, length.in_ticks
        )
        kept = constraint.distances[:place] + instead + constraint.distances[place + 1 :]
        fitting = replace(constraint, distances=normalized(constraint.x, constraint.y, kept))
        shown = cell_text(target.length(reached))
        text = (
            f"{self._excluded} {'.'.join(end)} - {'.'.join(since)} is {shown} (NOT: {distance}); "
            f"with {instead[0]} it matches"
        )
        size = abs(reached - bound) / max(bound, 1)
        yield Proposal("distance", self._changed(constraint, fitting), size, text)
