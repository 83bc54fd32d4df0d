"""One open stream of a row pattern: the same stream, with a detector of another kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.engine.detector import Detector
from piestream.engine.row_detector import RowDetector
from piestream.engine.stream import Stream
from piestream.language.options import AtEnd
from piestream.plan.binding import Binding

__all__ = ["RowStream"]

Words = NDArray[np.int64]


class RowStream(Stream):
    """The state of one row pattern over one stream of many partitions.

    At the end of the input its partitions end, as a table's do: what is left is given then. As a part
    of a larger query they end only if what is open is closed.
    """

    def _new_detector(self, binding: Binding) -> Detector:
        # it has what a stream asks of a detector
        return cast(Detector, RowDetector(binding.compiled, binding.bit_of_symbol))

    def _check_end(self, at_end: AtEnd | None) -> None:
        """Its partitions end with their last rows, whatever comes behind these."""

    @property
    def _rows(self) -> RowDetector:
        return cast(RowDetector, self.detector)

    def portions(self, rows: pl.DataFrame, most_rows: int | None = None) -> Iterator[pl.DataFrame]:
        """As of any stream; where all rows have come up to now, WITHIN is over for what began before."""
        with self.changes:
            yield from super().portions(rows, most_rows)
            if self._rows.gives_intervals and self.lateness is None and not self._whole:
                yield self._advance_watermark(self.latest)

    def _closed(self, at_end: AtEnd | None, most_rows: int) -> Iterator[pl.DataFrame]:
        if not self._rows.gives_intervals or (at_end or self._at_end) == "close":
            yield from map(self._results, self.detector.close(most_rows))

    @property
    def _incomplete_rows(self) -> int:
        return 0

    def _unneeded(self, idle: Words, now: int) -> Words:
        return idle[:0]
