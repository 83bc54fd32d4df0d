"""Pairs of intervals: what may still come of them, and when it is decided that they keep their constraint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from piestream.language.parts import Constraint
from piestream.relations import ALL_NAMES
from tests.oracle.history import History
from tests.oracle.known import Known, time_of
from tests.oracle.reading import PLACE
from tests.oracle.rules import COMPARED, INVERSE, PRECISE, allowed_by, holding

__all__ = ["Pairs"]

Time = Fraction | int


class Pairs:
    """Constraints on pairs of intervals of a partition."""

    def __init__(self, history: History, constraints: Iterable[Constraint]) -> None:
        self.history = history
        self._decisions: dict[tuple[str, str, int, Time, int, Time], Time | None] = {}
        self.allowed: dict[tuple[str, str], frozenset[str]] = {}
        self.distances = {}
        for constraint in constraints:
            x, y, names = constraint.x, constraint.y, allowed_by(constraint)
            self.allowed[x, y] = names
            self.allowed[y, x] = frozenset(INVERSE[name] for name in names)
            self.distances[x, y] = self.distances[y, x] = constraint.distances

    def _outlooks(
        self, x: str, y: str, xi: Known, yi: Known, now: Time
    ) -> Iterator[tuple[frozenset[str], tuple[Time, Time]]]:
        """Outlooks at an instant, one for each thing that may come: the relations that then hold, and the ends."""
        precise = bool(self.allowed.get((x, y), frozenset()) & PRECISE)
        timed = bool(self.distances.get((x, y)))
        for xe, ye in product(*(self._ends(one, (xi, yi), now, timed) for one in (xi, yi))):
            quiet = precise and self._quiet(x, y, xi, yi, xe if xi.start <= yi.start else ye)
            yield holding(xi.start, xe, yi.start, ye, quiet), (xe, ye)

    def _fits(
        self, x: str, y: str, xi: Known, yi: Known, outlook: tuple[frozenset[str], Any]
    ) -> bool:
        """True if a pair keeps its constraint if this comes: its relations, and its distances."""
        holding, (xe, ye) = outlook
        if not holding & self.allowed[x, y]:
            return False
        at = {(x, "ts"): time_of(xi.start), (y, "ts"): time_of(yi.start)}
        # an end behind the last instant has its time
        at |= {(n, "te"): self._shown_end(one, end) for n, one, end in ((x, xi, xe), (y, yi, ye))}
        return all(
            COMPARED[d.comparison](
                at[d.symbol, d.which] - at[d.other, d.other_which],
                self.history.clock.ticks(d.length),
            )
            for d in self.distances[x, y]
        )

    def _shown_end(self, one: Known, end: Time) -> Time:
        if self.history.is_sequenced:
            return self.history.shown.get(end, time_of(end))
        return self.history.shown_time(end) if end == one.end else end

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
        if self.history.may_be_joined(now):
            found += [now + PLACE / 4, now + PLACE / 2]
        if timed:  # a difference is least and greatest if an end comes soon, or late
            found += [now + Fraction(1, 16), now + Fraction(1, 8), now + 10**18, now + 10**19]
        ceased = one.ceased_at(now)
        return found if ceased is None else [*found, ceased]

    def _quiet(self, x: str, y: str, xi: Known, yi: Known, end: Time) -> bool:
        """True if the first of two with this end is followed by the other: nothing known then touches the gap."""
        now = max(xi.since, yi.since)
        first, later, of_first = (xi, yi, x) if xi.start <= yi.start else (yi, xi, y)
        if end >= later.start:
            return False
        return not any(
            other.since <= now
            and other.start < later.start
            and (other.end is None or other.end > end)
            for name in (x, y)
            for other in self.history.all[name]
            if (name, other.number, other.start) != (of_first, first.number, first.start)
        )

    def decided(self, x: str, y: str, xi: Known, yi: Known) -> Time | None:
        """The first instant from which the relation is an allowed one, whatever comes next."""
        key = x, y, xi.number, xi.start, yi.number, yi.start
        if key not in self._decisions:
            self._decisions[key] = self._first_decision(x, y, xi, yi)
        return self._decisions[key]

    def _first_decision(self, x: str, y: str, xi: Known, yi: Known) -> Time | None:
        ends = (xi.end_since, yi.end_since)
        for now in self.history.instants_from(max(xi.since, yi.since)):
            comes = now in self.history.coming or now in self.history.shown
            if not comes and now not in ends:
                continue  # distances are decided at events
            if all(self._fits(x, y, xi, yi, one) for one in self._outlooks(x, y, xi, yi, now)):
                return now
            if all(end is not None and end <= now for end in ends):
                break  # nothing is to come any more
        return None

    def relation(self, x: str, y: str, bound: dict[str, Known], at: Time) -> str | None:
        """The one relation of a pair that is still possible at an instant; None if there are several."""
        names = set()
        for outlook, _ in self._outlooks(x, y, bound[x], bound[y], at):
            holding = outlook & self.allowed.get((x, y), frozenset(ALL_NAMES) - PRECISE)
            names.add(next(iter(holding & PRECISE or holding)))
        return names.pop() if len(names) == 1 else None
