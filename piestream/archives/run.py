"""A query over an archive: what is read of it, and what comes out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from warnings import warn

import numpy as np
import polars as pl

from piestream.adapters.file_run import FileRun
from piestream.adapters.files import CHUNK_ROWS
from piestream.adapters.limits import Limit
from piestream.adapters.run import run
from piestream.archives.archive import Archive
from piestream.archives.cores import Core
from piestream.archives.durable import missing_files_told
from piestream.archives.planning import ArchivePlan
from piestream.archives.selection import CORE
from piestream.archives.source import ArchiveSource, directory_archive, source_of
from piestream.engine.combined import open_stream
from piestream.engine.projection import KEY, TIME
from piestream.engine.statistics import Statistics
from piestream.errors import OrderError, ResultWarning, TieError
from piestream.language.model import Query
from piestream.language.options import FileOptions, RunOptions
from piestream.plan.binding import Binding

__all__ = ["ArchivePlan", "ArchiveRun", "run_archive", "run_directory"]

#: Archives of up to so many rows are scanned as one frame, larger ones file by file.
_WHOLE_ROWS = 1 << 24


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
            together = self.plan.is_together
            rows = (
                selection.read_together(cores, self.options.ties)
                if together
                else selection.read(cores)
            )
            self.read_rows += selection.n_read
            found = (
                _found(self.plan, self.binding, rows, self.options, evaluated=True)
                if together
                else _found_apart(self.plan, rows, cores, self.options)
            )
            self.statistics = replace(
                self.statistics,
                events=self.statistics.events + len(rows),
                matches=self.statistics.matches + len(found),
            )
            yield found


def _found(
    plan: ArchivePlan,
    binding: Binding,
    rows: pl.DataFrame,
    options: RunOptions,
    evaluated: bool = False,
) -> pl.DataFrame:
    """The result rows of some projected rows, of which all predicates may be known."""
    if not len(rows):
        return pl.DataFrame(schema=binding.result_schema)
    threads = options.threads
    if threads is None:
        threads = (os.cpu_count() or 1) if len(rows) >= CHUNK_ROWS else 1
    stream = open_stream(
        binding, ties=options.ties, lateness=None, whole=True, threads=threads, evaluated=evaluated
    )
    times = plan.pages.times(plan.binding.time.name)
    assert times is not None
    stream.observe_time(int(times[1].max()))  # a silence may end with the archive
    return pl.concat([stream.no_results, *stream.portions(rows), *stream.last_portions()])


def _found_apart(
    plan: ArchivePlan, rows: pl.DataFrame, cores: Sequence[Core], options: RunOptions
) -> pl.DataFrame:
    """The matches that are reported in some cores, each of which is a partition apart."""
    binding = plan.binding_apart()
    try:
        found = _found(plan, binding, rows, options)
    except TieError:
        _refuse_ties(plan, rows, options)
        raise
    report = found.columns[1 + len(plan.query.partition_by)]
    reports = found[report].to_physical().cast(pl.Int64).to_numpy()
    number = found[CORE].to_numpy()
    firsts = np.array([core.first for core in cores], np.int64)[number]
    lasts = np.array([core.last for core in cores], np.int64)[number]
    return found.filter(pl.Series((reports >= firsts) & (reports <= lasts))).drop(CORE)


def _refuse_ties(plan: ArchivePlan, rows: pl.DataFrame, options: RunOptions) -> None:
    """Raise the error for two events of one time as the query has it, that is without the core."""
    names = [KEY + CORE, *(KEY + name for name in plan.query.partition_by), TIME]
    is_again = rows.select(~pl.struct(names).is_first_distinct()).to_series()
    if is_again.any():
        core = rows[KEY + CORE][int(is_again.arg_max() or 0)]
        alone = rows.filter(pl.col(KEY + CORE) == core).drop(KEY + CORE)
        _found(plan, plan.binding, alone, options)


#: So often a run begins anew if others have replaced files since the archive was looked at.
_ATTEMPTS = 3


def run_archive(query: Query, archive: Archive, options: FileOptions) -> pl.DataFrame:
    """Every match in an archive."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _run(query, archive, options)
        except FileNotFoundError:
            archive.refresh()
    with missing_files_told(archive.path):
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
