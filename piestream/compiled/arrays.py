"""Arrays that grow while loops work on them."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Words, kernel

__all__ = ["copy_words", "ensure_capacity", "ensure_column_capacity", "uninitialized", "with_room"]


@kernel
def copy_words(source: Words, target: Words, count: int) -> None:
    """Copy so many words. (An assignment of slices costs a second and more to compile.)"""
    for word in range(count):
        target[word] = source[word]


@kernel
def uninitialized(words: int) -> Array:
    """An array that is to be written, in small pages of memory.

    NumPy asks for large ones: where they have to be made free first, that takes longer than writing.
    """
    return np.empty(words, np.int64)


def with_room(array: Array, used: int) -> Array:
    """A copy of an array's first words with as much room behind them, which takes no memory yet.

    >>> copied = with_room(np.array([7, 8, 0, 0]), 2)
    >>> copied[:2], copied.size
    (array([7, 8]), 4)
    """
    larger: Array = uninitialized(array.size)
    larger[:used] = array[:used]
    return larger


@kernel
def ensure_capacity(array: Array, used: int, more: int) -> Array:
    """The array, or a larger copy of it that has ``more`` words after the ``used`` ones."""
    if used + more <= array.size:
        return array
    larger = np.empty(2 * (used + more), np.int64)
    copy_words(pointer(array), pointer(larger), used)
    keep_alive(array)
    return larger


@kernel
def ensure_column_capacity(array: Array, columns: int, used: int, more: int) -> Array:
    """The columns of an array, or longer copies of them that have ``more`` words behind."""
    length = array.size // columns
    if used + more <= length:
        return array
    longer = 2 * (used + more)
    larger = np.empty(columns * longer, np.int64)
    for column in range(columns):
        source = at_word(pointer(array), column * length)
        copy_words(source, at_word(pointer(larger), column * longer), used)
    keep_alive(array)
    return larger
