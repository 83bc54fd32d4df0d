"""Bars that overlap in time get lanes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["lanes_of"]


def lanes_of(bars: Sequence[tuple[int, int]]) -> list[int]:
    """The lane of each bar (start, end), so that none in a lane overlap: as few lanes as can be.

    >>> lanes_of([(0, 5), (3, 8), (5, 6)])
    [0, 1, 0]
    """
    lanes = [0] * len(bars)
    busy: list[tuple[int, int]] = []  # until when each lane is taken
    free: list[int] = []
    for number in sorted(range(len(bars)), key=lambda n: bars[n]):
        start, end = bars[number]
        while busy and busy[0][0] <= start:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        lanes[number] = lane
        heappush(busy, (max(end, start + 1), lane))
    return lanes
