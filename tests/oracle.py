"""The oracle: what a query means, by enumeration, straight from docs/semantics.md.

It shares nothing with the engine but the frozen query model. It lists the runs of every
predicate, tries all combinations of intervals, and settles "whatever comes next" by trying what
can come next. It is slow and meant to be obviously right.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, Generic, TypeVar

from piestream.language.absences import Absence
from piestream.language.model import Query
from piestream.language.parts import (
    Aggregate,
    DurationOf,
    Emit,
    Endpoint,
    RelationOf,
    Return,
    Symbol,
)
from piestream.language.windows import NO_WINDOW
from piestream.relations import ALL_NAMES
from tests import absent
from tests.clock import Clock
from tests.truth import Expression, Past

__all__ = ["Reported", "TieError", "TooManyMatchesError", "given", "in_windows", "matches"]

T = TypeVar("T")

Row = Mapping[str, Any]
#: Predicate truth at two symbols: O, I, Z, E of the paper's minterms.
Letter = tuple[bool, bool]

_LETTERS: tuple[Letter, ...] = ((False, False), (False, True), (True, False), (True, True))

#: How far ahead "whatever comes next" is tried. Both intervals have started (before that there
#: is no pair), so what is open can only end: x first, y first, or both at once. The three are
#: told apart by the words O, I O and Z O, so two letters are enough; three leave room for being
#: wrong about that (a longer word only repeats a letter, which moves no endpoint's order).
_FUTURE = 3

#: How long it may be until the next event: time is dense, and a silence may last for ever.
#: A distance is a bound on a difference, which is least and greatest at these.
_SOON, _FAR = Fraction(1, 8), Fraction(10**18)

Time = Fraction | int
#: Where x starts and ends, where y starts and ends.
Endpoints = tuple[Time, Time, Time, Time]

_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

_INVERSE = dict(zip(ALL_NAMES, reversed(ALL_NAMES), strict=True))


class TieError(ValueError):
    """Two events of a partition at one time, where ties are errors."""


class TooManyMatchesError(ValueError):
    """More matches than the caller wants to see."""


@dataclass(frozen=True, slots=True)
class Moment:
    """An event, or the all-false one that MAX GAP puts at the end of a silence (row is None).

    What is bridged ends for certain at a moment at which the predicates stay as they were. What ends
    with the input is known to, at a moment behind the last event, and ends with that (``at``).
    """

    time: int
    row: Row | None
    at: int | None = None
    decides: bool = False  # nothing happens at it, but an absence may be decided

    @property
    def endpoint(self) -> int:
        """The time of an interval's end at this moment."""
        return self.time if self.at is None else self.at


@dataclass(frozen=True, slots=True)
class Interval:
    """A run: the positions of its first event and of the first event after it, if there is one.

    Of a bridged one, the end is known later: once no run can follow in time any more.
    """

    start: int
    end: int | None
    known: int | None  # position of the moment from which the end is known
    valid: int  # position of the event from which it counts


@dataclass(frozen=True, slots=True)
class Match:
    """One interval a symbol, with the positions of the events that trigger and complete it."""

    intervals: dict[str, Interval]
    trigger: int
    completion: int | None


def matches(
    query: Query,
    rows: Sequence[Row],
    truth: Mapping[str, Expression],
    *,
    clock: Clock | None = None,
    time: str = "ts",
    ties: str = "error",
    until: int | None = None,
    at_end: str = "open",
    most: int = 1_000_000,
    where: tuple[Expression, Sequence[Return]] | None = None,
) -> list[dict[str, Any]]:
    """The rows that a query has on these events, partition by partition.

        ``truth`` holds the predicate of each symbol; equal ones are equal predicates. ``rows`` hold
        their time in ticks of ``clock``; ``until`` is the time up to which time is known, by default
        the largest one in the input. ``at_end`` "close" ends what is open at the last event.
        ``where`` is the condition on a match, and what it reads, each named by its text.

        >>> from piestream.expressions.durations import Duration
    from piestream.language.model import Query
    from piestream.language.parts import Constraint, Endpoint, Symbol
        >>> from piestream.relations import Relation
        >>> from tests.truth import column
        >>> query = Query(
        ...     symbols=(Symbol("a", None), Symbol("b", None)),
        ...     constraints=(Constraint("a", "b", Relation.MEETS),),
        ...     within=Duration(9, in_ticks=True),
        ...     returns=(Endpoint("a", "ts", "a_ts"),),
        ... )
        >>> events = [{"ts": 4, "a": True, "b": False}, {"ts": 6, "a": False, "b": True}]
        >>> matches(query, events, {"a": column("a"), "b": column("b")})
        [{'detected_at': 6, 'a_ts': 4}]
    """
    clock = clock or Clock()
    time = query.streams[0].order_by or time
    if until is None:
        until = max((row[time] for row in rows), default=0)
    partitions: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(row[name] for name in query.partition_by), []).append(row)
    out = []
    for key, members in partitions.items():
        max_gap = query.streams[0].max_gap
        gap = None if max_gap is None else clock.ticks(max_gap)
        moments = _moments(_untied(query, members, time, ties), time, gap, until)
        partition = _Partition(query, clock, moments, truth, at_end, where, until)
        if query.absences:
            instants = partition.instants_of_absences(most)
            partition = _Partition(query, clock, moments, truth, at_end, where, until, instants)
        prefix = dict(zip(query.partition_by, key, strict=True))
        out += [prefix | row for row in partition.rows(most)]
    return out


def _untied(query: Query, rows: Sequence[Row], time: str, ties: str) -> list[Row]:
    """The events in their order, one at each instant."""
    stream = query.streams[0]
    chosen: dict[tuple[int, ...], Row] = {}
    for number, row in enumerate(rows):
        instant: tuple[int, ...] = (row[time],)
        if stream.row_order:
            instant = row[time], number
        elif stream.sequence is not None:
            instant = row[time], row[stream.sequence]
        if instant in chosen and ties == "error":
            raise TieError(f"two events at {instant}")
        if instant not in chosen or ties == "last":
            chosen[instant] = row
    return [chosen[at] for at in sorted(chosen)]


def _moments(rows: list[Row], time: str, gap: int | None, until: int) -> list[Moment]:
    """The events, and the ends of the silences that are longer than MAX GAP."""
    moments = []
    for row, following in zip(rows, [*(row[time] for row in rows[1:]), until], strict=True):
        moments.append(Moment(row[time], row))
        if gap is not None and following - row[time] > gap:
            moments.append(Moment(row[time] + gap, None))
    return moments


@dataclass(frozen=True, slots=True)
class Reported(Generic[T]):
    """A match in the order of the result: when it is reported, and where its intervals start.

    Instants are times, or pairs of a time and what tells events of one time apart.
    """

    time: int
    starts: Mapping[str, Any]
    match: T
    instant: Any = None  # of the report, where that is not its time
    intervals: Mapping[str, Any] | None = None  # what tells them apart, where their starts do not

    def of(self, symbol: str) -> Any:
        """What tells the interval of a symbol from others."""
        return (self.intervals or self.starts)[symbol]


def given(query: Query, clock: Clock, reported: Sequence[Reported[T]]) -> list[Reported[T]]:
    """Of the matches of a partition those that are given, each judged by those before."""
    limits = query.limits
    cooldown = None if limits.cooldown is None else clock.ticks(limits.cooldown)
    kept: list[Reported[T]] = []
    for one in reported:
        same = [k for k in kept if all(k.of(s) == one.of(s) for s in limits.once_per)]
        if limits.once_per and same:
            continue
        if limits.no_overlap and kept:
            last = kept[-1].time if kept[-1].instant is None else kept[-1].instant
            if min(one.starts.values()) < last:
                continue
        if cooldown is not None and kept and one.time - kept[-1].time <= cooldown:
            continue
        if limits.limit is not None and len(kept) >= limits.limit:
            continue
        kept.append(one)
    return kept


def in_windows(query: Query, clock: Clock, starts: Mapping[str, Time], report: Time) -> bool:
    """Whether a match, or a part of one, is within the windows of all symbols and of some."""
    if query.within != NO_WINDOW and report - min(starts.values()) > clock.ticks(query.within):
        return False
    return all(
        report - starts[w.symbol] <= clock.ticks(w.length)
        for w in query.windows
        if w.symbol in starts
    )


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
            allowed = frozenset(n for bit, n in enumerate(ALL_NAMES) if c.relations >> bit & 1)
            if c.x != absence.symbol:
                allowed = frozenset(_INVERSE[name] for name in allowed)
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
        found = allowed - _PRECISE
        if "follows" in allowed and is_quiet(name, True):
            found |= {"after"}
        if "followed-by" in allowed and is_quiet(name, False):
            found |= {"before"}
        return found

    def has_count(self, events: int, more_may_come: bool) -> bool:
        """Whether so many events are allowed, or may become so."""
        return (more_may_come or events >= self.fewest) and (
            self.largest is None or events <= self.largest
        )


class _Partition:
    """One partition: its events, the intervals of its symbols, its matches."""

    def __init__(
        self,
        query: Query,
        clock: Clock,
        moments: list[Moment],
        truth: Mapping[str, Expression],
        at_end: str = "open",
        where: tuple[Expression, Sequence[Return]] | None = None,
        until: int = 0,
        instants: Collection[int] = (),
    ) -> None:
        self.query, self.clock, self.moments, self.truth = query, clock, moments, truth
        self.where = where
        self.bridging = {
            symbol.name: None if symbol.bridging is None else clock.ticks(symbol.bridging)
            for symbol in query.symbols
        }
        #: Whether each predicate holds, and whether each symbol's interval lasts, at each moment.
        self.holds = {symbol.name: self._truths(truth[symbol.name]) for symbol in query.symbols}
        self.until = until
        deadlines = {*self._deadlines(until)}
        for at in sorted({*deadlines, *instants}):
            self._add_moment(at, decides=at not in deadlines)
        self.true = {name: self._with_bridges(name) for name in self.holds}
        self.n_open = len(self.moments)  # those behind are of the end of the input
        if at_end == "close" and moments:
            self._close()
        self.intervals = {symbol.name: list(self._intervals(symbol)) for symbol in query.symbols}
        self.allowed: dict[tuple[str, str], frozenset[str]] = {}
        for constraint in query.constraints:
            names = frozenset(
                name for bit, name in enumerate(ALL_NAMES) if constraint.relations >> bit & 1
            )
            self.allowed[constraint.x, constraint.y] = names
            self.allowed[constraint.y, constraint.x] = frozenset(_INVERSE[n] for n in names)
        self.distances = {
            pair: constraint.distances
            for constraint in query.constraints
            for pair in ((constraint.x, constraint.y), (constraint.y, constraint.x))
        }
        self._decided: dict[tuple[str, str, int, int], int | None] = {}
        self.present = sorted(symbol.name for symbol in query.present)
        self.groups = [Group.of(absence, query, clock) for absence in query.absences]

    def _truths(self, predicate: Expression) -> list[bool]:
        events = tuple(moment.row for moment in self.moments if moment.row is not None)
        gap = self.query.streams[0].max_gap
        past = Past(
            events,
            self.clock,
            self.query.streams[0].order_by or "ts",
            None if gap is None else self.clock.ticks(gap),
        )
        count, truths = 0, []
        for moment in self.moments:
            holds = moment.row is not None and predicate.holds(moment.row, past.up_to(count))
            truths.append(holds)
            count += moment.row is not None
        return truths

    # Bridging

    def _gaps(self, name: str) -> Iterator[tuple[int, int | None]]:
        """The positions where runs of a symbol's predicate end, and where the next one begins."""
        holds = self.holds[name]
        for k in range(1, len(holds)):
            if holds[k - 1] and not holds[k]:
                yield k, next((j for j in range(k, len(holds)) if holds[j]), None)

    def _deadlines(self, until: int) -> Iterator[int]:
        """When it is known that no run follows in time, without an event at that very time."""
        for name, ticks in self.bridging.items():
            for end, following in self._gaps(name) if ticks is not None else ():
                at = self.moments[end].time + ticks
                if following is not None and self.moments[following].time <= at:
                    continue
                there = [moment for moment in self.moments if moment.time == at]
                if self.query.is_sequenced:  # of one time another event may come
                    there = [moment for moment in there if moment.row is None]
                if not there and (until > at or self.moments[-1].time > at):
                    yield at

    def _add_moment(self, at: int, decides: bool) -> None:
        """A moment at which the predicates are as before."""
        place = sum(moment.time <= at for moment in self.moments)
        moment = Moment(at, None, decides=decides)
        self.moments = [*self.moments[:place], moment, *self.moments[place:]]
        for holds in self.holds.values():
            holds.insert(place, holds[place - 1])

    def _with_bridges(self, name: str) -> list[bool]:
        """Whether an interval of a symbol lasts at each moment."""
        ticks, lasts = self.bridging[name], list(self.holds[name])
        for end, following in self._gaps(name) if ticks is not None else ():
            if following is None:
                continue
            if self.moments[following].time - self.moments[end].time <= ticks:
                lasts[end:following] = [True] * (following - end)
        return lasts

    def _interrupted(self, name: str, now: int) -> int | None:
        """Where the predicate of a symbol ceased to hold whose run may go on as far as is known."""
        ticks, holds = self.bridging[name], self.holds[name]
        if ticks is None or holds[now] or not any(holds[:now]):
            return None
        end = max(k for k in range(now) if holds[k]) + 1
        return None if self._end_known(name, end) <= now else end

    def _end_known(self, name: str, end: int) -> int:
        """The position from which it is known that a run has ended; behind the last: not yet."""
        ticks = self.bridging[name]
        if ticks is None:
            return end
        at = self.moments[end].time + ticks
        return next(
            (
                k
                for k in range(end, len(self.moments))
                if self.moments[k].time > at
                or (self.moments[k].time == at and not self._may_go_on(k))
                or self.moments[k].at is not None
            ),
            len(self.moments),
        )

    def _may_go_on(self, position: int) -> bool:
        """Whether a moment is an event, and another one of its time may come."""
        return self.query.is_sequenced and self.moments[position].row is not None

    def _close(self) -> None:
        """End what is open: at the last event, or a tick after where it began with it.

        These are moments of their own behind the last event, though the first has its time, or that
        at which MAX GAP has ended an interval, or what may be bridged.
        """
        last = max(k for k, moment in enumerate(self.moments) if moment.row is not None)
        at = self.moments[last].time
        interrupted = [self._interrupted(name, len(self.moments) - 1) for name in self.true]
        intervals = [one for symbol in self.query.symbols for one in self._intervals(symbol)]
        ends = [*interrupted, *(one.end for one in intervals)]
        now = max([at, *(self.moments[end].time for end in ends if end is not None)])
        begun = {
            name: true[-1] and true[last] and not (last and true[last - 1])
            for name, true in self.true.items()
        }
        at_once = any(true[-1] and not begun[name] for name, true in self.true.items())
        if at_once or any(end is not None for end in interrupted):
            self.moments = [*self.moments, Moment(now, None, at)]
            for name, true in self.true.items():
                true.append(begun[name])
                self.holds[name].append(begun[name])
        if any(begun.values()):
            self.moments = [*self.moments, Moment(at + 1, None, at + 1)]
            for name, true in self.true.items():
                true.append(False)
                self.holds[name].append(False)

    def _intervals(self, symbol: Symbol) -> Iterator[Interval]:
        """The longest runs that keep the symbol's duration constraint, so far as is known."""
        true = self.true[symbol.name]
        for start, holds in enumerate(true):
            if holds and (start == 0 or not true[start - 1]):
                end = next((k for k in range(start, len(true)) if not true[k]), None)
                known = None if end is None else self._end_known(symbol.name, end)
                if known == len(self.moments):
                    end = known = None  # it may still go on
                valid = self._valid(symbol, start, end, known)
                if valid is not None:
                    yield Interval(start, end, known, valid)

    def _so_far(self, name: str, start: int, now: int) -> tuple[int, int]:
        """How long an interval is known to be at a moment, and of how many events."""
        ended = self._interrupted(name, now)
        if ended is None and not self.true[name][now]:
            ended = next(k for k in range(start, now + 1) if not self.true[name][k])
        until = self.moments[now].time if ended is None else self.moments[ended].endpoint
        # The ends of silences and of the input are no events.
        last = now if ended is None else ended - 1
        events = sum(self.moments[k].row is not None for k in range(start, last + 1))
        return until - self.moments[start].time, events

    def _valid(self, symbol: Symbol, start: int, end: int | None, known: int | None) -> int | None:
        """The event from which an interval counts, if there is one."""
        least = 0 if symbol.at_least is None else self.clock.ticks(symbol.at_least)
        fewest = symbol.at_least_events or 0
        last = len(self.moments) - 1 if known is None else known
        if symbol.at_most is None and symbol.at_most_events is None:
            for now in range(start, last + 1):
                length, events = self._so_far(symbol.name, start, now)
                comes = self._is_event(now) or now == known
                if comes and length >= least and events >= fewest:
                    return now
            return None
        if known is None:
            return None
        length, events = self._so_far(symbol.name, start, known)
        if length < least or events < fewest:
            return None
        if symbol.at_most is not None and length > self.clock.ticks(symbol.at_most):
            return None
        if symbol.at_most_events is not None and events > symbol.at_most_events:
            return None
        return known

    def _is_event(self, now: int) -> bool:
        """Whether something comes at a moment, or ends; else time only passes."""
        moment = self.moments[now]
        return (
            moment.row is not None
            or not now
            or any(holds[now - 1] != holds[now] for holds in self.holds.values())
        )

    # Pairs

    def _outlooks(
        self, x: str, y: str, xi: Interval, yi: Interval, now: int
    ) -> Iterator[tuple[frozenset[str], Endpoints]]:
        """For everything that can come after an event: the relations that then hold, and the ends."""
        times: list[Time] = [moment.endpoint for moment in self.moments[: now + 1]]
        x_known, y_known = xi.known, yi.known
        if x_known is not None and y_known is not None and max(x_known, y_known) <= now:
            assert xi.end is not None
            assert yi.end is not None
            past = zip(self.true[x][: now + 1], self.true[y][: now + 1], strict=True)
            ends = times[xi.start], times[xi.end], times[yi.start], times[yi.end]
            yield _holding(list(past), xi.start, xi.end, yi.start, yi.end), ends
            return  # nothing can change it
        letters = _LETTERS
        if self._same(x, y):
            letters = tuple(letter for letter in _LETTERS if letter[0] == letter[1])
        timed = bool(self.distances.get((x, y)))
        steps = (0, _FAR) if self.query.is_sequenced else (_SOON, _FAR)
        gaps = list(product(steps, repeat=_FUTURE)) if timed else [(_SOON,) * _FUTURE]
        latest = self.moments[now].time
        passing = [[*times, *(latest + sum(gap[: k + 1]) for k in range(_FUTURE))] for gap in gaps]
        seen = set()
        for (x_past, x_next), (y_past, y_next) in product(self._pasts(x, now), self._pasts(y, now)):
            past = list(zip(x_past, y_past, strict=True))
            if self._same(x, y) and x_past != y_past:
                continue
            for future in product(letters, repeat=_FUTURE):
                if (x_next and not future[0][0]) or (y_next and not future[0][1]):
                    continue
                word = [*past, *future]
                x_end = _end([letter[0] for letter in word], xi.start)
                y_end = _end([letter[1] for letter in word], yi.start)
                if x_end is None or y_end is None:
                    continue
                holding = _holding(word, xi.start, x_end, yi.start, y_end)
                if (holding, x_end, y_end) in seen:
                    continue
                seen.add((holding, x_end, y_end))
                for at in passing:
                    yield holding, (at[xi.start], at[x_end], at[yi.start], at[y_end])

    def _pasts(self, name: str, now: int) -> Iterator[tuple[list[bool], bool]]:
        """What a symbol's intervals may have been up to a moment; and whether one must go on."""
        true, end = self.true[name][: now + 1], self._interrupted(name, now)
        if end is None:
            yield true, False
            return
        yield true[:end] + [False] * (now + 1 - end), False
        yield true[:end] + [True] * (now + 1 - end), True

    def _same(self, x: str, y: str) -> bool:
        """Whether two symbols have the same intervals."""
        return self.truth[x] == self.truth[y] and self.bridging[x] == self.bridging[y]

    def _fits(self, x: str, y: str, outlook: tuple[frozenset[str], Endpoints]) -> bool:
        """Whether a pair keeps its constraint if this comes: its relations, and its distances."""
        holding, (xs, xe, ys, ye) = outlook
        at = {(x, "ts"): xs, (x, "te"): xe, (y, "ts"): ys, (y, "te"): ye}
        return bool(holding & self.allowed[x, y]) and all(
            _COMPARED[d.comparison](
                at[d.symbol, d.which] - at[d.other, d.other_which], self.clock.ticks(d.length)
            )
            for d in self.distances[x, y]
        )

    def decided(self, x: str, y: str, xi: Interval, yi: Interval) -> int | None:
        """The first event from which the pair keeps its constraint, whatever comes next."""
        key = x, y, xi.start, yi.start
        if key not in self._decided:
            self._decided[key] = None
            for now in range(max(xi.start, yi.start), len(self.moments)):
                comes = self._is_event(now) or self.moments[now].at is not None
                if not comes and now not in (xi.known, yi.known):
                    continue  # distances are decided at events
                if all(self._fits(x, y, one) for one in self._outlooks(x, y, xi, yi, now)):
                    self._decided[key] = now
                    break
                ends = xi.known, yi.known
                if None not in ends and now >= max(end for end in ends if end is not None):
                    break  # both have ended: nothing changes any more
        return self._decided[key]

    def relation(self, x: str, y: str, match: Match, now: int) -> str | None:
        """``RELATION(x, y)``: the one name that is still possible, None if there are several."""
        names = set()
        for outlook, _ in self._outlooks(x, y, match.intervals[x], match.intervals[y], now):
            holding = outlook & self.allowed.get((x, y), frozenset(ALL_NAMES) - _PRECISE)
            names.add(next(iter(holding & _PRECISE or holding)))
        return names.pop() if len(names) == 1 else None

    # Matches

    def _bindings(self, bound: dict[str, Interval], rest: list[str]) -> Iterator[Match]:
        """All combinations: one interval for each symbol, every constraint met."""
        if not rest:
            decisions = [self.decided(x, y, bound[x], bound[y]) for x, y in self.allowed if x < y]
            ends = [interval.known for interval in bound.values()]
            trigger = max(*(i.valid for i in bound.values()), *(d or 0 for d in decisions), 0)
            known = [end for end in ends if end is not None]
            yield Match(bound, trigger, max(known) if len(known) == len(ends) else None)
            return
        # A symbol that hangs on a bound one comes first: fewer combinations to throw away.
        name = next((n for n in rest if any((n, b) in self.allowed for b in bound)), rest[0])
        for interval in self.intervals[name]:
            if all(self._agree(name, interval, other, bound[other]) for other in bound):
                left = [n for n in rest if n != name]
                yield from self._bindings(bound | {name: interval}, left)

    def _agree(self, x: str, xi: Interval, y: str, yi: Interval) -> bool:
        if self._same(x, y) and xi.start == yi.start:
            return False  # equal predicates never bind the same interval
        return (x, y) not in self.allowed or self.decided(x, y, xi, yi) is not None

    # Absences

    def instants_of_absences(self, most: int) -> set[int]:
        """Between events, the instants at which an absence is decided for some match.

        The end of the input comes after all of them.
        """
        found = set()
        for count, match in enumerate(self._bindings({}, self.present)):
            if count >= most:
                raise TooManyMatchesError(f"more than {most} matches in one partition")
            for group in self.groups:
                found |= {*self._instants_of(group, match)}
        return found

    def _instants_of(self, group: Group, match: Match) -> Iterator[int]:
        """Those of one NOT beside a match: one after each moment from which nothing else would come."""
        for now in range(self._begun(match), self.n_open):
            at = self._possible_until(group, match, now)
            if at is None or at == absent.CERTAIN:
                return
            following = [moment.time for moment in self.moments[now + 1 : self.n_open]]
            if at < min(following, default=self.until):
                yield math.floor(at)

    def _begun(self, match: Match) -> int:
        """The moment at which the last interval of a match begins."""
        return max(interval.start for interval in match.intervals.values())

    def _absent_from(self, match: Match) -> int | None:
        """The first moment, not before its trigger, from which every NOT is decided.

        What is decided stays so.
        """
        decided = [match.trigger]
        for group in self.groups:
            at = self._none_from(group, match)
            if at is None:
                return None
            decided.append(at)
        return max(decided)

    def _none_from(self, group: Group, match: Match) -> int | None:
        """The first moment from which no interval can satisfy a NOT, whatever comes."""
        for now in range(self._begun(match), len(self.moments)):
            until = self._possible_until(group, match, now)
            if until is None:
                return now
            if until == absent.CERTAIN:
                break
        return None

    def _possible_until(self, group: Group, match: Match, now: int) -> Time | None:
        """Until when, as far as is known at a moment, a NOT could be satisfied; None: it cannot."""
        found: Time | None = None
        for span, present in self._group_outlooks(group, match, now):
            until = self._last_instant(group, match, now, span, present)
            if until is not None and (found is None or until > found):
                found = until
            if until == absent.CERTAIN:
                return until
        return found

    def _last_instant(
        self,
        group: Group,
        match: Match,
        now: int,
        one: Interval | None,
        present: Mapping[str, Any],
    ) -> Time | None:
        """The same for one interval of an absent symbol, or (None) for one to come.

        Each interval may have ended or go on, as far as is known. What holds in all cases is certain.
        """
        same = self._same_as(group, match)
        bridging = self.bridging[group.name]
        spans: list[absent.Span | None] = [None]
        if one is not None:
            spans = [
                span
                for span in self._spans(group.name, one, now)
                if self._is_enough(group, one, span, now)
            ]
        closes = self.moments[now].at is not None
        moment = absent.Moment(self.moments[now].time, closes, self._sequenced(now))
        found: set[Time | None] = set()
        names = list(present)
        for chosen in product(spans, *(self._spans(name, present[name], now) for name in names)):
            of_present = dict(zip(names, chosen[1:], strict=True))

            def is_quiet(name: str, after: bool, chosen: Any = (chosen[0], of_present)) -> bool:
                return self._is_quiet(group.name, name, after, *chosen, now)

            apart = {n: None if of_present[n].end is not None else bridging for n in same}
            asked = absent.Asked(
                group.name, group.relations_if(is_quiet), group.lengths, group.distances
            )
            to_come = absent.ToCome(apart, self._not_before(group.name, now))
            found.add(absent.last_instant(asked, moment, of_present, chosen[0] or to_come))
        if found == {absent.CERTAIN} and (
            one is None or len(spans) == len(self._spans(group.name, one, now))
        ):
            return absent.CERTAIN
        return max((min(at, absent.NEVER) for at in found if at is not None), default=None)

    def _is_quiet(
        self,
        absent_name: str,
        name: str,
        after: bool,
        span: absent.Span | None,
        present: Mapping[str, absent.Span],
        now: int,
    ) -> bool:
        """Whether none of two symbols touches the gap between an absent interval and one of the match.

        The absent one lies ``after``, or before; one to come may begin with the next event. What is
        interrupted has ended, or the gap would not be one, or nothing would begin behind it.
        """
        of_match = present[name]
        end, start = of_match.places[1], now + 1 if span is None else span.places[0]
        if not after:
            end, start = None if span is None else span.places[1], of_match.places[0]
        if end is None:
            return True  # it has not ended: there is no gap yet
        pasts = [next(self._pasts(one, now))[0] for one in (absent_name, name)]
        return not any(past[k] for past in pasts for k in range(int(end), int(start)))

    def _same_as(self, group: Group, match: Match) -> list[str]:
        """The symbols of a match that never have an interval of the absent one."""
        return [name for name in match.intervals if self._same(group.name, name)]

    def _group_outlooks(
        self, group: Group, match: Match, now: int
    ) -> Iterator[tuple[Interval | None, dict[str, Interval]]]:
        """The intervals of an absent symbol that have begun, and one to come; and those of the match."""
        same = self._same_as(group, match)
        present = {n: match.intervals[n] for n in {*group.relations, *same}}
        for one in self._runs(group, now):
            if all(match.intervals[name].start != one.start for name in same):
                yield one, present
        yield None, present

    def _sequenced(self, now: int) -> absent.Sequenced | None:
        """Whether other events of the time of a moment may come, where several have one time."""
        if not self.query.is_sequenced:
            return None
        return absent.Sequenced(is_behind=self.moments[now].row is None)

    def _not_before(self, name: str, now: int) -> tuple[tuple[str, str], int] | None:
        """After which instant an interval to come begins, and how long after it, at least.

        So far behind the one that has not ended, or it would be a part of that.
        """
        bridging = self.bridging[name]
        if bridging is None or self.moments[now].at is not None:
            return None
        ended = self._interrupted(name, now)
        if ended is not None:
            return absent.ORIGIN, self.moments[ended].time + bridging
        return (absent.NOW, bridging) if self.holds[name][now] else None

    def _runs(self, group: Group, now: int) -> Iterator[Interval]:
        """The intervals of an absent symbol that have begun, if they may have enough events."""
        true = self.true[group.name][: now + 1]
        for start, holds in enumerate(true):
            if holds and (start == 0 or not true[start - 1]):
                end = next((k for k in range(start, now + 1) if not true[k]), None)
                known = None if end is None else self._end_known(group.name, end)
                if end is not None and known is not None and known <= now:
                    _, events = self._so_far(group.name, start, end)
                    if not group.has_count(events, False):
                        continue
                else:
                    end = known = None
                yield Interval(start, end, known, start)

    def _is_enough(self, group: Group, one: Interval, span: absent.Span, now: int) -> bool:
        """Whether an interval of an absent symbol has enough events, if it has ended."""
        if one.end is not None:
            return True
        if span.end is not None:
            return group.has_count(self._so_far(group.name, one.start, now)[1], False)
        so_far = sum(moment.row is not None for moment in self.moments[one.start : now + 1])
        goes_on = self._interrupted(group.name, now) is not None  # at one event more
        return group.has_count(so_far + goes_on, True)

    def _spans(self, name: str, one: Interval, now: int) -> list[absent.Span]:
        """An interval as far as it is known; of one that is interrupted, all that it may be."""
        start = self.moments[one.start].time
        if one.end is not None and one.known is not None and one.known <= now:
            end = self.moments[one.end]
            places = one.start, one.end
            return [absent.Span(start, end.endpoint, None, end.at is not None, places)]
        open_span = absent.Span(start, None, places=(one.start, None))
        ended = self._interrupted(name, now)
        if ended is None:
            return [open_span]
        at, bridging = self.moments[ended].time, self.bridging[name]
        assert bridging is not None
        return [
            absent.Span(start, at, places=(one.start, ended)),
            replace(open_span, goes_on_before=at + bridging),
        ]

    def rows(self, most: int) -> list[dict[str, Any]]:
        """The rows of the partition in the order of their reports."""
        names = self.present
        found: list[tuple[int, list[int], Match]] = []

        for count, match in enumerate(self._bindings({}, names)):
            if count >= most:
                raise TooManyMatchesError(f"more than {most} matches in one partition")
            if self.groups:
                decided = self._absent_from(match)
                if decided is None:
                    continue
                done = match.completion
                match = Match(
                    match.intervals, decided, None if done is None else max(done, decided)
                )
            if self.query.emit is Emit.COMPLETION:
                if match.completion is None:
                    continue
                at = match.completion
            else:
                at = match.trigger
            starts = {n: self.moments[i.start].time for n, i in match.intervals.items()}
            if in_windows(self.query, self.clock, starts, self._passed(at)) and self._passes(
                match, at
            ):
                found.append((at, [match.intervals[name].start for name in names], match))
        found.sort(key=lambda one: one[:2])
        reported = []
        for at, starts, match in found:
            places = {n: self._instant(start) for n, start in zip(names, starts, strict=True)}
            time = self.moments[at].time
            reported.append(Reported(time, places, (at, starts, match), self._instant(at)))
        reports: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        for at, starts, match in (one.match for one in given(self.query, self.clock, reported)):
            phase = "completion" if self.query.emit is Emit.COMPLETION else "trigger"
            reports.append(((at, 0, starts), self._row(match, at, phase)))
            at = match.completion if self.query.emit is Emit.BOTH else None
            if at is not None:
                reports.append(((at, 1, starts), self._row(match, at, "completion")))
        return [row for _, row in sorted(reports, key=lambda pair: pair[0])]

    def _passed(self, at: int) -> int:
        """The time to which windows count at a moment: what has happened by then.

        The end of the input is shown with the last event, whatever time has decided since.
        """
        before = [moment.time for moment in self.moments[:at] if not moment.decides]
        return max([self.moments[at].time, *before])

    def _instant(self, position: int) -> Any:
        """The instant of a moment; what ends with the last event does so at that."""
        time = self.moments[position].time
        if not self.query.streams[0].is_sequenced:
            return time
        before = self.moments[position - 1] if position else None
        closes = self.moments[position].at is not None and before is not None
        closes = closes and before is not None and before.time == time
        return time, position - closes

    def _passes(self, match: Match, at: int) -> bool:
        """WHERE, with the values known at the first report."""
        if self.where is None:
            return True
        condition, items = self.where
        return condition.holds({i.alias: self._value(i, match, at) for i in items}, Past())

    # RETURN

    def _row(self, match: Match, at: int, phase: str) -> dict[str, Any]:
        time = self.moments[at].time
        # With EMIT ON BOTH one column holds the time of either phase's report.
        completed = self.query.emit is Emit.COMPLETION
        row: dict[str, Any] = {"completed_at" if completed else "detected_at": time}
        if self.query.emit is Emit.BOTH:
            row["phase"] = phase
        return row | {item.alias: self._value(item, match, at) for item in self.query.returns}

    def _value(self, item: Return, match: Match, at: int) -> Any:
        if isinstance(item, RelationOf):
            return self.relation(item.x, item.y, match, at)
        interval = match.intervals[item.symbol]
        start = self.moments[interval.start].time
        end = None
        if interval.end is not None and interval.known is not None and interval.known <= at:
            end = self.moments[interval.end].endpoint
        if isinstance(item, Endpoint):
            return start if item.which == "ts" else end
        if isinstance(item, DurationOf):
            return None if end is None else end - start
        assert isinstance(item, Aggregate)
        return self._aggregate(item, interval, at)

    def _aggregate(self, item: Aggregate, interval: Interval, at: int) -> Any:
        last = at if interval.end is None else min(at, interval.end - 1)
        interrupted = self._interrupted(item.symbol, at)
        if interrupted is not None and interrupted <= last and interval.start < interrupted:
            last = interrupted - 1
        rows = [self.moments[k].row for k in range(interval.start, last + 1)]
        events = [row for row in rows if row is not None]
        if item.column is None:
            return len(events)
        values = [_missing(row[item.column]) for row in events]
        return _AGGREGATES[item.function](values)


_PRECISE = frozenset(("followed-by", "follows"))


def _end(true: list[bool], start: int) -> int | None:
    return next((k for k in range(start, len(true)) if not true[k]), None)


def _holding(word: list[Letter], xs: int, xe: int, ys: int, ye: int) -> frozenset[str]:
    """The relations that hold between ``[xs, xe)`` and ``[ys, ye)``."""
    quiet = all(letter == (False, False) for letter in word[min(xe, ye) : max(xs, ys)])
    return holding(xs, xe, ys, ye, quiet)


def holding(xs: Time, xe: Time, ys: Time, ye: Time, quiet: bool) -> frozenset[str]:
    """The same, given whether nothing holds between the two."""
    table = {
        "before": xe < ys,
        "followed-by": xe < ys and quiet,
        "meets": xe == ys,
        "overlaps": xs < ys < xe < ye,
        "finished-by": xs < ys and xe == ye,
        "contains": xs < ys and ye < xe,
        "starts": xs == ys and xe < ye,
        "equals": xs == ys and xe == ye,
        "started-by": xs == ys and ye < xe,
        "during": ys < xs and xe < ye,
        "finishes": ys < xs and xe == ye,
        "overlapped-by": ys < xs < ye < xe,
        "met-by": ye == xs,
        "follows": ye < xs and quiet,
        "after": ye < xs,
    }
    return frozenset(name for name, holds in table.items() if holds)


def _missing(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _variance(values: list[Any]) -> float | None:
    """The variance of a sample; NULL below two values."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1)


def _deviation(values: list[Any]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


def _over_known(of: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """An aggregate that ignores NULL, and is NULL when nothing else is there."""

    def value(values: list[Any]) -> Any:
        known = [v for v in values if v is not None]
        return of(known) if known else None

    return value


_AGGREGATES: dict[str, Callable[[list[Any]], Any]] = {
    "FIRST": lambda values: values[0],
    "LAST": lambda values: values[-1],
    "COUNT": lambda values: sum(v is not None for v in values),
    "MIN": _over_known(min),
    "MAX": _over_known(max),
    "SUM": _over_known(lambda v: math.fsum(v) if isinstance(v[0], float) else sum(v)),
    "AVG": _over_known(lambda v: math.fsum(v) / len(v)),
    "STDDEV": _over_known(_deviation),
    "VARIANCE": _over_known(_variance),
}
