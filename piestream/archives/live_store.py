"""The rows that a query in brackets reads: those of the session, and those of an archive as needed.

A row of the session and one of the archive with one partition and time are one row; where a column orders
events of one time, those with one value of that. Rows of the
archive stay in memory as long as the window may need them, which is the recent buffer; they are read
again when the archive has changed otherwise than by rows of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import polars as pl

from piestream.archives.live_regions import OrderedRows, Regions, earlier
from piestream.archives.live_rows import (
    ArchivedRows,
    held_schema,
    instant_columns,
    last_of_each,
    partition_columns,
)
from piestream.archives.pages import Words
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.copies import copied_but
from piestream.engine.projection import TIME, Projection
from piestream.language.options import Ties

__all__ = ["REGION", "RowStore"]

#: The number of the region that a row is of.
REGION = "region:"
_T = TypeVar("_T")

#: So often rows are read again where others replace files of the archive meanwhile.
_ATTEMPTS = 3
_SINCE, _LOWEST, _LEADS = "since:", "lowest:", "leads:"


class RowStore:
    """Rows of one part of a query, projected, in memory; ``archived`` are those that lie elsewhere.

    ``leads`` rows of a partition before a time are needed besides those of so many ``ticks`` before.
    """

    def __init__(
        self, projection: Projection, archived: ArchivedRows | None, leads: int, ticks: int,
        ties: Ties,
    ) -> None:  # fmt: skip
        self.projection = projection
        self.archived = archived
        self.leads = leads
        self.ticks = ticks
        self.ties = ties
        self.keys = partition_columns(projection)
        self.instants = instant_columns(projection)
        #: What tells a row from all others.
        self.identity = [*self.keys, *self.instants]
        #: All rows since this time are here that were.
        self.horizon = INT64_MIN
        #: Rows of the session.
        self.own = pl.DataFrame(schema=held_schema(projection))
        #: What has been appended to the session and not been put in order yet.
        self._new: list[pl.DataFrame] = []
        self._files: dict[str, tuple[int, ...]] = {}
        #: Another number with each change of the archive that is not one by rows of the session.
        self.version = 0
        self._until = INT64_MIN
        self._renewals = 0  # of the archive, that have been taken notice of
        self._everything: int | None = None  # the time since which rows of all partitions are here
        self._forget()

    def __deepcopy__(self, memo: dict[int, Any]) -> RowStore:
        return copied_but(self, memo, projection=self.projection)

    def _forget(self) -> None:
        """Drop the rows that were read of the archive."""
        self.loaded = self.own.clear()
        self._known = (
            self.loaded.select(self.keys).with_columns(pl.lit(0, pl.Int64).alias(_SINCE)).clear()
        )
        self._everything = None

    # -- rows in and out --------------------------------------------------------------------------

    def add(self, rows: pl.DataFrame) -> None:
        """Rows of the session have come."""
        if len(rows):
            self._new.append(rows)

    def held(self) -> tuple[pl.DataFrame, ...]:
        """The rows of the session, for `undo`."""
        return (self.own, *self._new)

    def undo(self, held: tuple[pl.DataFrame, ...]) -> None:
        """Go back to the rows of the session that `held` gave; what was read of the archive is read anew."""
        self.own, self._new = held[0], list(held[1:])
        self.version += 1
        self._forget()

    def _put_in_order(self) -> None:
        if self._new:
            self.own = pl.concat([self.own, *self._new]).sort(self.instants, maintain_order=True)
            self._new = []
            if self.ties != "error":
                self.own = self.own.unique(self.identity, keep=self.ties, maintain_order=True)
            self._drop_known()

    def _drop_known(self) -> None:
        """Leave out of what was read what the session has, too."""
        if len(self.loaded) and len(self.own):
            self.loaded = self.loaded.join(self.own, on=self.identity, how="anti", nulls_equal=True)

    def trim(self, before: int) -> None:
        """Forget rows before a time, but for the last ones of each partition before it."""
        self._put_in_order()
        self.horizon = max(self.horizon, before)
        before = max(before - self.ticks, INT64_MIN)
        self.own = self._kept(self.own, before)
        self.loaded = self._kept(self.loaded, before)
        if len(self._known):
            self._known = self._known.with_columns(pl.max_horizontal(_SINCE, pl.lit(before)))
        if self._everything is not None:
            self._everything = max(self._everything, before)

    def _kept(self, rows: pl.DataFrame, before: int) -> pl.DataFrame:
        """Rows from a time on, and the last ones of each partition before it."""
        if not len(rows) or before == INT64_MIN:
            return rows
        is_old = pl.col(TIME) < before
        if not self.leads:
            return rows.filter(~is_old)
        old = rows.filter(is_old)
        if not len(old):
            return rows
        kept = last_of_each(old.sort(self.instants, maintain_order=True), self.keys, self.leads)
        return pl.concat([kept, rows.filter(~is_old)])

    def came_since(self, time: int) -> pl.DataFrame:
        """The rows of the session from a time on."""
        own = self.session_rows
        return own[int(own[TIME].search_sorted(time)) :]

    @property
    def session_rows(self) -> pl.DataFrame:
        """The rows of the session that are here."""
        self._put_in_order()
        return self.own

    @property
    def first(self) -> int | None:
        """The time of the first row of the session that is here."""
        self._put_in_order()
        return int(self.own[TIME][0]) if len(self.own) else None

    @property
    def size(self) -> int:
        """How many rows are in memory."""
        return len(self.own) + len(self.loaded) + sum(map(len, self._new))

    # -- the archive ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take notice of how the archive has changed."""
        if self.archived is None:
            return
        files = self.archived.generation()
        if files == self._files:
            return
        self._put_in_order()
        new = {name for name in files if name not in self._files}
        removed = any(files.get(name) != known for name, known in self._files.items())
        self._files = files
        if removed or self._has_others(new):
            self.version += 1
            self._forget()

    def _has_others(self, files: set[str]) -> bool:
        """Whether files have rows that would be here if they had been in the archive before."""
        archived = self.archived
        assert archived is not None
        if not len(self._known) and self._everything is None:
            return False
        rows = archived.keys_and_instants(files).filter(pl.col(TIME) < self._until)
        here = pl.concat([self.own, self.loaded]).select(self.identity)
        others = rows.join(here, on=self.identity, how="anti", nulls_equal=True)
        if self._everything is None:
            others = others.join(self._known, on=self.keys, how="semi", nulls_equal=True)
        if not len(others):
            return False
        # what is older than all that is needed of its partition was here, or does not matter
        lowest_of = here.group_by(self.keys).agg(pl.col(TIME).min().alias(_LOWEST))
        others = others.join(lowest_of, on=self.keys, how="left", nulls_equal=True)
        others = others.join(self._known, on=self.keys, how="left", nulls_equal=True)
        since = pl.col(_SINCE).fill_null(INT64_MAX)
        if self._everything is not None:
            since = pl.min_horizontal(since, pl.lit(self._everything))
        matters = pl.col(TIME) >= since
        if self.leads:
            matters |= pl.col(_LOWEST).is_null() | (pl.col(TIME) >= pl.col(_LOWEST))
            before = others.select(*self.keys, since.alias(_SINCE)).unique()
            before = here.join(before, on=self.keys, nulls_equal=True)
            before = before.filter(pl.col(TIME) < pl.col(_SINCE))
            counts = before.group_by(self.keys).agg(pl.len().alias(_LEADS))
            others = others.join(counts, on=self.keys, how="left", nulls_equal=True)
            matters |= pl.col(_LEADS).fill_null(0) < self.leads  # it may be one of those that lack
        return bool(others.select(matters.any()).item())

    def _consistently(self, read: Callable[[], _T]) -> _T:
        """The result of a read, which is repeated if files of the archive were replaced meanwhile."""
        result = read()
        if self.archived is not None:
            for _ in range(_ATTEMPTS):
                seen = self.archived.renewals
                if seen == self._renewals:
                    break
                self._renewals = seen
                self.refresh()
                result = read()
        return result

    def load_all(self, first: int, last: int) -> None:
        """Have all rows of the archive between two times in memory."""
        self._consistently(lambda: self._load_all(first, last))

    def _load_all(self, first: int, last: int) -> None:
        first = _back(first, self.ticks)
        if self._everything is None or self._everything > first:
            self._read(None, first, max(last, self._until - 1))
            self._everything = first
        elif self._until <= last:
            self._read(None, self._until, last)
        self._until = max(self._until, last + 1)

    def load(self, keys: pl.DataFrame, first: int, last: int) -> None:
        """Have the rows of some partitions between two times in memory, and those that lead there."""
        self._consistently(lambda: self._load(keys, first, last))

    def _load(self, keys: pl.DataFrame, first: int, last: int) -> None:
        archived = self.archived
        if archived is None:
            return
        first = _back(first, self.ticks)
        if self._until <= last:
            if len(self._known):
                self._read(self._known.select(self.keys), self._until, last)
            self._until = last + 1
        if not self.leads and self._everything is not None and self._everything <= first:
            return
        there = self._known.filter(pl.col(_SINCE) <= first)
        missing = keys.unique().join(there, on=self.keys, how="anti", nulls_equal=True)
        if not len(missing):
            return
        self._take(archived.read(missing, first, self._until - 1, self.leads))
        since = missing.with_columns(pl.lit(first, pl.Int64).alias(_SINCE))
        known = self._known.join(missing, on=self.keys, how="anti", nulls_equal=True)
        self._known = pl.concat([known, since.select(known.columns)])

    def load_regions(self, regions: Regions) -> bool:
        """Have the rows of some regions in memory, and those that lead there; nothing else is asked for.

        False where to have all rows costs no more.
        """
        if self.archived is None:
            return True
        since = earlier(regions.firsts, self.ticks)
        rows = self.archived.read_regions(Regions(regions.keys, since, regions.lasts), self.leads)
        if rows is not None:
            self._take(rows)
        return rows is not None

    def all_rows(self) -> pl.DataFrame:
        """All rows of the session and of the archive."""
        if self.archived is not None:
            self._take(self.archived.read_all())
        return pl.concat([self.loaded, self.session_rows])

    def _read(self, keys: pl.DataFrame | None, first: int, last: int) -> None:
        if self.archived is not None and self.archived.latest >= first:
            self._take(self.archived.read(keys, first, last, 0))

    def _take(self, rows: pl.DataFrame) -> None:
        self._put_in_order()
        if len(self.loaded):
            rows = rows.join(self.loaded, on=self.identity, how="anti", nulls_equal=True)
        self.loaded = pl.concat([self.loaded, rows])
        self._drop_known()

    # -- regions ----------------------------------------------------------------------------------

    def partitions(self, first: int, last: int) -> pl.DataFrame:
        """The partitions that have rows in memory between two times."""
        self._put_in_order()
        rows = pl.concat([self.own, self.loaded])
        return (
            rows.filter((pl.col(TIME) >= first) & (pl.col(TIME) <= last)).select(self.keys).unique()
        )

    def cut(self, regions: Regions, leads: Sequence[int] | Words) -> pl.DataFrame:
        """The rows of each region, and some before it, as far as they are in memory.

        Each row has the number of its region; a row may be in several.
        """
        self._put_in_order()
        rows = OrderedRows(
            pl.concat([self.own, self.loaded]), self.keys, self.instants, regions.keys
        )
        starts = rows.first_from(regions.firsts)
        if self.ticks:
            far = np.where(
                np.asarray(leads) > 0, earlier(regions.firsts, self.ticks), regions.firsts
            )
            starts = rows.first_from(far)
        starts = np.maximum(starts - np.asarray(leads), rows.begins)
        stops = rows.first_from(regions.lasts + 1)
        counts = np.maximum(stops - starts, 0)
        places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        places += np.repeat(starts, counts)
        found = rows.at(places)
        return found.with_columns(
            pl.Series(REGION, np.repeat(np.arange(len(regions)), counts), dtype=pl.Int64)
        )


def _back(time: int, length: int) -> int:
    return max(time - length, INT64_MIN + 1)
