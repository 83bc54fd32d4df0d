"""Events that fall due at a rate: a compiled loop waits for each, and notes when it is done with it.

A pace is int64[2, n]: in the row ``DUE`` the nanosecond at which each event is due, counted from the
first that is paced (``AT_ONCE`` for those that come before all of that), in the row ``DONE`` the
nanosecond, counted from the same instant, at which the loop was done with it. Late is late: an event
that waits because the one before it took long was due all the same.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numba import njit, types

__all__ = ["AT_ONCE", "DONE", "DUE", "await_due", "even_pace", "no_pace", "now", "room_of"]

Ints: TypeAlias = npt.NDArray[np.int64]

DUE, DONE = range(2)
#: Due before the clock of a pace begins.
AT_ONCE = -1
#: Rather than to turn on the spot, a loop sleeps while the next event is further away than this; a
#: sleep may last so much longer than it should.
_SLACK = 400_000
#: Matches for which a loop with a pace has room from the beginning: to copy them into larger arrays
#: as they become more is not what is measured. What is not touched takes no memory.
_ROOM = 1 << 24
_MONOTONIC = 1  # the clock of time.monotonic_ns

_clock_gettime = types.ExternalFunction("clock_gettime", types.intc(types.intc, types.uintp))
_usleep = types.ExternalFunction("usleep", types.intc(types.uint32))


def no_pace() -> Ints:
    """The pace of a loop that takes its events as fast as it can."""
    return np.empty((2, 0), np.int64)


def even_pace(events: int, rate: float, before: int = 0) -> Ints:
    """So many events a second, behind ``before`` events that come at once.

    >>> even_pace(3, 1e6, before=1)[DUE]
    array([  -1,    0, 1000, 2000])
    """
    pace = np.full((2, before + events), AT_ONCE, np.int64)
    pace[DUE, before:] = np.arange(events) * (1e9 / rate)
    return pace


@njit(cache=True, nogil=True)
def room_of(pace: Ints) -> int:
    """How many matches there is room for at first."""
    return _ROOM if pace.size else 64


@njit(cache=True, nogil=True)
def now(clock: Ints) -> int:
    """Nanoseconds since some instant; ``clock`` is room for the answer of the system."""
    _clock_gettime(_MONOTONIC, clock.ctypes.data)
    return clock[0] * 1_000_000_000 + clock[1]


@njit(cache=True, nogil=True)
def await_due(pace: Ints, row: int, clock: Ints) -> None:
    """Done with the event before ``row``: note it, and wait until that of ``row`` is due.

    ``clock`` has three words, the last of them the instant from which the pace counts, 0 at first.
    """
    time = now(clock)
    if row > 0:
        pace[DONE, row - 1] = time - clock[2] if clock[2] else AT_ONCE
    if row == pace.shape[1] or pace[DUE, row] == AT_ONCE:
        return
    if clock[2] == 0:
        clock[2] = time
    due = clock[2] + pace[DUE, row]
    while time < due:
        if due - time > _SLACK:
            _usleep((due - time - _SLACK) // 1_000)
        time = now(clock)
