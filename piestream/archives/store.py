"""The files of an archive on the disk, and every change of them.

A change writes its files beside their places, flushes them, gives them their names, and then replaces
the manifest: that is when it happened. What a crash left before is in no manifest, and the next writer
removes it; files that a change made superfluous are removed after it. So an archive is always one of
its generations, and a generation on the disk stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
import polars.selectors as cs

from piestream.archives.durable import (
    check_size,
    checksum,
    damage_told,
    damaged,
    flush_directory,
    make_directory,
    place,
    replace_text,
    write_pending,
)
from piestream.archives.filters import FILTER, page_filters
from piestream.archives.footers import Identity, identity_of
from piestream.archives.lock import writer_lock
from piestream.archives.manifest import FILE_NAME, MANIFEST, BatchId, DataFile, Manifest
from piestream.archives.statistics import ROWS, page_statistics
from piestream.errors import ArchiveError
from piestream.expressions.columns import column_named, columns_named

__all__ = ["Store", "in_ticks"]

#: The folders: rows that any engine reads, their statistics, and what is being written.
_ROWS, _STATISTICS, _PENDING = "rows", "statistics", "pending"
_LOCK = "lock"
#: The names that a change gives to files of each folder. Others are not the archive's.
_OWN_NAMES = {
    _ROWS: FILE_NAME,
    _STATISTICS: re.compile(r"[0-9]{10,}\.arrow"),
    _PENDING: re.compile(rf"([0-9]{{10,}}\.parquet(\.statistics)?|{re.escape(MANIFEST)})\.part"),
}


def in_ticks(column: str) -> pl.Expr:
    """A column of times as whole numbers."""
    return column_named(column).to_physical().cast(pl.Int64)


class Store:
    """One directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether there is an archive."""
        return (self.path / MANIFEST).exists()

    def check_manifest(self) -> None:
        """Refuse a directory of Parquet files that has all of an archive but its manifest."""
        if (self.path / _STATISTICS).is_dir() and (self.path / _ROWS).is_dir() and not self.exists:
            raise ArchiveError(
                f"{self.path} is an archive whose {MANIFEST} is missing, which says which files count: put "
                f"back a copy of it, or read the Parquet files of the folder {_ROWS} in it by themselves, "
                "among which there may be some that others have replaced"
            )

    def manifest(self) -> Manifest:
        """The present generation."""
        return Manifest.read(self.path / MANIFEST)

    def rows_path(self, file: DataFile) -> Path:
        """Where the rows of a file are."""
        return self.path / _ROWS / file.name

    def statistics_path(self, file: DataFile) -> Path:
        """Where the statistics of a file are."""
        return self.path / _STATISTICS / file.statistics

    def statistics(self, file: DataFile) -> pl.DataFrame:
        """The statistics of the pages of a file, without filters."""
        path = self.statistics_path(file)
        return _known_statistics(path, identity_of(path), file.statistics_crc32).clone()

    def filters(self, file: DataFile) -> pl.DataFrame:
        """The numbers of rows of the pages of a file, and their filters: most queries read none.

        Files of earlier versions have none.
        """
        path = self.statistics_path(file)
        return _read_statistics(
            path, file.statistics_crc32, lambda name: name == ROWS or name.startswith(FILTER)
        )

    def create(self, manifest: Manifest) -> None:
        """A new archive, without rows.

        The folder of what is being written is made first: a directory that has it, and no manifest,
        is an archive whose creation was stopped.
        """
        with self._locked():
            if not self.exists:
                self._replace_manifest(manifest)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of the only writer, in a directory that has all folders, as a copy may not.

        ArchiveError: it cannot be written there.
        """
        try:
            for folder in (_PENDING, _ROWS, _STATISTICS):
                make_directory(self.path / folder)
            with writer_lock(self.path / _LOCK, self.path):
                yield
        except OSError as error:
            raise ArchiveError(
                f"{self.path} cannot be written: {error}. To change an archive takes the right to write "
                "in its directory and in the folders there, room on the disk, and all of its files"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[Manifest]:
        """Be the only writer, of the generation that is given."""
        with self._locked():
            manifest = self.manifest()
            self._remove_leftovers(manifest)
            yield manifest

    def commit(
        self,
        manifest: Manifest,
        removed: Sequence[DataFile],
        frames: Iterable[pl.DataFrame],
        batch: BatchId | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Manifest:
        """Put the rows of some frames in the place of some files; gives the new generation.

        ``numbers`` are those of the new files, where they stand for others; else they are new ones.
        """
        added: list[DataFile] = []
        for frame in frames:
            new = manifest.next_number + len(added)
            number = new if numbers is None else numbers[len(added)]
            added.append(self._write(manifest, f"{new:010d}.parquet", number, frame))
        following = manifest.following(removed, added, batch)
        self._replace_manifest(following)
        for file in removed:
            self.rows_path(file).unlink(missing_ok=True)
            self.statistics_path(file).unlink(missing_ok=True)
        return following

    def slices(self, manifest: Manifest, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Rows cut by time, each slice in order of key and time; equal ones keep their order."""
        rows = rows.sort(in_ticks(manifest.time), maintain_order=True)
        times = rows.select(in_ticks(manifest.time)).to_series().to_numpy()
        for first, last in _cuts(times, manifest.file_rows):
            yield _in_order(rows[first:last], manifest)

    def merged(self, manifest: Manifest, files: Sequence[DataFile]) -> Iterator[pl.DataFrame]:
        """As `slices` of all rows of some files, of which only those of one slice are in memory."""
        ordered = sorted(files, key=lambda file: file.number)
        ticks_of = in_ticks(manifest.time)
        ticks = [
            self._collected(file, self._scan(file).select(ticks_of)).to_series().to_numpy()
            for file in ordered
        ]
        times = np.sort(np.concatenate(ticks))
        for first, last in _cuts(times, manifest.file_rows):
            low, high = int(times[first]), int(times[last - 1])
            inside = ticks_of.is_between(low, high)
            parts = [
                self._collected(file, self._scan(file).filter(inside))
                for file in ordered
                if file.first <= high and file.last >= low
            ]
            yield _in_order(pl.concat(parts), manifest)

    def _collected(self, file: DataFile, rows: pl.LazyFrame) -> pl.DataFrame:
        """Rows of a file, which may be damaged."""
        with damage_told([self.rows_path(file)], is_own=True):
            return rows.collect()

    def _scan(self, file: DataFile) -> pl.LazyFrame:
        path = self.rows_path(file)
        check_size(path, file.bytes)
        return pl.scan_parquet(path, glob=False)

    def read(self, files: Iterable[DataFile]) -> pl.DataFrame:
        """All rows of some files, those of lower numbers first."""
        ordered = sorted(files, key=lambda file: file.number)
        return pl.concat([self._collected(file, self._scan(file)) for file in ordered])

    def verified(self) -> list[str]:
        """What is wrong with the files of the generation that is the present one at the end."""
        manifest = self.manifest()
        while True:
            try:
                faults: list[str] | None = list(self.faults(manifest))
            except FileNotFoundError:  # a file that was there has been replaced since
                faults = None
            present = self.manifest()
            if faults is not None and (not faults or present == manifest):
                return faults
            manifest = present

    def faults(self, manifest: Manifest) -> Iterator[str]:
        """What is wrong with the files of a generation."""
        for file in manifest.files:
            rows, statistics = self.rows_path(file), self.statistics_path(file)
            for path, known in ((rows, file.crc32), (statistics, file.statistics_crc32)):
                fault = _file_fault(path, known)
                if fault is not None:
                    yield fault
                    break
            else:
                frame = pl.read_parquet(rows, glob=False)
                again = _statistics_of(manifest, frame)
                kept = _read_statistics(statistics, file.statistics_crc32, bool)
                if not any(name.startswith(FILTER) for name in kept.columns):
                    again = again.select(~cs.starts_with(FILTER))
                if len(frame) != file.rows or not again.equals(kept):
                    yield f"{statistics} does not say what is in {rows}"

    def _write(self, manifest: Manifest, name: str, number: int, frame: pl.DataFrame) -> DataFile:
        """The files of some rows and of their statistics; they are in no manifest yet."""
        frame = frame.rechunk()
        times = frame.select(in_ticks(manifest.time)).to_series()
        statistics = _statistics_of(manifest, frame)
        pending = self.path / _PENDING / f"{name}.part"
        pending_statistics = self.path / _PENDING / f"{name}.statistics.part"
        written = write_pending(
            pending,
            lambda path: frame.write_parquet(
                path, row_group_size=manifest.page_rows, compression="zstd", statistics="full"
            ),
        )
        file = DataFile(
            name=name,
            number=number,
            rows=len(frame),
            bytes=pending.stat().st_size,
            crc32=written,
            first=int(times.min()),  # type: ignore[arg-type]
            last=int(times.max()),  # type: ignore[arg-type]
            statistics_crc32=write_pending(
                pending_statistics, lambda path: statistics.write_ipc(path, compression="zstd")
            ),
        )
        place(pending_statistics, self.statistics_path(file))
        place(pending, self.rows_path(file))
        return file

    def _replace_manifest(self, manifest: Manifest) -> None:
        pending = self.path / _PENDING / f"{MANIFEST}.part"
        replace_text(self.path / MANIFEST, pending, manifest.text())

    def _remove_leftovers(self, manifest: Manifest) -> None:
        """Remove what a writer that did not get to its end has left."""
        known = {
            _ROWS: {file.name for file in manifest.files},
            _STATISTICS: {file.statistics for file in manifest.files},
            _PENDING: set(),
        }
        for folder, names in known.items():
            own = _OWN_NAMES[folder]
            left = [
                path
                for path in (self.path / folder).iterdir()
                if own.fullmatch(path.name) and path.name not in names
            ]
            for path in left:
                path.unlink()
            if left:
                flush_directory(self.path / folder)


def _cuts(times: np.ndarray, file_rows: int) -> Iterator[tuple[int, int]]:
    """Where rows, in order of their times, are cut into files; rows of one time stay together."""
    count = max(1, round(len(times) / file_rows))
    most = -(-len(times) // count)
    first = 0
    while first < len(times):
        last = min(first + most, len(times))
        if last < len(times):
            last = int(np.searchsorted(times, times[last - 1], side="right"))
        yield first, last
        first = last


def _in_order(rows: pl.DataFrame, manifest: Manifest) -> pl.DataFrame:
    """Rows in order of key and time; equal ones keep their order."""
    return rows.sort([*columns_named(manifest.key), in_ticks(manifest.time)], maintain_order=True)


def _statistics_of(manifest: Manifest, frame: pl.DataFrame) -> pl.DataFrame:
    """What is kept of the pages of a file."""
    key = manifest.key[0] if manifest.key else None
    found = page_statistics(frame, manifest.page_rows, key)
    return found.hstack(page_filters(frame, manifest.page_rows, manifest.key))


@lru_cache(maxsize=256)
def _known_statistics(path: Path, _identity: Identity, written: int) -> pl.DataFrame:
    """The statistics in a file, without filters, as long as it is what it was."""
    return _read_statistics(path, written, lambda name: not name.startswith(FILTER))


def _read_statistics(path: Path, written: int, is_wanted: Callable[[str], bool]) -> pl.DataFrame:
    """Some columns of the statistics in a file, whose checksum is known."""
    data = path.read_bytes()
    if crc32(data) != written:  # else pages would be left out that have matches
        raise ArchiveError(damaged(path, "it is not what was written"))
    wanted = [name for name in pl.read_ipc_schema(BytesIO(data)) if is_wanted(name)]
    return pl.read_ipc(BytesIO(data), columns=wanted) if wanted else pl.DataFrame()


def _file_fault(path: Path, known: int) -> str | None:
    """What is wrong with a file whose checksum is known."""
    try:
        is_sound = checksum(path) == known
    except FileNotFoundError:
        return f"{path} is missing"
    return None if is_sound else f"{path} is damaged: it is not what was written"
