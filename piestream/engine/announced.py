"""Rows of intervals that come twice: the row of an end finds that of its beginning by an ID."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import INT64_MAX
from piestream.copies import copied_but
from piestream.engine.plain_values import from_plain_values, plain_values

__all__ = ["BEGUN_COLUMNS", "AnnouncedIntervals", "AnnouncedRows", "Numbered"]

Words = NDArray[np.int64]
#: The columns of a stored state that has intervals which have begun; the type of an ID is the user's.
BEGUN_COLUMNS = {
    "partition": pl.Int64(),
    "id": pl.Null(),
    "number": pl.Int64(),
    "start": pl.Int64(),
    "symbols": pl.Int64(),
}


@dataclass(frozen=True, slots=True)
class Numbered:
    """Rows whose intervals are told apart: the symbols are also those that took their beginnings."""

    numbers: Words
    starts: Words
    symbols: Words
    keep: NDArray[np.bool_]  # not a beginning that has come already


@dataclass(frozen=True, slots=True)
class AnnouncedRows:
    """Rows of one stream, by partition and instant."""

    partitions: Words
    starts: Words
    is_open: NDArray[np.bool_]  # the row of a beginning
    ids: list[Any]  # as `plain_values`
    symbols: Words  # a bit for each that takes the row


@dataclass(frozen=True, slots=True)
class _Begun:
    number: int
    start: int
    symbols: int


class AnnouncedIntervals:
    """The intervals of one stream that have begun and not ended, by partition and ID."""

    def __init__(self, dtype: pl.DataType) -> None:
        self.dtype = dtype
        self._begun: dict[tuple[int, Any], _Begun] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> AnnouncedIntervals:
        return copied_but(self, memo, _begun=self._begun.copy())

    def __len__(self) -> int:
        return len(self._begun)

    @property
    def earliest_start(self) -> int:
        """When the first of them began that have not ended."""
        return min((one.start for one in self._begun.values()), default=INT64_MAX)

    def number(self, rows: AnnouncedRows, next_number: Callable[[], int]) -> Numbered:
        """Number rows, given in order of their instants, ends before beginnings.

        A second beginning of what has begun and not ended is left out, and where the row of an end
        says another start than that of its beginning, the first counts: sources may repeat rows.
        """
        starts = rows.starts.copy()
        numbers = np.zeros(len(starts), np.int64)
        symbols = rows.symbols.copy()
        keep = np.ones(len(starts), np.bool_)
        begun = self._begun
        keys = zip(rows.partitions.tolist(), rows.ids, strict=True)
        for row, (key, is_open) in enumerate(zip(keys, rows.is_open.tolist(), strict=True)):
            known = begun.get(key) if key[1] is not None else None
            if is_open and known is not None:
                keep[row] = False
            elif is_open:
                numbers[row] = next_number()
                begun[key] = _Begun(int(numbers[row]), int(starts[row]), int(symbols[row]))
            elif known is None:
                numbers[row] = next_number()
            else:
                numbers[row], starts[row] = known.number, known.start
                symbols[row] |= known.symbols
                del begun[key]
        return Numbered(numbers, starts, symbols, keep)

    def forget(self, before: int, awaited: set[int], partitions: set[int]) -> None:
        """Drop what began too long ago to be in a match, and what partitions have that are gone.

        Intervals of these numbers stay: a match that waits for their ends is still to be completed.
        """
        self._begun = {
            key: one
            for key, one in self._begun.items()
            if (one.start >= before or one.number in awaited) and key[0] not in partitions
        }

    def frame(self, places: dict[int, int]) -> pl.DataFrame:
        """All of it as columns; ``places`` are those of the partitions in a stored state."""
        begun = [(place, one) for place, one in self._begun.items() if place[0] in places]
        rows = [(places[p], None, one.number, one.start, one.symbols) for (p, _), one in begun]
        found = pl.DataFrame(rows, schema=BEGUN_COLUMNS, orient="row")
        return found.with_columns(
            id=from_plain_values([name for (_, name), _ in begun], self.dtype)
        )

    def restore(self, frame: pl.DataFrame) -> None:
        """Take over what `frame` gave."""
        self._begun = {
            (partition, name): _Begun(number, start, symbols)
            for name, (partition, number, start, symbols) in zip(
                plain_values(frame["id"]), frame.drop("id").rows(), strict=True
            )
        }
