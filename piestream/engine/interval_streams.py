"""The streams of ready-made intervals among several: which intervals their rows are of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MIN, NONE, OPEN
from piestream.engine.announced import AnnouncedIntervals, AnnouncedRows
from piestream.engine.batches import IntervalRows
from piestream.engine.bits import symbol_bits
from piestream.engine.columns import flags, nulls, taken, values_at
from piestream.engine.event_streams import MergedRows
from piestream.engine.instant_numbers import InstantNumbers
from piestream.engine.plain_values import plain_values
from piestream.engine.projection import ATTRIBUTE, PREDICATE, SEQUENCE
from piestream.engine.sorted_rows import SilenceRows, SortedRows
from piestream.engine.union import END, ID, NUMBER, START, CombinedProjection, own_column
from piestream.plan.binding import Binding

__all__ = ["IntervalStreams", "KnownIntervals", "values_of_all"]

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownIntervals:
    """The rows of intervals of a batch, by group and instant; silences among them."""

    rows: pl.DataFrame  # of the union, with the values of those that have any
    origin: Words  # the row of each; behind all rows where there is none
    groups: Words
    instants: Words
    places: Words  # the number of each one's instant among those of the batch
    starts: Words
    ends: Words
    symbols: Words
    numbers: Words
    start_instants: Words  # as the loops compare them
    end_instants: Words
    repeated: int  # how many rows were left out: beginnings of what had begun

    def values(self, column: str) -> pl.Series:
        """The values of a column of the union."""
        values = self.rows[column]
        return values_at(pl.concat([values, nulls(values.dtype, 1)]), self.origin)

    def as_rows(
        self,
        some: NDArray[np.bool_],
        columns: Words,
        known: NDArray[np.uint8],
        numbers: Words | None,
    ) -> IntervalRows:
        """As the detector takes them, for the groups in which there is some instant.

        ``numbers`` are those of the instants, where times do not tell them apart.
        """
        compared = None
        if numbers is not None:
            compared = numbers[self.places], self.start_instants, self.end_instants
        offsets = np.searchsorted(self.groups, np.arange(len(some) + 1)).astype(np.int64)
        return IntervalRows(
            np.concatenate(([0], offsets[1:][some])),
            self.instants,
            self.starts,
            self.ends,
            self.symbols,
            self.numbers,
            np.ascontiguousarray(columns),
            np.ascontiguousarray(known),
            self.places,
            compared,
        )


def values_of_all(
    found: MergedRows, intervals: KnownIntervals | None, union: CombinedProjection
) -> pl.DataFrame:
    """The attributes at all instants, and behind them those of intervals."""
    columns = {f"{ATTRIBUTE}{n}": column for n, column in sorted(found.columns.items())}
    if intervals is None:
        return pl.DataFrame(columns)
    return pl.DataFrame(
        {
            name: pl.concat([column, intervals.values(union.attribute_column(n))])
            for n, (name, column) in enumerate(columns.items())
        }
    )


class _Known(NamedTuple):
    """Rows of intervals of some streams, as arrays."""

    groups: Words
    instants: Words
    streams: Words
    places: Words
    starts: Words
    ends: Words
    symbols: Words
    numbers: Words
    origin: Words
    start_instants: Words  # the starts, unless instants are numbered
    end_instants: Words

    def sorted_with(self, others: Sequence[_Known]) -> _Known:
        """These and others by group, instant and stream."""
        some = [one for one in (self, *others) if len(one.groups)]
        if not any(len(one.groups) for one in others):
            return self
        found = _Known(*map(np.concatenate, zip(*some, strict=True)))
        order = np.lexsort((found.streams, found.places))
        return _Known(*(field[order] for field in found))


def _known_within(binding: Binding) -> Iterator[tuple[int, int]]:
    """The streams of what may become known late and is absent, with how long after its start at most."""
    for symbol, late in zip(binding.query.symbols, binding.compiled.ticks.late, strict=True):
        lateness = binding.query.streams[symbol.stream].lateness
        if late is None or lateness is None or lateness.may_come_at_end:
            continue
        if lateness.which == "ts":
            yield symbol.stream, late


class IntervalStreams:
    """Tells the intervals of all streams of rows apart, by numbers that no other interval has."""

    def __init__(self, binding: Binding, union: CombinedProjection) -> None:
        self.binding = binding
        self.union = union
        self.announced = {
            number: AnnouncedIntervals(union.schema[own_column(number, ID)])
            for number, part in enumerate(binding.parts)
            if part.source.id is not None and part.source.silence is None
        }
        #: For each stream of silences a bit for each symbol, which all take all of them.
        self.silence_symbols = {
            number: symbol_bits(
                s for s, one in enumerate(binding.query.symbols) if one.stream == number
            )
            for number, part in enumerate(binding.parts)
            if part.source.silence is not None
        }
        #: Of streams whose intervals become known no later than so long after their starts: how long.
        self._known_within = dict(_known_within(binding))
        self.next_number = 0
        self._is_ready = np.array([part.source.is_ready_made for part in binding.parts])

    def forget(self, now: int, awaited: set[int], partitions: set[int]) -> int:
        """Drop what began too long ago to be in a match, and what partitions have that are gone.

        Gives the time before which no interval began that is still to end, or to come.

        ``awaited`` are the numbers of intervals for whose ends a match may wait. What is kept after its
        end may be in a match as long as it goes on, whenever it began.
        """
        for number, announced in self.announced.items():
            announced.forget(self.kept_since(number, now), awaited, partitions)
        kept = (self._begin_since(int(number), now) for number in np.flatnonzero(self._is_ready))
        begun = (announced.earliest_start for announced in self.announced.values())
        return min((now, *kept, *begun))

    def kept_since(self, number: int, now: int) -> int:
        """What began before this time, of one stream, can be in no match to come, unless one waits."""
        lasts, symbols = self.binding.compiled.ticks.kept, self.binding.query.symbols
        mine = [one for s, one in zip(symbols, lasts, strict=True) if s.stream == number]
        if any(one.after_end for one in mine):
            return INT64_MIN
        return now - max((one.length for one in mine), default=0) - 1

    def _begin_since(self, number: int, now: int) -> int:
        """Before this time no interval of a stream began that is still to come."""
        kept = self.kept_since(number, now)
        within = self._known_within.get(number)
        return kept if within is None else max(kept, now - within - 1)

    def numbered(self, number: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of intervals with numbers that no other interval has had; events, if these are in their order."""
        part = self.binding.parts[number]
        if part.source.row_order:
            first = self.take_numbers(len(rows))
            return rows.with_columns(pl.Series(SEQUENCE, first + np.arange(len(rows))))
        if not part.source.is_ready_made or part.source.id is not None or not len(rows):
            return rows
        first = self.next_number
        self.next_number = first + int(rows[NUMBER].max()) + 1  # type: ignore[arg-type]
        return rows.with_columns(pl.col(NUMBER) + first)

    def known(
        self,
        rows: SortedRows,
        silent: Sequence[SilenceRows],
        found: MergedRows,
        instants: InstantNumbers | None,
    ) -> KnownIntervals | None:
        """The rows of intervals among these, numbered, and silences; None if no stream has any."""
        if not self._is_ready.any():
            return None
        at = np.flatnonzero(self._is_ready[rows.streams])
        given = taken(rows.rows, at)
        own, keep = self._told_apart(given, rows, at, found.at_rows[at])
        if not keep.all():
            own = _Known(*(field[keep] for field in own))
        if instants is not None:
            of = rows.numbers[own.groups]
            own = own._replace(
                start_instants=instants.of_times(own.starts, of, own.instants),
                end_instants=instants.of_times(own.ends, of, own.instants),
            )
        silences = [self._silences(one, found, len(at)) for one in silent]
        every = own.sorted_with(silences)
        return KnownIntervals(
            given, every.origin, every.groups, every.instants, every.places, every.starts,
            every.ends, every.symbols, every.numbers, every.start_instants, every.end_instants,
            int(keep.size - keep.sum()),
        )  # fmt: skip

    def _silences(self, rows: SilenceRows, found: MergedRows, nowhere: int) -> _Known:
        """Silences, which have no values."""
        count, places = len(rows.groups), found.at_silences[rows.stream]
        starts, ends = rows.starts, rows.ends
        if found.numbers is not None:
            # both are instants of events
            ends = np.where(ends == OPEN, OPEN, found.numbers[places])
            at = rows.started_at
            starts = rows.start_instants.copy()
            starts[at != NONE] = found.numbers[found.at_rows[at[at != NONE]]]
        return _Known(
            rows.groups, rows.instants, np.full(count, rows.stream), places, rows.starts,
            rows.ends, rows.symbols, rows.numbers, np.full(count, nowhere), starts, ends,
        )  # fmt: skip

    def _told_apart(
        self, rows: pl.DataFrame, of: SortedRows, at: Words, places: Words
    ) -> tuple[_Known, NDArray[np.bool_]]:
        """The rows of intervals that are ``at`` these places of all, and which of them count."""
        groups, streams, times = of.groups[at], of.streams[at].astype(np.int64), of.times[at]
        keep, symbols = np.ones(len(at), np.bool_), np.zeros(len(at), np.int64)
        if not len(at):
            return _Known(
                groups, times, streams, places, times, times, symbols, times, at, times, times
            ), keep
        ends, starts = rows[END], rows[START].to_numpy().copy()
        is_open = np.zeros(len(at), np.bool_)
        if ends.null_count():
            is_open, ends = ends.is_null().to_numpy(), ends.fill_null(OPEN)
        numbers = rows[NUMBER]
        own_numbers = (numbers.fill_null(0) if numbers.null_count() else numbers).to_numpy().copy()
        for number in np.flatnonzero(self._is_ready):
            mine = np.flatnonzero(streams == number)
            if not len(mine):
                continue
            symbols[mine] = self._symbols_of(int(number), taken(rows, mine))
            announced = self.announced.get(int(number))
            if announced is None:
                continue
            mine = mine[np.lexsort((is_open[mine], times[mine], groups[mine]))]
            ids = plain_values(values_at(rows[own_column(int(number), ID)], mine))
            of_rows = AnnouncedRows(
                of.numbers[groups[mine]], starts[mine], is_open[mine], ids, symbols[mine]
            )
            found = announced.number(of_rows, self._take_number)
            own_numbers[mine], starts[mine] = found.numbers, found.starts
            symbols[mine], keep[mine] = found.symbols, found.keep
        end_times = ends.to_numpy()
        return _Known(
            groups, times, streams, places, starts, end_times, symbols, own_numbers,
            np.arange(len(at)), starts, end_times,
        ), keep  # fmt: skip

    def _symbols_of(self, number: int, rows: pl.DataFrame) -> Words:
        """A bit for each symbol whose predicate holds of a row of intervals."""
        part = self.binding.parts[number]
        own = self.union.own_columns(number, rows)
        taken = np.zeros(len(rows), np.uint64)
        bits = iter(part.binding.bit_of_symbol)
        for symbol, one in enumerate(self.binding.query.symbols):
            if one.stream == number:
                holds = flags(own[f"{PREDICATE}{next(bits)}"])
                taken |= holds.astype(np.uint64) << np.uint64(symbol)
        return taken.view(np.int64)

    def _take_number(self) -> int:
        return self.take_numbers(1)

    def take_numbers(self, count: int) -> int:
        """The first of so many numbers that no interval has."""
        self.next_number += count
        return self.next_number - count
