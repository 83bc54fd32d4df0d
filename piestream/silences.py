"""When partitions fall silent: the deadlines of MAX GAP, of any number of partitions."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

import numpy as np
from numpy.typing import NDArray

from piestream.joins.layout import INT64_MAX, INT64_MIN

Words = NDArray[np.int64]

_LATEST = (1 << 64) - 1


def _unsigned(times: Words) -> NDArray[np.uint64]:
    """Times as distances from the earliest time there is."""
    return times.astype(np.uint64) - np.uint64(1 << 63)


class Silences:
    """Partitions by the time at which their silence, unless they speak again, has lasted too long.

    Each open partition is queued once, at a deadline that was right when it was queued and is too
    early since: only then is it looked at again. So a deadline costs what is due, not what there is.
    What comes together is sorted once and queued as one piece.
    """

    def __init__(self, silence: int) -> None:
        self.silence = silence
        self.queued = np.zeros(0, np.bool_)
        self._pieces: list[tuple[int, int, NDArray[np.uint64], Words]] = []
        self._numbers = count()  # pieces of one deadline are not compared any further

    @property
    def earliest(self) -> int:
        """No silence ends before or at this time."""
        if not self._pieces:
            return INT64_MAX
        return min(self._pieces[0][0] + INT64_MIN, INT64_MAX)

    def add(self, partitions: Words, last: Words) -> None:
        """Open partitions have spoken, the last time at ``last``; those queued are known."""
        most = int(partitions.max(initial=-1)) + 1
        if most > self.queued.size:
            self.queued = np.concatenate([self.queued, np.zeros(most, np.bool_)])
        new = ~self.queued[partitions]
        if not new.any():
            return
        partitions, last = partitions[new], last[new]
        self.queued[partitions] = True
        spoke = _unsigned(last)
        deadlines = spoke + np.uint64(self.silence)
        deadlines[deadlines < spoke] = _LATEST
        order = np.argsort(deadlines, kind="stable")
        self._push(deadlines[order], partitions[order])

    def knows(self, partition: int) -> bool:
        """Whether a partition is queued."""
        return partition < self.queued.size and bool(self.queued[partition])

    def drop(self, partitions: Words) -> None:
        """Numbers are given to other partitions: what is queued says nothing of them."""
        self.queued[partitions[partitions < self.queued.size]] = False

    def due(self, now: int) -> Words:
        """The partitions whose deadline, as it was when they were queued, is before ``now``."""
        at = now - INT64_MIN
        found = []
        while self._pieces and self._pieces[0][0] < at:
            _, _, deadlines, partitions = heappop(self._pieces)
            end = int(np.searchsorted(deadlines, np.uint64(at)))
            found.append(partitions[:end])
            if end < len(partitions):
                self._push(deadlines[end:], partitions[end:])
        due = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
        self.queued[due] = False
        return due

    def _push(self, deadlines: NDArray[np.uint64], partitions: Words) -> None:
        heappush(self._pieces, (int(deadlines[0]), next(self._numbers), deadlines, partitions))
