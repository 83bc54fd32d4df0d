"""The numbers of instants, where events of one time are told apart beside ready-made intervals.

Rows of intervals say times at which they start and end, which need not be those of events: such an
instant lies before all events of its time. So the number of an instant is twice its time, and twice the
number of the ordered instants of its partition before it; one more if it is ordered itself: an event
that something else than the time orders, or the deadline of a silence behind all events of its time. It grows
from instant to instant, whatever comes between them later, and that of any time that is past can be
found as long as the times of the ordered instants since then are kept. Instants that have a time only
are not counted, so that numbers do not depend on which of them there are.

Behind the last instant, twice the time and one more than twice the number of all ordered ones is a deadline
of that time, after all of its events. An end that is still to come has a number far ahead of all of them
(`joins.boxes.ahead`) until it comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import OPEN
from piestream.copies import copied_but
from piestream.engine.instants import Instants
from piestream.engine.validation import damaged
from piestream.errors import TimeError

__all__ = ["InstantNumbers", "check_reach"]

Words = NDArray[np.int64]

#: Times that are further than this from 0 have no numbers.
_FURTHEST = (1 << 62) - (1 << 40)
#: The number of an end at time 0 that is still to come, as `joins.boxes.ahead` has it.
_AHEAD = 1 << 62


@dataclass(frozen=True, slots=True)
class _Past:
    """The ordered instants of a partition: the times of the latest, and how many there were before these."""

    times: Words
    before: int

    def count_before(self, times: Words) -> Words:
        """How many ordered instants come before each of these times."""
        return self.before + np.searchsorted(self.times, times).astype(np.int64)

    def since(self, time: int) -> _Past:
        """The same without instants before a time."""
        gone = int(np.searchsorted(self.times, time))
        return _Past(self.times[gone:].copy(), self.before + gone)


_NOTHING = _Past(np.zeros(0, np.int64), 0)


class InstantNumbers:
    """How many ordered instants each partition had, and when the latest were.

    These are kept where there are rows that say times, not where only silences start and end at events.
    """

    def __init__(self, keeps_times: bool = True) -> None:
        self._keeps_times = keeps_times
        self._past: dict[int, _Past] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> InstantNumbers:
        return copied_but(self, memo, _past=self._past.copy())

    def add(self, instants: Instants, numbers: Words) -> Words:
        """Take the instants of partitions in; gives how much more than twice its time each is."""
        is_ordered = instants.is_ordered
        counts = np.cumsum(is_ordered, dtype=np.int64) - is_ordered
        times = instants.times[is_ordered]
        edges = instants.offsets.tolist()
        ordered_edges = np.append(0, np.cumsum(is_ordered))[instants.offsets].tolist()
        for g, partition in enumerate(numbers.tolist()):
            first, end = ordered_edges[g : g + 2]
            past = self._past.get(partition, _NOTHING)
            counts[edges[g] : edges[g + 1]] += past.before + len(past.times) - first
            if self._keeps_times:
                past = _Past(np.concatenate([past.times, times[first:end]]), past.before)
            else:
                past = _Past(past.times, past.before + end - first)
            self._past[partition] = past
        return 2 * counts + is_ordered

    def of_times(self, times: Words, partitions: Words, now: Words) -> Words:
        """The numbers of what lies at these times, before all events of them; ``now`` it is later."""
        found = times.copy()
        is_past = times <= now
        is_ahead = ~is_past & (times != OPEN)
        found[is_ahead] = _AHEAD + times[is_ahead]
        for partition in np.unique(partitions[is_past]).tolist():
            mine = np.flatnonzero(is_past & (partitions == partition))
            before = self._past.get(partition, _NOTHING).count_before(times[mine])
            found[mine] = 2 * (times[mine] + before)
        return found

    def forget(self, before: int, partitions: set[int]) -> None:
        """Drop the instants before a time, and all those of partitions that are gone."""
        self._past = {
            partition: past.since(before)
            for partition, past in self._past.items()
            if partition not in partitions
        }

    def frame(self, partitions: list[int]) -> pl.DataFrame:
        """What is kept of these partitions, as columns."""
        kept = [self._past.get(partition, _NOTHING) for partition in partitions]
        times = [past.times.tolist() for past in kept]
        before = [past.before for past in kept]
        return pl.DataFrame(
            [
                pl.Series("instants", times, dtype=pl.List(pl.Int64)),
                pl.Series("instants before", before, dtype=pl.Int64),
            ]
        )

    def restore(self, frame: pl.DataFrame) -> None:
        """Take over what `frame` gave."""
        if frame.schema != self.frame([]).schema or any(frame.null_count().row(0)):
            raise damaged("the numbers of instants do not fit")
        self._past = {
            partition: _Past(np.array(times, np.int64), before)
            for partition, (times, before) in enumerate(frame.rows())
        }


def check_reach(times: pl.Series) -> None:
    """Refuse times that are too far from 0 to be numbered.

    >>> check_reach(pl.Series([0, None, 1 << 61]))
    """
    if times.drop_nulls().len() and not times.is_between(-_FURTHEST, _FURTHEST).all():
        raise TimeError(
            "where ORDER BY tells events of one time apart beside intervals or silences, times lie within "
            "2^62 ticks of 0: microseconds reach that far"
        )
