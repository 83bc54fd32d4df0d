"""A query over an archive: what is read of it, and what comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.file_run import FileRun
from piestream.adapters.limits import Limit
from piestream.adapters.run import run
from piestream.archives.archive import Archive
from piestream.archives.cores import Core
from piestream.archives.durable import missing_files_told
from piestream.archives.matching import found_completed, found_in_cores
from piestream.archives.planning import ArchivePlan
from piestream.archives.selection import Selection, TooFarError
from piestream.archives.source import ArchiveSource, directory_archive
from piestream.archives.trials import read_by, worked_out
from piestream.engine.statistics import Statistics
from piestream.errors import OrderError, TieError, warn_of_result
from piestream.language.model import Query
from piestream.language.options import FileOptions, RunOptions
from piestream.language.parts import Emit

__all__ = ["ArchiveRun", "run_archive", "run_directory"]

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
        plan: ArchivePlan | None = None,
    ) -> None:
        self.plan = ArchivePlan(query, source.pages, options) if plan is None else plan
        self.options = replace(options, lateness=None)  # sorted: nothing is late
        self.source = source
        self.binding = self.plan.binding
        self.read_rows = 0
        self.statistics = Statistics()
        self.limit = Limit(options.limit)
        self.stream: Any = self  # for the progress of the run
        self._scan: FileRun | None = None
        if self.plan.cores is None or not select:
            source.time, source.kept = self.binding.time.name, self.plan.kept
            self._scan = FileRun(query, source, self.options, sort=sort)
            self.limit, self.stream = self._scan.limit, self._scan.stream

    @property
    def rows_there(self) -> int:
        """How many rows the archive has, whether they are read or not."""
        return self.source.pages.n_rows

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
        yield self.binding.no_results.clear()
        yield from self.limit.of(self._selected())

    def _selected(self) -> Iterator[pl.DataFrame]:
        if not self.plan.cores:
            return
        try:
            yield from self._completed() if self.plan.query.emit is Emit.BOTH else self._batches()
        except TooFarError:
            yield from self._all()

    def _batches(self) -> Iterator[pl.DataFrame]:
        """What is found in the cores, batch by batch."""
        tried = read_by(self.plan) if self.plan.is_uncertain else None
        done: list[Core] = []
        spent = 0.0
        for cores in self.plan.batches():
            selection = self.plan.selection() if tried is None else tried
            selection.besides += spent
            try:
                n_rows, found, _ = found_in_cores(self.plan, selection, cores, self.options)
            except TooFarError:
                if not done:
                    raise
                for frame in self._all():
                    yield frame.filter(pl.Series(selection.cores_of_reports(done, frame) < 0))
                return
            spent, done = selection.cost, [*done, *cores]
            self.read_rows += selection.n_read
            self.statistics = replace(
                self.statistics,
                events=self.statistics.events + n_rows,
                matches=self.statistics.matches + len(found),
            )
            yield found

    def _completed(self) -> Iterator[pl.DataFrame]:
        """The rows of EMIT ON BOTH."""

        def work(plan: ArchivePlan, selection: Selection) -> tuple[int, pl.DataFrame]:
            return found_completed(plan, selection, self.options)

        selection, (n_rows, rows) = worked_out(self.plan, work)
        self.read_rows = selection.n_read
        self.statistics = replace(self.statistics, events=n_rows, matches=len(rows))
        yield rows

    def _all(self) -> Iterator[pl.DataFrame]:
        """What is found in all rows, where that has turned out to be better."""
        if self.rows_there <= _WHOLE_ROWS:
            self.read_rows = self.rows_there
            found = _scanned(self.plan, replace(self.options, limit=None))
            self.statistics = replace(self.statistics, events=self.rows_there, matches=len(found))
            yield found
            return
        self.source.time, self.source.kept = self.binding.time.name, self.plan.kept
        work = FileRun(self.plan.query, self.source, replace(self.options, limit=None))
        yield from work.results()
        self.read_rows, self.statistics = self.source.done, work.stream.statistics


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
        return _collected(plan, archive, options, sort=False)
    except OrderError:
        return _collected(plan, archive, options, sort=True)
    except TieError:
        if plan.pages.n_rows > _WHOLE_ROWS:
            raise
        return _scanned(plan, options)  # the error names the first such rows of all


def _scanned(plan: ArchivePlan, options: RunOptions) -> pl.DataFrame:
    """The matches in all rows as one frame."""
    every = np.arange(len(plan.pages)), plan.binding.columns
    schema = {name: plan.pages.schema[name] for name in plan.binding.columns}
    rows = pl.concat([pl.DataFrame(schema=schema), *plan.kept.read_parts([every], is_last=True)])
    plan.kept.release()
    found: pl.DataFrame = run(plan.query, rows, options)
    return found


def _collected(
    plan: ArchivePlan, archive: Archive, options: FileOptions, sort: bool
) -> pl.DataFrame:
    source = ArchiveSource(str(archive.path), plan.pages, archive.time)
    work = ArchiveRun(plan.query, source, options, sort=sort, plan=plan)
    found = pl.concat([work.binding.no_results, *work.results()])
    if work.limit.cut:
        warn_of_result(f"stopped at limit={options.limit}: there are more rows")
    return found
