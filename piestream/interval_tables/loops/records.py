"""What the loops of the interval join share with Python: boxes, and an index of y's intervals.

As a point (start, end), an interval of y is a partner of one of x if it lies in one of some boxes,
whose sides are times of the interval of x, moved by a distance.
"""

from __future__ import annotations

from typing import Annotated

from piestream.compiled.records import Carried, Record, Rows, Table, Words

#: The sides of a box: its first and last start, its first and last end, all inclusive.
FIRST_START, LAST_START, FIRST_END, LAST_END = range(4)
SIDES = 4
#: The times of an interval of x that a side depends on: its start, its end, the start of what
#: immediately follows it and the end of what it immediately follows.
START, END, NEXT_START, PREVIOUS_END = range(4)
#: Which partners lie in a box: any, only such as begin after x has ended, or have ended before it.
ANYWHERE, LATER, EARLIER = range(3)
#: So many places have a block, and so many blocks a block of the next level.
BLOCK_BITS = 4
MOST_LEVELS = 64 // BLOCK_BITS
#: A side has at most one bound for each of the times that it can depend on.
MOST_BOUNDS = SIDES * 4


class Bound(Record):
    """One bound of a box: a time of the interval of x, moved by ``ticks``."""

    side: int
    time: int
    ticks: int


class Box(Record):
    """Where partners lie; several bounds of one side count together."""

    where: int
    n_bounds: int
    bounds: Annotated[Rows[Bound], MOST_BOUNDS]


class Boxes(Record):
    """Disjoint boxes that hold all partners."""

    count: int
    of: Table[Box]


class Index(Record):
    """Intervals of y sorted by group and one of their endpoints, then by the other.

    ``lowest`` and ``highest`` are those of the other endpoint in a block of places, and in blocks of
    blocks; ``levels`` says where each level begins. ``rank`` is the place of an interval by start.
    """

    n_levels: int
    levels: Annotated[Words, MOST_LEVELS]
    times: Carried[Words]
    others: Carried[Words]
    lowest: Carried[Words]
    highest: Carried[Words]
    rank: Carried[Words]
