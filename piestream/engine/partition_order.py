"""Rows that need not wait any longer are put in order: by partition and time, without ties."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.copies import Copied
from piestream.engine import ordering
from piestream.engine.partitions import Partitions, WholePartitions
from piestream.engine.projection import SEQUENCE
from piestream.engine.reordering import ReorderBuffer, tie_error
from piestream.errors import OrderError

__all__ = ["OrderedPartitions", "PartitionOrder"]

Words = NDArray[np.int64]


class OrderedPartitions(NamedTuple):
    """Rows by partition and time."""

    rows: pl.DataFrame
    partitions: Words
    offsets: Words  # where the rows of each partition begin, and where the last ones end
    n_ties: int  # how many rows were left out, because others have their time


class PartitionOrder(Copied):
    """Orders the rows that a buffer released, behind what has been processed of each partition.

    An input that comes ``whole`` has no rows to come.
    """

    def __init__(
        self, buffer: ReorderBuffer, partitions: Partitions | WholePartitions, whole: bool
    ) -> None:
        self._buffer = buffer
        self._partitions = partitions
        self._whole = whole

    def ordered(self, rows: pl.DataFrame, last: bool) -> OrderedPartitions:
        """Rows by partition and time without ties. ``last``: no more come."""
        buffer, projection, n_ties = self._buffer, self._buffer.projection, 0
        grouped = ordering.group(rows, projection.keys)
        partitions = self._partitions.known(grouped.keys)
        processed = self._instants_of(partitions)
        faults = ordering.faults_of(grouped, processed)
        if faults & ordering.UNSORTED:
            grouped = grouped.in_time_order()
            faults = ordering.faults_of(grouped, processed)
        rows, offsets = grouped.sorted_rows(), grouped.offsets
        if faults & ordering.BACKWARDS:
            row = ordering.first_backwards(grouped, processed)
            raise OrderError(
                f"{projection.row_name(rows, row)} comes after a later one of its partition; "
                "sort the input by time, or give a lateness"
            )
        if faults & ordering.TIED and projection.has_ties:
            keep = ordering.untied(grouped, processed, buffer.ties == "last")
            if buffer.ties == "error":
                raise tie_error(projection, rows, int(np.flatnonzero(~keep)[0]))
            n_ties = int(keep.size - keep.sum())
            rows, offsets = rows.filter(pl.Series(keep)), ordering.kept_offsets(keep, offsets)
        if buffer.ties == "last" and buffer.lateness is None and not (last or self._whole):
            # the next rows may hold another event of the same time
            hold = np.zeros(len(rows), np.bool_)
            hold[(offsets[1:] - 1)[offsets[1:] > offsets[:-1]]] = True
            buffer.hold(rows.filter(pl.Series(hold)))
            rows, offsets = rows.filter(pl.Series(~hold)), ordering.kept_offsets(~hold, offsets)
        partitions = self._partitions.admit(grouped.keys, partitions)
        some = offsets[1:] > offsets[:-1]
        partitions, offsets = partitions[some], np.concatenate(([0], offsets[1:][some]))
        if projection.sequence_columns and len(rows):
            latest = rows[SEQUENCE].to_numpy()[offsets[1:] - 1]
            self._partitions.note_sequences(partitions, latest)
        return OrderedPartitions(rows, partitions, offsets, n_ties)

    def last_instants(self, keys: pl.DataFrame) -> ordering.Instants:
        """The last event of each of these partitions."""
        return self._instants_of(self._partitions.known(keys))

    def _instants_of(self, partitions: Words) -> ordering.Instants:
        """The last event of each of these partitions, by number; NONE is a partition without events."""
        times = self._partitions.last_times(partitions)
        if not self._buffer.projection.sequence_columns:
            return ordering.Instants(times)
        return ordering.Instants(times, self._partitions.last_sequences(partitions))
