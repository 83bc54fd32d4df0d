"""Matches of queries over streams, by enumeration: all combinations of intervals, and all that may come of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from piestream.language.emission import NO_LIMITS
from piestream.language.model import Query
from piestream.language.parts import (
    Aggregate,
    DurationOf,
    Emit,
    Endpoint,
    RelationOf,
    Return,
    Source,
    Value,
)
from tests.oracle.absences import Absences
from tests.oracle.history import History
from tests.oracle.known import Known
from tests.oracle.limits import Reported, given, in_windows
from tests.oracle.pairs import Pairs
from tests.oracle.reading import (
    END,
    KNOWN,
    START,
    WHERE,
    Inputs,
    Row,
    TieError,
    of_each_key,
    row_matches,
)
from tests.oracle.rules import AGGREGATES, value_of
from tests.truth import Past

__all__ = [
    "WHERE", "AmbiguousOrderError", "Inputs", "Partition", "TieError", "TooManyMatchesError", "matches", "partitions",
]  # fmt: skip

Time = Fraction | int


class TooManyMatchesError(ValueError):
    """More matches than the caller wants to see."""


class AmbiguousOrderError(ValueError):
    """Limits on what is emitted, and matches of which nothing says which is the first."""


@dataclass(frozen=True)
class _Report:
    """A match with the instant of its first report, and that at which all of its ends are known."""

    at: Time
    starts: list[Time]
    bound: dict[str, Known]
    completion: Time | None


def matches(query: Query, inputs: Inputs) -> list[dict[str, Any]]:
    """The rows that a query has on these inputs, partition by partition."""
    return [row for row, _, _ in _reports(query, inputs, inputs.truth)]


def partitions(
    query: Query, inputs: Inputs, truth: Mapping[str, Any] | None = None
) -> Iterator[tuple[dict[str, Any], Partition]]:
    """The partitions of a query on these inputs, each with its key."""
    truth = inputs.truth if truth is None else truth
    streams = [_rows(source, inputs, truth) for source in query.streams]
    for key, own in of_each_key(query, streams):
        yield key, Partition(History(query, inputs, truth, own))


def _reports(
    query: Query, inputs: Inputs, truth: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Each row, with the earliest start and the latest end of its match where it is complete."""
    for key, partition in partitions(query, inputs, truth):
        for row, start, end in partition.rows():
            yield key | row, start, end


def _rows(source: Source, inputs: Inputs, truth: Mapping[str, Any]) -> list[Row]:
    if source.silence is not None:
        return []
    if source.query is None:
        return list(inputs.rows[str(source.name)])
    inner = truth[str(source.name)]
    if source.query.rows is not None:
        found = row_matches(source.query, inputs, inner)
        return [row for row in found if row[START] < row[END]]
    return [
        {**row, START: start, END: end, KNOWN: max(end, row["completed_at"])}
        for row, start, end in _reports(source.query, inputs, inner)
        if start < end
    ]


class Partition:
    """The matches of a partition."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.pairs = Pairs(history, history.query.constraints)
        self.absences = Absences(history)
        self.query, self.inputs = history.query, history.inputs
        self._tried = 0

    def combinations(self) -> Iterator[tuple[dict[str, Known], Time]]:
        """One interval for each symbol such that all pairs keep their constraints, and when it is triggered."""
        names = sorted(symbol.name for symbol in self.query.present)
        yield from self._bindings({}, names, -(1 << 70))

    def _bindings(
        self, bound: dict[str, Known], names: list[str], trigger: Time
    ) -> Iterator[tuple[dict[str, Known], Time]]:
        if not names:
            yield bound, trigger
            return
        name = next(
            (n for n in names if any((n, b) in self.pairs.allowed for b in bound)), names[0]
        )
        rest = [other for other in names if other != name]
        for known in self.history.valid[name]:
            assert known.valid is not None
            latest, agrees = max(trigger, known.valid), True
            self._tried += 1
            if self._tried > 20 * self.inputs.most:
                raise TooManyMatchesError("too many combinations in one partition")
            for other, its in bound.items():
                if self.history.same(name, known, other, its):
                    agrees = False
                elif (name, other) in self.pairs.allowed:
                    decided = self.pairs.decided(name, other, known, its)
                    agrees = decided is not None
                    latest = max(latest, decided or 0) if decided is not None else latest
                if not agrees:
                    break
            if agrees:
                yield from self._bindings(bound | {name: known}, rest, latest)

    def rows(self) -> list[tuple[dict[str, Any], int, int]]:
        names = sorted(symbol.name for symbol in self.query.present)
        emit = self.query.emit
        first: list[_Report] = []
        for count, (bound, triggered) in enumerate(self.combinations()):
            if count >= self.inputs.most:
                raise TooManyMatchesError("too many matches in one partition")
            trigger: Time | None = triggered
            if self.absences.groups:
                trigger = self.absences.decided(bound, triggered)
                if trigger is None:
                    continue
            began = {name: math.floor(known.start) for name, known in bound.items()}
            completion = self.completion(bound, trigger)
            at = completion if emit is Emit.COMPLETION else trigger
            if (
                at is not None
                and in_windows(self.query, self.history.clock, began, self.history.taken(at))
                and self._is_wanted(bound, at)
            ):
                first.append(_Report(at, [bound[name].start for name in names], bound, completion))
        reports = []
        for one in self._given(first):
            reports.append((one.at, int(emit is Emit.COMPLETION), one.starts, one.bound))
            if emit is Emit.BOTH and one.completion is not None:
                reports.append((one.completion, 1, one.starts, one.bound))
        reports.sort(key=lambda report: report[:3])
        return [
            (
                self._row(bound, at, phase),
                math.floor(min(starts)),
                max(
                    (self.history.shown_time(k.end) for k in bound.values() if k.end is not None),
                    default=0,
                ),
            )
            for at, phase, starts, bound in reports
        ]

    def completion(self, bound: Mapping[str, Known], trigger: Time) -> Time | None:
        """The instant from which all ends are known, not before the trigger; None if some never is."""
        latest = trigger
        for known in bound.values():
            if known.end is None or known.end_since is None:
                return None
            latest = max(latest, known.end, known.end_since)
        return latest

    def _given(self, reports: list[_Report]) -> list[_Report]:
        """Of the reports those that the limits leave (SPEC 8.8), in their order."""
        reports.sort(key=lambda one: (one.at, one.starts))
        if self.query.limits == NO_LIMITS:
            return reports
        places = [(one.at, tuple(one.starts)) for one in reports]
        if len({*places}) < len(places):
            raise AmbiguousOrderError("matches with one report and the same starts")
        told = [
            Reported(
                self.history.shown_time(one.at),
                {name: known.start for name, known in one.bound.items()},
                one,
                instant=self._instant(one.at) if self.history.is_sequenced else None,
                intervals={name: known.number for name, known in one.bound.items()},
            )
            for one in reports
        ]
        return [one.match for one in given(self.query, self.history.clock, told)]

    def _instant(self, at: Time) -> Time:
        """The instant of a report: what ends with the last event is reported with that."""
        last = max(self.history.coming)
        return last if self.history.shown.get(at) == math.floor(last) else at

    def _is_wanted(self, bound: dict[str, Known], at: Time) -> bool:
        """WHERE, with the values known at the first report (SPEC 8.7)."""
        where = self.history.truth.get(WHERE)
        if where is None:
            return True
        values = {item.alias: self._item(item, bound, at) for item in where.items}
        return bool(where.condition.holds(values, Past()))

    def _row(self, bound: dict[str, Known], at: Time, phase: int) -> dict[str, Any]:
        emit = self.query.emit
        column = "completed_at" if emit is Emit.COMPLETION else "detected_at"
        row: dict[str, Any] = {column: self.history.shown_time(at)}
        if emit is Emit.BOTH:
            row["phase"] = ("trigger", "completion")[phase]
        return row | {item.alias: self._item(item, bound, at) for item in self.query.returns}

    def _item(self, item: Return, bound: dict[str, Known], at: Time) -> Any:
        if isinstance(item, RelationOf):
            return self.pairs.relation(item.x, item.y, bound, at)
        known = bound[item.symbol]
        known_end = known.end_at(at)
        end = None if known_end is None else self.history.shown_time(known_end)
        if isinstance(item, Endpoint):
            return math.floor(known.start) if item.which == "ts" else end
        if isinstance(item, DurationOf):
            return None if end is None else end - math.floor(known.start)
        return self._value(item, known, at)

    def _value(self, item: Aggregate | Value, known: Known, at: Time) -> Any:
        if known.values is not None:
            rows: list[Row] = [known.values]
        else:
            stream = self.query.symbol(item.symbol).stream
            rows = self.history.events_of(stream, known, at)
        if item.column is None:
            return len(rows)
        function = item.function if isinstance(item, Aggregate) else "FIRST"
        return AGGREGATES[function]([value_of(row[item.column]) for row in rows])
