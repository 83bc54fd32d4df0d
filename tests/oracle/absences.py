"""Absences: when it is decided that no interval of a symbol is what a ``NOT (…)`` says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product

from piestream.language.absences import Absence
from piestream.language.model import Query
from piestream.language.parts import Source, StreamKind
from piestream.language.windows import NO_WINDOW
from tests.clock import Clock
from tests.oracle.futures import last_instant
from tests.oracle.history import History
from tests.oracle.known import OVER, Known
from tests.oracle.questions import (
    CERTAIN,
    NEVER,
    NOW,
    ORIGIN,
    Asked,
    Moment,
    Node,
    Sequenced,
    Span,
    ToCome,
)
from tests.oracle.rules import INVERSE, PRECISE, allowed_by

__all__ = ["Absences", "Group"]

Time = Fraction | int


@dataclass(frozen=True)
class Group:
    """``NOT (…)``: what an interval of a symbol may not be, its lengths in ticks."""

    name: str
    relations: dict[str, frozenset[str]]  # to each present symbol
    distances: list[tuple[tuple[str, str], tuple[str, str], str, int]]
    lengths: tuple[int, int | None]
    fewest: int  # events
    largest: int | None

    @classmethod
    def of(cls, absence: Absence, query: Query, clock: Clock) -> Group:
        relations, distances = {}, []
        for c in absence.constraints:
            allowed = allowed_by(c)
            if c.x != absence.symbol:
                allowed = frozenset(INVERSE[name] for name in allowed)
            relations[c.x if c.y == absence.symbol else c.y] = allowed
            for d in c.distances:
                end, since = (d.symbol, d.which), (d.other, d.other_which)
                distances.append((end, since, d.comparison, clock.ticks(d.length)))
        (symbol,) = (one for one in query.symbols if one.name == absence.symbol)
        least = 0 if symbol.at_least is None else clock.ticks(symbol.at_least)
        most = None if symbol.at_most is None else clock.ticks(symbol.at_most)
        events = symbol.at_least_events or 0, symbol.at_most_events
        return cls(absence.symbol, relations, distances, (least, most), *events)

    def relations_if(self, is_quiet: Callable[[str, bool], bool]) -> dict[str, frozenset[str]]:
        """The relations to each present symbol by their endpoints alone.

        ``is_quiet`` says of a present symbol whether nothing touches the gap that begins with the end of its
        interval (else with the end of the absent one).
        """
        return {name: self._relations_if(name, is_quiet) for name in self.relations}

    def _relations_if(self, name: str, is_quiet: Callable[[str, bool], bool]) -> frozenset[str]:
        allowed = self.relations[name]
        found = allowed - PRECISE
        if "follows" in allowed and is_quiet(name, True):
            found |= {"after"}
        if "followed-by" in allowed and is_quiet(name, False):
            found |= {"before"}
        return found

    def has_count(self, events: int, more_may_come: bool) -> bool:
        """True if so many events are allowed, or may become so."""
        return (more_may_come or events >= self.fewest) and (
            self.largest is None or events <= self.largest
        )


class Absences:
    """The groups of a query that no interval may satisfy, beside the matches of a partition."""

    def __init__(self, history: History) -> None:
        self.history = history
        query, clock = history.query, history.clock
        self.groups = [Group.of(absence, query, clock) for absence in query.absences]

    def decided(self, bound: Mapping[str, Known], trigger: Time) -> Time | None:
        """The first instant, not before its trigger, from which every NOT is decided.

        What is decided stays so.
        """
        decided = [trigger]
        for group in self.groups:
            at = self._none_from(group, bound)
            if at is None:
                return None
            decided.append(at)
        return max(decided)

    def _none_from(self, group: Group, bound: Mapping[str, Known]) -> Time | None:
        """The first instant from which no interval can satisfy a NOT, whatever comes.

        The end of the input comes after all that time brings.
        """
        now: Time | None = max(known.since for known in bound.values())
        while now is not None:
            until = self._possible_until(group, bound, now)
            if until is None:
                return now
            if until == CERTAIN:
                return None
            open_until = () if now in self.history.shown else self.history.instants
            coming = [time for time in open_until if time > now and time not in self.history.shown]
            if now not in self.history.shown and until < min(
                coming, default=self.history.inputs.until
            ):
                there = [time for time in coming if math.floor(time) == until]
                now = min(there, default=until)
                if self.history.is_sequenced and not there:
                    now = math.floor(until) + OVER
            else:
                closing = [
                    time
                    for time in self.history.shown
                    if time > now or now not in self.history.shown
                ]
                now = min(coming or closing, default=None)
        return None

    def _possible_until(self, group: Group, bound: Mapping[str, Known], now: Time) -> Time | None:
        """The instant until which, as far as is known at one, a NOT could be satisfied; None: it cannot."""
        found: Time | None = None
        for spans, is_known in self._may_be_absent(group, bound, now):
            until = self._last_instant(group, bound, spans, now, is_known)
            if until == CERTAIN:
                return until
            if until is not None and (found is None or until > found):
                found = until
        return found

    def _may_be_absent(
        self, group: Group, bound: Mapping[str, Known], now: Time
    ) -> Iterator[tuple[list[Span | None], bool]]:
        """All that each interval of an absent symbol may be, so far as is known; None: it is none.

        Then that of one to come. And whether it is known to be one: of a silence, that it is long enough.
        """
        for one in self.history.all[group.name]:
            its_own = any(self.history.same(group.name, one, name, bound[name]) for name in bound)
            if one.since <= now and not its_own:
                spans = self._spans(group.name, one, now)
                yield [s if self._may_count(group, one, s, now) else None for s in spans], True
        silence = self.history.query.streams[self.history.query.symbol(group.name).stream].silence
        if silence is not None:
            longest = self.history.clock.ticks(silence.longer_than)
            for span in self.history.may_become_silent(silence.of, longest, now):
                yield [span], False
        yield [], False

    def _last_instant(
        self,
        group: Group,
        bound: Mapping[str, Known],
        spans: Sequence[Span | None],
        now: Time,
        is_known: bool,
    ) -> Time | None:
        """The instant until which one interval of an absent symbol, or one to come, could satisfy a NOT.

        What holds in all cases is certain.
        """
        apart = [name for name in bound if self.history.are_runs_of_one(group.name, name)]
        names = sorted({*group.relations, *apart})
        source = self.history.query.streams[self.history.query.symbol(group.name).stream]
        by_end = source.kind in (StreamKind.INTERVALS, StreamKind.QUERY)
        bridging = self.history.bridging(group.name)
        sequenced = None
        if self.history.is_sequenced:
            sequenced = Sequenced(not self.history.may_be_joined(now), Fraction(now))
        moment = Moment(self.history.shown_time(now), now in self.history.shown, sequenced)
        longer_than = None
        if source.silence is not None and not is_known:
            longer_than = self.history.clock.ticks(source.silence.longer_than)
        found: set[Time | None] = set()
        there: list[tuple[Span | None, tuple[str, int] | None]]
        there = [(span, None) for span in spans if span is not None]
        there = there if spans else [(None, late) for late in self._known_late(source)]
        for (span, late), *others in product(
            there, *(self._spans(n, bound[n], now) for n in names)
        ):
            present = dict(zip(names, others, strict=True))
            is_quiet = partial(self._is_gap_quiet, group.name, span, present, now)
            asked = Asked(
                group.name,
                group.relations_if(is_quiet),
                group.lengths,
                group.distances,
                longer_than,
            )
            to_come = ToCome(
                {n: None if present[n].end is not None else bridging for n in apart},
                self._not_before(group.name, now),
                "te" if by_end and not source.known_at_start else "ts",
                late,
            )
            found.add(last_instant(asked, moment, present, span or to_come))
        if found == {CERTAIN} and None not in spans:
            return CERTAIN
        return max((min(at, NEVER) for at in found if at is not None), default=None)

    def _not_before(self, name: str, now: Time) -> tuple[Node, int] | None:
        """After which instant a bridged interval to come begins, and how long after it, at least.

        So far behind the one that has not ended, or it would be a part of that.
        """
        bridging = self.history.bridging(name)
        if bridging is None or now in self.history.shown:
            return None
        for one in self.history.all[name]:
            if one.since <= now and one.end_at(now) is None:
                ceased = one.ceased_at(now)
                if ceased is None:
                    return NOW, bridging
                return ORIGIN, math.floor(ceased) + bridging
        return None

    def _known_late(self, source: Source) -> Iterator[tuple[str, int] | None]:
        """The time after its start, or its end, by which a match of a query is known, by its windows alone.

        None: when it begins, or ends, as others do.
        """
        query = source.query
        if query is None or query.rows is not None or not _is_known_late(source):
            yield None
        if query is None or not _is_known_late(source):
            return
        if query.rows is not None:
            assert query.rows.within is not None
            yield "ts", self.history.clock.ticks(query.rows.within)
        elif query.within != NO_WINDOW:
            yield "ts", self.history.clock.ticks(query.within)
        else:
            yield "te", min(self.history.clock.ticks(window.length) for window in query.windows)

    def _is_gap_quiet(
        self,
        absent_name: str,
        span: Span | None,
        present: Mapping[str, Span],
        now: Time,
        name: str,
        after: bool,
    ) -> bool:
        """True if no run of two symbols touches the gap between an absent interval and one of the match.

        The absent one (None: one to come) lies ``after``, or before. What is interrupted has ended, or the gap
        would not be one, or nothing would begin behind it.
        """
        first, later = (present[name], span) if after else (span, present[name])
        if first is None or first.places[1] is None:
            return True  # it has not ended: there is no gap yet
        end, start = first.places[1], None if later is None else later.places[0]
        return not any(
            one.since <= now
            and (start is None or one.start < start)
            and self._is_after(one, end, now)
            for each in (absent_name, name)
            for one in self.history.all[each]
        )

    def _is_after(self, one: Known, end: Time, now: Time) -> bool:
        """True if an interval has not ended by an end, whatever comes next."""
        known = one.end_at(now)
        if known is None:
            known = one.ceased_at(now)
        if known is None:  # by an end that is still to come it may have ended
            return end <= now
        return known > end

    def _may_count(self, group: Group, one: Known, span: Span, now: Time) -> bool:
        """True if an interval has as many events as are asked for, or may come to have them."""
        stream = self.history.query.symbol(group.name).stream
        if stream not in self.history.events:
            return True
        if span.goes_on_before is None:
            return group.has_count(self.history.count(stream, one, now), span.end is None)
        so_far = sum(one.start <= time <= now for time in self.history.events[stream])
        return group.has_count(so_far + 1, True)  # it goes on at one more

    def _spans(self, name: str, one: Known, now: Time) -> list[Span]:
        """An interval as far as it is known; of one that is interrupted, all that it may be."""
        start = math.floor(one.start)
        end, ceased = one.end_at(now), one.ceased_at(now)
        if ceased is not None:
            bridging = self.history.bridging(name)
            assert bridging is not None
            at = math.floor(ceased)
            return [
                Span(start, at, places=(one.start, ceased)),
                Span(start, None, at + bridging, places=(one.start, None)),
            ]
        shown = None if end is None else self.history.shown_time(end)
        is_closed = end is not None and end in self.history.shown
        return [Span(start, shown, is_closed=is_closed, places=(one.start, end))]


def _is_known_late(source: Source) -> bool:
    """True if matches of a query may become known later than they end."""
    query = source.query
    if query is None:
        return False
    if query.rows is not None or query.absences or any(s.bridging for s in query.symbols):
        return True
    return any(map(_is_known_late, query.streams))
