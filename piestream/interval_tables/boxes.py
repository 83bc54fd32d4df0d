"""A set of relations and distances as boxes: where, as points (start, end), the partners lie.

The start and the end of y are each in one of five zones: before the start of x, at it, inside x, at its
end, and behind. Each of Allen's relations is one pair of zones; most pairs no interval can have. So
a set of relations is a few rectangles of zones, and a distance narrows their sides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

from piestream.compiled.records import Array, assemble
from piestream.interval_tables.conditions import Distance
from piestream.interval_tables.loops.records import (
    ANYWHERE,
    EARLIER,
    END,
    FIRST_END,
    FIRST_START,
    LAST_END,
    LAST_START,
    LATER,
    MOST_BOUNDS,
    NEXT_START,
    PREVIOUS_END,
    START,
    Bound,
    Box,
    Boxes,
)
from piestream.relations import ANY, ENDPOINT_ORDER, PRECISE_FORM, Relation

__all__ = ["are_read_by_end", "boxes_of", "with_precise_forms"]

_ZONES = range(5)
#: From which time of x on a zone lies, and up to which: the time, and ticks to add.
_FIRST = {1: (START, 0), 2: (START, 1), 3: (END, 0), 4: (END, 1)}
_LAST = {0: (START, -1), 1: (START, 0), 2: (END, -1), 3: (END, 0)}


class _Rectangle(NamedTuple):
    """Zones of y's start, and zones of its end."""

    first_start: int
    last_start: int
    first_end: int
    last_end: int

    def relations(self) -> Relation:
        """The relations in it."""
        found = Relation(0)
        for relation, (start, end) in _ZONES_OF.items():
            if (
                self.first_start <= start <= self.last_start
                and self.first_end <= end <= self.last_end
            ):
                found |= relation
        return found

    def area(self) -> int:
        """The pairs of zones in it, those that no interval has too."""
        return (self.last_start - self.first_start + 1) * (self.last_end - self.first_end + 1)


#: The zones of y's start and of its end, seen from x.
_ZONES_OF = {
    relation: (2 - order.ts_ts - order.te_ts, 2 - order.ts_te - order.te_te)
    for relation, order in ENDPOINT_ORDER.items()
}


@cache
def _rectangles(relations: Relation) -> tuple[_Rectangle, ...]:
    """Few disjoint rectangles that hold these relations and no others, as large as can be.

    A side that reaches the edge bounds nothing, and so does one behind which no interval can be.
    """
    ranges = [(first, last) for first in _ZONES for last in _ZONES if first <= last]
    all_rectangles = [_Rectangle(*starts, *ends) for starts, ends in product(ranges, ranges)]
    found = []
    left = relations
    while left:
        fitting = [r for r in all_rectangles if r.relations() and not r.relations() & ~left]
        best = max(fitting, key=lambda r: (r.relations().bit_count(), r.area()))
        found.append(best)
        left &= ~best.relations()
    return tuple(sorted(found))


def with_precise_forms(relations: Relation) -> Relation:
    """The precise forms (followed-by, follows) that add something to a set of relations."""
    found = Relation(0)
    for wide, precise in PRECISE_FORM.items():
        if not relations & wide:
            found |= relations & precise
    return found


def _sides(rectangle: _Rectangle) -> Iterator[tuple[int, int, int]]:
    for side, zone, times in (
        (FIRST_START, rectangle.first_start, _FIRST),
        (LAST_START, rectangle.last_start, _LAST),
        (FIRST_END, rectangle.first_end, _FIRST),
        (LAST_END, rectangle.last_end, _LAST),
    ):
        if zone in times:
            yield (side, *times[zone])


def _of_distance(distance: Distance) -> Iterator[tuple[int, int, int]]:
    """The bounds on y that a distance is."""
    time = START if distance.x_which == "ts" else END
    first, last = (FIRST_START, LAST_START) if distance.y_which == "ts" else (FIRST_END, LAST_END)
    if distance.least is not None:
        yield first, time, distance.least
    if distance.most is not None:
        yield last, time, distance.most


def _tightest(bounds: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Of several bounds of one side by one time only the one that counts."""
    found: dict[tuple[int, int], int] = {}
    for side, time, offset in bounds:
        known = found.get((side, time), offset)
        tighter = max if side in (FIRST_START, FIRST_END) else min
        found[side, time] = tighter(known, offset)
    return [(side, time, offset) for (side, time), offset in found.items()]


def boxes_of(
    relations: Relation, distances: Iterable[Distance] = (), *, by_nearness: bool = False
) -> Array:
    """The boxes of all partners in relations and distances, as words for the loops.

    With ``by_nearness`` partners that are later or earlier have boxes of their own, the last ones.
    """
    narrowing = [bound for distance in distances for bound in _of_distance(distance)]
    apart = {Relation.BEFORE: LATER, Relation.AFTER: EARLIER} if by_nearness else {}
    together = relations & ANY & ~sum(apart, Relation(0))
    kinds = [(ANYWHERE, [*_sides(rectangle)]) for rectangle in _rectangles(together)]
    for relation, where in apart.items():
        kinds += [(where, [*_sides(r)]) for r in _rectangles(relations & relation)]
    precise = with_precise_forms(relations)
    if precise & Relation.FOLLOWED_BY:
        sides = [(FIRST_START, NEXT_START, 0), (LAST_START, NEXT_START, 0)]
        kinds.append((LATER if by_nearness else ANYWHERE, sides))
    if precise & Relation.FOLLOWS:
        sides = [(FIRST_END, PREVIOUS_END, 0), (LAST_END, PREVIOUS_END, 0)]
        kinds.append((EARLIER if by_nearness else ANYWHERE, sides))
    kinds.sort(key=lambda kind: kind[0])
    words = [_box(where, _tightest([*sides, *narrowing])) for where, sides in kinds]
    return assemble(Boxes, count=len(words), of=words)


def are_read_by_end(boxes: Array) -> bool:
    """Whether some box may be read from the intervals in order of end."""
    words = Boxes.over(boxes)
    for number in range(words.count):
        box = words.of[number]
        sides = {box.bounds[bound].side for bound in range(box.n_bounds)}
        if box.where == EARLIER or {FIRST_END, LAST_END} <= sides:
            return True
    return False


def _box(where: int, bounds: list[tuple[int, int, int]]) -> list[int]:
    rows = [Bound.packed(side=s, time=time, ticks=ticks) for s, time, ticks in bounds]
    rows += [[0] * Bound.size] * (MOST_BOUNDS - len(rows))
    return Box.packed(where=where, n_bounds=len(bounds), bounds=rows)
