"""Arithmetic of times and lengths over all 64 bits: lengths have no sign, times do."""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.records import kernel

_EARLIEST = np.uint64(1 << 63)  # INT64_MIN without its sign
_LATEST = np.uint64(INT64_MAX)


@kernel
def minus(time: int, length: int) -> int:
    """``time - length``, or the earliest time there is; lengths have no sign."""
    behind = np.uint64(time) - _EARLIEST
    return INT64_MIN if np.uint64(length) >= behind else time - length


@kernel
def plus(time: int, length: int) -> int:
    """``time + length``, or the latest time there is."""
    ahead = _LATEST - np.uint64(time)
    return INT64_MAX if np.uint64(length) >= ahead else time + length


@kernel
def lasts(start: int, time: int, length: int) -> bool:
    """Whether ``time - start`` reaches ``length``; the difference may exceed 63 bits."""
    return bool(np.uint64(time) - np.uint64(start) >= np.uint64(length))
