"""A closer look at the rarest symbol: not on which of its pages, but at which of their rows it can hold.

A page tells of its rows no more than the times between which they lie. Where the pages of the rarest symbol
are few they are read, and of these one or two columns, before anything else is: what lies around them is
needed only around the rows at which the predicate is true, and for the keys of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from piestream.archives.cores import Flags, KeyRanges, later
from piestream.archives.decoded import DecodedPages
from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS, as_seen
from piestream.archives.store import in_ticks
from piestream.plan.binding import Binding

__all__ = ["Rows", "of_pages", "rows_of_rarest"]

#: With more keys, or more groups of rows, only the statistics of their pages are used.
_MOST_KEYS, _MOST_GROUPS = 256, 1000


@dataclass(frozen=True)
class Rows:
    """Groups of rows of one key each, at which a predicate holds, that lie close to each other."""

    firsts: Words
    lasts: Words
    keys: pl.Series | None  # as statistics have them

    def ranges(self, pages: Pages, key: str) -> KeyRanges | None:
        """The cells of the keys: of the pages, and behind them of the groups."""
        names = (LOWEST + key, HIGHEST + key, MISSING + key, ROWS)
        if self.keys is None or any(name not in pages.table.columns for name in names):
            return None
        low, high, missing, rows = (pages.table[name] for name in names)
        keys = self.keys.cast(low.dtype)
        is_missing = keys.is_null().cast(missing.dtype)
        is_group = np.repeat([False, True], [len(low), len(keys)])
        return KeyRanges.of(
            pl.concat([low, keys]),
            pl.concat([high, keys]),
            pl.concat([missing, is_missing]),
            pl.concat([rows, pl.Series([1] * len(keys), dtype=rows.dtype)]),
            is_group,
        )


def of_pages(ranges: KeyRanges, n_pages: int) -> KeyRanges:
    """The cells of the pages, without those of groups of rows."""
    return replace(
        ranges,
        lows=ranges.lows[:n_pages],
        highs=ranges.highs[:n_pages],
        nulls=ranges.nulls[:n_pages],
    )


def rows_of_rarest(
    decoded: DecodedPages, binding: Binding, number: int, chosen: Flags, window: int
) -> Rows | None:
    """The rows of some pages at which a predicate is true; None where they are too many to help."""
    query, time = binding.query, binding.time.name
    predicate = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))[number]
    key = query.partition_by[0] if query.partition_by else None
    seen = None if key is None else as_seen(key, decoded.pages.schema[key])
    if predicate.reads_the_past or (key is not None and seen is None):
        return None
    columns = list(dict.fromkeys([*([key] if key else []), time, *predicate.columns]))
    wanted = [pl.lit(0, pl.Int8) if seen is None else seen, in_ticks(time)]
    found = [
        frame.filter(binding.predicates[number]).select(
            wanted[0].alias("key"), wanted[1].alias("time")
        )
        for frame in decoded.read(np.flatnonzero(chosen), columns)
    ]
    if not found:
        return None
    rows = pl.concat(found).sort("key", "time")
    if key is not None and rows["key"].n_unique() > _MOST_KEYS:
        return None
    times = rows["time"].to_numpy()
    begins = np.ones(len(rows), np.bool_)
    if len(rows):
        begins[1:] = later(times[:-1], window) < times[1:]
        begins[1:] |= (rows["key"].ne_missing(rows["key"].shift()))[1:].to_numpy()
    places = np.flatnonzero(begins)
    if len(places) > _MOST_GROUPS:
        return None
    ends = np.append(places[1:], len(rows)) - 1
    keys = None if key is None else rows["key"].gather(places)
    return Rows(times[places], times[ends[: len(places)]], keys)
