"""What absence means, by trying all times that matter: fast enough for very many cases.

An endpoint that is not known is later than now. Lengths are whole numbers, so whether there are endpoints
that satisfy all of a NOT group can be tried on a grid of sixths: between two whole numbers there is room
for three of them in every order, and nothing is further away than all lengths together.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piestream.language.distances import Distance
from piestream.relations import ENDPOINT_ORDER, Relation

__all__ = ["GridGroup", "Run", "decided_at", "runs_of"]

_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
#: Points of the grid between two whole numbers.
_FINE = 6


@dataclass(frozen=True)
class Run:
    """An interval: where it begins and ends (None: it has not), and how many events it has."""

    start: int
    end: int | None
    events: int = 1


@dataclass(frozen=True)
class GridGroup:
    """NOT (...): relations of c to symbols of the match, distances, and how long c lasts."""

    absent: str
    relations: Mapping[str, Relation]
    distances: tuple[Distance, ...] = ()
    at_least: int = 0
    at_most: int | None = None
    least_events: int = 0
    same: frozenset[str] = frozenset()  # symbols of the match with the predicate of c

    @property
    def span(self) -> int:
        """Further away than this nothing differs."""
        longest = max((d.length.amount for d in self.distances), default=0)
        return 2 + 3 * max(longest, self.at_least, self.at_most or 0)


def runs_of(
    times: Sequence[int], holds: Sequence[bool], max_gap: int | None, now: int
) -> list[Run]:
    """The runs of a predicate, as far as they are known at an instant."""
    found: list[Run] = []
    start, count, last = None, 0, None
    for time, held in zip(times, holds, strict=True):
        if time > now:
            break
        if start is not None and max_gap is not None and time - last > max_gap:
            found.append(Run(start, last + max_gap, count))
            start = None
        if held and start is None:
            start, count = time, 0
        elif not held and start is not None:
            found.append(Run(start, time, count))
            start = None
        count, last = count + held, time
    if start is not None:
        ends = max_gap is not None and now - last >= max_gap
        found.append(Run(start, last + max_gap if ends else None, count))
    return found


Axis = NDArray[np.int64]


def _compared(x: Axis, y: Axis, sign: int) -> NDArray[np.bool_]:
    return (operator.lt, operator.eq, operator.gt)[sign + 1](x, y)


def _may_satisfy(group: GridGroup, now: int, present: Mapping[str, Run], c: Run | None) -> bool:
    """Whether this c, or one that has not begun, may satisfy all of the group."""
    later = _FINE * now + np.arange(1, _FINE * group.span + 1)
    start = later[:, None] if c is None else np.array([[_FINE * c.start]])
    end = later[None, :] if c is None or c.end is None else np.array([[_FINE * c.end]])
    fits = start < end
    if c is None or c.end is None:
        fits = fits & (end - start >= _FINE * group.at_least)
        if group.at_most is not None:
            fits = fits & (end - start <= _FINE * group.at_most)
    else:
        lasts = c.end - c.start
        if lasts < group.at_least or c.events < group.least_events:
            return False
        if group.at_most is not None and lasts > group.at_most:
            return False
    for name, allowed in group.relations.items():
        run = present[name]
        theirs = np.array([_FINE * run.end]) if run.end is not None else later
        xs, xe = start[:, :, None], end[:, :, None]
        ys, ye = np.array([[[_FINE * run.start]]]), theirs[None, None, :]
        related = np.zeros(np.broadcast_shapes(xs.shape, xe.shape, ye.shape), bool)
        for relation, order in ENDPOINT_ORDER.items():
            if allowed & relation:
                related |= (
                    _compared(xs, ys, order.ts_ts)
                    & _compared(xs, ye, order.ts_te)
                    & _compared(xe, ys, order.te_ts)
                    & _compared(xe, ye, order.te_te)
                )
        if name in group.same:
            related &= (xe < ys) | (xs > ye)
        places = {(group.absent, "ts"): xs, (group.absent, "te"): xe}
        places |= {(name, "ts"): ys, (name, "te"): ye}
        for d in group.distances:
            if name in (d.symbol, d.other):
                difference = places[d.symbol, d.which] - places[d.other, d.other_which]
                related &= _COMPARED[d.comparison](difference, _FINE * d.length.amount)
        fits = fits & related.any(axis=2)
    return bool(fits.any())


def decided_at(
    group: GridGroup,
    times: Sequence[int],
    holds: Mapping[str, Sequence[bool]],
    max_gap: int | None,
    present: Mapping[str, int],
    trigger: int,
    until: int,
) -> int | None:
    """When it is decided that no c satisfies the group; None: not as far as time has gone.

    ``present`` has the starts of the match's intervals, by symbol.
    """

    def is_possible(now: int) -> bool:
        known = {
            name: next(r for r in runs_of(times, holds[name], max_gap, now) if r.start == start)
            for name, start in present.items()
        }
        related = {name: run for name, run in known.items() if name in group.relations}
        taken = {present[name] for name in group.same}
        some = [
            r for r in runs_of(times, holds[group.absent], max_gap, now) if r.start not in taken
        ]
        return any(_may_satisfy(group, now, related, c) for c in (None, *some))

    events = [time for time in times if time > trigger]
    for first, end in zip([trigger, *events], [*events, until], strict=True):
        instants = range(
            first, max(end, first + 1)
        )  # what is at `until` has not passed, but for an event
        low, high = 0, len(instants)
        while low < high:  # without an event, it only becomes impossible
            middle = (low + high) // 2
            if is_possible(instants[middle]):
                low = middle + 1
            else:
                high = middle
        if low < len(instants):
            return instants[low]
    return None
