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

_NONE = np.zeros(0, np.int64)


class InstantNumbers:
    """How many ordered instants each partition had, and when the latest were.

    Their times are kept where there are rows that say times, not where only silences start and end at events.
    """

    def __init__(self, keeps_times: bool = True) -> None:
        self.keeps_times = keeps_times
        self._counts = np.zeros(0, np.int64)  # by partition
        self._times: dict[int, Words] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> InstantNumbers:
        return copied_but(self, memo, _counts=self._counts.copy(), _times=self._times.copy())

    def add(self, instants: Instants, numbers: Words) -> Words:
        """Take the instants of partitions in; gives how much more than twice its time each is."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        is_ordered = instants.is_ordered
        up_to = np.concatenate([[0], np.cumsum(is_ordered)])
        edges = up_to[instants.offsets]
        counts = up_to[:-1] + (self._counts[numbers] - edges[:-1])[instants.groups]
        self._counts[numbers] += np.diff(edges)
        if self.keeps_times:
            times, places = instants.times[is_ordered], edges.tolist()
            for partition, first, end in zip(
                numbers.tolist(), places[:-1], places[1:], strict=True
            ):
                if first < end:
                    past = self._times.get(partition, _NONE)
                    self._times[partition] = np.concatenate([past, times[first:end]])
        shift: Words = 2 * counts + is_ordered
        return shift

    def of_times(self, times: Words, partitions: Words, now: Words) -> Words:
        """The numbers of what lies at these times, before all events of them; ``now`` it is later."""
        found = times.copy()
        is_past = times <= now
        is_ahead = ~is_past & (times != OPEN)
        found[is_ahead] = _AHEAD + times[is_ahead]
        for partition in np.unique(partitions[is_past]).tolist():
            mine = np.flatnonzero(is_past & (partitions == partition))
            past = self._times.get(partition, _NONE)
            since = len(past) - np.searchsorted(past, times[mine]).astype(np.int64)
            found[mine] = 2 * (times[mine] + self._counts[partition] - since)
        return found

    def forget(self, before: int, partitions: set[int]) -> None:
        """Drop the instants before a time, and all those of partitions that are gone."""
        self._counts[[partition for partition in partitions if partition < len(self._counts)]] = 0
        self._times = {
            partition: times[np.searchsorted(times, before) :].copy()
            for partition, times in self._times.items()
            if partition not in partitions
        }

    def frame(self, partitions: list[int]) -> pl.DataFrame:
        """What is kept of these partitions, as columns."""
        self._make_room(max(partitions, default=-1) + 1)
        times = [self._times.get(partition, _NONE).tolist() for partition in partitions]
        return pl.DataFrame(
            [
                pl.Series("instants", times, dtype=pl.List(pl.Int64)),
                pl.Series("count of instants", self._counts[partitions], dtype=pl.Int64),
            ]
        )

    def restore(self, frame: pl.DataFrame) -> None:
        """Take over what `frame` gave."""
        if frame.schema != self.frame([]).schema or any(frame.null_count().row(0)):
            raise damaged("the numbers of instants do not fit")
        self._counts = frame["count of instants"].to_numpy().copy()
        self._times = {
            partition: np.array(times, np.int64)
            for partition, times in enumerate(frame["instants"])
            if len(times)
        }

    def _make_room(self, count: int) -> None:
        """Room for partitions that are new."""
        missing = count - len(self._counts)
        if missing > 0:
            more = np.zeros(max(missing, len(self._counts)), np.int64)
            self._counts = np.concatenate([self._counts, more])


def check_reach(times: pl.Series) -> None:
    """Refuse times that are too far from 0 to be numbered.

    >>> check_reach(pl.Series([0, None, 1 << 61]))
    """
    if times.drop_nulls().len() and not times.is_between(-_FURTHEST, _FURTHEST).all():
        raise TimeError(
            "where ORDER BY tells events of one time apart beside intervals or silences, times lie within "
            "2^62 ticks of 0: microseconds reach that far"
        )
