"""The streams of ready-made intervals among several: which intervals their rows are of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX, INT64_MIN, OPEN
from piestream.engine.announced import AnnouncedIntervals, AnnouncedRows
from piestream.engine.batches import IntervalRows
from piestream.engine.instant_numbers import InstantNumbers
from piestream.engine.projection import PREDICATE, TIME
from piestream.engine.union import END, ID, NUMBER, START, STREAM, CombinedProjection, own_column
from piestream.plan.binding import Binding

__all__ = ["IntervalStreams", "KnownIntervals"]

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownIntervals:
    """The rows of intervals of a batch, by group and instant."""

    rows: pl.DataFrame  # of the union
    groups: Words
    starts: Words
    ends: Words
    symbols: Words
    numbers: Words
    repeated: int  # how many rows were left out: beginnings of what had begun

    def as_rows(
        self,
        some: NDArray[np.bool_],
        columns: Words,
        known: NDArray[np.uint8],
        instants: InstantNumbers | None,
        numbers: Words,
    ) -> IntervalRows:
        """As the detector takes them, for the groups in which there is some instant.

        ``numbers`` are those of the groups' partitions; ``instants`` where these are numbers.
        """
        times = self.rows[TIME].to_numpy()
        compared = None
        if instants is not None:
            of = numbers[self.groups]
            compared = (
                instants.of_times(times, of, times),
                instants.of_times(self.starts, of, times),
                instants.of_times(self.ends, of, times),
            )
        offsets = np.searchsorted(self.groups, np.arange(len(some) + 1)).astype(np.int64)
        return IntervalRows(
            np.concatenate(([0], offsets[1:][some])),
            times,
            self.starts,
            self.ends,
            self.symbols,
            self.numbers,
            np.ascontiguousarray(columns),
            np.ascontiguousarray(known),
            compared,
        )


class IntervalStreams:
    """Tells the intervals of all streams of rows apart, by numbers that no other interval has."""

    def __init__(self, binding: Binding, union: CombinedProjection) -> None:
        self.binding = binding
        self.union = union
        self.announced = {
            number: AnnouncedIntervals(union.schema[own_column(number, ID)])
            for number, part in enumerate(binding.parts)
            if part.source.id is not None
        }
        self.next_number = 0
        self._is_ready = np.array([part.source.is_ready_made for part in binding.parts])

    def forget(self, now: int, awaited: set[int], partitions: set[int]) -> int:
        """Drop what began too long ago to be in a match, and what partitions have that are gone.

        Gives the time before which no interval began that is still to end, or to come.

        ``awaited`` are the numbers of intervals for whose ends a match may wait. What is kept after its
        end may be in a match as long as it goes on, whenever it began.
        """
        lasts = self.binding.compiled.ticks.kept
        earliest = now
        for number, announced in self.announced.items():
            symbols = self.binding.query.symbols
            mine = [one for s, one in zip(symbols, lasts, strict=True) if s.stream == number]
            before = INT64_MIN
            if not any(one.after_end for one in mine):
                before = now - max((one.length for one in mine), default=0) - 1
            announced.forget(before, awaited, partitions)
            earliest = min(earliest, announced.earliest_start)
        for symbol, kept in zip(self.binding.query.symbols, lasts, strict=True):
            if self._is_ready[symbol.stream]:
                length = INT64_MAX if kept.after_end else kept.length
                earliest = min(earliest, max(now - length - 1, INT64_MIN))
        return earliest

    def numbered(self, number: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of intervals with numbers that no other interval has had."""
        part = self.binding.parts[number]
        if not part.source.is_ready_made or part.source.id is not None or not len(rows):
            return rows
        first = self.next_number
        self.next_number = first + int(rows[NUMBER].max()) + 1  # type: ignore[arg-type]
        return rows.with_columns(pl.col(NUMBER) + first)

    def known(self, rows: pl.DataFrame, numbers: Words, group_of: Words) -> KnownIntervals | None:
        """The rows of intervals among these, told apart; None where no stream has any."""
        if not self._is_ready.any():
            return None
        streams = rows[STREAM].to_numpy()
        at = np.flatnonzero(self._is_ready[streams])
        rows, groups, streams = rows[at], group_of[at], streams[at]
        starts = rows[START].to_numpy().copy()
        is_open = rows[END].is_null().to_numpy()
        own_numbers = rows[NUMBER].fill_null(0).to_numpy().copy()
        symbols = np.zeros(len(rows), np.int64)
        keep = np.ones(len(rows), np.bool_)
        for number in np.flatnonzero(self._is_ready):
            mine = np.flatnonzero(streams == number)
            symbols[mine] = self._symbols_of(int(number), rows[mine])
            announced = self.announced.get(int(number))
            if announced is None:
                continue
            times = rows[TIME].to_numpy()[mine]
            mine = mine[np.lexsort((is_open[mine], times, groups[mine]))]
            ids = rows[own_column(int(number), ID)].gather(pl.Series(mine)).to_list()
            of_rows = AnnouncedRows(
                numbers[groups[mine]], starts[mine], is_open[mine], ids, symbols[mine]
            )
            found = announced.number(of_rows, self._take_number)
            own_numbers[mine], starts[mine] = found.numbers, found.starts
            symbols[mine], keep[mine] = found.symbols, found.keep
        ends = rows[END].fill_null(OPEN).to_numpy()
        return KnownIntervals(
            rows.filter(pl.Series(keep)),
            groups[keep],
            starts[keep],
            ends[keep],
            symbols[keep],
            own_numbers[keep],
            int(keep.size - keep.sum()),
        )

    def _symbols_of(self, number: int, rows: pl.DataFrame) -> Words:
        """A bit for each symbol whose predicate holds of a row of intervals."""
        part = self.binding.parts[number]
        own = self.union.own_rows(number, rows)
        taken = np.zeros(len(rows), np.uint64)
        bits = iter(part.binding.bit_of_symbol)
        for symbol, one in enumerate(self.binding.query.symbols):
            if one.stream == number:
                holds = own[f"{PREDICATE}{next(bits)}"].fill_null(False).to_numpy()
                taken |= holds.astype(np.uint64) << np.uint64(symbol)
        return taken.view(np.int64)

    def _take_number(self) -> int:
        self.next_number += 1
        return self.next_number - 1
