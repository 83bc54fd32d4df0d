"""Files that are there, whole, or not there: written beside their place, flushed, and renamed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from piestream.errors import ArchiveError, FileError, SchemaError

__all__ = [
    "check_size", "checksum", "damage_told", "damaged", "flush_directory", "make_directory", "missing_files_told", "place", "replace_text",
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


def damaged(path: Path, why: str) -> str:
    """What is said of a file of an archive that is not what was written."""
    return (
        f"{path} is damaged: {why}. Put back a copy of it; without one, append the rows of the Parquet files "
        "that are sound to a new archive, of which verify() of this one tells the others"
    )


@contextmanager
def damage_told(paths: Iterable[Path], is_own: bool) -> Iterator[None]:
    """Where a Parquet file cannot be read, although it is there: an error that says where it is.

    ``is_own``: an archive has written it, and knows what it held.
    """
    try:
        yield
    except pl.exceptions.ComputeError as error:
        found = list(dict.fromkeys(paths))
        where = str(found[0]) if len(found) == 1 else f"a file in {found[0].parent}"
        if is_own:
            raise ArchiveError(f"{where} cannot be read: {error}. {_VERIFY}") from None
        raise FileError(f"{where} cannot be read: {error}") from None
    except (pl.exceptions.SchemaError, pl.exceptions.ColumnNotFoundError) as error:
        folder = next(iter(paths)).parent
        why = str(error).split("\n")[0].split(", hint:")[0]
        raise SchemaError(
            f"the files in {folder} have other columns than the first one: {why}. Write them with the "
            "same columns and types"
        ) from None


_VERIFY = "The archive's verify() tells which files are damaged: put back copies of them"


def check_size(path: Path, written: int) -> None:
    """Refuse a file of rows that is not as long as it was written; FileNotFoundError if it is not there."""
    found = path.stat().st_size
    if found != written:
        raise ArchiveError(damaged(path, f"it has {found:,} bytes, and {written:,} were written"))


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
