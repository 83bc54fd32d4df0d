"""One line on standard error where somebody would wait for a compilation without knowing for what."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from piestream.compiled.cache import kept_in

__all__ = ["Announcement"]

#: Compilations that take longer than this together are announced.
PATIENCE_SECONDS = 1.0

ONCE = (
    "compiling loops that are not on this machine yet, once, about 15 s; "
    "`piestream warm` compiles all of them"
)
ALWAYS = (
    "compiling piestream's loops, about 15 s; each process does so, because no directory was found "
    "that can be written: name one with NUMBA_CACHE_DIR"
)


class Announcement:
    """Measures how long this process compiles, and says so once if that takes long."""

    def __init__(self) -> None:
        self.compiled = 0
        self._seconds = 0.0
        self._said = False
        self._timer: Timer | None = None

    @contextmanager
    def of_one(self) -> Iterator[None]:
        """While a loop is loaded, or compiled: then `begin` is called meanwhile."""
        started = time.perf_counter()
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer.join()
                self._timer = None
                self._seconds += time.perf_counter() - started

    def begin(self) -> None:
        """A loop is not on disk: it is compiled from now on."""
        self.compiled += 1
        if not self._said:
            self._timer = Timer(max(0.0, PATIENCE_SECONDS - self._seconds), self._say)
            self._timer.daemon = True
            self._timer.start()

    def _say(self) -> None:
        if self._said or sys.stderr is None:
            return
        self._said = True
        print(ALWAYS if kept_in(__file__) is None else ONCE, file=sys.stderr, flush=True)
