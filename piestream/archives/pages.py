"""The pages of a generation: what can be read apart, and what is known of each without reading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from piestream.archives.durable import check_size, damage_told
from piestream.archives.filters import FILTER, Flags, may_have
from piestream.archives.footers import Identity, check_identity, footers
from piestream.archives.statistics import FIRST, HIGHEST, LOWEST, MISSING, ROWS
from piestream.archives.store import in_ticks
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.errors import SchemaError
from piestream.expressions.columns import columns_named

__all__ = ["FILE", "Pages", "Words", "scanned", "stretches"]

Words = NDArray[np.int64]

#: The column with the number of a page's file, counted from 0.
FILE = "file"

#: No scan is looked for in another one.
_APART = pl.QueryOptFlags(comm_subplan_elim=False)
#: So many scans are begun together: Polars has a thread for each, and warns of more than 512.
_MOST_SCANS = 64


@dataclass(frozen=True)
class Pages:
    """The pages of some files, in order; those of one file lie behind each other.

    ``table`` has a row a page, with the columns that `piestream.archives.statistics` describes; what is
    not known is NULL or has no column.
    """

    schema: pl.Schema
    paths: tuple[Path, ...]
    table: pl.DataFrame
    time: str | None = (
        None  # within a file rows lie in order of the keys and this time, if it is known
    )
    keys: tuple[str, ...] = ()  # of the first one the values are listed, where they are few
    has_exact_bounds: bool = True  # whether bounds are values that are there
    #: Columns that stand in the names of folders, as in ``day=2026-03-01``.
    in_folders: Mapping[str, pl.DataType] = field(default_factory=dict)
    #: Gives a table of filters, a row a page, which are NULL where there are none.
    load_filters: Callable[[], pl.DataFrame] = pl.DataFrame
    #: What the files were when they were looked at, where they may be overwritten.
    identities: tuple[Identity, ...] = ()
    #: Whether each of these would be another one if the file had been overwritten since.
    is_settled: bool = True
    #: How long the files were written, where that is known.
    sizes: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def rows(self) -> Words:
        """How many rows each page has."""
        return self.table[ROWS].to_numpy()

    @cached_property
    def files(self) -> Words:
        """The number of each page's file."""
        return self.table[FILE].to_numpy()

    @cached_property
    def n_pages(self) -> Words:
        """How many pages each file has."""
        return np.bincount(self.files, minlength=len(self.paths))

    @cached_property
    def firsts(self) -> Words:
        """The number of each page's first row in its file."""
        return self.table[FIRST].to_numpy()

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.rows.sum())

    @cached_property
    def _known_times(self) -> dict[str, tuple[Words, Words] | None]:
        """What `times` has found."""
        return {}

    def times(self, time: str) -> tuple[Words, Words] | None:
        """The earliest and the latest time of each page in ticks, if that is known of all.

        It is not known where a row may have no time, or one that no event may have.
        """
        known = self._known_times
        if time not in known:
            known[time] = self._times(time)
        return known[time]

    def _times(self, time: str) -> tuple[Words, Words] | None:
        columns = (LOWEST + time, HIGHEST + time, MISSING + time)
        if any(name not in self.table.columns for name in columns):
            return None
        try:
            found = self.table.select(in_ticks(columns[0]), in_ticks(columns[1]), columns[2])
        except pl.exceptions.InvalidOperationError:  # beyond 64 bits
            return None
        if sum(found.null_count().row(0)) or found[columns[2]].sum():
            return None
        firsts, lasts = found[columns[0]].to_numpy(), found[columns[1]].to_numpy()
        if (firsts == INT64_MIN).any() or (lasts == INT64_MAX).any():
            return None
        return firsts, lasts

    @cached_property
    def filters(self) -> dict[str, list[bytes | None]]:
        """The filters of columns that have them, by their names."""
        loaded = self.load_filters()
        return {
            name.removeprefix(FILTER): loaded[name].to_list()
            for name in loaded.columns
            if name.startswith(FILTER)
        }

    def may_have(self, name: str, value: Any) -> Flags | None:
        """On which pages a column may have a value; None if there is no filter."""
        found = self.filters.get(name)
        return None if found is None else may_have(found, value)

    def scan(self) -> pl.LazyFrame:
        """All rows."""
        return scanned(self.paths, self.in_folders).select(columns_named(self.schema))

    def read(self, pages: Words, columns: Sequence[str], gap: int = 3) -> list[pl.DataFrame]:
        """The rows of some pages, in their order: a frame for each stretch of them.

        Pages that lie behind each other are read at once, and so are up to ``gap`` pages between two
        that are wanted: to begin anew costs more. What was not wanted is left out again.
        """
        return self.read_parts([(pages, columns)], gap)

    def read_parts(
        self, parts: Sequence[tuple[Words, Sequence[str]]], gap: int = 3
    ) -> list[pl.DataFrame]:
        """As `read`, of several parts of which different columns are wanted."""
        found = [
            (first, last, pages, columns)
            for pages, columns in parts
            for first, last in stretches(pages, self.files, gap)
        ]
        scans = [
            self._scan_of(int(self.files[first]))
            .select(columns_named(columns))
            .slice(int(self.firsts[first]), int(self.rows[first : last + 1].sum()))
            for first, last, _, columns in found
        ]
        paths = [self.paths[int(self.files[first])] for first, *_ in found]
        try:
            with damage_told(paths, bool(self.sizes)):
                frames = _collected(scans)
        finally:  # what cannot be read may be of another file, too
            for first, *_ in found:
                self._check(int(self.files[first]))
        for frame, (first, *_) in zip(frames, found, strict=True):
            self._check_types(frame, int(self.files[first]))
        return [
            self._wanted_only(frame, pages[(pages >= first) & (pages <= last)], first, last)
            for frame, (first, last, pages, _) in zip(frames, found, strict=True)
        ]

    def _check_types(self, frame: pl.DataFrame, file: int) -> None:
        """Refuse rows of a file whose columns have other types than in the first one."""
        for name, dtype in frame.schema.items():
            if dtype != self.schema[name]:
                raise SchemaError(
                    f"{self.paths[file]}: its column {name} has type {dtype}, and in {self.paths[0]} "
                    f"{self.schema[name]}: write one of them with the type of the other"
                )

    def _wanted_only(
        self, frame: pl.DataFrame, wanted: Words, first: int, last: int
    ) -> pl.DataFrame:
        """The rows of some of the pages that have been read."""
        if len(wanted) > last - first:
            return frame
        start = int(self.firsts[first])
        parts = (frame[int(self.firsts[p]) - start :][: int(self.rows[p])] for p in wanted)
        return pl.concat(parts)

    def _scan_of(self, file: int) -> pl.LazyFrame:
        """The rows of a file."""
        self._check(file)
        n_columns = int(self.n_pages[file]) * len(self.schema)
        return footers.scan(self.paths[file], self.in_folders, n_columns, self._reader)

    @cached_property
    def _reader(self) -> object:
        """Who looks at the files: it tells these pages from others."""
        return object()

    @property
    def may_be_overwritten(self) -> bool:
        """Whether files may no longer be what they were when they were looked at."""
        if not self.is_settled:
            return True
        try:
            for path, known in zip(self.paths, self.identities, strict=bool(self.identities)):
                check_identity(path, known)
        except FileNotFoundError:
            return True
        return False

    def _check(self, file: int) -> None:
        """Refuse a file that has been overwritten since it was looked at, or written."""
        if self.identities:
            check_identity(self.paths[file], self.identities[file])
        if self.sizes:
            check_size(self.paths[file], self.sizes[file])


def _collected(scans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame]:
    """What some scans give, many together, which costs less than one by one."""
    if len(scans) == 1:
        return [scans[0].collect()]
    found: list[pl.DataFrame] = []
    for first in range(0, len(scans), _MOST_SCANS):
        some = scans[first : first + _MOST_SCANS]
        found += pl.collect_all(some, optimizations=_APART)
    return found


def scanned(paths: Sequence[Path], in_folders: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """The rows of some files, with the columns that stand in the names of folders."""
    return pl.scan_parquet(
        list(paths),
        glob=False,
        hive_partitioning=bool(in_folders),
        hive_schema=dict(in_folders) or None,
    )


def stretches(pages: Words, files: Words, gap: int) -> list[tuple[int, int]]:
    """Pages, in order, as first and last ones of stretches within files."""
    if not len(pages):
        return []
    breaks = np.flatnonzero((np.diff(pages) > gap + 1) | (np.diff(files[pages]) != 0))
    firsts = pages[np.concatenate(([0], breaks + 1))]
    lasts = pages[np.concatenate((breaks, [len(pages) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
