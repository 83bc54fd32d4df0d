"""Sorting rows by several columns of integers."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, leading_zeros, pointer, signed
from piestream.compiled.records import Array, WordRows, Words, kernel

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS


@kernel
def _in_order(keys: Words, n_keys: int, n: int) -> bool:
    """Whether the columns of keys, of which the first row counts most, never decrease."""
    for place in range(1, n):
        for key in range(n_keys):
            before = keys[key * n + place - 1]
            here = keys[key * n + place]
            if before > here:
                return False
            if before < here:
                break
    return True


@kernel
def _sort_by_digit(
    keys: Words, lowest: int, shift: int, source: Words, target: Words, n: int
) -> None:
    """Sort places stably by one digit of their keys."""
    ends_array = np.zeros(_DIGITS, np.int64)
    ends = pointer(ends_array)
    digits = np.uint64(_DIGITS - 1)
    for place in range(n):
        ends[signed((np.uint64(keys[place] - lowest) >> np.uint64(shift)) & digits)] += 1
    to = 0
    for digit in range(_DIGITS):
        count = ends[digit]
        ends[digit] = to
        to += count
    for at in range(n):
        place = source[at]
        digit = signed((np.uint64(keys[place] - lowest) >> np.uint64(shift)) & digits)
        target[ends[digit]] = place
        ends[digit] += 1
    keep_alive(ends_array)


@kernel
def sorted_places(keys_array: WordRows) -> Array:
    """The places of the columns of keys in order, of which the first row counts most.

    Equal ones keep their order. A radix sort from the last digit to the first.
    """
    n_keys: int = keys_array.shape[0]
    n: int = keys_array.shape[1]
    source = np.arange(n)
    if n < 2 or _in_order(pointer(keys_array), n_keys, n):
        return source
    target = np.empty(n, np.int64)
    for key in range(n_keys - 1, -1, -1):
        keys = at_word(pointer(keys_array), key * n)
        lowest = keys[0]
        highest = lowest
        for place in range(n):
            lowest = min(lowest, keys[place])
            highest = max(highest, keys[place])
        bits = 64 - signed(leading_zeros(np.uint64(highest - lowest)))
        for shift in range(0, bits, _DIGIT_BITS):
            _sort_by_digit(keys, lowest, shift, pointer(source), pointer(target), n)
            source, target = target, source
    keep_alive(source)
    keep_alive(target)
    return source
