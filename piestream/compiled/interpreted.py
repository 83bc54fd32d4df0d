"""The loops' primitives in Python: for PIESTREAM_INTERPRETED=1, which checks every access."""

from __future__ import annotations

from typing import Any

import numpy as np


class Place:
    """What a pointer is in C: a place in an array."""

    array: Any
    at: int

    def __init__(self, array: Any, at: int = 0) -> None:
        vars(self).update(array=array, at=int(at))

    def __getitem__(self, word: int) -> int:
        value: int = self.array[self._checked(word)]
        return value

    def __setitem__(self, word: int, value: Any) -> None:
        self.array[self._checked(word)] = value

    def _checked(self, word: int) -> int:
        if not 0 <= self.at + word < self.array.size:
            raise IndexError(f"word {self.at} + {word} of {self.array.size}")
        return self.at + word


def pointer(array: Any) -> Place:
    """Where an array's elements begin."""
    return Place(array.reshape(-1))


def at_word(place: Place, count: int) -> Place:
    """The place ``count`` elements on."""
    return Place(place.array, place.at + count)


def as_floats(place: Place) -> Place:
    """The same words read as floating-point numbers."""
    return Place(place.array.view(np.float64), place.at)


def trailing_zeros(bits: int) -> Any:
    """How many of the lowest bits are 0."""
    bits = int(bits) & (1 << 64) - 1
    return np.int64((bits & -bits).bit_length() - 1)


def leading_zeros(bits: int) -> Any:
    """How many of the highest bits are 0."""
    return np.int64(64 - (int(bits) & (1 << 64) - 1).bit_length())
