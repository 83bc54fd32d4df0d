"""What absence means, by trying all times that matter: fast enough for very many cases.

An endpoint that is not known is later than now. Lengths are whole numbers, so whether there are endpoints
that satisfy all of a NOT group can be tried on a grid of sixths: between two whole numbers there is room
for three of them in every order, and nothing is further away than all lengths together.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from piestream.language.distances import Distance
from piestream.relations import ENDPOINT_ORDER, Relation

__all__ = [
    "GridGroup",
    "Instant",
    "Run",
    "closed_at",
    "closing_instants",
    "decided_at",
    "known_runs",
    "runs_of",
]

_COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
#: Points of the grid between two whole numbers.
_FINE = 6


@dataclass(frozen=True)
class Run:
    """An interval: where it begins and ends (None: it has not), and how many events it has."""

    start: int
    end: int | None
    events: int = 1
    is_closed: bool = False  # it ends because the input does: a tick behind where that is shown


@dataclass(frozen=True)
class GridGroup:
    """NOT (...): relations of c to symbols of the match, distances, and how long c lasts."""

    absent: str
    relations: Mapping[str, Relation]
    distances: tuple[Distance, ...] = ()
    at_least: int = 0
    at_most: int | None = None
    least_events: int = 0
    most_events: int | None = None
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


@dataclass(frozen=True, order=True)
class Instant:
    """When something is known: at a time, or at one of the ends of an input that is closed."""

    closing: int  # 0; 1: with the last event; 2: a tick later
    time: int  # as it is shown


def closing_instants(
    times: Sequence[int], runs: Mapping[str, Sequence[Run]]
) -> tuple[Instant, ...]:
    """The instants at which what is open ends because the input does."""
    began = [run.start for some in runs.values() for run in some if run.end is None]
    found = []
    if any(start < times[-1] for start in began):
        found.append(Instant(1, times[-1]))
    if any(start == times[-1] for start in began):
        found.append(Instant(2, times[-1] + 1))
    return tuple(found)


def closed_at(run: Run, instant: Instant, last: int) -> Run:
    """A run as it is known at an instant, where it may end because the input does."""
    if run.end is not None or instant.closing < (2 if run.start == last else 1):
        return run
    return replace(run, end=last + (run.start == last), is_closed=True)


def known_runs(
    times: Sequence[int],
    holds: Sequence[bool],
    max_gap: int | None,
    instant: Instant,
    until: int,
) -> list[Run]:
    """The runs of a predicate as they are known at an instant."""
    now = max(times[-1], until - 1) if instant.closing else instant.time
    return [closed_at(run, instant, times[-1]) for run in runs_of(times, holds, max_gap, now)]


Axis = NDArray[np.int64]


def _compared(x: Axis, y: Axis, sign: int) -> NDArray[np.bool_]:
    return (operator.lt, operator.eq, operator.gt)[sign + 1](x, y)


def _is_quiet(first: Run, later: Run | None, others: Sequence[Run]) -> bool:
    """Whether nothing touches the gap between two runs, of which the later one may be to come."""
    if first.end is None:
        return True  # there is none yet

    def end_of(run: Run) -> int:
        assert run.end is not None
        return run.end + run.is_closed

    return not any(
        (later is None or run.start < later.start)
        and (run.end is None or end_of(run) > end_of(first))
        for run in others
    )


def _may_satisfy(
    group: GridGroup,
    now: int,
    present: Mapping[str, Run],
    c: Run | None,
    closes: bool,
    all_runs: Mapping[str, Sequence[Run]],
) -> bool:
    """Whether this c, or one that has not begun, may satisfy all of the group.

    What ends, or begins, because the input ``closes`` lies a tick later than it is shown.
    """
    later = _FINE * now + np.arange(1, _FINE * group.span + 1)
    start = later[:, None] if c is None else np.array([[_FINE * c.start]])
    end = later[None, :] if c is None or c.end is None else np.array([[_FINE * c.end]])
    if c is not None and group.most_events is not None and c.events > group.most_events:
        return False
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
        others = [*all_runs[group.absent], *all_runs[name]]
        if allowed & Relation.FOLLOWS and _is_quiet(run, c, others):
            allowed |= Relation.AFTER
        if allowed & Relation.FOLLOWED_BY and c is not None and _is_quiet(c, run, others):
            allowed |= Relation.BEFORE
        theirs = np.array([_FINE * run.end]) if run.end is not None else later
        shown_xs, shown_xe = start[:, :, None], end[:, :, None]
        ys, shown_ye = np.array([[[_FINE * run.start]]]), theirs[None, None, :]
        xs = shown_xs + _FINE * (closes and c is None)
        xe = shown_xe + _FINE * _lies_later(c, closes)
        ye = shown_ye + _FINE * _lies_later(run, closes)
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
        places = {(group.absent, "ts"): shown_xs, (group.absent, "te"): shown_xe}
        places |= {(name, "ts"): ys, (name, "te"): shown_ye}
        for d in group.distances:
            if name in (d.symbol, d.other):
                difference = places[d.symbol, d.which] - places[d.other, d.other_which]
                related &= _COMPARED[d.comparison](difference, _FINE * d.length.amount)
        fits = fits & related.any(axis=2)
    return bool(fits.any())


def _lies_later(run: Run | None, closes: bool) -> bool:
    """Whether an end lies a tick behind where it is shown."""
    return run.is_closed if run is not None and run.end is not None else closes


def decided_at(
    groups: Sequence[GridGroup],
    times: Sequence[int],
    holds: Mapping[str, Sequence[bool]],
    max_gap: int | None,
    present: Mapping[str, int],
    trigger: Instant,
    until: int,
    closing: Sequence[Instant] = (),
) -> Instant | None:
    """When it is decided that no c satisfies a group; None: not as far as time has gone.

    That is not before its trigger. Each group is decided by itself, and what is decided stays so.
    ``present`` has the starts of the match's intervals, by symbol, and ``closing`` the instants at which
    the input is closed.
    """
    begun = max(present.values())

    def is_possible(group: GridGroup, instant: Instant) -> bool:
        def runs(name: str) -> list[Run]:
            return known_runs(times, holds[name], max_gap, instant, until)

        known = {
            name: next(r for r in runs(name) if r.start == present[name])
            for name in group.relations
        }
        taken = {present[name] for name in group.same}
        some = [r for r in runs(group.absent) if r.start not in taken]
        everything = {name: runs(name) for name in {*group.relations, group.absent}}
        closes = instant.closing != 0
        return any(
            _may_satisfy(group, instant.time, known, c, closes, everything) for c in (None, *some)
        )

    def decided(group: GridGroup) -> Instant | None:
        events = [time for time in times if time > begun]
        for first, end in zip([begun, *events], [*events, until], strict=True):
            instants = range(
                first, max(end, first + 1)
            )  # what is at `until` has not passed, but for an event
            low, high = 0, len(instants)
            while low < high:  # without an event, it only becomes impossible
                middle = (low + high) // 2
                if is_possible(group, Instant(0, instants[middle])):
                    low = middle + 1
                else:
                    high = middle
            if low < len(instants):
                return Instant(0, instants[low])
        return next((at for at in closing if not is_possible(group, at)), None)

    found = [trigger]
    for group in groups:
        at = decided(group)
        if at is None:
            return None
        found.append(at)
    return max(found)
