"""The silences of streams of events, as rows of intervals that begin and end.

A silence is from an event of a stream to the next one of its partition, where that comes later than so
long after it. Its beginning is known at the deadline, which is that long after the event, once time is
known to have passed it; so that row has the time of the deadline, and the start of the event. Its end
is the next event. Deadlines are instants of their partition, like those of other streams' events.

For a symbol of NOT, what may become a silence counts from the event on: it takes a row with each event, whose
length tells at the next one whether it was a silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE, OPEN
from piestream.copies import Copied, copied_but
from piestream.engine.announced import BEGUN_COLUMNS
from piestream.engine.bits import symbol_bits
from piestream.engine.carried import CarriedState
from piestream.engine.sorted_rows import SilenceRows, SortedRows
from piestream.engine.timers import DeadlineQueue, deadlines_after
from piestream.plan.binding import Binding

__all__ = ["Silences"]

Words = NDArray[np.int64]
#: Gives the first of so many numbers that no interval has.
TakeNumbers = Callable[[int], int]


class _Silent(Copied):
    """A stream of silences, and what is known of them by the partitions' numbers."""

    def __init__(self, number: int, of: int, ticks: int, present: int, absent: int) -> None:
        self.number = number
        self.of = of
        self.ticks = ticks
        #: The symbols (as bits) of a match that take them, and those of a NOT.
        self.present = present
        self.absent = absent
        self.queue = DeadlineQueue()
        self.count = 0  # of partitions
        self.open_numbers = np.zeros(0, np.int64)  # of silences that have begun, or NONE

    def make_room(self, count: int) -> None:
        """Room for partitions that are new."""
        missing = count - len(self.open_numbers)
        self.count = count
        if missing > 0:
            more = np.full(max(missing, len(self.open_numbers)), NONE)
            self.open_numbers = np.concatenate([self.open_numbers, more])


class _Starts(NamedTuple):
    """Where silences may start: events, by group and time, and what comes after each."""

    groups: Words
    times: Words
    is_new: NDArray[np.bool_]  # it is an event of this batch
    begun: NDArray[np.bool_]  # the row of its silence's beginning was given before
    is_last: NDArray[np.bool_]
    following: Words  # the next event, or the time up to which it is known that there is none
    rows: Words  # the row of each, or NONE where it is no event of this batch
    instants: Words  # then its number, where instants are numbered


class _Part(NamedTuple):
    """Beginnings, or ends, of some of the silences."""

    some: NDArray[np.bool_]
    times: Words  # when they become known,
    rows: Words  # and the row of that, or NONE
    are_ends: bool
    symbols: int  # a bit for each that takes them

    @property
    def ends(self) -> Words:
        """Where they end, as far as it is known then."""
        return self.times if self.are_ends else np.full(len(self.times), OPEN)


def _exceeds(since: Words, until: Words | int, ticks: int) -> NDArray[np.bool_]:
    """Whether more than so many ticks lie between two times."""
    until = np.asarray(until, np.int64)
    longer: NDArray[np.bool_] = (until - since).view(np.uint64) > np.uint64(ticks)  # without sign
    longer &= until > since
    return longer


def _symbols(binding: Binding, stream: int) -> tuple[int, int]:
    """The symbols of a match that take the intervals of a stream, and those of a NOT, as bits."""
    absent = {absence.symbol for absence in binding.query.absences}
    mine = [(s, one.name) for s, one in enumerate(binding.query.symbols) if one.stream == stream]
    return (
        symbol_bits(s for s, name in mine if name not in absent),
        symbol_bits(s for s, name in mine if name in absent),
    )


class Silences:
    """What of the streams of silences is known at which time, in all partitions.

    ``carried`` has the last events of the streams that may be silent, unless the input comes ``whole``.
    """

    def __init__(self, binding: Binding, carried: Mapping[int, CarriedState], whole: bool) -> None:
        self.carried = carried
        self._whole = whole
        self._streams = [
            _Silent(number, part.source.silence.of, part.silence_ticks, *_symbols(binding, number))
            for number, part in enumerate(binding.parts)
            if part.source.silence is not None
        ]
        #: Silences whose deadline is before this time have been given.
        self.passed = INT64_MIN

    def __bool__(self) -> bool:
        return bool(self._streams)

    def __deepcopy__(self, memo: dict[int, object]) -> Silences:
        return copied_but(self, memo)

    @property
    def next_deadline(self) -> int:
        """No deadline of an event before now is earlier."""
        return min((stream.queue.earliest for stream in self._streams), default=INT64_MAX)

    @next_deadline.setter
    def next_deadline(self, deadline: int) -> None:
        for stream in self._streams:
            stream.queue.bound(deadline)

    @property
    def examined(self) -> int:
        """How many deadlines have come, of partitions that were looked at for them."""
        return sum(stream.queue.examined for stream in self._streams)

    def make_room(self, n_partitions: int) -> None:
        """Room for partitions that are new."""
        for stream in self._streams:
            stream.make_room(n_partitions)

    def due(self, limit: int) -> Words:
        """The partitions in which a deadline has passed before ``limit``, without any new row."""
        found = [
            stream.queue.passed(limit, partial(self._deadlines, stream), stream.count)
            for stream in self._streams
            if not self._whole and stream.queue.earliest < limit
        ]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _deadlines(self, stream: _Silent, partitions: Words) -> NDArray[np.uint64]:
        """The deadlines of partitions whose silences have not been given."""
        last = self.carried[stream.of].last_times[partitions]
        waits = (last != INT64_MIN) & ~_exceeds(last, self.passed, stream.ticks)
        return deadlines_after(last, stream.ticks, waits)

    def found(self, rows: SortedRows, limit: int, take: TakeNumbers) -> list[SilenceRows]:
        """The beginnings and ends that rows make known, and time, which is known up to ``limit``."""
        return [self._found(stream, rows, limit, take) for stream in self._streams]

    def _found(
        self, stream: _Silent, rows: SortedRows, limit: int, take: TakeNumbers
    ) -> SilenceRows:
        starts = self._starts(stream, rows, limit)
        silent = _exceeds(starts.times, starts.following, stream.ticks)
        if not self._whole:
            last = starts.is_last
            deadlines = deadlines_after(starts.times[last], stream.ticks, ~silent[last])
            stream.queue.await_deadlines(rows.numbers[starts.groups[last]], deadlines)
        begun = ~starts.is_new if stream.absent else starts.begun
        some = np.flatnonzero(silent | (stream.absent != 0))
        numbers = np.full(len(silent), NONE)
        numbers[some] = self._numbers(
            stream, rows.numbers[starts.groups[some]], begun[some], starts.is_last[some], take
        )
        return self._rows(stream, starts, silent, numbers)

    @staticmethod
    def _rows(
        stream: _Silent, starts: _Starts, silent: NDArray[np.bool_], numbers: Words
    ) -> SilenceRows:
        """The rows of beginnings and ends.

        For what is absent each event is known at once, as a silence may begin with it.
        """
        n = len(silent)
        nowhere = np.full(n, NONE)
        next_rows = np.append(starts.rows[1:], NONE) if n else nowhere
        deadlines = starts.times + stream.ticks * silent
        both = stream.present | stream.absent
        parts = [
            _Part(silent & ~starts.begun, deadlines, nowhere, False, stream.present),
            _Part(starts.is_new, starts.times, starts.rows, False, stream.absent),
            _Part(silent & ~starts.is_last, starts.following, next_rows, True, both),
            _Part(~silent & ~starts.is_last, starts.following, next_rows, True, stream.absent),
        ]
        # a deadline is an instant also where no symbol takes it
        taken = [part for n, part in enumerate(parts) if not n or part.symbols]
        which = np.concatenate([np.flatnonzero(part.some) for part in taken])
        return SilenceRows(
            stream.number,
            starts.groups[which],
            np.concatenate([part.times[part.some] for part in taken]),
            starts.times[which],
            np.concatenate([part.ends[part.some] for part in taken]),
            numbers[which],
            np.concatenate([np.full(int(p.some.sum()), p.symbols, np.int64) for p in taken]),
            np.concatenate([part.rows[part.some] for part in taken]),
            starts.rows[which],
            starts.instants[which],
        )

    def _numbers(
        self,
        stream: _Silent,
        partitions: Words,
        begun: NDArray[np.bool_],
        is_last: NDArray[np.bool_],
        take: TakeNumbers,
    ) -> Words:
        """The numbers of silences; those that stay open are kept."""
        if self._whole:
            return take(len(partitions)) + np.arange(len(partitions))
        numbers = np.where(begun, stream.open_numbers[partitions], NONE)
        new = np.flatnonzero(numbers == NONE)
        numbers[new] = take(len(new)) + np.arange(len(new))
        stream.open_numbers[partitions] = NONE
        stream.open_numbers[partitions[is_last]] = numbers[is_last]
        return numbers

    def pass_time(self, limit: int) -> None:
        """All silences before ``limit`` have been given."""
        self.passed = max(self.passed, limit)

    def await_deadlines(self, partitions: Words) -> NDArray[np.bool_]:
        """Which of these partitions have an event whose deadline has not passed."""
        found = np.zeros(len(partitions), np.bool_)
        for stream in self._streams:
            times = self.carried[stream.of].last_times[partitions]
            found |= (times != INT64_MIN) & ~_exceeds(times, self.passed, stream.ticks)
        return found

    def _starts(self, stream: _Silent, rows: SortedRows, limit: int) -> _Starts:
        mine = rows.places(stream.of)
        groups, times, instants = rows.groups[mine], rows.times[mine], np.full(len(mine), NONE)
        begun, is_new = np.zeros(len(mine), np.bool_), np.ones(len(mine), np.bool_)
        if not self._whole:
            state = self.carried[stream.of]
            before = state.last_times[rows.numbers]
            known = np.flatnonzero(before != INT64_MIN)
            before = before[known]
            had_begun = _exceeds(before, self.passed, stream.ticks)
            groups, times = np.concatenate([known, groups]), np.concatenate([before, times])
            order = np.argsort(groups, kind="stable")  # those of a group are in order of time
            groups, times = groups[order], times[order]
            begun = np.concatenate([had_begun, begun])[order]
            is_new = np.concatenate([np.zeros(len(known), np.bool_), is_new])[order]
            mine = np.concatenate([np.full(len(known), NONE), mine])[order]
            if state.last_instants is not None:
                before = state.last_instants[rows.numbers[known]]
                instants = np.concatenate([before, instants])[order]
            else:
                instants = mine
        is_last = np.ones(len(groups), np.bool_)
        is_last[:-1] = groups[1:] != groups[:-1]
        following = np.full(len(groups), limit, np.int64)
        following[:-1] = np.where(is_last[:-1], limit, times[1:])
        return _Starts(groups, times, is_new, begun, is_last, following, mine, instants)

    # -- the state --------------------------------------------------------------------------------

    def forget(self, kept_since: Callable[[int], int], awaited: set[int], free: Words) -> None:
        """Drop what began too long ago to be in a match, and what partitions have that are gone.

        ``awaited`` are the numbers of intervals for whose ends a match may wait.
        """
        for stream in self._streams:
            some = np.flatnonzero(stream.open_numbers != NONE)
            old = self.carried[stream.of].last_times[some] < kept_since(stream.number)
            needed = np.isin(stream.open_numbers[some], np.array(sorted(awaited), np.int64))
            stream.open_numbers[some[old & ~needed]] = NONE
            stream.open_numbers[free] = NONE

    def frame(self, number: int, used: list[int], symbols: int) -> pl.DataFrame:
        """The silences of one stream that have begun, by the places of partitions in a stored state."""
        stream = self._stream(number)
        numbers = stream.open_numbers[used]
        places = np.flatnonzero(numbers != NONE)
        starts = self.carried[stream.of].last_times[used]
        return pl.DataFrame(
            {
                "partition": places,
                "id": np.zeros(len(places), np.int64),
                "number": numbers[places],
                "start": starts[places],
                "symbols": np.full(len(places), symbols),
            },
            schema={**BEGUN_COLUMNS, "id": pl.Int64()},
        )

    def restore(self, number: int, frame: pl.DataFrame, count: int) -> None:
        """Take over what `frame` gave, of so many partitions."""
        stream = self._stream(number)
        stream.make_room(count)
        stream.open_numbers[frame["partition"].to_numpy()] = frame["number"].to_numpy()

    def _stream(self, number: int) -> _Silent:
        return next(stream for stream in self._streams if stream.number == number)

    @property
    def numbers(self) -> set[int]:
        """The streams of silences, by their numbers."""
        return {stream.number for stream in self._streams}
