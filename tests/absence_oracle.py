"""Absence by brute force over futures: from when on can no interval satisfy all of a NOT group (SPEC 8.5)?

A future is a choice of further events: times from a grid of all that may matter, and which predicates hold
at them. In each of them everything is known, so whether some interval of the absent symbol satisfies the
group is a question of endpoints alone. An absence is decided at the first instant after which no future has
such an interval: an event, or an endpoint plus a length, at which no event need be.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product

from piestream.language.distances import Distance
from piestream.relations import ALL_NAMES, Relation, relation_of

__all__ = ["Group", "Past", "absent_from"]

Time = Fraction | int
#: ``[start, end)``
Span = tuple[Time, Time]

_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_PRECISE = {Relation.FOLLOWED_BY: Relation.BEFORE, Relation.FOLLOWS: Relation.AFTER}
#: So many further events are tried: two make an interval of c, and two end what is open besides.
_MOST_EVENTS = 3


@dataclass(frozen=True)
class Group:
    """NOT (...): the relations of c to each present symbol, the distances, and how long c may last."""

    absent: str
    relations: Mapping[str, Relation]  # of c to the symbol
    distances: tuple[Distance, ...] = ()
    at_least: int = 0
    at_most: int | None = None

    @property
    def lengths(self) -> set[int]:
        """All lengths that it speaks of."""
        given = {distance.length.amount for distance in self.distances}
        return given | {self.at_least} | ({self.at_most} if self.at_most is not None else set())


@dataclass(frozen=True)
class Past:
    """The events of a partition, with what holds at each: also before the first and after a silence."""

    times: tuple[Time, ...]
    true: Mapping[str, tuple[bool, ...]]
    max_gap: int | None = None
    until: int = field(default=0)  # time has gone so far

    def up_to(self, now: Time) -> Past:
        """What is known of it at an instant that has passed."""
        count = sum(time <= now for time in self.times)
        return Past(
            self.times[:count],
            {name: holds[:count] for name, holds in self.true.items()},
            self.max_gap,
        )

    def with_silences(self, until: Time) -> Past:
        """The ends of silences as events at which nothing holds."""
        if self.max_gap is None:
            return self
        times: list[Time] = []
        true: dict[str, list[bool]] = {name: [] for name in self.true}
        for k, time in enumerate(self.times):
            times.append(time)
            for name in true:
                true[name].append(self.true[name][k])
            following = self.times[k + 1] if k + 1 < len(self.times) else until
            if following - time > self.max_gap:
                times.append(time + self.max_gap)
                for holds in true.values():
                    holds.append(False)
        return Past(tuple(times), {name: tuple(of) for name, of in true.items()}, self.max_gap)

    def runs(self, name: str) -> Iterator[tuple[Time, Time | None]]:
        """The intervals of a symbol; an end that is not known is None."""
        start: Time | None = None
        for time, holds in zip(self.times, self.true[name], strict=True):
            if holds and start is None:
                start = time
            elif not holds and start is not None:
                yield start, time
                start = None
        if start is not None:
            yield start, None


def _relations_that_hold(world: Past, x: str, xi: Span, y: str, yi: Span) -> Relation:
    holding = relation_of(*xi, *yi)
    for precise, wide in _PRECISE.items():
        if holding == wide:
            first, later = (xi, yi) if wide is Relation.BEFORE else (yi, xi)
            touched = any(
                first[1] <= time < later[0] and (world.true[x][k] or world.true[y][k])
                for k, time in enumerate(world.times)
            )
            holding |= Relation(0) if touched else precise
    return holding


def _satisfied(group: Group, world: Past, present: Mapping[str, Time]) -> bool:
    """Whether some interval of c satisfies all of the group, where everything has ended."""
    bound: dict[str, Span] = {}
    for name, start in present.items():
        ((_, end),) = (run for run in world.runs(name) if run[0] == start)
        assert end is not None
        bound[name] = start, end
    for start, end in world.runs(group.absent):
        assert end is not None
        lasts = end - start
        if lasts < group.at_least or (group.at_most is not None and lasts > group.at_most):
            continue
        spans = {**bound, group.absent: (start, end)}
        related = all(
            _relations_that_hold(world, group.absent, (start, end), name, bound[name]) & allowed
            for name, allowed in group.relations.items()
        )
        if related and all(_keeps(distance, spans) for distance in group.distances):
            return True
    return False


def _keeps(distance: Distance, spans: Mapping[str, Span]) -> bool:
    end = spans[distance.symbol][distance.which == "te"]
    other = spans[distance.other][distance.other_which == "te"]
    return bool(_COMPARED[distance.comparison](end - other, distance.length.amount))


def _futures(group: Group, past: Past, now: Time) -> Iterator[Past]:
    """Everything that may come after an instant, as far as it makes a difference; all ends in the end."""
    open_ones = {n for n, holds in past.true.items() if holds and holds[-1]}
    reads_gaps = any(r & precise for r in group.relations.values() for precise in _PRECISE)
    names = [n for n in past.true if reads_gaps or n in open_ones | {group.absent}]
    ends = {
        time for name in past.true for run in past.runs(name) for time in run if time is not None
    }
    steps = group.lengths | ({past.max_gap} if past.max_gap is not None else set())
    marks = {time + sign * step for time in ends | {now} for step in steps for sign in (1, -1)}
    marks |= {mark + step for mark in marks for step in steps if mark > now}
    points = sorted({now} | {mark for mark in marks if mark > now})
    grid: list[Time] = []
    for low, high in zip(points, [*points[1:], points[-1] + 12], strict=True):
        grid += [low + Fraction(high - low, 2), high]
    letters = list(product((False, True), repeat=len(names)))
    for count in range(_MOST_EVENTS + 1):
        for times in combinations(grid, count):
            last = (times[-1] if times else now) + 10**6
            at = (*past.times, *times, last)
            for word in product(letters, repeat=count):
                true = {
                    name: (*holds, *(False,) * (count + 1)) for name, holds in past.true.items()
                }
                for k, name in enumerate(names):
                    true[name] = (*past.true[name], *(letter[k] for letter in word), False)
                yield Past(at, true, past.max_gap).with_silences(last + 1)


def absent_from(
    group: Group, past: Past, present: Mapping[str, Time], trigger: Time
) -> Time | None:
    """When it is decided that no c satisfies the group; None: not as far as time has gone.

    ``present`` has the starts of the intervals of the match that the group speaks of, and ``trigger`` says
    when the match was certain but for this.
    """
    whole = past.with_silences(past.until)
    relevant = {group.absent, *present}
    whole = Past(whole.times, {n: t for n, t in whole.true.items() if n in relevant}, past.max_gap)
    ends = {
        time for name in relevant for run in whole.runs(name) for time in run if time is not None
    }
    steps = group.lengths | ({past.max_gap} if past.max_gap is not None else set())
    deadlines = {time + step for time in ends for step in steps}
    passed = {*whole.times, *(time for time in deadlines if time < past.until)}
    for now in sorted(time for time in passed if time >= trigger):
        known = whole.up_to(now)
        if not any(_satisfied(group, world, present) for world in _futures(group, known, now)):
            return now
    return None


def named(*names: str) -> Relation:
    """The relations of these names."""
    flags = Relation(0)
    for name in names:
        flags |= Relation(1 << ALL_NAMES.index(name))
    return flags


def past_of(until: int, max_gap: int | None = None, **spans: Sequence[Sequence[int]]) -> Past:
    """Events at the ends of these intervals, and at ``until``."""
    times = sorted({time for of in spans.values() for span in of for time in span} | {until})
    true = {
        name: tuple(any(start <= time < end for start, end in of) for time in times)
        for name, of in spans.items()
    }
    return Past(tuple(times), true, max_gap, until)
