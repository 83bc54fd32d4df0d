"""Files that get their names only once they are complete; what fails halfway leaves nothing behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import polars as pl

from piestream.adapters.text_faults import first_line

__all__ = ["NamedFile", "write_faults"]


class NamedFile:
    """A file that takes its place when it is complete. A pipe or device is written to directly.

    A link stays, and what it leads to is replaced. The new file has the permissions of the old one.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = NamedFile(Path(folder, "rows.csv"))
    ...     target.file.write(b"a,b")
    ...     target.path.exists()
    ...     target.done()
    ...     target.path.read_bytes()
    3
    False
    b'a,b'
    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        special = path.exists() and not path.is_file()
        if special and path.is_dir():
            raise IsADirectoryError(f"{path} is a directory, not a file to write")
        self.path = path if special else Path(os.path.realpath(path))
        self.folder: Path | None = self.path.parent
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"there is no directory {path.parent} to write {path.name} in"
                if not path.is_symlink()
                else f"{path} is a link to {self.path}, whose directory does not exist"
            )
        if special:
            self._partial = self.path
            self.file: BinaryIO = open(self.path, "wb")  # noqa: SIM115 (closed by done or undone)
            return
        replaced = self.path.exists()
        if replaced and not _is_writable(self.path):
            raise PermissionError(f"{path} is read-only: write the matches to another file")
        self._partial = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        self._partial.unlink(missing_ok=True)
        self.file = open(self._partial, "xb")  # noqa: SIM115
        if replaced:
            shutil.copymode(self.path, self._partial)

    def done(self) -> None:
        """The content is complete: the file takes its name."""
        with write_faults(self.name):
            self.file.close()
            if self._partial != self.path:
                os.replace(self._partial, self.path)

    def undone(self) -> None:
        """Something failed: leave nothing behind."""
        with suppress(OSError):  # of what is thrown away
            self.file.close()
        if self._partial != self.path:
            self._partial.unlink(missing_ok=True)


def _is_writable(path: Path) -> bool:
    """Whether the permissions of a file let somebody write it: root may write to any."""
    return bool(path.stat().st_mode & 0o222) and os.access(path, os.W_OK)


@contextmanager
def write_faults(name: str) -> Iterator[None]:
    """Say what could not be written, and why."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"cannot write {name}: {error.strerror or error}") from None
    except pl.exceptions.PolarsError as error:
        raise OSError(f"cannot write {name}: {first_line(error)}") from None
