"""The rows of several streams that are worked on together, by partition and instant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import NONE
from piestream.engine import ordering
from piestream.engine.columns import kept, taken
from piestream.engine.instants import order_by_time
from piestream.engine.partitions import Partitions, WholePartitions
from piestream.engine.projection import SEQUENCE
from piestream.engine.reordering import tie_error
from piestream.engine.union import STREAM, CombinedProjection
from piestream.language.options import Ties

__all__ = ["SilenceRows", "SortedRows", "sorted_rows"]

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows of the union by group, time, what orders those of one time, and stream.

    A group is the rows of a partition. ``numbers`` are those of the groups' partitions, and behind
    them of partitions in which time alone brings something.
    """

    rows: pl.DataFrame
    groups: Words
    times: Words
    streams: NDArray[np.int16]
    sequences: Words | None
    numbers: Words

    def places(self, stream: int) -> Words:
        """Where the rows of one stream are."""
        return np.flatnonzero(self.streams == stream)

    def kept(self, keep: NDArray[np.bool_]) -> SortedRows:
        """The rows that stay."""
        return SortedRows(
            kept(self.rows, keep),
            self.groups[keep],
            self.times[keep],
            self.streams[keep],
            None if self.sequences is None else self.sequences[keep],
            self.numbers,
        )


@dataclass(frozen=True, slots=True)
class SilenceRows:
    """The beginnings and ends of the silences of one stream, in the form of rows of intervals.

    ``ends`` is OPEN at a beginning, and the number is that of the beginning at an end. What starts or
    becomes known at an event of the batch has the number of its row; NONE where that came before, or
    is a deadline.
    """

    stream: int
    groups: Words
    instants: Words
    starts: Words
    ends: Words
    numbers: Words
    symbols: Words  # a bit for each that takes the row
    known_at: Words  # the row of the event at which it becomes known
    started_at: Words  # the row of that with which the silence starts
    start_instants: Words  # its number, where it came before and instants are numbered

    @property
    def deadlines(self) -> tuple[Words, Words]:
        """The groups and the times of those that are known at deadlines."""
        at = self.known_at == NONE
        return self.groups[at], self.instants[at]

    def places(self, at_rows: Words, at_deadlines: Words) -> Words:
        """The instants at which they are known, of those of all rows and of deadlines."""
        found = np.append(at_rows, NONE)[self.known_at]
        found[self.known_at == NONE] = at_deadlines
        return found


def sorted_rows(
    rows: pl.DataFrame,
    union: CombinedProjection,
    partitions: Partitions | WholePartitions,
    ties: Ties,
) -> tuple[SortedRows, int]:
    """Rows by partition, time and stream, without ties; and how many were left out for that."""
    if not len(rows):
        nothing = np.zeros(0, np.int64)
        return SortedRows(rows, nothing, nothing, nothing.astype(np.int16), None, nothing), 0
    grouped = ordering.group(rows, union.keys)
    known = partitions.known(grouped.keys)
    group_of = np.repeat(np.arange(len(grouped.offsets) - 1), np.diff(grouped.offsets))
    streams = rows[STREAM].to_numpy()
    sequences = rows[SEQUENCE].to_numpy() if union.sequence_columns else None
    order = np.arange(len(rows)) if grouped.order is None else grouped.order
    if sequences is None and (streams == streams[0]).all():
        by_time = order_by_time(group_of, grouped.times)
    else:
        least = () if sequences is None else (sequences[order],)
        by_time = np.lexsort((streams[order], *least, grouped.times, group_of))
    order, times, group_of = order[by_time], grouped.times[by_time], group_of[by_time]
    came = SortedRows(
        taken(rows, order),
        group_of,
        times,
        streams[order],
        None if sequences is None else sequences[order],
        known,
    )
    keep = _untied(came, union, ties == "last")
    n_ties = int(keep.size - keep.sum())
    if n_ties:
        if ties == "error":
            raise tie_error(union, came.rows, int(np.flatnonzero(~keep)[0]))
        came = came.kept(keep)
    return replace(came, numbers=partitions.admit(grouped.keys, known)), n_ties


def _untied(came: SortedRows, union: CombinedProjection, keep_last: bool) -> NDArray[np.bool_]:
    """Which rows stay when one event of each stream and time does."""
    again = np.zeros(len(came.times), np.bool_)
    again[1:] = came.times[1:] == came.times[:-1]
    if again.any():
        for words in (came.groups, came.streams, came.sequences):
            if words is not None:
                again[1:] &= words[1:] == words[:-1]
        ready = np.array([part.source.is_ready_made for part in union.binding.parts])
        again &= ~ready[came.streams]
    if not keep_last:
        return ~again
    keep = np.ones(len(again), np.bool_)
    keep[:-1] = ~again[1:]
    return keep
