"""All loops compiled ahead of their first use: for images, for CI, and before a stream goes live."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from piestream.compiled import cache
from piestream.compiled.interpreted import INTERPRETED

__all__ = ["Warmed", "warm"]

#: The packages in which there are loops.
_PACKAGES = (
    "compiled",
    "intervals",
    "joins",
    "row_patterns.loops",
    "engine",
    "interval_tables.loops",
)


@dataclass(frozen=True, slots=True)
class Warmed:
    """What `warm` did: how many loops it compiled, for how long, and where they are kept.

    ``directory`` is one of the directories, and None if there is none that can be written.

    >>> print(Warmed(compiled=0, seconds=0.31, directory=Path("/home/me/.cache")))
    all loops were compiled before
    >>> print(Warmed(compiled=9, seconds=8.8, directory=Path("/home/me/.cache")))
    9 loops compiled in 8.8 s and kept in /home/me/.cache
    """

    compiled: int
    seconds: float
    directory: Path | None

    def __str__(self) -> str:
        if not self.compiled:
            return "all loops were compiled before"
        loops = f"{self.compiled} {'loop' if self.compiled == 1 else 'loops'} compiled"
        if self.directory is None:
            return f"{loops} in {self.seconds:.1f} s; no directory was found in which to keep them"
        return f"{loops} in {self.seconds:.1f} s and kept in {self.directory}"


def warm() -> Warmed:
    """Compile all that piestream ever compiles, so that no query has to wait for it.

    A loop is compiled once for each machine and version; this takes about 45 seconds, and a few
    tenths of a second where it has been done before.

    >>> import piestream as ps
    >>> ps.warm().directory is None
    False
    """
    started, before = time.perf_counter(), _compiled()
    root = Path(__file__).parents[1]
    for package in _PACKAGES:
        for module in iter_modules([str(root.joinpath(*package.split(".")))]):
            import_module(f"piestream.{package}.{module.name}")
    if not INTERPRETED:
        from piestream.compiled.compiler import Loop, SeparateLoop

        for loop in Loop.known:
            if not loop.is_part:
                assert loop.dispatcher is not None
        for separate in SeparateLoop.known:
            separate.address()
    seconds = time.perf_counter() - started
    directory = None if INTERPRETED else cache.kept_in(str(root / "joins" / "batch.py"))
    return Warmed(_compiled() - before, seconds, directory)


def _compiled() -> int:
    """The number of loops that this process has compiled."""
    if INTERPRETED:
        return 0
    from piestream.compiled.compiler import announcement

    return announcement.compiled
