"""Sorting records by several keys: few by comparing them, many by radix sort of packed keys."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, leading_zeros, pointer, signed
from piestream.compiled.records import Array, Record, Rows, Words, kernel

__all__ = ["FEW", "MOST_BITS", "bits_of", "radix_sorted", "sorted_places"]

#: Fewer records than this are sorted by comparing their keys.
FEW = 24
_DIGIT_BITS = 8
_DIGITS = 1 << _DIGIT_BITS
#: All keys of a record fit into one word if they take so many bits at most.
MOST_BITS = 63


class _Field(Record):
    """A key in which the records that are sorted differ."""

    word: int  # of each record
    lowest: int
    bits: int  # that tell its values apart


class _Fields(Record):
    """Such keys, in the order in which they count."""

    of: Rows[_Field]


_FIELD_WORDS = _Field.size


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
def _measure(keys: Words, places: Array, width: int, lowest: Words, highest: Words) -> None:
    """Find the lowest and the highest of each of the first words of all records, in one pass."""
    for word in range(width):
        lowest[word] = keys[places[0] + word]
        highest[word] = keys[places[0] + word]
    for record in range(1, places.size):
        at = at_word(keys, places[record])
        for word in range(width):
            lowest[word] = min(lowest[word], at[word])
            highest[word] = max(highest[word], at[word])


@kernel
def _packed(keys: Words, places: Array, fields: _Fields, n_fields: int) -> Array:
    """The keys of each record in one word, its number in the lowest bits."""
    count = places.size
    number_bits = bits_of(count - 1)
    words = np.empty(count, np.int64)
    for record in range(count):
        word = 0
        for number in range(n_fields):
            field = fields.of[number]
            word = word << field.bits | (keys[places[record] + field.word] - field.lowest)
        words[record] = word << number_bits | record
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
    width = 0
    for k in range(n):
        width = max(width, order[k] + 1)
    room_array = np.empty(2 * width + n * _FIELD_WORDS, np.int64)
    lowest = pointer(room_array)
    highest = at_word(lowest, width)
    fields = _Fields(at_word(highest, width))
    _measure(keys, places, width, lowest, highest)
    number_bits = bits_of(count - 1)
    end_bit = number_bits
    n_fields = 0
    for k in range(n):
        bits = bits_of(highest[order[k]] - lowest[order[k]])
        if bits:
            field = fields.of[n_fields]
            field.word = order[k]
            field.lowest = lowest[order[k]]
            field.bits = bits
            end_bit += bits
            n_fields += 1
    if end_bit > MOST_BITS:
        keep_alive(room_array)
        return _merge_sorted(keys, places, order, n)
    words = radix_sorted(_packed(keys, places, fields, n_fields), number_bits, end_bit)
    keep_alive(room_array)
    found = np.empty(count, np.int64)
    for k in range(count):
        found[k] = places[words[k] & ((1 << number_bits) - 1)]
    return found
