"""Sorting records by several keys: few by comparing them, many by radix sort of packed keys."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import keep_alive, leading_zeros, pointer, signed
from piestream.compiled.records import Array, Record, Rows, Words, kernel

__all__ = ["FEW", "MOST_BITS", "bits_of", "radix_sorted", "sorted_places"]

#: Fewer records than this are sorted by comparing their keys.
FEW = 24
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
#: All keys of a record fit into one word if they take so many bits at most.
MOST_BITS = 63


class _KeyRange(Record):
    """The values that one key has in the records that are sorted."""

    lowest: int
    bits: int  # that tell them apart


class _KeyRanges(Record):
    """The ranges of all keys, in the order in which they count."""

    of: Rows[_KeyRange]


_RANGE_WORDS = _KeyRange.size


@kernel
def _comes_first(keys: Words, a: int, b: int, order: Words, n: int) -> bool:
    """Whether the record of keys at ``a`` comes before that at ``b``."""
    for k in range(n):
        one = keys[a + order[k]]
        other = keys[b + order[k]]
        if one != other:
            return one < other
    return False


@kernel
def _merge_sorted(keys: Words, places: Array, order: Words, n: int) -> Array:
    """The places of records of n keys, sorted by their keys: a merge sort from the bottom up."""
    count = places.size
    source = places
    target = np.empty(count, np.int64)
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle = min(low + width, count)
            high = min(low + 2 * width, count)
            left = low
            right = middle
            for to in range(low, high):
                if left < middle and (
                    right >= high or not _comes_first(keys, source[right], source[left], order, n)
                ):
                    target[to] = source[left]
                    left += 1
                else:
                    target[to] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
    return source


@kernel
def bits_of(number: int) -> int:
    """How many bits a number without sign takes."""
    return 64 - signed(leading_zeros(np.uint64(number)))


@kernel
def _measure(keys: Words, places: Array, order: Words, n: int, ranges: _KeyRanges) -> int:
    """Find the range of each of n keys, in their order; gives the bits that all take together."""
    taken = 0
    for k in range(n):
        lowest = keys[places[0] + order[k]]
        highest = lowest
        for record in range(1, places.size):
            key = keys[places[record] + order[k]]
            lowest = min(lowest, key)
            highest = max(highest, key)
        key_range = ranges.of[k]
        key_range.lowest = lowest
        key_range.bits = bits_of(highest - lowest)
        taken += key_range.bits
    return taken


@kernel
def _packed(keys: Words, places: Array, order: Words, n: int, ranges: _KeyRanges) -> Array:
    """The keys of each record in one word, its number in the lowest bits."""
    count = places.size
    number_bits = bits_of(count - 1)
    words = np.zeros(count, np.int64)
    for k in range(n):
        key_range = ranges.of[k]
        if key_range.bits:
            for record in range(count):
                key = keys[places[record] + order[k]] - key_range.lowest
                words[record] = words[record] << key_range.bits | key
    for record in range(count):
        words[record] = words[record] << number_bits | record
    return words


@kernel
def radix_sorted(words: Array, first_bit: int, end_bit: int) -> Array:
    """The words sorted by these bits, one digit after the other."""
    target = np.empty(words.size, np.int64)
    ends = np.empty(_DIGITS, np.int64)
    for shift in range(first_bit, end_bit, _DIGIT_BITS):
        ends[:] = 0
        for word in words:
            ends[word >> shift & (_DIGITS - 1)] += 1
        to = 0
        for digit in range(_DIGITS):
            to, ends[digit] = to + ends[digit], to
        for word in words:
            digit = word >> shift & (_DIGITS - 1)
            target[ends[digit]] = word
            ends[digit] += 1
        words, target = target, words
    return words


@kernel
def sorted_places(keys: Words, places: Array, order: Words, n: int) -> Array:
    """The places of records of n keys, sorted by their keys, of which ``order[0]`` counts most.

    Records of one event differ in few keys, and in them by little, so that the keys of many fit
    into one word each.
    """
    count = places.size
    if count < FEW:
        return _merge_sorted(keys, places, order, n) if count > 1 else places
    ranges_array = np.empty(n * _RANGE_WORDS, np.int64)
    ranges = _KeyRanges(pointer(ranges_array))
    number_bits = bits_of(count - 1)
    end_bit = number_bits + _measure(keys, places, order, n, ranges)
    if end_bit > MOST_BITS:
        return _merge_sorted(keys, places, order, n)
    words = radix_sorted(_packed(keys, places, order, n, ranges), number_bits, end_bit)
    keep_alive(ranges_array)
    found = np.empty(count, np.int64)
    for k in range(count):
        found[k] = places[words[k] & ((1 << number_bits) - 1)]
    return found
