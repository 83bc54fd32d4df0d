"""Brute force for tables of intervals: the definitions, tried on every pair and every instant.

Shares nothing with the package: neither its table of relations nor an order of anything.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["HOLDS", "Distance", "Row", "coverage", "depth", "gap", "join", "merge", "relation_of"]

#: Relations as their definitions say, of [xs, xe) and [ys, ye).
HOLDS: dict[str, Callable[[int, int, int, int], bool]] = {
    "before": lambda xs, xe, ys, ye: xe < ys,
    "meets": lambda xs, xe, ys, ye: xe == ys,
    "overlaps": lambda xs, xe, ys, ye: xs < ys < xe < ye,
    "finished-by": lambda xs, xe, ys, ye: xs < ys and xe == ye,
    "contains": lambda xs, xe, ys, ye: xs < ys and ye < xe,
    "starts": lambda xs, xe, ys, ye: xs == ys and xe < ye,
    "equals": lambda xs, xe, ys, ye: xs == ys and xe == ye,
    "started-by": lambda xs, xe, ys, ye: xs == ys and ye < xe,
    "during": lambda xs, xe, ys, ye: ys < xs and xe < ye,
    "finishes": lambda xs, xe, ys, ye: ys < xs and xe == ye,
    "overlapped-by": lambda xs, xe, ys, ye: ys < xs < ye < xe,
    "met-by": lambda xs, xe, ys, ye: ye == xs,
    "after": lambda xs, xe, ys, ye: ye < xs,
}
_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Row:
    """An interval and its key, None where that is missing."""

    ts: int
    te: int
    key: Any = 1


@dataclass(frozen=True)
class Distance:
    """``left - right <sign> ticks``, where left and right are such as ``("x", "ts")``."""

    left: tuple[str, str]
    right: tuple[str, str]
    sign: str
    ticks: int

    def holds(self, x: Row, y: Row) -> bool:
        time = {"x": x, "y": y}
        left, right = (getattr(time[side], which) for side, which in (self.left, self.right))
        return bool(_COMPARE[self.sign](left - right, self.ticks))

    def __str__(self) -> str:
        left, right = (".".join(end) for end in (self.left, self.right))
        return f"{left} - {right} {self.sign} {self.ticks}"


def relation_of(x: Row, y: Row) -> str:
    """The one of Allen's relations that holds."""
    (only,) = [name for name, holds in HOLDS.items() if holds(x.ts, x.te, y.ts, y.te)]
    return only


def _nothing_between(first: int, last: int, rows: Iterable[Row]) -> bool:
    """Whether at no instant from ``first`` up to ``last`` there is an interval."""
    return not any(row.ts <= t < row.te for row in rows for t in range(first, last))


def _in_relation(x: Row, y: Row, names: Iterable[str], same_key: list[Row]) -> str | None:
    """The relation of a set that a pair is in, the precise one if it can be; None if in none."""
    names = set(names)
    holds = relation_of(x, y)
    if holds == "before" and "followed-by" in names and _nothing_between(x.te, y.ts, same_key):
        return "followed-by"
    if holds == "after" and "follows" in names and _nothing_between(y.te, x.ts, same_key):
        return "follows"
    return holds if holds in names else None


def gap(x: Row, y: Row) -> int:
    """The time between two intervals, 0 if they touch or share an instant."""
    return max(y.ts - x.te, x.ts - y.te, 0)


def join(
    xs: list[Row],
    ys: list[Row],
    names: Iterable[str],
    distances: Iterable[Distance] = (),
    nearest: int | None = None,
) -> list[tuple[int, int, str]]:
    """The numbers of the rows of each pair, and its relation, in the order that is promised."""
    names, distances = list(names), list(distances)
    found = []
    for i, x in enumerate(xs):
        partners = []
        for j, y in enumerate(ys):
            if x.key is None or x.key != y.key:
                continue
            same_key = [row for row in [*xs, *ys] if row.key == x.key]
            name = _in_relation(x, y, names, same_key)
            if name is not None and all(distance.holds(x, y) for distance in distances):
                partners.append((y.ts, y.te, j, name))
        if nearest is not None:
            by_gap = sorted(partners, key=lambda p: (gap(x, ys[p[2]]), *p[:3]))
            partners = by_gap[:nearest]
        found += [(i, j, name) for *_, j, name in sorted(partners)]
    return found


# -- what covers what ----------------------------------------------------------------------------------
def coverage(xs: list[Row], ys: list[Row]) -> list[tuple[int, int]]:
    """Of each x, at how many instants it is covered, and how many of y share an instant with it."""
    found = []
    for x in xs:
        same = [y for y in ys if x.key is not None and y.key == x.key]
        instants = [t for t in range(x.ts, x.te) if any(y.ts <= t < y.te for y in same)]
        sharing = [y for y in same if set(range(y.ts, y.te)) & set(range(x.ts, x.te))]
        found.append((len(instants), len(sharing)))
    return found


def depth(rows: list[Row]) -> list[tuple[Any, int, int, int]]:
    """Key, start, end and how many intervals are there, of each longest stretch with equally many."""
    found = []
    for key in dict.fromkeys(row.key for row in rows):
        same = [row for row in rows if row.key == key]
        count_before, begun = 0, 0
        for t in range(min(r.ts for r in same), max(r.te for r in same) + 1):
            count = sum(r.ts <= t < r.te for r in same)
            if count != count_before:
                if count_before:
                    found.append((key, begun, t, count_before))
                count_before, begun = count, t
    return found


def merge(rows: list[Row], gap: int = 0) -> list[tuple[Any, int, int, int]]:
    """Key, start, end and number of rows of each union, by merging any two that are near, again and again."""
    found = []
    for key in dict.fromkeys(row.key for row in rows):
        parts = [(row.ts, row.te, 1) for row in rows if row.key == key]
        while True:
            near = next(
                (
                    (a, b)
                    for a in range(len(parts))
                    for b in range(a)
                    if max(parts[a][0], parts[b][0]) - min(parts[a][1], parts[b][1]) <= gap
                ),
                None,
            )
            if near is None:
                break
            one, other = parts[near[0]], parts[near[1]]
            parts = [part for place, part in enumerate(parts) if place not in near]
            parts.append((min(one[0], other[0]), max(one[1], other[1]), one[2] + other[2]))
        found += [(key, *part) for part in sorted(parts)]
    return found
