"""What a query reads of an archive: the pages around its rarest symbol, or all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.archives.cores import Core, KeyRanges, cores_of, key_ranges
from piestream.archives.decoding import Decoder
from piestream.archives.pages import Pages
from piestream.archives.reach import Reach, reach_of
from piestream.archives.row_reach import needed_pages
from piestream.archives.selection import CORE, RESERVED, Selection
from piestream.archives.verdicts import Flags, Verdict, verdicts
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.plan.binding import Binding

__all__ = ["LEAST_ROWS", "MOST_SHARE", "MOST_TOGETHER", "ArchivePlan"]

#: Of fewer rows all are read: to find out what could be left out takes a twentieth of the time.
LEAST_ROWS = 1 << 19
#: If so large a part of the rows is to be read, all are: a row that is selected costs twice as much.
MOST_SHARE = 0.4
#: Cores are worked on together until so many rows are to be read for them.
BATCH_ROWS = 1 << 22
#: Where all cores have to be worked on together, as for LIMIT, they have no more rows than these.
MOST_TOGETHER = 1 << 24


class ArchivePlan:
    """What a query reads of an archive: the pages of its cores, or all."""

    def __init__(self, query: Query, pages: Pages, options: RunOptions) -> None:
        if query.streams[0].row_order and pages.time is not None:
            raise query.fault(
                ("order_by",),
                "an archive keeps its rows by key and time, not in the order in which they came",
                "name a column that orders events of one time, as in ORDER BY ts, seq",
            )
        self.query = query
        self.pages = pages
        self.binding = bound(query, self.pages.schema)
        self.cores: list[Core] | None = None
        self.ranges: KeyRanges | None = None
        self.reach: Reach | None = None
        if self.pages.n_rows < LEAST_ROWS:
            return
        if any(name.startswith(RESERVED) for name in self.binding.columns):
            return
        reach = reach_of(query, self.binding, options)
        times = self.pages.times(self.binding.time.name)
        if reach is None or times is None or not len(self.pages):
            return
        self.reach = reach
        distinct = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        found = verdicts(distinct, self.pages.schema, self.pages.table, self.pages.may_have)
        self.decoder = Decoder(self.pages, self.binding, found)
        holds = sorted(self._needed_pages(found), key=np.count_nonzero)
        if not holds:
            return
        if query.partition_by:
            self.ranges = key_ranges(self.pages.table, query.partition_by[0], holds[0])
        cores = cores_of(holds, *times, reach.window, self.ranges)
        wanted = np.zeros(len(self.pages), np.bool_)
        selection = self.selection()
        for core in cores:
            wanted |= selection.wanted(core)
        most = MOST_SHARE * self.pages.n_rows
        if self.is_together:
            most = min(most, MOST_TOGETHER)
        if self.pages.rows[wanted & ~self.decoder.is_quiet].sum() <= most:
            self.cores = cores

    @property
    def is_together(self) -> bool:
        """Whether what was given in one core counts in another: then a partition is one."""
        return bool(self.query.limits) or self.query.rows is not None

    def _needed_pages(self, found: Sequence[Verdict]) -> list[Flags]:
        """Sets of pages of each of which every match has a row, or the start of an interval."""
        distinct = dict.fromkeys(symbol.predicate for symbol in self.query.symbols)
        can_hold = {
            predicate: verdict.can_hold for predicate, verdict in zip(distinct, found, strict=True)
        }
        if self.query.rows is None:
            return list(can_hold.values())
        by_name = {symbol.name: can_hold[symbol.predicate] for symbol in self.query.symbols}
        return needed_pages(self.query.rows.pattern, by_name)

    def selection(self) -> Selection:
        """What reads some cores."""
        assert self.reach is not None
        return Selection(self.decoder, self.ranges, self.reach)

    def batches(self) -> Iterator[list[Core]]:
        """Cores that are read together."""
        assert self.cores is not None
        if self.is_together:
            yield from [self.cores] if self.cores else []
            return
        selection = self.selection()
        batch: list[Core] = []
        wanted = np.zeros(len(self.pages), np.bool_)
        for core in sorted(self.cores, key=lambda core: (core.first, core.cells)):
            more = wanted | selection.wanted(core)
            if batch and self.pages.rows[more].sum() > BATCH_ROWS:
                yield batch
                batch, more = [], selection.wanted(core)
            batch.append(core)
            wanted = more
        if batch:
            yield batch

    def binding_apart(self) -> Binding:
        """That of the query whose partitions are those of each core."""
        apart = replace(self.query, partition_by=(CORE, *self.query.partition_by))
        return bound(apart, {CORE: pl.Int64(), **self.pages.schema})
