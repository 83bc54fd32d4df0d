"""Files whose footers have been parsed: Polars keeps what it knows of a file with the frame that scans it.

A footer describes every page of its file, so that to parse it can cost more than to read a page. The frames
that scan files are kept as long as there is room, and used while the files are what they were. A file that had just
been written when it was looked at may be another one by now and look the same (`is_settled`): what is known of it
counts for the reader that looked at it, and for no other.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import time_ns

import polars as pl

__all__ = [
    "Footers", "Identity", "OverwrittenError", "check_identity", "footers", "identity_of", "is_settled",
]  # fmt: skip

#: What tells one file from another that has come in its place: its device, its number there, its size,
#: when it was written, and when that was said of it: a copy may keep the time of what it was copied from.
Identity = tuple[int, int, int, int, int]

#: No file system counts time in longer steps: a file that is younger may be written again, and look the same.
_LONGEST_STEP = 2_000_000_000

_Folders = tuple[tuple[str, pl.DataType], ...]

#: So many columns of pages are described by the footers that are kept, in some 60 MB.
_MOST_COLUMNS = 1 << 17


class OverwrittenError(FileNotFoundError):
    """There is another file in the place of one that an archive has looked at."""


def identity_of(path: Path) -> Identity:
    """The identity of a file; FileNotFoundError if there is none."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def is_settled(identity: Identity) -> bool:
    """Whether a file that is written from now on has another identity."""
    return abs(time_ns() - max(identity[3:])) > _LONGEST_STEP


def check_identity(path: Path, known: Identity) -> None:
    """Refuse a file that is no longer what it was."""
    if identity_of(path) != known:
        raise OverwrittenError(f"{path} has been overwritten since it was looked at")


@dataclass(frozen=True, slots=True)
class _Footer:
    """What is kept of a file."""

    identity: Identity
    reader: object | None  # the only one who may use it; None: everybody
    frame: pl.LazyFrame
    n_columns: int

    def is_of(self, identity: Identity, reader: object) -> bool:
        """Whether it is that of a file, for a reader."""
        return self.identity == identity and (self.reader is None or self.reader is reader)


class Footers:
    """Frames that scan files, of which those that were used last are kept.

    ``most`` is how many columns of pages they may describe together; the last one is kept however many
    it has.
    """

    def __init__(self, most: int = _MOST_COLUMNS) -> None:
        self.most = most
        self._lock = Lock()
        self._kept: OrderedDict[tuple[Path, _Folders], _Footer] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def scan(
        self, path: Path, in_folders: Mapping[str, pl.DataType], n_columns: int, reader: object
    ) -> pl.LazyFrame:
        """The rows of a file whose footer describes so many columns of pages.

        ``in_folders`` are the columns that stand in the names of folders, ``reader`` is who looks at the file:
        what one has seen of a file that had just been written counts for no other.
        """
        identity = identity_of(path)
        key = path, tuple(in_folders.items())
        with self._lock:
            known = self._kept.pop(key, None)
            if known is None or not known.is_of(identity, reader):
                self._size += n_columns - (0 if known is None else known.n_columns)
                frame = pl.scan_parquet(
                    path, glob=False, hive_partitioning=bool(in_folders),
                    hive_schema=dict(in_folders) or None,
                )  # fmt: skip
                known = _Footer(
                    identity, None if is_settled(identity) else reader, frame, n_columns
                )
            self._kept[key] = known
            while self._size > self.most and len(self._kept) > 1:
                self._size -= self._kept.popitem(last=False)[1].n_columns
        return known.frame

    def clear(self) -> None:
        """Keep none of them any longer."""
        with self._lock:
            self._kept.clear()
            self._size = 0


#: Those of this process.
footers = Footers()
