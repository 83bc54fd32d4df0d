"""A status as a file that another process reads."""

from __future__ import annotations

import stat
from os import PathLike
from pathlib import Path

from piestream.adapters.named_files import NamedFile
from piestream.errors import FileError
from piestream.monitoring.status import Status

__all__ = ["check_place", "name_of", "read_status", "write_whole"]

#: No status is larger: whatever is, is something else.
_MOST_BYTES = 1 << 24


def name_of(path: str | PathLike[str]) -> str:
    """What is called by a path of a status.

    >>> name_of("run/pumps.status.json")
    'pumps'
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"status is the path of a file, not {path!r}")
    path = Path(path)
    return path.name.partition(".")[0] or path.name


def read_status(path: Path) -> Status:
    """The status that a file holds; FileError where there is none."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise FileError(f"{path} is no file that holds a status")
        if found.st_size > _MOST_BYTES:
            raise FileError(f"{path}: this is no status of piestream")
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileError(
            f"there is no status {path}: a session writes one with query.open(status=...), a job "
            "with --status"
        ) from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return Status.of_json(text)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from None


def check_place(path: Path) -> None:
    """Refuse to write a status where there is no directory, or over anything that is not one."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {path.parent} to write {path.name} in")
    if not path.exists():
        return
    try:
        read_status(path)
    except FileError as error:
        if path.is_file() and not path.stat().st_size:
            return
        raise FileError(f"{error}; it is not overwritten by a status") from None


def write_whole(path: Path, text: str) -> None:
    """Write a file that a reader finds as it was, or whole."""
    target = NamedFile(path)
    try:
        target.file.write(text.encode("utf-8", "backslashreplace"))
        target.done()
    except BaseException:
        target.undone()
        raise
