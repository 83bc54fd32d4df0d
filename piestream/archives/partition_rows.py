"""The rows of one partition in an archive, of all time or around a span of it, as its columns have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from piestream.archives.archive import Archive
from piestream.archives.cores import Flags
from piestream.archives.durable import missing_files_told
from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import HIGHEST, KEYS, LOWEST, as_seen
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.columns import column_named

__all__ = ["pages_with", "rows_of_partition"]

#: So often reading begins anew where others have replaced files since the archive was looked at.
_ATTEMPTS = 3


def rows_of_partition(
    archive: Archive, columns: Sequence[str], time: str, keys: Mapping[str, Any], chosen: pl.Expr,
    span: tuple[int, int] | None = None,
) -> pl.DataFrame:  # fmt: skip
    """The rows that are ``chosen``, those with these ``keys``, and the latest of all.

    With a ``span`` of ticks those in it, and on both sides the nearest one at least.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _Reader(archive.pages, columns, time, chosen).rows(keys, span)
        except FileNotFoundError:
            archive.refresh()
    with missing_files_told(archive.path):
        return _Reader(archive.pages, columns, time, chosen).rows(keys, span)


class _Reader:
    """Reads some rows of pages, each page once."""

    def __init__(self, pages: Pages, columns: Sequence[str], time: str, chosen: pl.Expr) -> None:
        self.pages = pages
        self.columns = columns
        self.ticks = column_named(time).to_physical().cast(pl.Int64)
        self.times = pages.times(time)
        self.chosen = chosen
        self.found = [pl.DataFrame(schema={name: pages.schema[name] for name in columns})]
        self.left = np.ones(len(pages), np.bool_)

    def rows(self, keys: Mapping[str, Any], span: tuple[int, int] | None) -> pl.DataFrame:
        """The rows with these keys, and those of the latest time of all."""
        for name, value in keys.items():
            key = _as_key(self.pages, name, value)
            if key is not None:
                self.left &= pages_with(self.pages, name, key)
        if span is None or self.times is None:
            self._read(self.left.copy())
        else:
            self._around(*span, *self.times)
        return pl.concat([*self.found, self._latest()])

    def _read(self, wanted: Flags) -> list[int]:
        """Read pages; gives the times of their rows that count."""
        self.left &= ~wanted
        frames = self.pages.read(np.flatnonzero(wanted), self.columns)
        rows = [frame.filter(self.chosen) for frame in frames]
        self.found += rows
        return [tick for frame in rows for tick in frame.select(self.ticks).to_series()]

    def _around(self, first: int, last: int, firsts: Words, lasts: Words) -> None:
        """The rows of a span, and of the pages before and behind it until there is one."""
        ticks = self._read(self.left & (firsts <= last) & (lasts >= first))
        before = max((tick for tick in ticks if tick < first), default=INT64_MIN)
        behind = min((tick for tick in ticks if tick > last), default=INT64_MAX)
        count = 1
        while (older := self.left & (lasts < first) & (lasts > before)).any():
            before = max([before, *self._read(_nearest(older, -lasts, count))])
            count *= 2
        count = 1
        while (newer := self.left & (firsts > last) & (firsts < behind)).any():
            behind = min([behind, *self._read(_nearest(newer, firsts, count))])
            count *= 2

    def _latest(self) -> pl.DataFrame:
        """The rows of the latest time, of whatever partition, that are not there already."""
        pages = np.arange(len(self.pages))
        if self.times is not None and len(pages):
            pages = np.flatnonzero(self.times[1] == self.times[1].max())
        frames = self.pages.read(pages, self.columns)
        others = [frame.filter(~self.chosen.fill_null(False)) for frame in frames]
        rows = pl.concat([self.found[0], *others])
        return rows.filter(self.ticks == self.ticks.max())


def _nearest(some: Flags, distances: Words, count: int) -> Flags:
    """So many of some pages, the nearest ones."""
    numbers = np.flatnonzero(some)
    chosen = np.zeros(len(some), np.bool_)
    chosen[numbers[np.argsort(distances[numbers], kind="stable")[:count]]] = True
    return chosen


def _as_key(pages: Pages, name: str, value: Any) -> pl.Series | None:
    """A value in the type of its column; None if there is no such value."""
    try:
        return pl.Series(name, [value], dtype=pages.schema[name], strict=True)
    except (PolarsError, TypeError, ValueError, OverflowError, KeyError):
        return None


def pages_with(pages: Pages, name: str, keys: pl.Series) -> Flags:
    """Whether each page may have one of some values of a column of keys."""
    everything = np.ones(len(pages), np.bool_)
    seen = as_seen(name, pages.schema[name])
    if seen is None or keys.null_count():
        return everything
    keys = keys.to_frame(name).select(seen).to_series()
    table = pages.table
    if KEYS + name in table.columns:
        listed = table.select(number=pl.int_range(pl.len()), key=pl.col(KEYS + name))
        found = everything.copy()
        hits = listed.drop_nulls("key").explode("key").filter(pl.col("key").is_in(keys.implode()))
        found[listed["key"].is_not_null().to_numpy()] = False
        found[hits["number"].to_numpy()] = True
        return found
    if LOWEST + name not in table.columns or len(keys) != 1:
        return everything
    within = (column_named(LOWEST + name) <= keys[0]) & (column_named(HIGHEST + name) >= keys[0])
    return table.select(within.fill_null(True)).to_series().to_numpy().copy()
