"""One writer at a time: a lock that the operating system drops when its process ends, however."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from piestream.errors import ArchiveError

__all__ = ["writer_lock"]


@contextmanager
def writer_lock(path: Path, archive: Path) -> Iterator[None]:
    """Hold the lock of an archive's only writer; an error says that somebody else has it.

    The file stays where it is: what counts is the lock on it. It holds the number of the process that
    had it last, for the error of others.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _locked(file):
            raise ArchiveError(
                f"{archive} is being written by another process{_holder(path)}: an archive has one "
                "writer at a time; try again when it is done"
            )
        os.ftruncate(file, 0)
        os.lseek(file, _TEXT, os.SEEK_SET)
        os.write(file, f"{os.getpid()}\n".encode())
        yield
    finally:
        os.close(file)  # and with it the lock


#: Where the number of the process stands: Windows lets nobody read what is locked, the first byte.
_TEXT = 1


def _holder(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(_TEXT)
            number = file.read(32).strip()
    except OSError:
        return ""
    return f" ({number.decode()})" if number.isdigit() else ""


if sys.platform == "win32":
    import msvcrt

    def _locked(file: int) -> bool:
        os.lseek(file, 0, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
