"""The streams of events among several: their predicates and values at the instants of all of them.

A stream's predicates keep their values at the instants of others, until the stream's next event, or
until it has been silent for longer than its MAX GAP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.carried import CarriedState
from piestream.engine.columns import flags, nulls, taken, values_at
from piestream.engine.instants import EventRows, Instants, merged, silences
from piestream.engine.memories import OrderedRows
from piestream.engine.past import PastValues, with_past
from piestream.engine.projection import ATTRIBUTE, PREDICATE
from piestream.engine.sorted_rows import SilenceRows, SortedRows
from piestream.engine.timers import DeadlineQueue, deadlines_after
from piestream.engine.union import CombinedProjection
from piestream.language.parts import StreamKind
from piestream.plan.binding import Binding
from piestream.plan.program import counted_streams

__all__ = ["EventStreams", "MergedRows"]

Words = NDArray[np.int64]


@dataclass(slots=True)
class MergedRows:
    """The instants of a batch, and what holds at each."""

    instants: Instants
    at_rows: Words  # the instant of each row
    at_silences: dict[int, Words]  # of each row of a stream of silences
    numbers: Words | None = None  # of the instants, where times do not tell them apart
    bits: list[NDArray[np.bool_]] = field(default_factory=list)
    columns: dict[int, pl.Series] = field(default_factory=dict)  # of the attributes
    counts: list[Words] = field(default_factory=list)  # of the streams whose events are counted

    def with_counts(
        self, columns: Words, known: NDArray[np.uint8], n_intervals: int
    ) -> tuple[Words, NDArray[np.uint8]]:
        """The columns of attributes, and behind them those of counts, which intervals have none of."""
        if not self.counts:
            return columns, known
        more = np.pad(np.stack(self.counts), ((0, 0), (0, n_intervals)))
        ones = np.ones(more.shape, np.uint8)
        if not len(columns):
            return more, ones
        return np.concatenate([columns, more]), np.concatenate([known, ones])


class _Merging:
    """Lists of rows whose instants are merged, and where each of them is among all."""

    def __init__(self) -> None:
        self.lists: list[tuple[Words, Words]] = []
        self.sequences: list[Words | None] = []
        self.turns: list[int] = []
        self.behind: list[int] = []

    def add(
        self,
        groups: Words,
        times: Words,
        sequences: Words | None = None,
        turn: int = 0,
        is_behind: bool = False,
    ) -> int:
        """The number of one more list, of instants that may lie behind all others of their times."""
        number = len(self.lists)
        self.lists.append((groups, times))
        self.sequences.append(sequences)
        self.turns.append(turn)
        if is_behind:
            self.behind.append(number)
        return number

    def instants(self, n_groups: int) -> Instants:
        """The instants of all."""
        return merged(n_groups, self.lists, self.sequences, self.behind, self.turns)


class EventStreams:
    """What the streams of events hand on, and the instants that they and other rows make.

    Where the input comes ``whole``, nothing is handed on.
    """

    def __init__(self, binding: Binding, union: CombinedProjection, whole: bool) -> None:
        self.binding = binding
        self.union = union
        self.carried = {
            number: CarriedState.none(binding, union, number)
            for number, part in enumerate(binding.parts)
            if part.source.kind is StreamKind.EVENTS
        }
        self._whole = whole
        self._gaps = _gap_ticks(binding)
        self._counted = counted_streams(binding.query)
        self._turns = binding.query.turns
        self._queues = {number: DeadlineQueue() for number in self._gaps}

    @property
    def next_silence(self) -> int:
        """No silence ends anything before or at this time."""
        return min((queue.earliest for queue in self._queues.values()), default=INT64_MAX)

    @next_silence.setter
    def next_silence(self, deadline: int) -> None:
        for queue in self._queues.values():
            queue.bound(deadline)

    def make_room(self, n_partitions: int) -> None:
        """Room for partitions that are new."""
        for state in self.carried.values():
            state.make_room(n_partitions)

    def forget(self, partitions: Words) -> None:
        """Partitions that hold nothing any more."""
        for state in self.carried.values():
            state.forget(partitions)

    def silent(self, limit: int) -> Words:
        """The partitions in which a silence may have ended something before ``limit``."""
        found = [
            queue.passed(
                limit, partial(self._deadlines, number), len(self.carried[number].last_times)
            )
            for number, queue in self._queues.items()
            if queue.earliest < limit
        ]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def _deadlines(self, number: int, partitions: Words) -> NDArray[np.uint64]:
        """When what is open in partitions ends unless an event comes."""
        state = self.carried[number]
        is_open = np.asarray(state.bits[:, partitions].any(axis=0), np.bool_)
        return deadlines_after(state.last_times[partitions], self._gaps[number], is_open)

    def merged(self, rows: SortedRows, silent: Sequence[SilenceRows], limit: int) -> MergedRows:
        """The instants of rows, with the predicates and the values that hold at each.

        There is room for the partitions. ``silent`` are the rows of silences, and time is ``limit``.
        """
        n_groups = len(rows.numbers)
        lists = _Merging()
        mine = {
            number: rows.places(number)
            for number, part in enumerate(self.binding.parts)
            if part.source.silence is None
        }
        for number, at in mine.items():
            is_sequenced = self.binding.parts[number].source.is_sequenced
            sequences = None
            if is_sequenced and rows.sequences is not None:
                sequences = rows.sequences[at]
            lists.add(rows.groups[at], rows.times[at], sequences, self._turns[number])
        events = {number: self._event_rows(number, rows, mine[number]) for number in self.carried}
        deadlines_at = {
            one.stream: lists.add(*one.deadlines, is_behind=self.binding.query.is_sequenced)
            for one in silent
        }
        ends_at = {
            number: lists.add(*silences(events[number][1], gap, limit))
            for number, gap in self._gaps.items()
        }
        instants = lists.instants(n_groups)
        places = dict(zip(mine, instants.places, strict=False))
        at_rows = np.zeros(len(rows.times), np.int64)
        for number, at in mine.items():
            at_rows[at] = places[number]
        at_silences = {
            rows_of.stream: rows_of.places(at_rows, instants.places[deadlines_at[rows_of.stream]])
            for rows_of in silent
        }
        found = MergedRows(instants, at_rows, at_silences)
        found.counts += [instants.numbered(places[n]) for n in self._counted]
        nowhere = np.zeros(0, np.int64)
        for number, (own, one) in events.items():
            ends = instants.places[ends_at[number]] if number in ends_at else nowhere
            latest = instants.latest(n_groups, one.groups, places[number], ends)
            nothing = np.zeros((len(one.bits), 1), np.bool_)
            bits = np.concatenate([one.last_bits, one.bits, nothing], axis=1)[:, latest]
            found.bits += list(bits)
            self._carry(number, found, own, rows.numbers, latest, places[number])
            if not self._whole:
                self._store(number, found.instants, one, bits, rows.numbers)
        for number in range(len(self.binding.parts)):
            if number not in self.carried:
                self._no_values(number, found)
        return found

    def _event_rows(
        self, number: int, rows: SortedRows, mine: Words
    ) -> tuple[dict[str, pl.Series], EventRows]:
        """The rows of one stream of events, with all of its predicates."""
        groups, times, numbers = rows.groups[mine], rows.times[mine], rows.numbers
        own = self.union.own_columns(number, taken(rows.rows, mine))
        state = None if self._whole else self.carried[number]
        part = self.binding.parts[number]
        if self.union.parts[number].ordered_predicates:
            some, firsts = np.unique(groups, return_index=True)
            offsets = np.concatenate([firsts, [len(groups)]]).astype(np.int64)
            past = PastValues(part.binding.past) if state is None else state.past
            ordered = OrderedRows(numbers[some], offsets, times, state is None)
            frame = with_past(pl.DataFrame(own), self.union.parts[number], ordered, past)
            own = frame.to_dict()
        bits = np.zeros((len(part.predicates), len(mine)), np.bool_)
        for place in range(len(part.predicates)):
            bits[place] = flags(own[f"{PREDICATE}{place}"])
        if state is None:
            last_times = np.full(len(numbers), INT64_MIN)
            last_bits = np.zeros((len(part.predicates), len(numbers)), np.bool_)
        else:
            last_times, last_bits = state.last_times[numbers], state.bits[:, numbers]
        return own, EventRows(groups, times, bits, last_times, last_bits)

    def _carry(
        self,
        number: int,
        found: MergedRows,
        own: Mapping[str, pl.Series],
        numbers: Words,
        latest: Words,
        places: Words,
    ) -> None:
        """The values of one stream's attributes at all instants; its rows are at ``places``."""
        part = self.binding.parts[number]
        n_instants = len(found.instants.times)
        for place, attribute in enumerate(part.attributes):
            values = own[f"{ATTRIBUTE}{place}"]
            nothing = nulls(values.dtype, 1)
            if not self.binding.attributes[attribute].carried:
                at = np.full(n_instants, len(values), np.int64)
                at[places] = np.arange(len(values))
                found.columns[attribute] = values_at(pl.concat([values, nothing]), at)
                continue
            before = nulls(values.dtype, len(numbers))
            state = self.carried[number].values
            if not self._whole:
                before = values_at(state[attribute], numbers)
            column = values_at(pl.concat([before, values, nothing]), latest)
            found.columns[attribute] = column
            if not self._whole:
                last = found.instants.offsets[1:] - 1
                some = found.instants.offsets[1:] > found.instants.offsets[:-1]
                state[attribute] = state[attribute].scatter(
                    pl.Series(numbers[some]), values_at(column, last[some])
                )

    def _store(
        self,
        number: int,
        instants: Instants,
        rows: EventRows,
        bits: NDArray[np.bool_],
        numbers: Words,
    ) -> None:
        """Keep the values of one stream's latest event of each partition."""
        state = self.carried[number]
        some = instants.offsets[1:] > instants.offsets[:-1]
        state.bits[:, numbers[some]] = bits[:, instants.offsets[1:][some] - 1]
        state.last_times[numbers[rows.groups]] = rows.times  # the last of each stays
        if number in self._queues:
            self._queues[number].await_deadlines(numbers, self._deadlines(number, numbers))

    def keep_instants(self, rows: SortedRows, found: MergedRows) -> None:
        """Keep the numbers of the instants of the latest events, where a silence may start at them."""
        assert found.numbers is not None
        for number, state in self.carried.items():
            if state.last_instants is not None and not self._whole:
                mine = rows.places(number)
                of = rows.numbers[rows.groups[mine]]
                state.last_instants[of] = found.numbers[found.at_rows[mine]]  # the last stays

    def _no_values(self, number: int, found: MergedRows) -> None:
        """Rows of intervals have their values for themselves, not at instants."""
        for attribute in self.binding.parts[number].attributes:
            dtype = self.union.schema[self.union.attribute_column(attribute)]
            found.columns[attribute] = nulls(dtype, len(found.instants.times))


def _gap_ticks(binding: Binding) -> dict[int, int]:
    """MAX GAP of each stream that has one."""
    query, time = binding.query, binding.time
    return {
        number: query.ticks(
            query.part(number, "max_gap"), source.max_gap, time.nanoseconds_per_tick
        )
        for number, source in enumerate(query.streams)
        if source.max_gap is not None
    }
