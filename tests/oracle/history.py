"""The history of a partition: its instants, and its intervals with what is known of them when."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any

from piestream.language.model import Query
from piestream.language.parts import Silence, StreamKind
from tests.oracle.known import LAST, OVER, Known, announced, difference
from tests.oracle.questions import Span
from tests.oracle.reading import Inputs, Row, instants_of
from tests.truth import Expression, Past

__all__ = ["History"]

Time = Fraction | int


class History:
    """The instants and the intervals of a partition."""

    def __init__(
        self, query: Query, inputs: Inputs, truth: Mapping[str, Any], streams: list[list[Row]]
    ) -> None:
        self.query, self.inputs, self.truth = query, inputs, truth
        self.clock, self.is_sequenced = inputs.clock, query.is_sequenced
        of_events = {
            number: streams[number]
            for number, source in enumerate(query.streams)
            if source.kind is StreamKind.EVENTS
        }
        self.events: dict[int, dict[Time, Row]] = instants_of(query.streams, of_events, inputs)
        self.times = {stream: list(events) for stream, events in self.events.items()}
        self.ready = dict(self._ready(streams))
        #: What ends behind the last instant of the partition is shown with that.
        self.shown: dict[Time, int] = {}
        self.truths = {
            symbol.name: self._truths(symbol.stream, truth[symbol.name])
            for symbol in query.symbols
            if symbol.stream in self.events
        }
        self.silences = {number: self._silences(number) for number in self.events}
        self.all = {symbol.name: list(self._intervals(symbol)) for symbol in query.symbols}
        #: The instants at which something comes; at the others only time passes.
        self.coming = frozenset(self._coming())
        instants = self.coming | self._deadlines()
        if inputs.at_end == "close" and instants:
            passed = max(instants) if not query.absences else max(*instants, inputs.until)
            instants |= self._close(max(self.coming), passed)
        self.instants = sorted(instants)
        #: Those intervals that keep the lengths of their symbols, with the instants from which they count.
        self.valid = {
            symbol.name: [
                valid
                for known in self.all[symbol.name]
                if (valid := self._validated(symbol, known)) is not None
            ]
            for symbol in query.symbols
        }

    def _ready(self, streams: list[list[Row]]) -> Iterator[tuple[int, list[Known]]]:
        """The intervals of streams that are ready-made, and the silences."""
        for number, source in enumerate(self.query.streams):
            if source.silence is not None:
                yield number, list(self._silent(source.silence))
            elif number not in self.events:
                yield number, list(announced(source, streams[number]))

    def _coming(self) -> Iterator[Time]:
        for events in self.events.values():
            yield from events
        for known in (one for ready in self.ready.values() for one in ready):
            yield known.since
            if (
                known.end is not None and known.end > known.since
            ):  # an end that is known late is none
                yield known.end
        for silences in self.silences.values():
            yield from silences

    # Streams of events

    def _truths(self, stream: int, predicate: Expression) -> dict[Time, bool]:
        gap = self.query.streams[stream].max_gap
        ticks = None if gap is None else self.clock.ticks(gap)
        events = self.events[stream]
        rows = tuple({**row, "": math.floor(time)} for time, row in events.items())
        past = Past(rows, self.clock, "", ticks)
        return {
            time: predicate.holds(row, past.up_to(number))
            for number, (time, row) in enumerate(zip(events, rows, strict=True))
        }

    def _silences(self, stream: int) -> list[int]:
        """The times at which silences of a stream end something."""
        source = self.query.streams[stream]
        if source.max_gap is None:
            return []
        gap = self.clock.ticks(source.max_gap)
        own = [s.name for s in self.query.symbols if s.stream == stream]
        times = list(self.events[stream])
        return [
            math.floor(time) + gap
            for time, following in zip(times, [*times[1:], self.inputs.until], strict=False)
            if math.floor(following) - math.floor(time) > gap
            and any(self.truths[name][time] for name in own)
        ]

    def _silent(self, silence: Silence) -> Iterator[Known]:
        """From each event that is the last one for too long: known when it has been that long."""
        longest = self.clock.ticks(silence.longer_than)
        times = list(self.events[silence.of])
        for number, (time, following) in enumerate(zip(times, [*times[1:], None], strict=False)):
            until = self.inputs.until if following is None else math.floor(following)
            if until - math.floor(time) > longest:
                known = math.floor(time) + longest + OVER * self.is_sequenced
                yield Known(time, following, known, following, number, {})

    def _intervals(self, symbol: Any) -> Iterator[Known]:
        if symbol.stream in self.ready:
            predicate = self.truth[symbol.name]
            for known in self.ready[symbol.stream]:
                if known.values is not None and predicate.holds(known.values, Past()):
                    yield known
            return
        truths = dict(self.truths[symbol.name])
        for time in self.silences[symbol.stream]:
            truths.setdefault(time, False)
        runs: list[list[Any]] = []
        for time, holds in sorted(truths.items()):
            is_open = bool(runs) and runs[-1][1] is None
            if holds and not is_open:
                runs.append([time, None])
            elif not holds and is_open:
                runs[-1][1] = time
        yield from self._bridged(runs, symbol.bridging)

    def _bridged(self, runs: list[list[Any]], bridging: Any) -> Iterator[Known]:
        """The intervals of runs, of which some lie so close together that they are one."""
        if bridging is None:
            for start, end in runs:
                yield Known(start, end, start, end, start)
            return
        ticks = self.clock.ticks(bridging)
        gaps: list[tuple[int, Time | None]] = []
        first = None
        for (start, end), following in zip(runs, [*runs[1:], [None, None]], strict=False):
            first = start if first is None else first
            apart = None if None in (end, following[0]) else difference(following[0], end)
            if apart is not None and apart <= ticks:
                gaps.append((end, following[0]))
                continue
            known = None if end is None else math.floor(end) + ticks
            if known is not None:
                known = known + OVER * self.is_sequenced if self._passes(known) else None
            if end is not None:
                gaps.append((end, known))
            yield Known(
                first, None if known is None else end, first, known, first, gaps=tuple(gaps)
            )
            first, gaps = None, []

    def _passes(self, time: int) -> bool:
        """True if it is known that this time has passed: by what comes then, or later, or elsewhere."""
        here = [t for events in self.events.values() for t in events]
        here += [silence for silences in self.silences.values() for silence in silences]
        for rows in self.ready.values():
            here += [t for known in rows for t in (known.since, known.end) if t is not None]
        if self.is_sequenced:  # all events of that time
            return time < self.inputs.until or any(time < math.floor(t) for t in here)
        return time < self.inputs.until or any(time <= t for t in here)

    def may_be_joined(self, now: Time) -> bool:
        """True if others of the time of an instant may still come, where several events have one time.

        Not behind the deadline of a silence, which is known to have passed.
        """
        return self.is_sequenced and now in self.coming and now < math.floor(now) + OVER

    def _deadlines(self) -> set[Time]:
        """The instants from which it is known that runs do not go on."""
        return {
            known.end_since
            for intervals in self.all.values()
            for known in intervals
            if known.gaps and known.end_since is not None
        }

    def shown_time(self, time: Time) -> int:
        """An instant as it is shown."""
        return self.shown.get(time, math.floor(time))

    def taken(self, time: Time) -> int:
        """The time to which the window counts: that which has passed."""
        before = reversed(self.instants[: bisect_right(self.instants, time)])
        passed = next((t for t in before if t not in self.shown), time)
        return max(self.shown_time(time), math.floor(passed))

    def _close(self, last: Time, passed: Time) -> set[Time]:
        """End what is open, behind the last instant or a tick later; gives the instants.

        All that began before ends together, behind everything that ended or began with that instant,
        and behind what time has brought since.
        """
        ends: set[Time] = set()
        behind = LAST if self.is_sequenced else Fraction(1, 2)
        if any(self._possible_silences(last)):  # of which it is known then that they are none
            ends.add(math.floor(passed) + behind)
            self.shown[math.floor(passed) + behind] = math.floor(last)
        for name, intervals in self.all.items():
            for at, known in enumerate(intervals):
                if known.end is None:
                    ceased = known.ceased_at(passed)
                    alone = known.start == last and ceased is None
                    since: Time = math.floor(passed) + (1 if alone else behind)
                    self.shown[since] = math.floor(last) + alone
                    ends |= {since}
                    gaps = known.gaps[:-1] if ceased is not None else known.gaps
                    if ceased is not None:
                        gaps = (*gaps, (ceased, since))
                    end: Time = since if ceased is None else ceased
                    self.all[name][at] = replace(known, end=end, end_since=since, gaps=gaps)
        return ends

    # What is known when

    def instants_from(self, first: Time) -> Iterator[Time]:
        """The instants that are not before one."""
        return islice(self.instants, bisect_left(self.instants, first), None)

    def _validated(self, symbol: Any, known: Known) -> Known | None:
        """The interval with the instant from which it counts."""
        least = 0 if symbol.at_least is None else self.clock.ticks(symbol.at_least)
        most = None if symbol.at_most is None else self.clock.ticks(symbol.at_most)
        fewest, largest = symbol.at_least_events or 0, symbol.at_most_events
        ends_late = most is not None or largest is not None
        for now in self.instants_from(known.since):
            end = known.end_at(now)
            if end is not None:
                length = self.shown_time(end) - math.floor(known.start)
                fits = least <= length and (most is None or length <= most)
                count = self.count(symbol.stream, known, now)
                fits = fits and fewest <= count and (largest is None or count <= largest)
                return replace(known, valid=now) if fits else None
            ceased = known.ceased_at(now)
            if ends_late or now not in self.coming:
                continue
            if difference(self.shown_time(now) if ceased is None else ceased, known.start) < least:
                continue
            if self.count(symbol.stream, known, now) >= fewest:
                return replace(known, valid=now)
        return None

    def count(self, stream: int, known: Known, now: Time) -> int:
        """The number of events of its own stream that an interval has up to an instant; of rows there are none."""
        return len(self.events_of(stream, known, now))

    def events_of(self, stream: int, known: Known, now: Time) -> list[Row]:
        """The events of its own stream that an interval has up to an instant."""
        ends = [end for end in (known.end_at(now), known.ceased_at(now)) if end is not None]
        if known.end is not None and not ends:
            ends = [known.end]
        events = self.events.get(stream, {})
        times = self.times.get(stream, [])
        last = min([bisect_right(times, now), *(bisect_left(times, end) for end in ends)])
        return [events[time] for time in times[bisect_left(times, known.start) : last]]

    # Symbols

    def same(self, x: str, xi: Known, y: str, yi: Known) -> bool:
        """Two symbols never bind the same run, nor the same row."""
        one, other = self.query.symbol(x), self.query.symbol(y)
        if one.stream != other.stream or xi.number != yi.number:
            return False
        same = self.truth[x] == self.truth[y] and one.bridging == other.bridging
        return one.stream in self.ready or same

    def are_runs_of_one(self, x: str, y: str) -> bool:
        """True if two symbols have runs of one predicate, of which no two touch."""
        one, other = self.query.symbol(x), self.query.symbol(y)
        same = self.truth[x] == self.truth[y] and one.bridging == other.bridging
        return one.stream == other.stream and same and one.stream in self.events

    def bridging(self, name: str) -> int | None:
        """The time that runs of a symbol may lie apart to be one."""
        bridging = self.query.symbol(name).bridging
        return None if bridging is None else self.clock.ticks(bridging)

    def may_become_silent(self, stream: int, longest: int, now: Time) -> Iterator[Span]:
        """A silence, if no event comes for as long as that takes, of which nothing is known yet."""
        last = max((time for time in self.events[stream] if time <= now), default=None)
        if last is None or now in self.shown:
            return
        deadline = math.floor(last) + longest
        if now < deadline + OVER * self.is_sequenced or self.inputs.until <= deadline:
            yield Span(math.floor(last), None, places=(last, None))

    def _possible_silences(self, now: Time) -> Iterator[Span]:
        """All that may be a silence of a symbol that is absent, of which nothing is known yet."""
        for absence in self.query.absences:
            silence = self.query.streams[self.query.symbol(absence.symbol).stream].silence
            if silence is not None:
                longest = self.clock.ticks(silence.longer_than)
                yield from self.may_become_silent(silence.of, longest, now)
