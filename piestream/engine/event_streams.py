"""The streams of events among several: their predicates and values at the instants of all of them.

A stream's predicates keep their values at the instants of others, until the stream's next event, or
until it has been silent for longer than its MAX GAP.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.engine.carried import CarriedState
from piestream.engine.instants import EventRows, Instants, merged, silences
from piestream.engine.memories import OrderedRows
from piestream.engine.past import PastValues, with_past
from piestream.engine.projection import ATTRIBUTE, PREDICATE, SEQUENCE, TIME
from piestream.engine.union import STREAM, CombinedProjection
from piestream.language.parts import StreamKind
from piestream.plan.binding import Binding
from piestream.plan.program import counted_streams

__all__ = ["EventStreams", "MergedRows"]

Words = NDArray[np.int64]


@dataclass(slots=True)
class MergedRows:
    """The instants of a batch, and what holds at each."""

    instants: Instants
    bits: list[pl.Series] = field(default_factory=list)
    columns: dict[int, pl.Series] = field(default_factory=dict)  # of the attributes
    counts: list[Words] = field(default_factory=list)  # of the streams whose events are counted


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
        self.next_silence = INT64_MAX  # no silence ends anything before or at this time

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
        if self.next_silence >= limit:
            return np.zeros(0, np.int64)
        due: list[Words] = []
        following = INT64_MAX
        for number, gap in self._gaps.items():
            state = self.carried[number]
            is_open = np.flatnonzero(state.bits.any(axis=0))
            times = state.last_times[is_open]
            passed = np.array(limit).astype(np.uint64) - times.astype(np.uint64)  # without sign
            over = (times < limit) & (passed > np.uint64(gap))
            due.append(is_open[over])
            if len(times[~over]):
                following = min(following, int(times[~over].min()) + gap)
        self.next_silence = min(following, INT64_MAX)
        return np.unique(np.concatenate(due)) if due else np.zeros(0, np.int64)

    def merged(self, rows: pl.DataFrame, numbers: Words, group_of: Words, limit: int) -> MergedRows:
        """The instants of rows, with the predicates and the values that hold at each.

        ``numbers`` are those of the groups' partitions, for which there is room.
        """
        streams, times = rows[STREAM].to_numpy(), rows[TIME].to_numpy()
        n_groups = len(numbers)
        mine = {
            number: np.flatnonzero(streams == number) for number in range(len(self.binding.parts))
        }
        events: dict[int, EventRows] = {}
        frames: dict[int, pl.DataFrame] = {}
        lists: list[tuple[Words, Words]] = []
        sequences: list[Words | None] = []
        ends: dict[int, tuple[Words, Words]] = {}
        for number, at in mine.items():
            lists.append((group_of[at], times[at]))
            is_sequenced = self.binding.parts[number].binding.sequence is not None
            sequences.append(rows[SEQUENCE].to_numpy()[at] if is_sequenced else None)
            if number not in self.carried:
                continue
            frames[number], events[number] = self._event_rows(number, rows[at], numbers, lists[-1])
            if number in self._gaps:
                ends[number] = silences(events[number], self._gaps[number], limit)
        instants = merged(n_groups, [*lists, *ends.values()], sequences)
        found = MergedRows(instants)
        found.counts += [instants.numbered(instants.places[n]) for n in self._counted]
        end_places = dict(zip(ends, instants.places[len(lists) :], strict=True))
        for number, one in events.items():
            places = instants.places[number]
            silent = end_places.get(number, np.zeros(0, np.int64))
            latest = instants.latest(n_groups, one.groups, places, silent)
            nothing = np.zeros((len(one.bits), 1), np.bool_)
            bits = np.concatenate([one.last_bits, one.bits, nothing], axis=1)[:, latest]
            found.bits += [pl.Series(row) for row in bits]
            self._carry(number, found, frames[number], numbers, latest)
            if not self._whole:
                self._store(number, found.instants, one, bits, numbers)
        for number in mine.keys() - self.carried.keys():
            self._no_values(number, found)
        return found

    def _event_rows(
        self,
        number: int,
        rows: pl.DataFrame,
        numbers: Words,
        where: tuple[Words, Words],
    ) -> tuple[pl.DataFrame, EventRows]:
        """The rows of one stream of events, with all of its predicates."""
        groups, times = where
        own = self.union.own_rows(number, rows)
        state = None if self._whole else self.carried[number]
        part = self.binding.parts[number]
        if self.union.parts[number].ordered_predicates:
            some, firsts = np.unique(groups, return_index=True)
            offsets = np.concatenate([firsts, [len(groups)]]).astype(np.int64)
            past = PastValues(part.binding.past) if state is None else state.past
            ordered = OrderedRows(numbers[some], offsets, times, state is None)
            own = with_past(own, self.union.parts[number], ordered, past)
        bits = np.zeros((len(part.predicates), len(own)), np.bool_)
        for place in range(len(part.predicates)):
            bits[place] = own[f"{PREDICATE}{place}"].fill_null(False).to_numpy()
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
        own: pl.DataFrame,
        numbers: Words,
        latest: Words,
    ) -> None:
        """The values of one stream's attributes at all instants."""
        part = self.binding.parts[number]
        n_instants = len(found.instants.times)
        for place, attribute in enumerate(part.attributes):
            values = own[f"{ATTRIBUTE}{place}"]
            if not self.binding.attributes[attribute].carried:
                at = pl.Series(found.instants.places[number], dtype=pl.UInt32)
                column = pl.repeat(None, n_instants, dtype=values.dtype, eager=True)
                found.columns[attribute] = column.scatter(at, values) if len(at) else column
                continue
            before = pl.repeat(None, len(numbers), dtype=values.dtype, eager=True)
            state = self.carried[number].values
            if not self._whole:
                before = state[attribute].gather(pl.Series(numbers))
            nothing = pl.repeat(None, 1, dtype=values.dtype, eager=True)
            column = pl.concat([before, values, nothing]).gather(pl.Series(latest))
            found.columns[attribute] = column
            if not self._whole:
                last = found.instants.offsets[1:] - 1
                some = found.instants.offsets[1:] > found.instants.offsets[:-1]
                state[attribute] = state[attribute].scatter(
                    pl.Series(numbers[some]), column.gather(pl.Series(last[some]))
                )

    def _store(
        self,
        number: int,
        instants: Instants,
        rows: EventRows,
        bits: NDArray[np.bool_],
        numbers: Words,
    ) -> None:
        """Keep what one stream's latest event of each partition says."""
        state = self.carried[number]
        some = instants.offsets[1:] > instants.offsets[:-1]
        state.bits[:, numbers[some]] = bits[:, instants.offsets[1:][some] - 1]
        state.last_times[numbers[rows.groups]] = rows.times  # the last of each stays
        if number in self._gaps:
            is_open = state.bits[:, numbers].any(axis=0)
            first = int(state.last_times[numbers[is_open]].min(initial=INT64_MAX))
            self.next_silence = min(self.next_silence, first + self._gaps[number], INT64_MAX)

    def _no_values(self, number: int, found: MergedRows) -> None:
        """Rows of intervals have their values for themselves, not at instants."""
        for attribute in self.binding.parts[number].attributes:
            dtype = self.union.schema[self.union.attribute_column(attribute)]
            found.columns[attribute] = pl.repeat(
                None, len(found.instants.times), dtype=dtype, eager=True
            )


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
