"""The columns of the result: which words the loops write for each, and how it is made of them.

A kind of column is a class that has both sides. A query's columns are found once for its input;
the loops write their words (`Output.words`), a row a match; `Output.column` reads them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.compiled.constants import OPEN
from piestream.joins import result_rows
from piestream.language.model import Query
from piestream.language.parts import Emit
from piestream.plan.columns import TimeColumn
from piestream.plan.program import OutputWord

Words = NDArray[np.int64]

#: The columns in which a stream of matches has their starts and ends; no RETURN can name them so.
MATCH_START, MATCH_END = "start:", "end:"
#: And in which it has the times at which they became known, where these may be later than the ends.
MATCH_KNOWN = "known:"


@dataclass(frozen=True)
class ResultRows:
    """Result rows as the loops wrote them, and what their words stand for."""

    rows: Words  # a row a match, whose words are a `ResultRow`
    place: Mapping[OutputWord, int]  # where each output word is among them
    keys: pl.DataFrame  # the partition columns of each row
    dictionaries: Mapping[int, pl.Series]  # the values that the codes of an attribute stand for
    at_trigger: bool = False  # whether words are those that were known at the trigger

    def __getitem__(self, word: OutputWord) -> Words:
        if self.at_trigger:
            word = replace(word, at_trigger=True)
        return result_rows.ResultRow.column_of(self.rows, "outputs", self.place[word])

    @property
    def partitions(self) -> Words:
        """The number of each row's partition."""
        return result_rows.ResultRow.column_of(self.rows, "partition")

    @property
    def times(self) -> Words:
        """The time of each report."""
        return result_rows.ResultRow.column_of(self.rows, "time")

    @property
    def phases(self) -> Words:
        """What each row reports."""
        return result_rows.ResultRow.column_of(self.rows, "phase") % 2

    @cached_property
    def _latest_end(self) -> Words | None:
        """Where rows report the closing of a partition: the last time that is shown as it is."""
        closing = result_rows.ResultRow.column_of(self.rows, "phase") // 2
        if not closing.any():
            return None
        last_event = self.times - (closing == result_rows.Closing.TICK_LATER)
        return np.where(closing == result_rows.Closing.NO, OPEN, last_event)

    def ends(self, word: OutputWord) -> Words:
        """The ends of intervals as they are shown."""
        return self.shown(self[word])

    def shown(self, ends: Words) -> Words:
        """Such ends as they are shown."""
        latest = self._latest_end
        return ends if latest is None else ends - ((ends > latest) & (ends != OPEN))


@dataclass(frozen=True)
class Output(ABC):
    """A column of the result."""

    name: str
    dtype: pl.DataType

    @property
    @abstractmethod
    def words(self) -> tuple[OutputWord, ...]:
        """The words that the loops write for it in every result row."""

    @abstractmethod
    def column(self, found: ResultRows) -> pl.Series:
        """Its values, one a result row; their type may still be one that casts to its own."""

    @property
    def values_of(self) -> str | None:
        """The input column whose values it holds, if it holds any column's."""
        return None


@dataclass(frozen=True)
class PartitionKey(Output):
    """A partition column, as itself or as an aggregate that can have no other value."""

    key: str

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    @property
    def values_of(self) -> str:
        return self.key

    def column(self, found: ResultRows) -> pl.Series:
        return found.keys[self.key]


@dataclass(frozen=True)
class ReportTime(Output):
    """When the match was reported: ``detected_at`` or ``completed_at``."""

    time: TimeColumn

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_times(nullable(found.times))


@dataclass(frozen=True)
class Phase(Output):
    """Which of its two rows of EMIT ON BOTH this is of a match."""

    @property
    def words(self) -> tuple[OutputWord, ...]:
        return ()

    def column(self, found: ResultRows) -> pl.Series:
        completed = pl.Series(found.phases == int(result_rows.Phase.COMPLETION))
        return pl.select(
            pl.when(completed).then(pl.lit("completion")).otherwise(pl.lit("trigger"))
        ).to_series()


@dataclass(frozen=True)
class EndpointTime(Output):
    """``s.ts`` or ``s.te``."""

    time: TimeColumn
    symbol: int
    which: str

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.symbol, self.which),)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        (word,) = self.words
        if self.which == "ts":
            return self.time.as_times(nullable(found[word]))  # a start is always known
        ends = found.ends(word)
        return self.time.as_times(nullable(ends, ends == OPEN))


@dataclass(frozen=True)
class InstantNumber(Output):
    """The instant of an endpoint, or of the report, as a number."""

    symbol: int
    which: str  # "start", "end" or "report"

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return (OutputWord(self.symbol, self.which),)

    def column(self, found: ResultRows) -> pl.Series:
        (word,) = self.words
        return nullable(found[word], found[word] == OPEN)


@dataclass(frozen=True)
class IntervalDuration(Output):
    """``DURATION(s)``."""

    time: TimeColumn
    symbol: int

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return _endpoints(self.symbol)

    def column(self, found: ResultRows) -> pl.Series:
        return self.time.as_lengths(self.ticks(found))

    def ticks(self, found: ResultRows) -> pl.Series:
        """The durations in ticks."""
        of_start, of_end = self.words
        start, end = found[of_start], found.ends(of_end)
        # a duration of more than 63 bits fits no column
        unknown = (end == OPEN) | ((end < 0) != (start < 0)) & (end - start < 0)
        return nullable(np.where(unknown, 0, end - start), unknown)


@dataclass(frozen=True)
class MatchBound(Output):
    """The earliest start or the latest end of all intervals: where a match as an interval lies."""

    time: TimeColumn
    symbols: tuple[int, ...]
    which: str  # "ts" or "te"

    @cached_property
    def words(self) -> tuple[OutputWord, ...]:
        return tuple(OutputWord(symbol, self.which) for symbol in self.symbols)

    @property
    def values_of(self) -> str:
        return self.time.name

    def column(self, found: ResultRows) -> pl.Series:
        if self.which == "ts":
            bound = np.stack([found[word] for word in self.words]).min(axis=0)
        else:
            bound = np.stack([found.ends(word) for word in self.words]).max(axis=0)
        return self.time.as_times(nullable(bound))


def report_columns(
    query: Query, schema: Mapping[str, pl.DataType], time: TimeColumn
) -> tuple[Output, ...]:
    """The first columns of every result: the keys, the time of the report, and the phase."""
    report = "completed_at" if query.emit is Emit.COMPLETION else "detected_at"
    outputs: list[Output] = [PartitionKey(n, schema[n], n) for n in query.partition_by]
    outputs.append(ReportTime(report, time.dtype, time))
    if query.emit is Emit.BOTH:
        outputs.append(Phase("phase", pl.String()))
    return tuple(outputs)


def match_bounds(query: Query, time: TimeColumn) -> tuple[Output, ...]:
    """Where a match lies, as the row of a stream of intervals: from its start to its end."""
    present = set(query.present)
    symbols = tuple(s for s, symbol in enumerate(query.symbols) if symbol in present)
    known = (ReportTime(MATCH_KNOWN, time.dtype, time),) if query.is_known_late else ()
    return (
        MatchBound(MATCH_START, time.dtype, time, symbols, "ts"),
        MatchBound(MATCH_END, time.dtype, time, symbols, "te"),
        *known,
    )


def result_frame(outputs: tuple[Output, ...], found: ResultRows) -> pl.DataFrame:
    """Result rows as a frame of the result's columns."""
    if not len(found.rows):
        return pl.DataFrame(schema={output.name: output.dtype for output in outputs})
    return pl.DataFrame([of_type(o.column(found), o.dtype).alias(o.name) for o in outputs])


def _endpoints(symbol: int) -> tuple[OutputWord, OutputWord]:
    return OutputWord(symbol, "ts"), OutputWord(symbol, "te")


def nullable(values: NDArray[Any], unknown: NDArray[np.bool_] | None = None) -> pl.Series:
    """Words or numbers as a column, NULL where unknown."""
    column = pl.Series("", np.ascontiguousarray(values))
    if unknown is None or not unknown.any():
        return column
    return column.set(pl.Series(unknown), None)


def of_type(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """A column as one of this type."""
    return column if column.dtype == dtype else column.cast(dtype)
