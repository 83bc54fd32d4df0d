"""Pages that need not be decoded: their statistics hold all that a query needs of them.

On such a page every predicate is true of all rows or of none, and there is one partition. Then nothing can
be reported but at its first row, where a predicate may differ from the row before. The row at which it begins
stands for the page.

MIN and MAX of an interval need no more than the least and the largest value of a page, COUNT and SUM what is
counted and summed there, and FIRST nothing of a page in which the interval goes on, if nothing is reported
at its first row: where it follows another page of its partition, and no predicate changes between the two.
LAST needs nothing of a page that another one follows in which the interval goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from piestream.archives.page_sums import added, has_count, has_sum
from piestream.archives.pages import Pages, Words
from piestream.archives.reach import KNOWN, has_only
from piestream.archives.statistics import (
    HIGHEST,
    LOWEST,
    MISSING,
    MOST_TEXT,
    ROWS,
    has_exact_bounds,
)
from piestream.archives.verdicts import Flags, Verdict
from piestream.language.model import Query
from piestream.language.parts import Aggregate, Constraint, Source, Symbol, Value
from piestream.plan.binding import Binding
from piestream.plan.columns import Attribute

__all__ = ["QuietPages", "pages_of_symbols"]


def pages_of_symbols(query: Query, verdicts: Sequence[Verdict]) -> dict[str, Flags]:
    """The pages on which each symbol can hold; ``verdicts`` are of the distinct predicates."""
    distinct = dict.fromkeys(symbol.predicate for symbol in query.symbols)
    found = dict(zip(distinct, verdicts, strict=True))
    return {symbol.name: found[symbol.predicate].can_hold for symbol in query.symbols}


class QuietPages:
    """Which pages of an archive are not decoded for a query, and what stands for them."""

    def __init__(self, pages: Pages, binding: Binding, verdicts: Sequence[Verdict]) -> None:
        self.pages = pages
        self.binding = binding
        self.verdicts = verdicts
        self.nothing = np.zeros(len(pages), np.bool_)
        extremes = {
            function: {
                item.column
                for item in binding.query.items
                if isinstance(item, Aggregate) and item.function == function and item.column
            }
            for function in ("MIN", "MAX")
        }
        self.least, self.largest = extremes["MIN"], extremes["MAX"]
        #: How many rows stand for a page.
        is_one = not self.least & self.largest and binding.time.name not in self.largest
        self.rows_each = 1 if is_one else 2
        times = pages.times(binding.time.name)
        found = None if times is None else self._decided(*times)
        if times is None or found is None:
            self.is_quiet = self.waits = self.nothing
            return
        if self.rows_each == 2:
            found &= times[0] < times[1]
        is_in_order = _files_are_in_order(pages, *times)
        follows = self._follows(is_in_order)
        counted, begun, is_told = self._values(follows, is_in_order)
        unchanged = self._first_of_all(is_in_order) & ~begun
        unchanged[1:] |= follows[1:] & found[1:] & found[:-1] & self._same_as_before()
        #: Which pages are not decoded.
        self.is_quiet = found & ~counted & (unchanged | ~(begun | is_told))
        #: Which need not be, if no predicate changes between the last row of the page before and them.
        self.waits = self.nothing.copy()
        self.waits[1:] = (found & ~counted & ~self.is_quiet & follows)[1:] & ~found[:-1]

    def rows(self, pages: Words) -> pl.DataFrame:
        """The rows that stand for pages, of the columns of which something is known."""
        schema = self.pages.schema
        query, time = self.binding.query, self.binding.time.name
        known = dict.fromkeys((*query.partition_by, time))
        lows = dict.fromkeys((*self.largest, *self.least, *known), LOWEST)
        lows |= dict.fromkeys(self.largest - self.least - set(known), HIGHEST)
        highs = {**lows, **dict.fromkeys((time, *self.largest), HIGHEST)}
        table = self.pages.table[pages]
        frames = [
            table.select(
                pl.col(end + name).cast(schema[name]).alias(name)
                for name, end in ends.items()
                if end + name in table.columns
            )
            for ends in (lows, highs)[: self.rows_each]
        ]
        rows = pl.concat(frames)
        if self.rows_each == 1:
            return rows
        return rows[np.arange(len(rows)).reshape(self.rows_each, -1).T.reshape(-1)]

    def added(self, pages: Words, attribute: Attribute) -> pl.Series:
        """What the rows that stand for pages have of an attribute that counts, or sums, groups of rows."""
        first = added(self.pages, pages, attribute).to_list()
        others = [None] * (self.rows_each - 1)
        return pl.Series([word for one in first for word in (one, *others)], dtype=pl.Int64)

    def decode_all(self) -> None:
        """Decode all pages: more of them counts than where they begin and their extremes."""
        self.is_quiet = self.waits = self.nothing

    def settle(self, waiting: Words, is_unchanged: Flags) -> None:
        """Take notice of what pages that wait have been found to be."""
        self.is_quiet[waiting[is_unchanged]] = True

    def _decided(self, firsts: Words, lasts: Words) -> Flags | None:
        """The pages of one partition each on which all predicates are decided; None: they do not help."""
        query, pages = self.binding.query, self.pages
        if not pages.has_exact_bounds or not _only_changes_count(query):
            return None
        if self.binding.time.name != pages.time or not set(pages.keys) <= set(query.partition_by):
            return None  # rows of one partition lie in another order than that of time
        found: Flags = ~_in_overlapping_files(pages, firsts, lasts)
        for verdict in self.verdicts:
            found &= verdict.always_holds | ~verdict.can_hold
        for key in query.partition_by:
            found &= self._has_one_key(key)
        return found

    def _values(self, follows: Flags, is_in_order: bool) -> tuple[Flags, Flags, Flags]:
        """The pages of which single values count, the first ones, or what statistics tell.

        The first ones count if an interval begins there; what statistics tell of a page is that of all its
        rows. ``follows`` are the pages that lie behind the one before, in its partition.
        """
        query = self.binding.query
        can_hold = pages_of_symbols(query, self.verdicts)
        bits = zip(query.symbols, self.binding.bit_of_symbol, strict=True)
        always_holds = {symbol.name: self.verdicts[bit].always_holds for symbol, bit in bits}
        counted, begun, is_told = (self.nothing.copy() for _ in range(3))
        for item in query.items:
            if not isinstance(item, Aggregate | Value):
                continue
            own = can_hold[item.symbol]
            if isinstance(item, Value) or item.function == "FIRST":
                begun |= own
                continue
            if item.function == "LAST":  # behind the page there is another one, or no row at all
                known = np.append(follows[1:] & always_holds[item.symbol][1:], is_in_order)
            else:
                known = self._has_aggregate(item)
            is_told |= own & known
            counted |= own & ~known
        return counted, begun, is_told

    def _has_aggregate(self, item: Aggregate) -> Flags:
        """The pages of which statistics have an aggregate."""
        if item.column is None:
            return ~self.nothing
        match item.function:
            case "MIN" | "MAX":
                return self._has_known_ends(item.column)
            case "COUNT":
                return has_count(self.pages, item.column)
            case "SUM" | "AVG":
                return has_sum(self.pages, item.column)
        return self.nothing

    def _has_known_ends(self, name: str) -> Flags:
        """The pages of which the least and the largest value of a column are known."""
        table, dtype = self.pages.table, self.pages.schema.get(name)
        if dtype is None or LOWEST + name not in table.columns or not has_exact_bounds(dtype):
            return self.nothing
        low, high = pl.col(LOWEST + name), pl.col(HIGHEST + name)
        known = pl.lit(True)
        if dtype == pl.String:
            known = (low.str.len_chars() < MOST_TEXT) & (high.str.len_chars() < MOST_TEXT)
        elif dtype.is_float():
            known = (low != 0) & (high != 0)  # there are two zeros, which are equal
        known = known & low.is_not_null() & high.is_not_null()
        known = known.fill_null(False) | (pl.col(MISSING + name) == pl.col(ROWS))
        found = table.select(ROWS, known.fill_null(False).alias("known"))
        return found["known"].to_numpy().copy()

    def _has_one_key(self, name: str) -> Flags:
        """Which pages have one value of a key, and which it is is known."""
        table, dtype = self.pages.table, self.pages.schema[name]
        if LOWEST + name not in table.columns or not has_exact_bounds(dtype) or dtype.is_float():
            return self.nothing
        is_one = (pl.col(LOWEST + name) == pl.col(HIGHEST + name)) & (pl.col(MISSING + name) == 0)
        return table.select(is_one.fill_null(False)).to_series().to_numpy().copy()

    def _follows(self, is_in_order: bool) -> Flags:
        """Which pages have the row after the last one of the page before, of the same partition."""
        pages, found = self.pages, self.nothing.copy()
        found[1:] = pages.files[1:] == pages.files[:-1]
        if is_in_order:
            found[1:] = True
        for key in self.binding.query.partition_by:
            if LOWEST + key not in pages.table.columns:
                return self.nothing
            low, is_one = pages.table[LOWEST + key], self._has_one_key(key)
            found[1:] &= (low == low.shift()).fill_null(False).to_numpy()[1:]
            found[1:] &= is_one[:-1] & is_one[1:]  # else they may have no partition in common
        return found

    def _same_as_before(self) -> Flags:
        """Which pages but the first are decided as the page before is."""
        found: Flags = np.ones(max(0, len(self.pages) - 1), np.bool_)
        for verdict in self.verdicts:
            found &= verdict.always_holds[1:] == verdict.always_holds[:-1]
        return found

    def _first_of_all(self, is_in_order: bool) -> Flags:
        """The page with the first rows, if a symbol that every match has does not hold there."""
        found = self.nothing.copy()
        query = self.binding.query
        if len(found) and is_in_order:
            can_hold = pages_of_symbols(query, self.verdicts)
            found[0] = any(not can_hold[name][0] for c in query.constraints for name in (c.x, c.y))
        return found


#: Parts of a query with anything but this depend on rows at which no predicate changes.
_OF_CHANGES: dict[type, frozenset[str]] = {
    Query: KNOWN[Query] - {"rows", "absences"},
    Symbol: frozenset({"name", "predicate", "stream"}),
    Source: KNOWN[Source] - {"max_gap", "sequence", "row_order", "silence"},
    Constraint: frozenset({"x", "y", "relations"}),
}


def _only_changes_count(query: Query) -> bool:
    """Whether nothing depends on events at which no predicate changes."""
    parts = (query, *query.symbols, *query.streams, *query.constraints)
    return all(has_only(part, _OF_CHANGES[type(part)]) for part in parts) and not any(
        symbol.predicate.reads_the_past for symbol in query.symbols
    )


def _files_are_in_order(pages: Pages, firsts: Words, lasts: Words) -> bool:
    """Whether all rows of a file are later than those of the files before it."""
    starts = np.searchsorted(pages.files, np.unique(pages.files))
    low, high = np.minimum.reduceat(firsts, starts), np.maximum.reduceat(lasts, starts)
    return bool((high[:-1] < low[1:]).all())


def _in_overlapping_files(pages: Pages, firsts: Words, lasts: Words) -> Flags:
    """Which pages are of files that have times in common with another one."""
    files = np.unique(pages.files)
    starts = np.searchsorted(pages.files, files)
    low, high = np.minimum.reduceat(firsts, starts), np.maximum.reduceat(lasts, starts)
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    touches = np.zeros(len(files), np.bool_)
    touches[1:] = np.maximum.accumulate(high)[:-1] >= low[1:]
    touches[:-1] |= high[:-1] >= low[1:]
    overlaps = np.zeros(len(files), np.bool_)
    overlaps[order] = touches
    found: Flags = np.repeat(overlaps, np.diff(np.append(starts, len(pages.files))))
    return found
