"""The oracle of queries over several streams: what they mean, by enumeration, from docs/streams.md.

Intervals are pairs of times, with what is known of them when; runs, rows of intervals and matches
of other queries are the same here. "Whatever comes next" is settled by trying ends that may come.
It shares nothing with the engine but the frozen query model, and little with `tests.oracle`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import product
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
    Silence,
    Source,
    StreamKind,
    Value,
)
from piestream.language.windows import NO_WINDOW
from piestream.relations import ALL_NAMES
from tests import absent
from tests.clock import Clock
from tests.oracle import (
    _AGGREGATES,
    _COMPARED,
    Group,
    Reported,
    Row,
    TieError,
    TooManyMatchesError,
    _missing,
    given,
    holding,
    in_windows,
)
from tests.row_patterns.oracle import item_value, known_matches
from tests.truth import Expression, Past

__all__ = ["AmbiguousOrderError", "Inputs", "Known", "TooManyMatchesError", "matches"]

Time = Fraction | int

#: Where the truth of a query's predicates has its condition on matches.
WHERE = "where:"

_INVERSE = dict(zip(ALL_NAMES, reversed(ALL_NAMES), strict=True))
_PRECISE = frozenset(("followed-by", "follows"))


#: An instant is a time; where several events have one time, they lie so far apart behind it. Then come
#: deadlines of that time, and the end of the input. Differences below a grain measure nothing.
_PLACE, _OVER, _LAST, _GRAIN = (
    Fraction(1, 1 << 40),
    Fraction(1, 1 << 21),
    Fraction(3, 1 << 22),
    1 << 20,
)


def time_of(instant: Time) -> Time:
    """The time of an instant; also of one that no event has."""
    return Fraction(math.floor(instant * _GRAIN), _GRAIN)


class AmbiguousOrderError(ValueError):
    """Limits on what is emitted, and matches of which nothing says which is the first."""


@dataclass(frozen=True)
class Known:
    """An interval, and the instants at which things of it become known."""

    start: int
    end: Time | None  # None: it has not ended as far as is known
    since: int  # known from this instant on
    end_since: Time | None  # its end is known from this instant on
    number: int  # rows of one number are of one interval
    values: Row | None = None  # of a row of intervals
    valid: Time | None = None  # counts from this instant on
    #: Where a bridged run's predicate does not hold: since when, and from when on it goes on, or it
    #: is known that it does not; None: not yet.
    gaps: tuple[tuple[int, Time | None], ...] = ()

    def ceased_at(self, now: Time) -> int | None:
        """Where it has ended if it does not go on, of which nothing is known at an instant."""
        return next((c for c, over in self.gaps if c <= now and (over is None or now < over)), None)

    def end_at(self, now: Time) -> Time | None:
        """Its end, if that is known at an instant."""
        return self.end if self.end_since is not None and self.end_since <= now else None


@dataclass(frozen=True)
class _Report:
    """A match with the instant of its first report, and that at which all of its ends are known."""

    at: Time
    starts: list[int]
    bound: dict[str, Known]
    completion: Time | None


@dataclass
class Inputs:
    """The rows of all inputs, by name, and the truth of predicates of each query."""

    rows: Mapping[str, Sequence[Row]]
    truth: Mapping[str, Any]  # by symbol; by the name of a stream, that of its query's symbols
    clock: Clock = field(default_factory=Clock)
    ties: str = "error"
    until: int = 0
    most: int = 100_000
    at_end: str = "open"  # "close": what is open ends behind the last instant of its partition


def matches(query: Query, inputs: Inputs) -> list[dict[str, Any]]:
    """The rows that a query has on these inputs, partition by partition."""
    return [row for row, _, _ in _reports(query, inputs, inputs.truth)]


def _reports(
    query: Query, inputs: Inputs, truth: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Each row, with the earliest start and the latest end of its match where it is complete."""
    streams = [_rows(source, inputs, truth) for source in query.streams]
    keys = [tuple(row[name] for name in query.partition_by) for rows in streams for row in rows]
    for key in dict.fromkeys(keys):
        own = [
            [row for row in rows if tuple(row[name] for name in query.partition_by) == key]
            for rows in streams
        ]
        prefix = dict(zip(query.partition_by, key, strict=True))
        for row, start, end in _Partition(query, inputs, truth, own).rows():
            yield prefix | row, start, end


#: Columns of the rows that stand for the matches of a query, and when such a row becomes known.
_START, _END, _KNOWN = "start:", "end:", "known:"


def _rows(source: Source, inputs: Inputs, truth: Mapping[str, Any]) -> list[Row]:
    if source.silence is not None:
        return []
    if source.query is None:
        return list(inputs.rows[str(source.name)])
    inner = truth[str(source.name)]
    if source.query.rows is not None:
        found = _row_matches(source.query, inputs, inner)
        return [row for row in found if row[_START] < row[_END]]
    return [
        {**row, _START: start, _END: end, _KNOWN: max(end, row["completed_at"])}
        for row, start, end in _reports(source.query, inputs, inner)
        if start < end
    ]


def _row_matches(query: Query, inputs: Inputs, truth: Mapping[str, Any]) -> Iterator[Row]:
    """The matches of a row pattern with their measures, each a plain item."""
    pattern, (source,) = query.rows, query.streams
    assert pattern is not None
    within = None if pattern.within is None else inputs.clock.ticks(pattern.within)
    all_rows = inputs.rows[str(source.name)]
    for key in dict.fromkeys(tuple(row[n] for n in query.partition_by) for row in all_rows):
        own = [row for row in all_rows if tuple(row[n] for n in query.partition_by) == key]
        if source.is_sequenced:
            places = sorted(zip(_places(source, 0, own), range(len(own)), strict=True))
            events = [(place[0], own[at]) for place, at in places]
        else:
            events = list(_untied(own, source.order_by or "ts", inputs.ties).items())
        rows = tuple({**row, "": time, "t": time} for time, row in events)
        past = Past(rows, inputs.clock, "")
        for number, row in enumerate(rows):
            row["holds"] = frozenset(
                name
                for name in pattern.variables
                if name not in truth or truth[name].holds(row, past.up_to(number))
            )
        closes = inputs.at_end == "close"
        for one in known_matches(pattern, rows, within, inputs.until, closes):
            values = {
                measure.alias: item_value(pattern, rows, one.match, len(one.match.path), item)
                for measure in pattern.measures
                for _, item in measure.items
            }
            keys = dict(zip(query.partition_by, key, strict=True))
            yield {**keys, **values, _START: one.start, _END: one.end, _KNOWN: one.since}


def _untied(rows: list[Row], time: str, ties: str) -> dict[int, Row]:
    """One row for each time, in order."""
    chosen: dict[int, Row] = {}
    for row in rows:
        if row[time] in chosen and ties == "error":
            raise TieError(f"two events at {row[time]}")
        if row[time] not in chosen or ties == "last":
            chosen[row[time]] = row
    return dict(sorted(chosen.items()))


def _instants_of(
    source: Source, number: int, rows: list[Row], ranks: Mapping[Any, int], ties: str
) -> Any:
    """The rows of a stream of events, in order, by their instants: one at each."""
    if not source.is_sequenced:
        return _untied(rows, source.order_by or "ts", ties)
    places = {
        place[0] + ranks[place] * _PLACE: row
        for place, row in zip(_places(source, number, rows), rows, strict=True)
    }
    return dict(sorted(places.items()))


def _places(source: Source, first: int, rows: list[Row]) -> list[tuple[Any, int, Any]]:
    """The time of each row, and what orders it among those of that time.

    Rows that a column orders are compared by that, whatever their stream. Those in the order in which they
    stand come before what is read of streams behind. ``first`` is where among the streams they come.
    """
    time, sequence = source.order_by or "ts", source.sequence
    orders = range(len(rows)) if sequence is None else (row[sequence] for row in rows)
    return [(row[time], first, order) for row, order in zip(rows, orders, strict=True)]


class _Partition:
    def __init__(
        self, query: Query, inputs: Inputs, truth: Mapping[str, Any], streams: list[list[Row]]
    ) -> None:
        self.query, self.inputs, self.truth = query, inputs, truth
        self.clock = inputs.clock
        self.events: dict[int, dict[Time, Row]] = {}
        self.is_sequenced = query.is_sequenced
        self.ready: dict[int, list[Known]] = {}
        instants: set[Time] = set()
        in_order = [n for n, source in enumerate(query.streams) if source.sequence is not None]
        firsts = [min(in_order) if n in in_order else n for n in range(len(query.streams))]
        places = sorted(
            {
                place
                for number, source in enumerate(query.streams)
                if source.is_sequenced
                for place in _places(source, firsts[number], streams[number])
            }
        )
        ranks = {place: 1 + number for number, place in enumerate(places)}
        for number, source in enumerate(query.streams):
            if source.kind is StreamKind.EVENTS:
                self.events[number] = _instants_of(
                    source, firsts[number], streams[number], ranks, inputs.ties
                )
                instants |= set(self.events[number])
            elif source.silence is None:
                self.ready[number] = list(_announced(source, streams[number]))
        for number, source in enumerate(query.streams):
            if source.silence is not None:
                self.ready[number] = list(self._silent(source.silence))
        for known in (one for ready in self.ready.values() for one in ready):
            instants |= {known.since}  # an end that is known late is none
            instants |= {known.end} if known.end is not None and known.end > known.since else set()
        #: What ends behind the last instant of the partition is shown with that.
        self.shown: dict[Time, int] = {}
        self.truths = {
            symbol.name: self._truths(symbol.stream, truth[symbol.name])
            for symbol in query.symbols
            if symbol.stream in self.events
        }
        self.silences = {number: self._silences(number) for number in self.events}
        for silences in self.silences.values():
            instants |= set(silences)
        self.all = {symbol.name: list(self._intervals(symbol)) for symbol in query.symbols}
        #: The instants at which something comes; at the others only time passes.
        self.coming = frozenset(instants)
        instants |= self._deadlines()
        if inputs.at_end == "close" and instants:
            passed = max(instants) if not query.absences else max(*instants, inputs.until)
            instants |= self._close(max(self.coming), passed)
        self.instants = sorted(instants)
        self.valid = {
            symbol.name: [
                valid
                for known in self.all[symbol.name]
                if (valid := self._validated(symbol, known)) is not None
            ]
            for symbol in query.symbols
        }
        self._decisions: dict[tuple[str, str, int, int, int, int], Time | None] = {}
        self._tried = 0
        self.distances = {
            pair: constraint.distances
            for constraint in query.constraints
            for pair in ((constraint.x, constraint.y), (constraint.y, constraint.x))
        }
        self.allowed: dict[tuple[str, str], frozenset[str]] = {}
        for constraint in query.constraints:
            names = frozenset(
                name for bit, name in enumerate(ALL_NAMES) if constraint.relations >> bit & 1
            )
            self.allowed[constraint.x, constraint.y] = names
            self.allowed[constraint.y, constraint.x] = frozenset(_INVERSE[n] for n in names)
        self.groups = [Group.of(absence, query, self.clock) for absence in query.absences]

    # Streams of events

    def _truths(self, stream: int, predicate: Expression) -> dict[int, bool]:
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
        """When silences of a stream end something."""
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
                known = math.floor(time) + longest + _OVER * self.is_sequenced
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
            apart = None if None in (end, following[0]) else _difference(following[0], end)
            if apart is not None and apart <= ticks:
                gaps.append((end, following[0]))
                continue
            known = None if end is None else math.floor(end) + ticks
            if known is not None:
                known = known + _OVER * self.is_sequenced if self._passes(known) else None
            if end is not None:
                gaps.append((end, known))
            yield Known(
                first, None if known is None else end, first, known, first, gaps=tuple(gaps)
            )
            first, gaps = None, []

    def _passes(self, time: int) -> bool:
        """Whether it is known that this time has passed: by what comes then, or later, or elsewhere."""
        here = [t for events in self.events.values() for t in events]
        here += [silence for silences in self.silences.values() for silence in silences]
        for rows in self.ready.values():
            here += [t for known in rows for t in (known.since, known.end) if t is not None]
        if self.is_sequenced:  # all events of that time
            return time < self.inputs.until or any(time < math.floor(t) for t in here)
        return time < self.inputs.until or any(time <= t for t in here)

    def _may_be_joined(self, now: Time) -> bool:
        """Whether others of the time of an instant may still come, where several events have one time.

        Not behind the deadline of a silence, which is known to have passed.
        """
        return self.is_sequenced and now in self.coming and now < math.floor(now) + _OVER

    def _deadlines(self) -> set[Time]:
        """When it is known that runs do not go on."""
        return {
            known.end_since
            for intervals in self.all.values()
            for known in intervals
            if known.gaps and known.end_since is not None
        }

    def _shown(self, time: Time) -> int:
        """An instant as it is shown."""
        return self.shown.get(time, math.floor(time))

    def _taken(self, time: Time) -> int:
        """The time to which the window counts: that which has passed."""
        passed = [t for t in self.instants if t <= time and t not in self.shown]
        return max(self._shown(time), *map(math.floor, passed))

    def _close(self, last: Time, passed: Time) -> set[Time]:
        """End what is open, behind the last instant or a tick later; gives the instants.

        All that began before ends together, behind everything that ended or began with that instant,
        and behind what time has brought since.
        """
        ends: set[Time] = set()
        behind = _LAST if self.is_sequenced else Fraction(1, 2)
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

    def _validated(self, symbol: Any, known: Known) -> Known | None:
        """The interval with the instant from which it counts."""
        least = 0 if symbol.at_least is None else self.clock.ticks(symbol.at_least)
        most = None if symbol.at_most is None else self.clock.ticks(symbol.at_most)
        fewest, largest = symbol.at_least_events or 0, symbol.at_most_events
        ends_late = most is not None or largest is not None
        for now in self.instants:
            if now < known.since:
                continue
            end = known.end_at(now)
            if end is not None:
                length = self._shown(end) - math.floor(known.start)
                fits = least <= length and (most is None or length <= most)
                count = self._count(symbol.stream, known, now)
                fits = fits and fewest <= count and (largest is None or count <= largest)
                return replace(known, valid=now) if fits else None
            ceased = known.ceased_at(now)
            if ends_late or now not in self.coming:
                continue
            if _difference(self._shown(now) if ceased is None else ceased, known.start) < least:
                continue
            if self._count(symbol.stream, known, now) >= fewest:
                return replace(known, valid=now)
        return None

    def _count(self, stream: int, known: Known, now: Time) -> int:
        """How many events of its own stream an interval has up to an instant; of rows there are none."""
        return len(self._events_of(stream, known, now))

    def _events_of(self, stream: int, known: Known, now: Time) -> list[Row]:
        """The events of its own stream that an interval has up to an instant."""
        ends = [end for end in (known.end_at(now), known.ceased_at(now)) if end is not None]
        if known.end is not None and not ends:
            ends = [known.end]
        return [
            row
            for time, row in self.events.get(stream, {}).items()
            if known.start <= time <= now and all(time < end for end in ends)
        ]

    def _outlooks(
        self, x: str, y: str, xi: Known, yi: Known, now: Time
    ) -> Iterator[tuple[frozenset[str], tuple[Time, Time]]]:
        """For everything that may come after an instant: the relations that then hold, and the ends."""
        precise = bool(self.allowed.get((x, y), frozenset()) & _PRECISE)
        timed = bool(self.distances.get((x, y)))
        for xe, ye in product(*(self._ends(one, (xi, yi), now, timed) for one in (xi, yi))):
            quiet = precise and self._quiet(x, y, xi, yi, xe if xi.start <= yi.start else ye)
            yield holding(xi.start, xe, yi.start, ye, quiet), (xe, ye)

    def _fits(
        self, x: str, y: str, xi: Known, yi: Known, outlook: tuple[frozenset[str], Any]
    ) -> bool:
        """Whether a pair keeps its constraint if this comes: its relations, and its distances."""
        holding, (xe, ye) = outlook
        if not holding & self.allowed[x, y]:
            return False
        at = {(x, "ts"): time_of(xi.start), (y, "ts"): time_of(yi.start)}
        # an end behind the last instant has its time
        at |= {(n, "te"): self._shown_end(one, end) for n, one, end in ((x, xi, xe), (y, yi, ye))}
        return all(
            _COMPARED[d.comparison](
                at[d.symbol, d.which] - at[d.other, d.other_which], self.clock.ticks(d.length)
            )
            for d in self.distances[x, y]
        )

    def _shown_end(self, one: Known, end: Time) -> Time:
        if self.is_sequenced:
            return self.shown.get(end, time_of(end))
        return self._shown(end) if end == one.end else end

    def _ends(self, one: Known, both: tuple[Known, Known], now: Time, timed: bool) -> list[Time]:
        """The ends that an interval may have: the one that is known, or any that is to come."""
        end = one.end_at(now)
        if end is not None:
            return [end]
        known = [e for other in both if (e := other.end_at(now)) is not None and e > now]
        points: list[Time] = [now, *known]
        found: list[Time] = list(known)
        for low in points:
            high = min((p for p in points if p > low), default=low + 3)
            step = Fraction(high - low, 3)
            found += [low + step, low + 2 * step]
        if self._may_be_joined(now):
            found += [now + _PLACE / 4, now + _PLACE / 2]
        if timed:  # a difference is least and greatest if an end comes soon, or late
            found += [now + Fraction(1, 16), now + Fraction(1, 8), now + 10**18, now + 10**19]
        ceased = one.ceased_at(now)
        return found if ceased is None else [*found, ceased]

    def _quiet(self, x: str, y: str, xi: Known, yi: Known, end: Time) -> bool:
        """Whether the first of two has this end, and no interval of either symbol that is known by then touches the gap between two."""
        now = max(xi.since, yi.since)
        first, later, of_first = (xi, yi, x) if xi.start <= yi.start else (yi, xi, y)
        if end >= later.start:
            return False
        return not any(
            other.since <= now
            and other.start < later.start
            and (other.end is None or other.end > end)
            for name in (x, y)
            for other in self.all[name]
            if (name, other.number, other.start) != (of_first, first.number, first.start)
        )

    def _decided(self, x: str, y: str, xi: Known, yi: Known) -> Time | None:
        """The first instant from which the relation is an allowed one, whatever comes next."""
        key = x, y, xi.number, xi.start, yi.number, yi.start
        if key not in self._decisions:
            self._decisions[key] = self._first_decision(x, y, xi, yi)
        return self._decisions[key]

    def _first_decision(self, x: str, y: str, xi: Known, yi: Known) -> Time | None:
        for now in self.instants:
            if now < max(xi.since, yi.since):
                continue
            comes = now in self.coming or now in self.shown
            if not comes and now not in (xi.end_since, yi.end_since):
                continue  # distances are decided at events
            if all(self._fits(x, y, xi, yi, one) for one in self._outlooks(x, y, xi, yi, now)):
                return now
        return None

    # Matches

    def _bindings(
        self, bound: dict[str, Known], names: list[str], trigger: Time
    ) -> Iterator[tuple[dict[str, Known], Time]]:
        if not names:
            yield bound, trigger
            return
        name = next((n for n in names if any((n, b) in self.allowed for b in bound)), names[0])
        rest = [other for other in names if other != name]
        for known in self.valid[name]:
            assert known.valid is not None
            latest, agrees = max(trigger, known.valid), True
            self._tried += 1
            if self._tried > 20 * self.inputs.most:
                raise TooManyMatchesError("too many combinations in one partition")
            for other, its in bound.items():
                if self._same(name, known, other, its):
                    agrees = False
                elif (name, other) in self.allowed:
                    decided = self._decided(name, other, known, its)
                    agrees = decided is not None
                    latest = max(latest, decided or 0) if decided is not None else latest
                if not agrees:
                    break
            if agrees:
                yield from self._bindings(bound | {name: known}, rest, latest)

    def _same(self, x: str, xi: Known, y: str, yi: Known) -> bool:
        """Two symbols never bind the same run, nor the same row."""
        one, other = self.query.symbol(x), self.query.symbol(y)
        if one.stream != other.stream or xi.number != yi.number:
            return False
        same = self.truth[x] == self.truth[y] and one.bridging == other.bridging
        return one.stream in self.ready or same

    # Absences

    def _absent_from(self, bound: Mapping[str, Known], trigger: Time) -> Time | None:
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
            if until == absent.CERTAIN:
                return None
            open_until = () if now in self.shown else self.instants
            coming = [time for time in open_until if time > now and time not in self.shown]
            if now not in self.shown and until < min(coming, default=self.inputs.until):
                there = [time for time in coming if math.floor(time) == until]
                now = min(there, default=until)
                if self.is_sequenced and not there:
                    now = math.floor(until) + _OVER
            else:
                closing = [time for time in self.shown if time > now or now not in self.shown]
                now = min(coming or closing, default=None)
        return None

    def _possible_until(self, group: Group, bound: Mapping[str, Known], now: Time) -> Time | None:
        """Until when, as far as is known at an instant, a NOT could be satisfied; None: it cannot."""
        found: Time | None = None
        for spans, is_known in self._may_be_absent(group, bound, now):
            until = self._last_instant(group, bound, spans, now, is_known)
            if until == absent.CERTAIN:
                return until
            if until is not None and (found is None or until > found):
                found = until
        return found

    def _may_be_absent(
        self, group: Group, bound: Mapping[str, Known], now: Time
    ) -> Iterator[tuple[list[absent.Span | None], bool]]:
        """What each interval of an absent symbol may be, so far as is known; None: one is none of it.

        Then that of one to come. And whether it is known to be one: of a silence, that it is long enough.
        """
        for one in self.all[group.name]:
            its_own = any(self._same(group.name, one, name, bound[name]) for name in bound)
            if one.since <= now and not its_own:
                spans = self._spans(group.name, one, now)
                yield [s if self._may_count(group, one, s, now) else None for s in spans], True
        silence = self.query.streams[self.query.symbol(group.name).stream].silence
        if silence is not None:
            longest = self.clock.ticks(silence.longer_than)
            for span in self._may_become_silent(silence.of, longest, now):
                yield [span], False
        yield [], False

    def _last_instant(
        self,
        group: Group,
        bound: Mapping[str, Known],
        spans: Sequence[absent.Span | None],
        now: Time,
        is_known: bool,
    ) -> Time | None:
        """The same for one interval of an absent symbol, or (if it may be nothing) for one to come.

        What holds in all cases is certain.
        """
        apart = [name for name in bound if self._are_runs_of_one(group.name, name)]
        names = sorted({*group.relations, *apart})
        source = self.query.streams[self.query.symbol(group.name).stream]
        by_end = source.kind in (StreamKind.INTERVALS, StreamKind.QUERY)
        bridging = self._bridging(group.name)
        sequenced = None
        if self.is_sequenced:
            sequenced = absent.Sequenced(not self._may_be_joined(now), Fraction(now))
        moment = absent.Moment(self._shown(now), now in self.shown, sequenced)
        longer_than = None
        if source.silence is not None and not is_known:
            longer_than = self.clock.ticks(source.silence.longer_than)
        found: set[Time | None] = set()
        there: list[tuple[absent.Span | None, tuple[str, int] | None]]
        there = [(span, None) for span in spans if span is not None]
        there = there if spans else [(None, late) for late in self._known_late(source)]
        for (span, late), *others in product(
            there, *(self._spans(n, bound[n], now) for n in names)
        ):
            present = dict(zip(names, others, strict=True))
            is_quiet = partial(self._is_gap_quiet, group.name, span, present, now)
            asked = absent.Asked(
                group.name,
                group.relations_if(is_quiet),
                group.lengths,
                group.distances,
                longer_than,
            )
            to_come = absent.ToCome(
                {n: None if present[n].end is not None else bridging for n in apart},
                self._not_before(group.name, now),
                "te" if by_end and not source.known_at_start else "ts",
                late,
            )
            found.add(absent.last_instant(asked, moment, present, span or to_come))
        if found == {absent.CERTAIN} and None not in spans:
            return absent.CERTAIN
        return max((min(at, absent.NEVER) for at in found if at is not None), default=None)

    def _bridging(self, name: str) -> int | None:
        """How far apart runs of a symbol may lie to be one."""
        bridging = self.query.symbol(name).bridging
        return None if bridging is None else self.clock.ticks(bridging)

    def _not_before(self, name: str, now: Time) -> tuple[tuple[str, str], int] | None:
        """After which instant a bridged interval to come begins, and how long after it, at least.

        So far behind the one that has not ended, or it would be a part of that.
        """
        bridging = self._bridging(name)
        if bridging is None or now in self.shown:
            return None
        for one in self.all[name]:
            if one.since <= now and one.end_at(now) is None:
                ceased = one.ceased_at(now)
                if ceased is None:
                    return absent.NOW, bridging
                return absent.ORIGIN, math.floor(ceased) + bridging
        return None

    def _known_late(self, source: Source) -> Iterator[tuple[str, int] | None]:
        """How long after its start, or its end, a match of a query may become known, by its windows alone.

        None: when it begins, or ends, as others do.
        """
        query = source.query
        if query is None or query.rows is not None or not _is_known_late(source):
            yield None
        if query is None or not _is_known_late(source):
            return
        if query.rows is not None:
            assert query.rows.within is not None
            yield "ts", self.clock.ticks(query.rows.within)
        elif query.within != NO_WINDOW:
            yield "ts", self.clock.ticks(query.within)
        else:
            yield "te", min(self.clock.ticks(window.length) for window in query.windows)

    def _is_gap_quiet(
        self,
        absent_name: str,
        span: absent.Span | None,
        present: Mapping[str, absent.Span],
        now: Time,
        name: str,
        after: bool,
    ) -> bool:
        """Whether no run of two symbols touches the gap between an absent interval and one of the match.

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
            for one in self.all[each]
        )

    def _is_after(self, one: Known, end: Time, now: Time) -> bool:
        """Whether an interval has not ended by an end, whatever comes next."""
        known = one.end_at(now)
        if known is None:
            known = one.ceased_at(now)
        if known is None:  # by an end that is still to come it may have ended
            return end <= now
        return known > end

    def _may_become_silent(self, stream: int, longest: int, now: Time) -> Iterator[absent.Span]:
        """What is a silence if no event comes for as long as that takes, of which nothing is known yet."""
        last = max((time for time in self.events[stream] if time <= now), default=None)
        if last is None or now in self.shown:
            return
        deadline = math.floor(last) + longest
        if now < deadline + _OVER * self.is_sequenced or self.inputs.until <= deadline:
            yield absent.Span(math.floor(last), None, places=(last, None))

    def _possible_silences(self, now: Time) -> Iterator[absent.Span]:
        """What may be a silence of a symbol that is absent, of which nothing is known yet."""
        for absence in self.query.absences:
            silence = self.query.streams[self.query.symbol(absence.symbol).stream].silence
            if silence is not None:
                longest = self.clock.ticks(silence.longer_than)
                yield from self._may_become_silent(silence.of, longest, now)

    def _are_runs_of_one(self, x: str, y: str) -> bool:
        """Whether two symbols have runs of one predicate, of which no two touch."""
        one, other = self.query.symbol(x), self.query.symbol(y)
        same = self.truth[x] == self.truth[y] and one.bridging == other.bridging
        return one.stream == other.stream and same and one.stream in self.events

    def _may_count(self, group: Group, one: Known, span: absent.Span, now: Time) -> bool:
        """Whether an interval has as many events as are asked for, or may come to have them."""
        stream = self.query.symbol(group.name).stream
        if stream not in self.events:
            return True
        if span.goes_on_before is None:
            return group.has_count(self._count(stream, one, now), span.end is None)
        so_far = sum(one.start <= time <= now for time in self.events[stream])
        return group.has_count(so_far + 1, True)  # it goes on at one more

    def _spans(self, name: str, one: Known, now: Time) -> list[absent.Span]:
        """An interval as far as it is known; of one that is interrupted, all that it may be."""
        start = math.floor(one.start)
        end, ceased = one.end_at(now), one.ceased_at(now)
        if ceased is not None:
            bridging = self._bridging(name)
            assert bridging is not None
            at = math.floor(ceased)
            return [
                absent.Span(start, at, places=(one.start, ceased)),
                absent.Span(start, None, at + bridging, places=(one.start, None)),
            ]
        shown = None if end is None else self._shown(end)
        is_closed = end is not None and end in self.shown
        return [absent.Span(start, shown, is_closed=is_closed, places=(one.start, end))]

    def rows(self) -> list[tuple[dict[str, Any], int, int]]:
        names = sorted(symbol.name for symbol in self.query.present)
        emit = self.query.emit
        first: list[_Report] = []
        for count, (bound, triggered) in enumerate(self._bindings({}, names, -(1 << 70))):
            if count >= self.inputs.most:
                raise TooManyMatchesError("too many matches in one partition")
            trigger: Time | None = triggered
            if self.groups:
                trigger = self._absent_from(bound, triggered)
                if trigger is None:
                    continue
            began = {name: math.floor(known.start) for name, known in bound.items()}
            ends = [e for known in bound.values() for e in (known.end, known.end_since)]
            completion = None if None in ends else max(*(e for e in ends if e is not None), trigger)
            at = completion if emit is Emit.COMPLETION else trigger
            if (
                at is not None
                and in_windows(self.query, self.clock, began, self._taken(at))
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
                max((self._shown(k.end) for k in bound.values() if k.end is not None), default=0),
            )
            for at, phase, starts, bound in reports
        ]

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
                self._shown(one.at),
                {name: known.start for name, known in one.bound.items()},
                one,
                instant=self._instant(one.at) if self.is_sequenced else None,
                intervals={name: known.number for name, known in one.bound.items()},
            )
            for one in reports
        ]
        return [one.match for one in given(self.query, self.clock, told)]

    def _instant(self, at: Time) -> Time:
        """The instant of a report: what ends with the last event is reported with that."""
        last = max(self.coming)
        return last if self.shown.get(at) == math.floor(last) else at

    def _is_wanted(self, bound: dict[str, Known], at: Time) -> bool:
        """WHERE, with the values known at the first report (SPEC 8.7)."""
        where = self.truth.get(WHERE)
        if where is None:
            return True
        values = {item.alias: self._item(item, bound, at) for item in where.items}
        return bool(where.condition.holds(values, Past()))

    def _row(self, bound: dict[str, Known], at: Time, phase: int) -> dict[str, Any]:
        emit = self.query.emit
        column = "completed_at" if emit is Emit.COMPLETION else "detected_at"
        row: dict[str, Any] = {column: self._shown(at)}
        if emit is Emit.BOTH:
            row["phase"] = ("trigger", "completion")[phase]
        return row | {item.alias: self._item(item, bound, at) for item in self.query.returns}

    def _item(self, item: Return, bound: dict[str, Known], at: Time) -> Any:
        if isinstance(item, RelationOf):
            return self._relation(item.x, item.y, bound, at)
        known = bound[item.symbol]
        known_end = known.end_at(at)
        end = None if known_end is None else self._shown(known_end)
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
            rows = self._events_of(stream, known, at)
        if item.column is None:
            return len(rows)
        function = item.function if isinstance(item, Aggregate) else "FIRST"
        return _AGGREGATES[function]([_missing(row[item.column]) for row in rows])

    def _relation(self, x: str, y: str, bound: dict[str, Known], at: Time) -> str | None:
        names = set()
        for outlook, _ in self._outlooks(x, y, bound[x], bound[y], at):
            holding = outlook & self.allowed.get((x, y), frozenset(ALL_NAMES) - _PRECISE)
            names.add(next(iter(holding & _PRECISE or holding)))
        return names.pop() if len(names) == 1 else None


def _is_known_late(source: Source) -> bool:
    """Whether matches of a query may become known later than they end."""
    query = source.query
    if query is None:
        return False
    if query.rows is not None or query.absences or any(s.bridging for s in query.symbols):
        return True
    return any(map(_is_known_late, query.streams))


def _difference(end: Time, since: Time) -> int:
    """How far the times of two instants lie apart."""
    return math.floor(end) - math.floor(since)


def _announced(source: Source, rows: list[Row]) -> Iterator[Known]:
    """What rows of intervals say of them: complete ones at their end, others from their start."""
    start, end = source.start or _START, source.end or _END
    begun = (
        {}
        if source.id is None
        else {(row[source.id], row[start]): row for row in rows if row[end] is None}
    )
    for number, row in enumerate(rows):
        s, e = row[start], row[end]
        if e is None:
            assert source.id is not None
            same = (r for r in rows if r[source.id] == row[source.id] and r[start] == s)
            ends = [r for r in same if r[end] is not None]
            found = ends[0][end] if ends else None
            yield Known(s, found, s, found, number, row)
        elif source.id is not None and (row[source.id], s) in begun:
            continue
        elif source.known_at_start:
            yield Known(s, e, s, s, number, row)
        elif source.query is not None:
            yield Known(s, e, row[_KNOWN], row[_KNOWN], number, row)
        else:
            yield Known(s, e, e, e, number, row)
