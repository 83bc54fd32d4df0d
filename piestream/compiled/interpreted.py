"""The loops' primitives in Python: records read from Python, and loops that run there.

With ``PIESTREAM_INTERPRETED=1`` all loops do, with every access checked against the array, or the
part of it, that it was meant for. A debugger steps through them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

#: Run the loops in Python.
INTERPRETED = bool(os.environ.get("PIESTREAM_INTERPRETED"))
if INTERPRETED:
    np.seterr(over="ignore")  # differences of times wrap round, as they do in compiled loops


class Place:
    """What a pointer is in C: a place in an array, and the part of the array that is in bounds."""

    _array: Any
    _at: int
    _first: int
    _end: int

    def __init__(self, array: Any, at: int, first: int, end: int) -> None:
        vars(self).update(_array=array, _at=int(at), _first=int(first), _end=int(end))

    def __getitem__(self, word: int) -> int:
        value: int = self._array[self._checked(word)]
        return value

    def __setitem__(self, word: int, value: Any) -> None:
        self._array[self._checked(word)] = value

    def _checked(self, word: int) -> int:
        if not self._first <= self._at + word < self._end:
            raise IndexError(
                f"{type(self).__name__}: word {self._at} + {word} is not in "
                f"[{self._first}, {self._end})"
            )
        return self._at + word


class Words(Place):
    """Words that have no names."""


class BitWords(Place):
    """Words of 64 bits, which have no sign."""

    def __getitem__(self, word: int) -> np.uint64:  # type: ignore[override]
        return np.uint64(super().__getitem__(word))


class Flags(Place):
    """Flags, a byte each."""


class Floats(Place):
    """Words that are floating-point numbers."""

    def __getitem__(self, word: int) -> float:  # type: ignore[override]
        return super().__getitem__(word)


_PLACES = {"int64": Words, "uint64": BitWords, "uint8": Flags, "float64": Floats}


def pointer(array: Any) -> Place:
    """Where an array's elements begin."""
    words = array.reshape(-1)
    return _PLACES[words.dtype.name](words, 0, 0, words.size)


def _like(place: Place) -> type[Place]:
    """What a place in the same array is that is no record."""
    return type(place) if type(place) in _PLACES.values() else Words


def at_word(place: Place, count: int) -> Place:
    """The place ``count`` elements on."""
    return _like(place)(place._array, place._at + count, place._first, place._end)


def within(place: Place, at: int, count: int) -> Place:
    """The ``count`` elements from the one at ``at`` on, and nothing else."""
    first = place._at + at
    if not (place._first <= first and first + count <= place._end):
        raise IndexError(
            f"words [{first}, {first + count}) are not in [{place._first}, {place._end})"
        )
    return _like(place)(place._array, first, first, first + count)


def as_floats(place: Place) -> Place:
    """The same words read as floating-point numbers."""
    return Floats(place._array.view(np.float64), place._at, place._first, place._end)


def keep_alive(array: Any) -> None:
    """Keep an array at least until here. (Python does.)"""


def trailing_zeros(bits: int) -> Any:
    """How many of the lowest bits are 0."""
    bits = int(bits) & (1 << 64) - 1
    return np.int64((bits & -bits).bit_length() - 1)


def leading_zeros(bits: int) -> Any:
    """How many of the highest bits are 0."""
    return np.int64(64 - (int(bits) & (1 << 64) - 1).bit_length())
