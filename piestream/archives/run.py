"""A query over an archive: what is read of it, and what comes out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from warnings import warn

import numpy as np
import polars as pl

from piestream.adapters.binding import bound
from piestream.adapters.file_run import FileRun
from piestream.adapters.files import CHUNK_ROWS
from piestream.adapters.limits import Limit
from piestream.adapters.run import run
from piestream.archives.archive import Archive
from piestream.archives.cores import Core, KeyRanges, cores_of, key_ranges
from piestream.archives.pages import Pages
from piestream.archives.reach import Reach, reach_of
from piestream.archives.selection import CORE, RESERVED, Selection
from piestream.archives.source import ArchiveSource, directory_archive, source_of
from piestream.archives.verdicts import verdicts
from piestream.engine.combined import open_stream
from piestream.engine.statistics import Statistics
from piestream.errors import OrderError, ResultWarning, TieError
from piestream.expressions.columns import columns_named
from piestream.language.model import Query
from piestream.language.options import FileOptions, RunOptions
from piestream.plan.binding import Binding

__all__ = ["ArchivePlan", "ArchiveRun", "run_archive", "run_directory"]

#: Archives of up to so many rows are scanned as one frame, larger ones file by file.
_WHOLE_ROWS = 1 << 24
#: Of fewer rows all are read: to find out what could be left out takes a twentieth of the time.
_LEAST_ROWS = 1 << 19
#: If so large a part of the rows is to be read, all are: a row that is selected costs twice as much.
_MOST_SHARE = 0.4
#: Cores are worked on together until so many rows are to be read for them.
_BATCH_ROWS = 1 << 22


class ArchivePlan:
    """What a query reads of an archive: the pages of its cores, or all."""

    def __init__(self, query: Query, pages: Pages, options: RunOptions) -> None:
        self.query = query
        self.pages = pages
        self.binding = bound(query, self.pages.schema)
        self.cores: list[Core] | None = None
        self.ranges: KeyRanges | None = None
        self.reach: Reach | None = None
        if self.pages.n_rows < _LEAST_ROWS:
            return
        if any(name.startswith(RESERVED) for name in self.binding.columns):
            return
        reach = reach_of(query, self.binding, options)
        times = self.pages.times(self.binding.time.name)
        if reach is None or times is None or not len(self.pages):
            return
        self.reach = reach
        distinct = list(dict.fromkeys(symbol.predicate for symbol in query.symbols))
        found = verdicts(distinct, self.pages.schema, self.pages.table)
        holds = sorted((verdict.can_hold for verdict in found), key=np.count_nonzero)
        if query.partition_by:
            self.ranges = key_ranges(self.pages.table, query.partition_by[0], holds[0])
        cores = cores_of(holds, *times, reach.window, self.ranges)
        wanted = np.zeros(len(self.pages), np.bool_)
        selection = self.selection()
        for core in cores:
            wanted |= selection.wanted(core)
        if self.pages.rows[wanted].sum() <= _MOST_SHARE * self.pages.n_rows:
            self.cores = cores

    def selection(self) -> Selection:
        """What reads some cores."""
        assert self.reach is not None
        return Selection(
            self.pages, self.binding.columns, self.binding.time.name, self.query.partition_by,
            self.ranges, self.reach,
        )  # fmt: skip

    def batches(self) -> Iterator[list[Core]]:
        """Cores that are read together."""
        assert self.cores is not None
        selection = self.selection()
        batch: list[Core] = []
        wanted = np.zeros(len(self.pages), np.bool_)
        for core in sorted(self.cores, key=lambda core: (core.first, core.cells)):
            more = wanted | selection.wanted(core)
            if batch and self.pages.rows[more].sum() > _BATCH_ROWS:
                yield batch
                batch, more = [], selection.wanted(core)
            batch.append(core)
            wanted = more
        if batch:
            yield batch


class ArchiveRun:
    """One query over one archive, with what a run over files has.

    Where it scans, that is the run over its files; ``select`` False lets it always scan.
    """

    def __init__(
        self,
        query: Query,
        source: ArchiveSource,
        options: FileOptions,
        *,
        sort: bool = False,
        select: bool = True,
    ) -> None:
        self.plan = ArchivePlan(query, source.pages, options)
        self.options = replace(options, lateness=None)  # sorted: nothing is late
        self.source = source
        self.binding = self.plan.binding
        self.read_rows = 0
        self.statistics = Statistics()
        self.limit = Limit(options.limit)
        self.stream: Any = self  # what tells how the run goes
        self._scan: FileRun | None = None
        if self.plan.cores is None or not select:
            source.time = self.binding.time.name
            self._scan = FileRun(query, source, self.options, sort=sort)
            self.limit, self.stream = self._scan.limit, self._scan.stream

    @property
    def progress(self) -> Statistics:
        """What has been worked on so far."""
        return self.statistics

    def results(self) -> Iterator[pl.DataFrame]:
        """The result rows as they become known."""
        if self._scan is not None:
            yield from self._scan.results()
            self.read_rows = self.source.done
            return
        yield pl.DataFrame(schema=self.binding.result_schema)
        yield from self.limit.of(self._selected())

    def _selected(self) -> Iterator[pl.DataFrame]:
        for cores in self.plan.batches():
            selection = self.plan.selection()
            rows = selection.read(cores, _can_begin(self.binding, self.plan.reach))
            self.read_rows += selection.n_read
            found = _matches(self.plan, rows, cores, self.options)
            self.statistics = replace(
                self.statistics,
                events=self.statistics.events + len(rows),
                matches=self.statistics.matches + len(found),
            )
            yield found


def _can_begin(binding: Binding, reach: Reach | None) -> pl.Expr:
    """Whether a row can begin an interval, or go on with one that is bridged.

    Where predicates read earlier rows, those are needed anyway.
    """
    assert reach is not None
    if reach.reads_the_past or reach.is_bridged:
        return pl.lit(True)
    return pl.any_horizontal(
        *(predicate.alias(str(number)) for number, predicate in enumerate(binding.predicates))
    )


def _matches(
    plan: ArchivePlan, rows: pl.DataFrame, cores: Sequence[Core], options: RunOptions
) -> pl.DataFrame:
    """The matches that are reported in some cores, each of which is a partition apart."""
    query = plan.query
    if not len(rows):
        return pl.DataFrame(schema=plan.binding.result_schema)
    apart = replace(query, partition_by=(CORE, *query.partition_by))
    binding = bound(apart, rows.schema)
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if len(rows) >= CHUNK_ROWS else 1
    stream = open_stream(binding, ties=options.ties, lateness=None, whole=True, threads=threads)
    times = plan.pages.times(plan.binding.time.name)
    assert times is not None
    stream.observe_time(int(times[1].max()))  # a silence may end with the archive
    try:
        results = [
            stream.no_results, *stream.portions(stream.project(rows)), *stream.last_portions()
        ]  # fmt: skip
    except TieError:
        _refuse_ties(plan, rows, options)
        raise
    found = pl.concat(results)
    report = found.columns[1 + len(query.partition_by)]
    reports = found[report].to_physical().cast(pl.Int64).to_numpy()
    number = found[CORE].to_numpy()
    firsts = np.array([core.first for core in cores], np.int64)[number]
    lasts = np.array([core.last for core in cores], np.int64)[number]
    return found.filter(pl.Series((reports >= firsts) & (reports <= lasts))).drop(CORE)


def _refuse_ties(plan: ArchivePlan, rows: pl.DataFrame, options: RunOptions) -> None:
    """Raise the error for two events of one time as the query has it, that is without the core."""
    names = [CORE, *plan.query.partition_by, plan.binding.time.name]
    is_again = rows.select(~pl.struct(columns_named(names)).is_first_distinct()).to_series()
    if is_again.any():
        core = rows[CORE][int(is_again.arg_max() or 0)]
        run(plan.query, rows.filter(pl.col(CORE) == core).drop(CORE), options)


#: So often a run begins anew if others have replaced files since the archive was looked at.
_ATTEMPTS = 3


def run_archive(query: Query, archive: Archive, options: FileOptions) -> pl.DataFrame:
    """Every match in an archive."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _run(query, archive, options)
        except FileNotFoundError:
            archive.refresh()
    return _run(query, archive, options)


def run_directory(query: Query, path: str, options: FileOptions) -> pl.DataFrame | None:
    """Every match in an archive or a directory of Parquet files; None if it is neither."""
    found = directory_archive(path)
    return None if found is None else run_archive(query, found, options)


def _run(query: Query, archive: Archive, options: FileOptions) -> pl.DataFrame:
    plan = ArchivePlan(query, archive.pages, options)
    if plan.cores is None and plan.pages.n_rows <= _WHOLE_ROWS:
        return _scanned(plan, options)
    try:
        return _collected(query, archive, options, sort=False)
    except OrderError:
        return _collected(query, archive, options, sort=True)
    except TieError:
        if plan.pages.n_rows > _WHOLE_ROWS:
            raise
        return _scanned(plan, options)  # the error names the first such rows of all


def _scanned(plan: ArchivePlan, options: RunOptions) -> pl.DataFrame:
    """The matches in all rows as one frame."""
    frames = plan.pages.read(np.arange(len(plan.pages)), plan.binding.columns)
    schema = {name: plan.pages.schema[name] for name in plan.binding.columns}
    rows = pl.concat([pl.DataFrame(schema=schema), *frames])
    found: pl.DataFrame = run(plan.query, rows, options)
    return found


def _collected(query: Query, archive: Archive, options: FileOptions, sort: bool) -> pl.DataFrame:
    work = ArchiveRun(query, source_of(archive), options, sort=sort)
    found = pl.concat([pl.DataFrame(schema=work.binding.result_schema), *work.results()])
    if work.limit.cut:
        warn(f"stopped at limit={options.limit}: there are more rows", ResultWarning, stacklevel=6)
    return found
