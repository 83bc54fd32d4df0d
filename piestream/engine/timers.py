"""When time alone brings something to partitions without events, of any number of partitions.

MAX GAP ends what is open once a partition has been inactive for too long. With BRIDGING it is known
after some time that no run follows another one, and with NOT that nothing came which may not be there.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.copies import Copied
from piestream.joins.partition_table import PartitionTable

Words = NDArray[np.int64]
#: What the deadlines of partitions are now.
DeadlinesOf = Callable[[Words], NDArray[np.uint64]]

#: The deadline of what is not queued: no time comes after it.
LATEST = (1 << 64) - 1


def unsigned(times: Words) -> NDArray[np.uint64]:
    """Times as distances from the earliest time there is."""
    return times.astype(np.uint64) - np.uint64(1 << 63)


def deadlines_after(last_times: Words, length: int, waits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """The `unsigned` times that are so much later, LATEST for those that do not wait.

    A time that is before all others is that of no event.
    """
    since = unsigned(last_times)
    deadlines = since + np.uint64(length)
    never = ~waits | (since == 0) | (deadlines < since)  # time may end before
    deadlines[never] = LATEST
    return deadlines


class DeadlineQueue(Copied):
    """Partitions that wait for a time: which of them it is that time for, without a look at the others.

    Each partition that waits is queued at a deadline that was right when it was queued, or is too
    early since: only then is it looked at again. If it has an earlier one, it is queued anew. So time
    costs what is due, not what there is. What comes together is sorted once and queued as one group.
    Until the first deadline may have passed nothing is queued at all, because a bound of all
    deadlines is enough.

    Deadlines are given as `unsigned` times, and those of partitions without one are LATEST.
    """

    def __init__(self) -> None:
        #: No deadline is before or at this time.
        self.earliest = INT64_MAX
        self.examined = 0  # partitions whose deadline came
        self._queues = False
        self._deadlines = np.zeros(0, np.uint64)  # at which each partition is queued
        self._groups: list[tuple[int, int, NDArray[np.uint64], Words]] = []
        self._n_groups = 0  # groups of one deadline are not compared any further

    def await_deadlines(self, partitions: Words, deadlines: NDArray[np.uint64]) -> None:
        """Set the deadlines of these partitions."""
        if self._queues:
            self._queue(partitions, deadlines)
        else:
            self.bound(int(deadlines.min(initial=LATEST)) + INT64_MIN)

    def bound(self, deadline: int) -> None:
        """No deadline of what is not queued is before or at this time, nor before those so far."""
        self.earliest = min(self.earliest, deadline)

    def passed(self, now: int, deadlines_of: DeadlinesOf, count: int) -> Words:
        """The partitions whose deadline is before ``now``, in ascending order; they wait no longer.

        ``deadlines_of`` says what the deadlines are now. There are ``count`` partitions.
        """
        if not self._queues:
            self._queues = True
            waiting = np.arange(count)
            self._queue(waiting, deadlines_of(waiting))
        due = self._due(now)
        self.examined += due.size
        deadlines = deadlines_of(due)
        over = deadlines < np.uint64(now - INT64_MIN)
        self._queue(due[~over], deadlines[~over])
        passed: Words = due[over]
        return passed

    def cancel(self, partitions: Words) -> None:
        """Drop the deadlines of numbers that were given to other partitions."""
        self._deadlines[partitions[partitions < self._deadlines.size]] = LATEST

    def is_queued(self, partition: int) -> bool:
        """Whether a partition waits for a deadline, which may be too early by now."""
        return partition < self._deadlines.size and bool(self._deadlines[partition] != LATEST)

    def _queue(self, partitions: Words, deadlines: NDArray[np.uint64]) -> None:
        """Queue those of the partitions that have a deadline, and not one as early in the queue."""
        most = int(partitions.max(initial=-1)) + 1
        missing = most - self._deadlines.size
        if missing > 0:
            more = np.full(max(missing, self._deadlines.size), LATEST, np.uint64)
            self._deadlines = np.concatenate([self._deadlines, more])
        earlier = deadlines < self._deadlines[partitions]
        partitions, deadlines = partitions[earlier], deadlines[earlier]
        self._deadlines[partitions] = deadlines
        order = np.argsort(deadlines, kind="stable")
        self._push(deadlines[order], partitions[order])
        self._set_earliest()

    def _due(self, now: int) -> Words:
        """The partitions whose deadline, as it was when they were queued, is before ``now``."""
        limit = now - INT64_MIN
        due = [np.zeros(0, np.int64)]
        while self._groups and self._groups[0][0] < limit:
            _, _, deadlines, partitions = heappop(self._groups)
            end = int(np.searchsorted(deadlines, np.uint64(limit)))
            # one whose number was given away is queued at another deadline, if at all
            due.append(partitions[:end][self._deadlines[partitions[:end]] == deadlines[:end]])
            self._push(deadlines[end:], partitions[end:])
        distinct = np.unique(np.concatenate(due))
        self._deadlines[distinct] = LATEST
        self._set_earliest()
        return distinct

    def _push(self, deadlines: NDArray[np.uint64], partitions: Words) -> None:
        if len(deadlines):
            self._n_groups += 1
            heappush(self._groups, (int(deadlines[0]), self._n_groups, deadlines, partitions))

    def _set_earliest(self) -> None:
        first = self._groups[0][0] if self._groups else LATEST
        self.earliest = min(first + INT64_MIN, INT64_MAX)


class DeadlineTimers(DeadlineQueue):
    """When time alone brings something to the partitions of a detector."""

    def __init__(self, gap: int, partitions: PartitionTable) -> None:
        super().__init__()
        self._gap = None if gap == NONE else np.uint64(gap % (1 << 64))
        self._partitions = partitions

    def touch(self, partitions: Words) -> None:
        """Record activity of these partitions."""
        self.await_deadlines(partitions, self._next(partitions))

    def needs_touch(self, partition: int, time: int) -> bool:
        """Whether a partition that has an event at this time must be touched if it is open."""
        if self._partitions.has_deadlines:
            return True
        if self._queues:
            return not self.is_queued(partition)
        assert self._gap is not None
        self.bound(time + int(self._gap))
        return False

    def expired(self, now: int) -> Words:
        """The partitions that have been inactive for too long at ``now``, in ascending order."""
        return self.passed(now, self._next, self._partitions.count)

    def _next(self, partitions: Words) -> NDArray[np.uint64]:
        """The deadlines of partitions as they are now."""
        deadlines = np.full(partitions.size, LATEST, np.uint64)
        if self._gap is not None:
            last = unsigned(self._partitions.column("last_time")[partitions])
            comes = self._partitions.held_before(partitions) != 0
            comes &= last + self._gap >= last  # time may end before
            deadlines[comes] = last[comes] + self._gap
        if self._partitions.has_deadlines:
            deadlines = np.minimum(deadlines, unsigned(self._partitions.deadlines(partitions)))
        deadlines[self._partitions.column("used")[partitions] == 0] = LATEST
        return deadlines
