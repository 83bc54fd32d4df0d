"""The rows of several streams that are worked on together, by partition and instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.columns import kept

__all__ = ["SilenceRows", "SortedRows"]

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
    """The beginnings and ends of the silences of one stream, as rows of intervals would say them.

    ``ends`` is OPEN at a beginning, and the number is that of the beginning at an end.
    """

    stream: int
    groups: Words
    instants: Words
    starts: Words
    ends: Words
    numbers: Words
    symbols: Words  # a bit for each that takes the row
