"""Aggregates over spans of time, from statistics where these are enough.

A page counts by its statistics if all its rows are in the range and in one span, if the predicate is
true of all of them, and if what is asked is known; a page of which the predicate is true nowhere does
not count; the others are read. Sums are exact: those of whole numbers, and those of floats, which are
kept as parts that do not overlap, and are rounded once, when all have come together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from piestream.archives.cores import Flags
from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import (
    HIGHEST,
    LOWEST,
    MISSING,
    MOST_TEXT,
    ROWS,
    SUM,
    as_seen,
    has_exact_bounds,
    sum_of,
    whole_sum,
)
from piestream.archives.store import in_ticks
from piestream.archives.verdicts import verdicts
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.columns import column_named
from piestream.expressions.predicate import Predicate

__all__ = ["Aggregation", "Request"]

_SPAN = "span"


@dataclass(frozen=True, slots=True)
class Request:
    """One aggregate of one column; COUNT(*) has none."""

    function: str
    column: str | None
    alias: str


@dataclass
class _Sum:
    """The exact sum of the values of one column in one span, in parts that need not be added yet."""

    whole: int = 0
    floats: list[float] = field(default_factory=list)
    fractions: Fraction = field(default_factory=Fraction)

    def result(self, is_float: bool) -> float | int | None:
        """The sum, of floats rounded once; None if it is no number."""
        if not is_float:
            return self.whole
        infinite = [part for part in self.floats if not math.isfinite(part)]
        if infinite:
            found = sum(infinite)
            return None if found != found else found
        try:
            if not self.fractions:
                return math.fsum(self.floats)
            return float(self.fractions + sum(map(Fraction, self.floats), Fraction(0)))
        except OverflowError:
            total = self.fractions + sum(map(Fraction, self.floats), Fraction(0))
            try:
                return float(total)
            except OverflowError:
                return math.inf if total > 0 else -math.inf


class Aggregation:
    """Some aggregates over the rows of an archive from one time on and before another.

    ``length`` is that of a span in ticks; None: there is one, of all rows.
    """

    def __init__(
        self,
        pages: Pages,
        time: str,
        requests: Sequence[Request],
        where: Predicate | None,
        between: tuple[int | None, int | None],
        length: int | None,
    ) -> None:
        self.pages = pages
        self.time = time
        self.requests = requests
        self.where = where
        self.first, self.end = between
        self.length = length
        self.pages_read = 0
        self._counts: dict[int, int] = defaultdict(int)
        self._present: dict[tuple[str, int], int] = defaultdict(int)
        self._sums: dict[tuple[str, int], _Sum] = defaultdict(_Sum)
        self._ends: dict[tuple[str, str, int], Any] = {}
        columns = dict.fromkeys(r.column for r in requests if r.column is not None)
        self._columns = tuple(columns)
        self._summed = {r.column for r in requests if r.function in ("SUM", "AVG")}
        self._bounded = {r.column for r in requests if r.function in ("MIN", "MAX")}

    def result(self) -> pl.DataFrame:
        """A row for each span that has rows, in order; one row if there are no spans."""
        decided, whole, read = self._split()
        self._take_statistics(decided)
        self.pages_read = len(whole) + len(read)
        columns = self._read_columns()
        timed = list(dict.fromkeys([self.time, *columns]))
        for first in range(0, len(read), _PAGES_AT_ONCE):
            some = read[first : first + _PAGES_AT_ONCE]
            self._take_rows(pl.concat(self.pages.read(some, timed)))
        for first in range(0, len(whole), _PAGES_AT_ONCE):
            some = whole[first : first + _PAGES_AT_ONCE]
            self._take_rows(pl.concat(self.pages.read(some, columns)), self._spans_of_pages(some))
        return self._frame()

    # -- which pages ------------------------------------------------------------------------------

    def _spans(self, times: Words) -> Words:
        """The number of the span of each time."""
        if self.length is None:
            return np.zeros(len(times), np.int64)
        return np.floor_divide(times, np.int64(self.length))

    def _spans_of_pages(self, pages: Words) -> Words:
        """The numbers of the spans of the rows of pages, each of which lies in one."""
        times = self.pages.times(self.time)
        assert times is not None
        return np.repeat(self._spans(times[0][pages]), self.pages.rows[pages])

    def _split(self) -> tuple[Words, Words, Words]:
        """The pages whose statistics are enough, and those that have to be read.

        Of the latter first those of which all rows are in the range, and in one span.
        """
        pages = self.pages
        can = np.ones(len(pages), np.bool_)
        always = can.copy()
        if self.where is not None:
            (verdict,) = verdicts([self.where], pages.schema, pages.table, pages.may_have)
            can, always = verdict.can_hold, verdict.always_holds
        times = pages.times(self.time)
        if times is None:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, np.flatnonzero(can)
        firsts, lasts = times
        inside = np.ones(len(pages), np.bool_)
        if self.first is not None:
            can &= lasts >= self.first
            inside &= firsts >= self.first
        if self.end is not None:
            can &= firsts < self.end
            inside &= lasts < self.end
        inside &= self._spans(firsts) == self._spans(lasts)
        decided = can & always & inside & self._known()
        whole = can & inside & ~decided & bool(self._read_columns())
        read = can & ~decided & ~whole
        return np.flatnonzero(decided), np.flatnonzero(whole), np.flatnonzero(read)

    def _known(self) -> Flags:
        """The pages whose statistics hold all that the request needs."""
        table, known = self.pages.table, pl.lit(True)
        for column in self._columns:
            dtype = self.pages.schema[column]
            known &= pl.col(MISSING + column).is_not_null()
            if column in self._summed:
                has = SUM + column in table.columns
                known &= pl.col(SUM + column).is_not_null() if has else pl.lit(False)
            if column in self._bounded:
                if not self.pages.has_exact_bounds or not has_exact_bounds(dtype):
                    known &= pl.lit(False)
                elif dtype == pl.String:
                    for end in (LOWEST + column, HIGHEST + column):
                        known &= (pl.col(end).str.len_chars() < MOST_TEXT).fill_null(
                            pl.col(MISSING + column) == pl.col(ROWS)
                        )
        found: Flags = table.with_columns(known.alias(_SPAN))[_SPAN].to_numpy()
        return found

    # -- from statistics ---------------------------------------------------------------------------

    def _take_statistics(self, chosen: Words) -> None:
        """Count pages by their statistics."""
        if not len(chosen):
            return
        times = self.pages.times(self.time)
        assert times is not None
        wanted = [ROWS]
        for column in self._columns:
            wanted.append(MISSING + column)
            wanted += [SUM + column] if column in self._summed else []
            wanted += [LOWEST + column, HIGHEST + column] if column in self._bounded else []
        table = self.pages.table.select(wanted)[chosen]
        table = table.with_columns(pl.Series(_SPAN, self._spans(times[0][chosen])))
        sums = [pl.col(ROWS).sum()]
        for column in self._columns:
            sums.append((pl.col(ROWS) - pl.col(MISSING + column)).sum().alias(MISSING + column))
            if column in self._summed:
                sums.append(pl.col(SUM + column).explode(empty_as_null=False, keep_nulls=False))
            if column in self._bounded:
                low, high = (pl.col(end + column).to_physical() for end in (LOWEST, HIGHEST))
                sums += [low.min(), high.max()]
        for row in table.group_by(_SPAN).agg(sums).iter_rows(named=True):
            span = row[_SPAN]
            self._counts[span] += row[ROWS]
            for column in self._columns:
                self._present[column, span] += row[MISSING + column]
                if column in self._summed:
                    self._add_parts(column, span, row[SUM + column])
                if column in self._bounded:
                    self._bound(column, span, row[LOWEST + column], row[HIGHEST + column])

    def _add_parts(self, column: str, span: int, parts: Sequence[Any]) -> None:
        """Add sums of pages to that of a span: parts of floats, or pairs of words."""
        total = self._sums[column, span]
        if self.pages.schema[column].is_integer():
            total.whole += whole_sum(parts)
        else:
            total.floats.extend(parts)

    def _bound(self, column: str, span: int, low: Any, high: Any) -> None:
        for function, value, better in (("MIN", low, min), ("MAX", high, max)):
            key = (function, column, span)
            known = self._ends.get(key)
            if value is not None:
                self._ends[key] = value if known is None else better(known, value)

    # -- from rows ---------------------------------------------------------------------------------

    def _read_columns(self) -> list[str]:
        """The columns that are read, beside the times where these are needed."""
        columns = [*self._columns]
        if self.where is not None:
            columns += self.where.columns
        return list(dict.fromkeys(columns))

    def _take_rows(self, frame: pl.DataFrame, spans: Words | None = None) -> None:
        """Count rows that have been read, whose times or whose spans are given."""
        wanted = pl.lit(True) if self.where is None else self.where.to_polars(self.pages.schema)
        time = in_ticks(self.time)
        if spans is None:
            wanted &= time.is_not_null()
            if self.first is not None:
                wanted &= time >= self.first
            if self.end is not None:
                wanted &= time < self.end
        kept = frame.select(pl.int_range(pl.len()).filter(wanted)).to_series().to_numpy()
        if not len(kept):
            return
        if len(kept) < len(frame):
            frame = frame[kept]
            spans = None if spans is None else spans[kept]
        if spans is None:
            spans = self._spans(frame.select(time).to_series().to_numpy())
        order = np.argsort(spans, kind="stable")
        frame, spans = frame[order], spans[order]
        starts = np.concatenate(([0], np.flatnonzero(np.diff(spans)) + 1, [len(spans)]))
        numbers = spans[starts[:-1]].tolist()
        for span, count in zip(numbers, np.diff(starts).tolist(), strict=True):
            self._counts[span] += count
        for column in self._columns:
            self._take_column(frame, column, numbers, starts)

    def _take_column(
        self, frame: pl.DataFrame, column: str, spans: Sequence[int], starts: Words
    ) -> None:
        dtype = self.pages.schema[column]
        seen = as_seen(column, dtype)
        given = column_named(column) if seen is None else seen
        values = frame.select(given.alias("values")).to_series()
        own = frame[column].alias("values")  # some names are patterns to methods of a series
        own = own.fill_nan(None) if dtype.is_float() else own
        for number, span in enumerate(spans):
            part = values[int(starts[number]) : int(starts[number + 1])]
            self._present[column, span] += len(part) - part.null_count()
            if column in self._bounded:
                mine = own[int(starts[number]) : int(starts[number + 1])]
                if isinstance(dtype, pl.Categorical):
                    mine = mine.cast(pl.String)
                elif isinstance(dtype, pl.Enum) or dtype.is_temporal():
                    mine = mine.to_physical()  # Python's times lose nanoseconds
                self._bound(column, span, mine.min(), mine.max())
        if column not in self._summed:
            return
        if dtype == pl.UInt64:
            for number, span in enumerate(spans):
                part = values[int(starts[number]) : int(starts[number + 1])]
                self._sums[column, span].whole += sum(part.drop_nulls().to_list())
            return
        for number, (span, parts) in enumerate(zip(spans, sum_of(values, starts), strict=True)):
            if parts is not None:
                self._add_parts(column, span, parts.to_list())
                continue
            part = values[int(starts[number]) : int(starts[number + 1])].drop_nulls()
            self._sums[column, span].fractions += sum(map(Fraction, part.to_list()), Fraction(0))

    # -- what comes out ---------------------------------------------------------------------------

    def _frame(self) -> pl.DataFrame:
        schema = self.pages.schema
        spans = sorted(self._counts) if self.length is not None else [0]
        columns = []
        if self.length is not None:
            ticks = pl.Series(self.time, [span * self.length for span in spans], dtype=pl.Int64)
            columns.append(_as_times(ticks, schema[self.time]))
        for request in self.requests:
            dtype = _result_type(request, schema)
            values = [self._value(request, span) for span in spans]
            if dtype.is_temporal():
                ticks = pl.Series(request.alias, values, dtype=pl.Int64)
                columns.append(_as_times(ticks, dtype))
            elif isinstance(dtype, pl.Enum):  # in the order of its categories
                categories = dtype.categories.to_list()
                texts = [None if number is None else categories[number] for number in values]
                columns.append(pl.Series(request.alias, texts, dtype=dtype))
            else:
                columns.append(pl.Series(request.alias, values, dtype=dtype))
        return pl.DataFrame(columns)

    def _value(self, request: Request, span: int) -> Any:
        column = request.column
        if column is None:
            return self._counts.get(span, 0)
        present = self._present.get((column, span), 0)
        if request.function == "COUNT":
            return present
        if not present:
            return None
        if request.function in ("MIN", "MAX"):
            return self._ends.get((request.function, column, span))
        is_float = not self.pages.schema[column].is_integer()
        total = self._sums[column, span].result(is_float)
        if total is None or request.function == "AVG":
            return None if total is None else total / present
        return total if is_float or INT64_MIN <= total <= INT64_MAX else None


#: So many pages are read before their rows are counted.
_PAGES_AT_ONCE = 256


def _result_type(request: Request, schema: pl.Schema) -> pl.DataType:
    """The type of an aggregate's column."""
    if request.function == "COUNT" or request.column is None:
        return pl.Int64()
    dtype = schema[request.column]
    if request.function == "AVG":
        return pl.Float64()
    if request.function == "SUM":
        return pl.Int64() if dtype.is_integer() else pl.Float64()
    return pl.String() if isinstance(dtype, pl.Categorical) else dtype


def _as_times(ticks: pl.Series, dtype: pl.DataType) -> pl.Series:
    if dtype == pl.Date:
        return ticks.cast(pl.Int32).cast(pl.Date)
    return ticks.cast(dtype)
