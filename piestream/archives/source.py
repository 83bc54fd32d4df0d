"""An archive as a source of rows in chunks: all of them, in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.inputs import Inputs
from piestream.archives.archive import Archive, archive
from piestream.archives.decoded import DecodedPages
from piestream.archives.pages import Pages, Words
from piestream.archives.plain import parquet_files
from piestream.archives.store import Store
from piestream.language.model import Query

__all__ = ["ArchiveSource", "directory_archive", "source_of", "with_directories"]


def directory_archive(path: str | Path) -> Archive | None:
    """The archive, or the Parquet files, in a directory; None if it has neither."""
    place = Path(path)
    if not place.is_dir() or not (Store(place).exists or parquet_files(place)):
        return None
    return archive(place)


def with_directories(query: Query, given: Any) -> dict[str, Any]:
    """What a query of several streams was given, and the archives in directories that it names itself."""
    inputs = Inputs(query)
    if given is None:
        given = {}
    named = given if isinstance(given, Mapping) else {inputs.name_of(None): given}
    found = {inputs.name_of(name): rows for name, rows in named.items()}
    for key, path in inputs.paths.items():
        directory = None if key in found else directory_archive(path)
        if directory is not None:
            found[key] = directory
    return found


def source_of(found: Archive) -> ArchiveSource:
    """The rows of an archive."""
    return ArchiveSource(str(found.path), found.pages, found.time)


class ArchiveSource:
    """All rows of an archive, as `piestream.adapters.files.Source` has them.

    Files that overlap in time are one chunk, so that rows of one partition come in order.
    """

    def __init__(self, name: str, pages: Pages, time: str | None) -> None:
        self.name = name
        self.done = 0
        self.total: int | None = pages.n_rows
        self.advice: dict[str, str] = {}
        self.pages = pages
        self.time = time  # the column by which files are put in order
        self.kept: DecodedPages | None = None  # what has been decoded already

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """The columns and their types."""
        return dict(self.pages.schema)

    def chunks(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The rows, of these columns only."""
        self.done = 0
        for files in self._groups():
            pages = np.flatnonzero(np.isin(self.pages.files, files))
            frames = self._frames(pages, columns)
            self.done += sum(map(len, frames))
            if frames:
                yield pl.concat(frames)

    def _frames(self, pages: Words, columns: Sequence[str]) -> list[pl.DataFrame]:
        if self.kept is None:
            return self.pages.read(pages, columns)
        return self.kept.read_parts([(pages, columns)], is_last=True)

    def _groups(self) -> list[Words]:
        """Files that overlap, in order of time; without times each is alone."""
        files = np.unique(self.pages.files)
        times = None if self.time is None else self.pages.times(self.time)
        if times is None or not len(files):
            return [files[i : i + 1] for i in range(len(files))]
        starts = np.searchsorted(self.pages.files, files)
        firsts = np.minimum.reduceat(times[0], starts)
        lasts = np.maximum.reduceat(times[1], starts)
        order = np.argsort(firsts, kind="stable")
        reached = np.maximum.accumulate(lasts[order])
        begins = np.flatnonzero(firsts[order][1:] > reached[:-1]) + 1
        return [files[np.sort(group)] for group in np.split(order, begins)]

    def fault_in_row(self, row: int, fault: str) -> str:
        """A fault in the archive; rows have no numbers in it."""
        return f"{self.name}: {fault}"

    def close(self) -> None:
        """No more is read."""
