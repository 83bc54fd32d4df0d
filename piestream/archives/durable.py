"""Files that are there, whole, or not there: written beside their place, flushed, and renamed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from piestream.errors import ArchiveError

__all__ = [
    "checksum", "flush_directory", "make_directory", "missing_files_told", "place", "replace_text",
    "write_pending",
]  # fmt: skip

_BLOCK = 1 << 20


@contextmanager
def missing_files_told(path: Path | str) -> Iterator[None]:
    """Raise ArchiveError if a file is missing that an archive names."""
    try:
        yield
    except FileNotFoundError as error:
        message = (
            f"a file of the archive {path} is missing: {error}; its verify() tells all that are"
        )
        raise ArchiveError(message) from None


def write_pending(path: Path, write: Callable[[Path], object]) -> int:
    """Write a file and flush it to the disk; gives the checksum of what it holds."""
    write(path)
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
    return checksum(path)


def checksum(path: Path) -> int:
    """The CRC-32 of a file."""
    found = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


def place(pending: Path, path: Path) -> None:
    """Give a complete file its name, which a crash does not take away any more."""
    os.replace(pending, path)
    flush_directory(path.parent)


def replace_text(path: Path, pending: Path, text: str) -> None:
    """Replace the text of a file atomically: a reader sees either the old or the new one."""
    with open(pending, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    place(pending, path)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, that a crash does not take away any more."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        flush_directory(one.parent)


def flush_directory(path: Path) -> None:
    """Flush the names in a directory to the disk. Windows does that by itself."""
    if os.name == "nt":
        return
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
