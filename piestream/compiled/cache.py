"""The kernels' cache on disk: none of it outlives a change of any source that it was made from.

Numba keeps a compiled function beside its file and forgets it when that file changes. But the
machine code of a kernel also holds that of the kernels it calls, the places of records' fields, and
numbers of other files. So one digest of all these sources is part of what tells whether it is fresh.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache

_PACKAGE = Path(__file__).parents[1]
#: What kernels are made of, besides the file that each stands in.
_SOURCES = (
    "relations.py",
    "compiled/*.py",
    "intervals/*.py",
    "joins/*.py",
    "interval_tables/loops/*.py",
)


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


class _WithAllSources:
    """A place for a kernel on disk, which is stale when any of the sources has changed."""

    def get_source_stamp(self) -> Any:
        own_file = super().get_source_stamp()  # type: ignore[misc]
        return own_file, sources_digest()

    def get_disambiguator(self) -> str:
        return "kernel"  # not the line, whose change would leave the old file behind


class _KernelCacheImpl(CompileResultCacheImpl):
    #: Numba's own places, whose names differ between its versions.
    _locator_classes = [  # noqa: RUF012
        type(place.__name__, (_WithAllSources, place), {})
        for place in CompileResultCacheImpl._locator_classes
    ]


class KernelCache(FunctionCache):
    """Where a kernel is kept on disk."""

    _impl_class = _KernelCacheImpl
