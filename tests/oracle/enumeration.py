"""Futures of a ``NOT (…)``: until when some interval may still satisfy all of it, by trying them.

What is not known yet is when open intervals end, and where an interval of the absent symbol starts and ends
that has not begun. All of it is later than now. A future is a choice of these endpoints. Those that keep all
conditions are listed, and of each it is known how long it stays possible while nothing comes: until the first
of its endpoints. So the group may be satisfied until the latest of these instants.

Finitely many futures are enough. Known times and lengths are whole numbers. Move what comes, in a future that
keeps the conditions, to later times as long as they are kept: each endpoint then lies at a known time, or at
another endpoint, plus one of the lengths that tie them, or just beside; or it moves for ever, and then lies
behind everything (``far``). Just beside: of two endpoints that are strictly apart only the order of their
fractions counts, and the first of both and their ends fit in quarters, the end of an interval of the match
in the eighths between. An interval of the match has no condition with another one of the match here,
so that its end is tried for each interval of the absent symbol by itself.

Where several events have one time, an instant is a time and a rank among those of that time. Rows of intervals
come before all events of their times, at rank 0; of the others some ranks are enough for every order.
Orders compare instants, and lengths measure times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from tests.oracle.questions import NOW, RELATIONS, Asked, Moment, Node, Span, ToCome

__all__ = ["FINE", "Futures"]

#: Points of the grid between two whole numbers; the endpoints of the absent interval are at every second one.
FINE = 8
_BESIDE = np.arange(-FINE + 2, FINE, 2)
#: Instants that are tried at a time: one of a row, and of events so many. Those of the absent interval leave
#: room for the ends of others between.
_RANKS, _ABSENT_RANKS, _LAST_RANK = 6, (0, 2, 4), 5

_COMPARED = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """An endpoint in all futures that are tried."""

    #: Its instant: the time since now in parts of the grid, as many times as there are ranks, and the rank.
    instant: Any
    time: Any
    #: How far behind its instant it lies, where the input ends.
    later: int = 0
    #: Its place among the instants that have been, where several have one time.
    place: Fraction | int | None = None
    is_hidden: bool = False  # it may have been, and has no place


class Futures:
    """All futures that have to be tried of an absent interval beside a match."""

    def __init__(
        self, asked: Asked, now: Moment, present: Mapping[str, Span], one: Span | ToCome
    ) -> None:
        self.asked, self.now, self.present, self.one = asked, now, present, one
        self.ranks = 1 if now.sequenced is None else _RANKS
        self.start, self.end = (asked.absent, "ts"), (asked.absent, "te")
        self.spans = {**present, asked.absent: one} if isinstance(one, Span) else dict(present)
        self.known = dict(self._known())
        self.unknown = [(name, "te") for name, span in present.items() if span.end is None]
        #: Instants before which something comes, and now.
        goes_on = (span.goes_on_before for span in self.spans.values())
        self.goes_on = [at for at in goes_on if at is not None]
        lengths = sum(abs(length) for length in self._all_lengths())
        furthest = max(map(abs, [0, *self.known.values(), *self.goes_on]))
        #: A time behind everything, in parts of the grid.
        self.far = 32 * (lengths + furthest + 2) * FINE

    def _known(self) -> Iterator[tuple[Node, int]]:
        for name, span in self.spans.items():
            yield (name, "ts"), span.start
            if span.end is not None:
                yield (name, "te"), span.end

    def _all_lengths(self) -> Iterator[int]:
        yield from (amount for *_, amount in self.asked.distances)
        yield from (bound or 0 for bound in (*self.asked.lengths, self.asked.longer_than))
        if isinstance(self.one, ToCome):
            yield from (length or 0 for length in self.one.apart.values())
            yield from (of[1] for of in (self.one.not_before, self.one.late) if of is not None)

    def possible_until(self) -> int | None:
        """The code of the latest instant until which a future stays possible; None if there is none."""
        start, end = self._absent_intervals()
        until = self._until_known(start, end)
        for name in self.present:
            until = np.minimum(until, self._kept_until(name, start, end))
        for at in self.goes_on:
            last = _LAST_RANK if self.now.sequenced is not None else 0
            until = np.minimum(until, at * FINE * self.ranks + last)
        latest = int(until.max(initial=self._nothing))
        return latest if latest > self._now else None

    @property
    def _now(self) -> int:
        """The code of now: what comes is later."""
        sequenced = self.now.sequenced
        return _LAST_RANK if sequenced is not None and sequenced.is_behind else 0

    @property
    def _nothing(self) -> int:
        return -self.far * self.ranks * 2

    # Which endpoints matter

    def _ties(self, x: Node, y: Node) -> set[int]:
        """The lengths by which conditions tie an endpoint to another one: x lies at y and so much."""
        found = {0}
        if self.now.closes:
            found |= {-1, 1}
        for end, since, _, amount in self.asked.distances:
            found |= {amount} if (end, since) == (x, y) else set()
            found |= {-amount} if (since, end) == (x, y) else set()
        if {x, y} == {self.start, self.end}:
            lengths = {b for b in (*self.asked.lengths, self.asked.longer_than) if b is not None}
            if isinstance(self.one, ToCome) and self.one.late is not None:
                lengths.add(self.one.late[1])
            found |= lengths if x == self.end else {-length for length in lengths}
        if isinstance(self.one, ToCome):
            for absent, name, sign in ((x, y[0], 1), (y, x[0], -1)):
                if absent == self.start and name in self.one.apart:
                    found.add(sign * (self.one.apart[name] or 0))
        return found

    def _beside_known(self, x: Node) -> set[int]:
        """The whole numbers at which, or beside which, an endpoint of the absent interval is tried."""
        found = {at + tie for y, at in self.known.items() for tie in self._ties(x, y)}
        for base in (0, *self.goes_on):
            found |= {base + tie for y in self.unknown for tie in self._ties(x, y)} | {base}
            if isinstance(self.one, ToCome) and self.one.not_before is not None:
                found.add(self.one.not_before[1])
            if isinstance(self.one, ToCome) and self.one.late is not None:
                found.add(base - self.one.late[1])
        far = self.far // FINE
        return found | {far, -far}

    def _between(self) -> set[int]:
        """The lengths of the absent interval that are tried."""
        found = self._ties(self.end, self.start)
        for y in self.unknown:
            both = product(self._ties(self.end, y), self._ties(y, self.start))
            found |= {one + other for one, other in both}
        return found

    # The absent interval

    def _absent_intervals(self) -> tuple[_Endpoint, _Endpoint]:
        """The endpoints that an absent interval may have, as far as its own lengths let it."""
        between = _beside(self._between())
        starts, ends = self._known_time(self.start), self._known_time(self.end)
        if starts is None:
            apart = _beside({-length for length in self._between()})
            by_end = _beside(self._beside_known(self.end))[:, None] + apart
            starts = np.union1d(_beside(self._beside_known(self.start)), by_end)
            if not self._is_hidden("ts"):
                starts = starts[starts >= 0]
        if ends is None:
            fixed = _beside(self._beside_known(self.end))
            fixed = np.broadcast_to(fixed, (len(starts), len(fixed)))
            ends = np.concatenate([starts[:, None] + between, fixed], axis=1)
        starts, ends = (array.ravel() for array in np.broadcast_arrays(starts[:, None], ends))
        fits = self._has_length(ends - starts)
        return self._ranked(starts[fits], ends[fits])

    def _known_time(self, node: Node) -> Any:
        return np.array([self.known[node] * FINE]) if node in self.known else None

    def _is_hidden(self, which: str) -> bool:
        return isinstance(self.one, ToCome) and which in self.one.hidden

    def _has_length(self, length: Any) -> Any:
        least, most = self.asked.lengths
        fits = (length >= least * FINE) & (length >= 0)
        if most is not None:
            fits &= length <= most * FINE
        if self.asked.longer_than is not None:
            fits &= length > self.asked.longer_than * FINE
        if isinstance(self.one, ToCome) and self.one.late is not None:
            which, longest = self.one.late
            fits &= length > 0
            if which == "ts":
                fits &= length <= longest * FINE
        return fits

    def _ranked(self, starts: Any, ends: Any) -> tuple[_Endpoint, _Endpoint]:
        """These times with all ranks that their instants may have."""
        ranks = [np.array(self._absent_ranks(which)) for which in ("ts", "te")]
        places = starts[:, None, None], ranks[0][:, None], ends[:, None, None], ranks[1]
        starts, first, ends, last = (array.ravel() for array in np.broadcast_arrays(*places))
        starts, ends = starts * self.ranks + first, ends * self.ranks + last
        if isinstance(self.one, ToCome):
            fits = starts < ends
            starts, ends = starts[fits], ends[fits]
        name = self.asked.absent
        return self._endpoint(name, "ts", starts), self._endpoint(name, "te", ends)

    def _absent_ranks(self, which: str) -> Sequence[int]:
        if self.ranks == 1 or self._is_hidden(which):
            return (0,)
        if (self.asked.absent, which) in self.known:
            return (self._known_rank(self._place(self.asked.absent, which)),)
        return _ABSENT_RANKS

    def _known_rank(self, place: Fraction | int | None) -> int:
        """The rank of an endpoint that is known: behind all rows of its time if it is one of an event."""
        return int(place is not None and place % 1 != 0)

    def _until_known(self, start: _Endpoint, end: _Endpoint) -> Any:
        """Before which instant each absent interval has not shown itself; it has by then."""
        until: Any = np.full(start.instant.shape, self.far * self.ranks * 2)
        if isinstance(self.one, Span):
            return until if self.one.end is not None else np.minimum(until, end.instant)
        if self.one.late is None:
            until = np.minimum(until, start.instant if self.one.known_by == "ts" else end.instant)
        else:
            which, length = self.one.late
            since = start if which == "ts" else end
            until = np.minimum(until, (since.time + length * FINE) * self.ranks)
        if self.one.not_before is not None:
            node, length = self.one.not_before
            later = start.time - length * FINE
            if node == NOW:  # what goes on ends so much before, at least
                until = np.minimum(until, later * self.ranks)
            else:
                until = np.where(later > 0, until, self._nothing)
        return until

    # The match

    def _endpoint(self, name: str, which: str, instant: Any) -> _Endpoint:
        """An endpoint of which the instants are given."""
        if self.ranks == 1:
            return _Endpoint(instant, instant, FINE * self._is_delayed(name, which))
        place = self._place(name, which)
        if place is not None and self.now.sequenced and place > self.now.sequenced.place:
            place = None  # it is known, and comes
        hidden = name == self.asked.absent and self._is_hidden(which)
        return _Endpoint(instant, instant // self.ranks, 0, place, hidden)

    def _place(self, name: str, which: str) -> Fraction | int | None:
        return self.spans[name].places[which == "te"] if name in self.spans else None

    def _is_delayed(self, name: str, which: str) -> bool:
        """True if an endpoint lies a tick behind where it is shown, once the input is closed."""
        if name not in self.spans:
            return self.now.closes and not (isinstance(self.one, ToCome) and self.one.late)
        span = self.spans[name]
        return which == "te" and (span.is_closed or (self.now.closes and span.end is None))

    def _match_endpoint(self, name: str, which: str) -> _Endpoint:
        """A known endpoint of the match."""
        rank = 0 if self.ranks == 1 else self._known_rank(self._place(name, which))
        time = self.known[name, which] * FINE
        return self._endpoint(name, which, np.array([time * self.ranks + rank]))

    def _kept_until(self, name: str, start: _Endpoint, end: _Endpoint) -> Any:
        """The instants until which an interval of the match can keep all conditions beside each absent one."""
        of_match = self._match_endpoint(name, "ts")
        always = self.far * self.ranks * 2
        if (name, "te") in self.known:
            kept = self._keeps(name, start, end, of_match, self._match_endpoint(name, "te"))
            return np.where(kept, always, self._nothing)
        best = np.full(start.instant.shape, self._nothing)
        for instant in self._ends_to_come(name, start, end):
            better = instant > np.maximum(best, self._now)
            if better.any():
                last = self._endpoint(name, "te", instant)
                better &= self._keeps(name, start, end, of_match, last)
                best = np.where(better, instant, best)
        return best

    def _ends_to_come(self, name: str, start: _Endpoint, end: _Endpoint) -> Iterator[Any]:
        """The instants at which an interval of the match is let end, the latest first."""
        last = (name, "te")
        yield np.full(start.instant.shape, self.far * 2 * self.ranks)
        for node, of in ((self.start, start), (self.end, end)):
            for tie in self._ties(last, node):
                for beside, rank in product((0, -1), range(self.ranks)):
                    yield (of.time + tie * FINE + beside) * self.ranks + rank

    def _keeps(
        self, name: str, start: _Endpoint, end: _Endpoint, first: _Endpoint, last: _Endpoint
    ) -> Any:
        """True for each absent interval with which one of the match keeps its conditions."""
        endpoints = {
            self.start: start,
            self.end: end,
            (name, "ts"): first,
            (name, "te"): last,
        }
        kept = np.ones(start.instant.shape, bool)
        allowed = frozenset(self.asked.relations.get(name, RELATIONS))
        if len(allowed) < len(RELATIONS):
            signs = 0
            for x, y in product((start, end), (first, last)):
                signs = signs * 3 + _order(x, y) + 1
            kept &= _allowing(allowed)[signs]
        for one, since, comparison, amount in self.asked.distances:
            if name in (one[0], since[0]):
                length = endpoints[one].time - endpoints[since].time
                kept &= _COMPARED[comparison](length, amount * FINE)
        if isinstance(self.one, ToCome) and name in self.one.apart:
            kept &= self._is_apart(last, start, self.one.apart[name])
        return kept

    def _is_apart(self, last: _Endpoint, start: _Endpoint, length: int | None) -> Any:
        """True if the absent run begins behind one of the same predicate, which it does not touch."""
        if length is not None:
            return start.time - last.time > length * FINE
        return last.instant < start.instant


def _beside(times: Collection[int]) -> Any:
    """The points of the grid at these times, and around them."""
    return np.unique(np.array(sorted(times), dtype=np.int64)[:, None] * FINE + _BESIDE)


def _order(x: _Endpoint, y: _Endpoint) -> Any:
    """The order of two endpoints: -1 or 1, or 0 if they are at one instant."""
    if x.place is not None and y.place is not None:
        return np.int8((x.place > y.place) - (x.place < y.place))
    if x.place is not None and not y.is_hidden:
        return np.int8(-1)  # the other one comes
    if y.place is not None and not x.is_hidden:
        return np.int8(1)
    return np.sign(x.instant + x.later - y.instant - y.later)


@cache
def _allowing(names: frozenset[str]) -> Any:
    """Of each order of endpoints, as a number in base three, whether one of these relations has it."""
    table = np.zeros(81, bool)
    for number, signs in enumerate(product((-1, 0, 1), repeat=4)):
        table[number] = any(_has(name, *signs) for name in names)
    return table


def _has(name: str, ss: int, se: int, es: int, ee: int) -> bool:
    """True if a relation is that of an interval to another one, of whose endpoints these are the orders."""
    orders = {"xsys": ss, "xsye": se, "xeys": es, "xeye": ee}
    for left, sign, right in RELATIONS[name]:
        order = orders[left + right] if left[0] == "x" else -orders[right + left]
        if order != (-1 if sign == "<" else 0):
            return False
    return True
