"""The silences of streams of events, as rows of intervals that begin and end.

A silence is from an event of a stream to the next one of its partition, where that comes later than so
long after it. Its beginning is known at the deadline, which is that long after the event, once time is
known to have passed it; so that row has the time of the deadline, and the start of the event. Its end
is the next event. Deadlines are instants of their partition, like those of other streams' events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import copied_but
from piestream.engine.carried import CarriedState
from piestream.engine.projection import PREDICATE, TIME
from piestream.engine.union import END, ID, START, STREAM, CombinedProjection, own_column
from piestream.plan.binding import Binding

__all__ = ["Silences"]

Words = NDArray[np.int64]


class _Silent(NamedTuple):
    """A stream of silences."""

    number: int
    of: int
    ticks: int


class _Starts(NamedTuple):
    """Where silences may start: events, by group and time, and what comes after each."""

    groups: Words
    times: Words
    begun: NDArray[np.bool_]  # the beginning of its silence has been told before
    is_last: NDArray[np.bool_]
    following: Words  # the next event, or the time up to which it is known that there is none


def _exceeds(since: Words, until: Words | int, ticks: int) -> NDArray[np.bool_]:
    """Whether more than so many ticks lie between two times."""
    later = np.broadcast_to(np.asarray(until, np.int64), since.shape)
    passed = later.astype(np.uint64) - since.astype(np.uint64)  # without sign
    longer: NDArray[np.bool_] = (later > since) & (passed > np.uint64(ticks))
    return longer


class Silences:
    """What of the streams of silences is known at which time, in all partitions.

    ``carried`` has the last events of the streams that may be silent, unless the input comes ``whole``.
    """

    def __init__(
        self,
        binding: Binding,
        union: CombinedProjection,
        carried: Mapping[int, CarriedState],
        whole: bool,
    ) -> None:
        self.union = union
        self.carried = carried
        self._whole = whole
        self._streams = [
            _Silent(number, part.source.silence.of, part.silence_ticks)
            for number, part in enumerate(binding.parts)
            if part.source.silence is not None
        ]
        #: Up to which time silences have been told; it not included.
        self.passed = INT64_MIN
        self.next_deadline = INT64_MAX  # no deadline of an event before now is earlier

    def __bool__(self) -> bool:
        return bool(self._streams)

    def __deepcopy__(self, memo: dict[int, object]) -> Silences:
        return copied_but(self, memo, union=self.union, _streams=self._streams)

    def due(self, limit: int) -> Words:
        """The partitions in which a deadline has passed before ``limit``, without any new row."""
        if self._whole or self.next_deadline >= limit:
            return np.zeros(0, np.int64)
        found: list[Words] = []
        self.next_deadline = INT64_MAX
        for stream in self._streams:
            times = self.carried[stream.of].last_times
            waiting = np.flatnonzero(
                (times != INT64_MIN) & ~_exceeds(times, self.passed, stream.ticks)
            )
            over = _exceeds(times[waiting], limit, stream.ticks)
            found.append(waiting[over])
            self._note_deadlines(times[waiting[~over]], stream.ticks)
        return np.unique(np.concatenate(found))

    def added(
        self, rows: pl.DataFrame, numbers: Words, group_of: Words, limit: int
    ) -> tuple[pl.DataFrame, Words]:
        """Rows by group, time and stream, with those of silences among them; and their groups.

        ``numbers`` are the partitions of the groups; time is known up to ``limit``.
        """
        frames, groups = [rows], [group_of]
        for stream in self._streams:
            starts = self._starts(stream, rows, numbers, group_of, limit)
            silent = _exceeds(starts.times, starts.following, stream.ticks)
            waits = starts.is_last & ~silent
            self._note_deadlines(starts.times[waits], stream.ticks)
            begins, ends = silent & ~starts.begun, silent & ~starts.is_last
            nowhere = np.zeros(len(starts.times), np.int64)
            for which, times, closed in (
                (begins, starts.times + stream.ticks * silent, nowhere),
                (ends, starts.following, starts.following),
            ):
                if which.any():
                    end = None if closed is nowhere else closed[which]
                    rows_ = self._rows(stream.number, times[which], starts.times[which], end)
                    frames.append(rows_)
                    groups.append(starts.groups[which])
        if len(frames) == 1:
            return rows, group_of
        rows, group_of = pl.concat(frames), np.concatenate(groups)
        order = np.lexsort((rows[STREAM].to_numpy(), rows[TIME].to_numpy(), group_of))
        return rows[order], group_of[order]

    def pass_time(self, limit: int) -> None:
        """All silences before ``limit`` have been told."""
        self.passed = max(self.passed, limit)

    def await_deadlines(self, partitions: Words) -> NDArray[np.bool_]:
        """Which of these partitions have an event whose deadline has not passed."""
        found = np.zeros(len(partitions), np.bool_)
        for stream in self._streams:
            times = self.carried[stream.of].last_times[partitions]
            found |= (times != INT64_MIN) & ~_exceeds(times, self.passed, stream.ticks)
        return found

    def _starts(
        self, stream: _Silent, rows: pl.DataFrame, numbers: Words, group_of: Words, limit: int
    ) -> _Starts:
        mine = np.flatnonzero(rows[STREAM].to_numpy() == stream.of)
        groups, times = group_of[mine], rows[TIME].to_numpy()[mine]
        begun = np.zeros(len(mine), np.bool_)
        if not self._whole:
            before = self.carried[stream.of].last_times[numbers]
            known = np.flatnonzero(before != INT64_MIN)
            before = before[known]
            groups, times = np.concatenate([known, groups]), np.concatenate([before, times])
            begun = np.concatenate([_exceeds(before, self.passed, stream.ticks), begun])
        order = np.argsort(groups, kind="stable")  # those of a group are in order of time
        groups, times, begun = groups[order], times[order], begun[order]
        is_last = np.ones(len(groups), np.bool_)
        is_last[:-1] = groups[1:] != groups[:-1]
        following = np.full(len(groups), limit, np.int64)
        following[:-1] = np.where(is_last[:-1], limit, times[1:])
        return _Starts(groups, times, begun, is_last, following)

    def _rows(self, number: int, times: Words, starts: Words, ends: Words | None) -> pl.DataFrame:
        """Rows of the union, of silences that become known at these times."""
        count = len(times)
        own: dict[str, pl.Series] = {
            TIME: pl.Series(times),
            STREAM: pl.repeat(number, count, eager=True),
            START: pl.Series(starts),
            END: pl.repeat(None, count, eager=True) if ends is None else pl.Series(ends),
            own_column(number, ID): pl.repeat(0, count, eager=True),
            own_column(number, f"{PREDICATE}0"): pl.repeat(True, count, eager=True),
        }
        return pl.DataFrame(
            [
                own.get(name, pl.repeat(None, count, eager=True)).cast(dtype).alias(name)
                for name, dtype in self.union.schema.items()
            ]
        )

    def _note_deadlines(self, times: Words, ticks: int) -> None:
        """Events whose silences are still to come, if they do."""
        if len(times):
            self.next_deadline = min(self.next_deadline, int(times.min()) + ticks, INT64_MAX)
