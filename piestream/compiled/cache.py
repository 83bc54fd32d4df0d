"""The kernels' cache on disk: none of it outlives a change of any source that it was made from.

The machine code of a kernel also holds that of the kernels it calls, the places of records' fields,
and numbers of other files. So one digest of all these sources tells whether it is fresh.

A kernel is loaded from the first of these directories that has it, and kept in the first that can be
written: that of NUMBA_CACHE_DIR; the ``__pycache__`` beside its file; the user's directory for
caches; one in the temporary directory. Where none can be, it is compiled in every process.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile

_PACKAGE = Path(__file__).parents[1]
#: What kernels are made of, besides the file that each stands in.
_SOURCES = (
    "relations.py",
    "copies.py",
    "compiled/*.py",
    "intervals/*.py",
    "joins/*.py",
    "row_patterns/loops/*.py",
    "interval_tables/loops/*.py",
)


#: What reading a file raises that is not whole.
_DAMAGED = (EOFError, ValueError, pickle.UnpicklingError)


@cache
def kernel_sources() -> tuple[Path, ...]:
    """The files whose text is part of the kernels."""
    return tuple(sorted(path for pattern in _SOURCES for path in _PACKAGE.glob(pattern)))


@cache
def sources_digest() -> str:
    """One digest of all sources that are compiled into kernels."""
    digest = hashlib.sha256()
    for path in kernel_sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_PACKAGE)} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


@cache
def _file_digest(file: str) -> str:
    """A digest of one source file, or of when the archive was made that it is in."""
    archive = next((parent for parent in Path(file).parents if parent.is_file()), None)
    if archive is None:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    made = archive.stat()
    return f"{archive} {made.st_mtime_ns} {made.st_size}"


# -- directories -----------------------------------------------------------------------------------
def user_directory() -> Path | None:
    """Where the user's programs keep what can be made again; None without a home."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "piestream") if os.path.isabs(base) else None


def temporary_directory() -> Path:
    """A directory of this user's own in the temporary one."""
    owner = os.getuid() if hasattr(os, "getuid") else "cache"
    return Path(tempfile.gettempdir(), f"piestream-{owner}")


def is_trusted(directory: Path) -> bool:
    """Whether nobody else could have written into a directory for kernels, which are run.

    In the temporary directory anybody may have made one of this name before.
    """
    if directory.parent != temporary_directory() or not hasattr(os, "getuid"):
        return True
    try:
        found = directory.parent.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.getuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def make(directory: Path) -> None:
    """Make a directory for kernels; OSError if it cannot be made, or is not to be trusted."""
    if directory.parent == temporary_directory():
        directory.parent.mkdir(mode=0o700, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    if not is_trusted(directory):
        raise PermissionError(f"{directory.parent} was made by somebody else")


def directories(file: str) -> Iterator[Path]:
    """Where the kernels of a source file may be kept, the best place first."""
    folder = os.path.dirname(os.path.abspath(file))
    name = f"{os.path.basename(folder)}_{hashlib.sha256(folder.encode()).hexdigest()[:40]}"
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR, name)
    yield Path(folder, "__pycache__")
    own = user_directory()
    if own is not None:
        yield own / name
    yield temporary_directory() / name


def can_write(directory: Path) -> bool:
    """Whether files can be made in a directory, which is made if it is not there."""
    try:
        make(directory)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def kept_in(file: str) -> Path | None:
    """The directory in which the kernels of a source file are kept; None if there is none.

    >>> kept_in(__file__) is None or kept_in(__file__).is_dir()
    True
    """
    return next((place for place in directories(file) if can_write(place)), None)


# -- what Numba asks -------------------------------------------------------------------------------
class _Source:
    """What tells whether a kernel on disk is fresh (Numba asks a locator)."""

    def __init__(self, file: str) -> None:
        self._py_file = file

    def get_source_stamp(self) -> Any:
        return _file_digest(self._py_file), sources_digest()

    def get_disambiguator(self) -> str:
        return "kernel"  # not the line, whose change would leave the old file behind


class _KernelCacheImpl(CompileResultCacheImpl):
    def __init__(self, function: Callable[..., Any]) -> None:
        file = inspect.getfile(function)
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Source(file)
        fullname = f"{Path(file).stem}.{function.__qualname__}"
        self._filename_base = self.get_filename_base(fullname, getattr(sys, "abiflags", ""))


class KernelCache(FunctionCache):
    """Where a kernel is kept on disk. ``missed`` is called if it is nowhere."""

    _impl_class = _KernelCacheImpl

    def __init__(self, function: Callable[..., Any], missed: Callable[[], None]) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = self._impl_class(function)
        self._missed = missed
        stamp = self._impl.locator.get_source_stamp()
        self._places = [
            IndexDataCacheFile(str(directory), self._impl.filename_base, stamp)
            for directory in directories(inspect.getfile(function))
        ]
        self.enable()

    @property
    def cache_path(self) -> str:
        return str(self._places[0]._cache_path)

    def flush(self) -> None:
        for place in self._places:
            place.flush()

    def _load_overload(self, signature: Any, target_context: Any) -> Any:
        key = self._index_key(signature, target_context.codegen())
        for place in self._places:
            if not is_trusted(Path(place._cache_path)):
                continue
            try:
                found = place.load(key)
            except (OSError, *_DAMAGED):
                continue
            if found is not None:
                return self._impl.rebuild(target_context, found)
        self._missed()
        return None

    def _save_overload(self, signature: Any, compiled: Any) -> None:
        if not self._impl.check_cachable(compiled):
            return
        key = self._index_key(signature, compiled.codegen)
        reduced = self._impl.reduce(compiled)
        for place in self._places:
            try:
                make(Path(place._cache_path))
                try:
                    place.save(key, reduced)
                except _DAMAGED:
                    place.flush()
                    place.save(key, reduced)
                return
            except OSError:
                continue  # it cannot be written, or is full
