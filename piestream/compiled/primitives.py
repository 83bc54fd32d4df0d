"""What loops can do that Python cannot: take pointers, and look at the bits of a word.

Inside, they pass pointers instead of arrays. Numba counts references, atomically, at every call
that passes an array, and looks at every index whether it is negative; the first alone took nine
tenths of the detector's time. Whoever takes a pointer keeps the array alive (`keep_alive`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from piestream.compiled.interpreted import INTERPRETED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from piestream.compiled.interpreted import BitWords, Flags, Floats, Place, Words

    @overload
    def pointer(array: NDArray[np.int64]) -> Words: ...
    @overload
    def pointer(array: NDArray[np.uint64]) -> BitWords: ...
    @overload
    def pointer(array: NDArray[np.uint8]) -> Flags: ...
    def pointer(array: object) -> Place:
        """Where an array's elements begin."""

    @overload
    def at_word(place: Words, count: int) -> Words: ...
    @overload
    def at_word(place: BitWords, count: int) -> BitWords: ...
    @overload
    def at_word(place: Flags, count: int) -> Flags: ...
    def at_word(place: Place, count: int) -> Place:
        """The place ``count`` elements on, from a place, a record or rows."""

    def within(place: Words, at: int, count: int) -> Words:
        """The place ``at`` elements on, where only the next ``count`` are meant."""

    def as_floats(place: Words) -> Floats:
        """The same words read as floating-point numbers."""

    def keep_alive(array: object) -> None:
        """Keep an array, or a tuple of them, at least until here."""

    def leading_zeros(bits: int | np.uint64) -> int:
        """How many of the highest bits are 0."""

    def trailing_zeros(bits: int | np.uint64) -> int:
        """How many of the lowest bits are 0."""

    def signed(number: int | np.uint64 | bool) -> int:
        """A number as one with a sign, as nearly all others are."""

elif INTERPRETED:
    from piestream.compiled.interpreted import (
        as_floats,
        at_word,
        keep_alive,
        leading_zeros,
        pointer,
        trailing_zeros,
        within,
    )  # fmt: skip
else:
    from piestream.compiled.intrinsics import (
        as_floats,
        at_word,
        keep_alive,
        leading_zeros,
        pointer,
        trailing_zeros,
        within,
    )  # fmt: skip

if not TYPE_CHECKING:
    signed = np.int64

__all__ = [
    "as_floats", "at_word", "keep_alive", "leading_zeros", "pointer", "signed", "trailing_zeros",
    "within",
]  # fmt: skip
