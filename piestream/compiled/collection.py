"""Python's garbage collection, which is seldom while loops are compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from numba.core.compiler_lock import global_compiler_lock

__all__ = ["seldom_collected"]

#: So many objects more than have gone start a collection, instead of Python's 700.
MANY_OBJECTS = 50_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Garbage is collected seldom while a loop is compiled, where it took a tenth of the time.

    A compilation makes millions of objects that live until it is over, and collections visit them
    in vain. Without any, it would take 200 MB more memory. The threshold is one of the whole process:
    so one thread at a time changes it, under the lock that compiling takes anyway, and puts it
    back, unless somebody else has set another one meanwhile.

    >>> before = gc.get_threshold()
    >>> with seldom_collected():
    ...     gc.get_threshold()[0] >= MANY_OBJECTS
    True
    >>> gc.get_threshold() == before
    True
    """
    with global_compiler_lock:
        before = gc.get_threshold()
        seldom = (max(before[0], MANY_OBJECTS), *before[1:])
        if before[0]:  # 0 is never
            gc.set_threshold(*seldom)
        try:
            yield
        finally:
            if gc.get_threshold() == seldom:
                gc.set_threshold(*before)
