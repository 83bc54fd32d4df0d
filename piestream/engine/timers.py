"""When partitions fall silent: the deadlines of MAX GAP, of any number of partitions."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.layout import INT64_MAX, INT64_MIN, LAST_TIME, MASK, USED

Words = NDArray[np.int64]

#: The deadline of what is not queued: no time comes after it.
_LATEST = (1 << 64) - 1


def _unsigned(times: Words) -> NDArray[np.uint64]:
    """Times as distances from the earliest time there is."""
    return times.astype(np.uint64) - np.uint64(1 << 63)


class InactivityTimers:
    """Partitions by the time at which their silence, unless they speak again, has lasted too long.

    Each open partition is queued once, at a deadline that was right when it was queued and is too
    early since: only then is it looked at again. So a deadline costs what is due, not what there is.
    What comes together is sorted once and queued as one piece. Until some silence may have been too
    long nothing is queued at all, because a bound of all deadlines will do.

    ``states`` are the words of all partitions, a row each.
    """

    def __init__(self, silence: int) -> None:
        self.silence = silence
        #: No silence is over before or at this time.
        self.earliest = INT64_MAX
        self.looked_at = 0  # partitions whose deadline came
        self._queues = False
        self._deadlines = np.zeros(0, np.uint64)  # at which each partition is queued
        self._pieces: list[tuple[int, int, NDArray[np.uint64], Words]] = []
        self._numbers = count()  # pieces of one deadline are not compared any further

    def heard(self, partitions: Words, states: Words) -> None:
        """These partitions have spoken."""
        if self._queues:
            self._queue(partitions, states)
        else:
            first = int(states[partitions, LAST_TIME].min(initial=INT64_MAX))
            self.earliest = min(self.earliest, first + self.silence)

    def is_news(self, partition: int, time: int) -> bool:
        """Whether a partition that has spoken at this time must be `heard` if it is open."""
        if self._queues:
            return partition >= self._deadlines.size or bool(self._deadlines[partition] == _LATEST)
        self.earliest = min(self.earliest, time + self.silence)
        return False

    def drop(self, partitions: Words) -> None:
        """Numbers are given to other partitions: what is queued says nothing of them."""
        self._deadlines[partitions[partitions < self._deadlines.size]] = _LATEST

    def over(self, now: int, states: Words) -> Words:
        """The partitions that have been silent for too long at ``now``, in ascending order."""
        if not self._queues:
            self._queues = True
            self._queue(np.flatnonzero(states[:, USED]), states)
        due = self._due(now)
        self.looked_at += due.size
        due = due[(states[due, USED] != 0) & (states[due, MASK] != 0)]
        last = states[due, LAST_TIME]
        passed = np.array(now).astype(np.uint64) - last.astype(np.uint64)  # without sign
        over = (last < now) & (passed > np.uint64(self.silence))
        self._queue(due[~over], states)
        silent: Words = due[over]
        return silent

    def _queue(self, partitions: Words, states: Words) -> None:
        """Queue those of the partitions that are open and not queued."""
        most = int(partitions.max(initial=-1)) + 1
        if most > self._deadlines.size:
            more = np.full(most, _LATEST, np.uint64)
            self._deadlines = np.concatenate([self._deadlines, more])
        partitions = partitions[
            (states[partitions, MASK] != 0) & (self._deadlines[partitions] == np.uint64(_LATEST))
        ]
        spoke = _unsigned(states[partitions, LAST_TIME])
        deadlines = spoke + np.uint64(self.silence)
        comes = (deadlines >= spoke) & (deadlines != np.uint64(_LATEST))  # time may end before
        partitions, deadlines = partitions[comes], deadlines[comes]
        self._deadlines[partitions] = deadlines
        order = np.argsort(deadlines, kind="stable")
        self._push(deadlines[order], partitions[order])
        self._set_earliest()

    def _due(self, now: int) -> Words:
        """The partitions whose deadline, as it was when they were queued, is before ``now``."""
        at = now - INT64_MIN
        found = [np.zeros(0, np.int64)]
        while self._pieces and self._pieces[0][0] < at:
            _, _, deadlines, partitions = heappop(self._pieces)
            end = int(np.searchsorted(deadlines, np.uint64(at)))
            # one whose number was given away is queued at another deadline, if at all
            found.append(partitions[:end][self._deadlines[partitions[:end]] == deadlines[:end]])
            self._push(deadlines[end:], partitions[end:])
        due = np.unique(np.concatenate(found))
        self._deadlines[due] = _LATEST
        self._set_earliest()
        return due

    def _push(self, deadlines: NDArray[np.uint64], partitions: Words) -> None:
        if len(deadlines):
            heappush(self._pieces, (int(deadlines[0]), next(self._numbers), deadlines, partitions))

    def _set_earliest(self) -> None:
        first = self._pieces[0][0] if self._pieces else _LATEST
        self.earliest = min(first + INT64_MIN, INT64_MAX)
