"""Sets of many bits in which the next member is found by looking at a few words."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import signed, trailing_zeros
from piestream.compiled.records import Carried, Record, kernel, method

__all__ = ["BitSet", "bit_set_words"]


@kernel
def _words_of(n_bits: int) -> int:
    """Words that hold so many bits."""
    return (n_bits + 63) >> 6


@kernel
def bit_set_words(n_bits: int) -> int:
    """Words of a set of numbers below ``n_bits``."""
    words = 0
    while True:
        n_bits = _words_of(n_bits)
        words += n_bits
        if n_bits <= 1:
            return words


class BitSet(Record):
    """A set of numbers below ``n_bits``, a bit each.

    Behind the words of these bits lies a bit for each of the words that tells whether it has any,
    and so on up to one word: whatever is empty is passed over, 64 times as much on each level.
    """

    n_bits: Carried[int]

    @method
    def has(self, number: int) -> bool:
        """Whether a number is in the set."""
        return self[number >> 6] >> (number & 63) & 1 != 0

    @method
    def add(self, number: int) -> None:
        """Put a number in."""
        first = 0
        n_bits = self.n_bits
        while True:
            word = first + (number >> 6)
            had = self[word]
            self[word] = had | np.int64(1) << (number & 63)
            if had or n_bits <= 64:
                return
            n_bits = _words_of(n_bits)
            first += n_bits
            number >>= 6

    @method
    def remove(self, number: int) -> None:
        """Take a number out."""
        first = 0
        n_bits = self.n_bits
        while True:
            word = first + (number >> 6)
            self[word] &= ~(np.int64(1) << (number & 63))
            if self[word] or n_bits <= 64:
                return
            n_bits = _words_of(n_bits)
            first += n_bits
            number >>= 6

    @method
    def next_from(self, number: int) -> tuple[int, int]:
        """The first member from ``number`` on, else ``n_bits``; and how many words that took."""
        first = 0
        n_bits = self.n_bits
        looked = 0
        level = 0
        while True:  # up, until a word has a bit from there on
            if number < n_bits:
                looked += 1
                rest = np.uint64(self[first + (number >> 6)]) >> np.uint64(number & 63)
                if rest:
                    number += signed(trailing_zeros(rest))
                    break
            if n_bits <= 64:
                return self.n_bits, looked
            number = (number >> 6) + 1
            n_bits = _words_of(n_bits)
            first += n_bits
            level += 1
        while level > 0:  # and down, to its first one
            level -= 1
            first = 0
            n_bits = self.n_bits
            for _ in range(level):
                n_bits = _words_of(n_bits)
                first += n_bits
            looked += 1
            number = (number << 6) + signed(trailing_zeros(np.uint64(self[first + number])))
        return number, looked

    @method
    def is_consistent(self) -> bool:
        """Whether every level says which words of the one below have a bit, and none is too high."""
        first = 0
        n_bits = self.n_bits
        while True:
            words = _words_of(n_bits)
            last = np.uint64(self[first + words - 1])
            if n_bits & 63 and last >> np.uint64(n_bits & 63):
                return False
            if n_bits <= 64:
                return True
            above = first + words
            for word in range(words):
                if (self[first + word] != 0) != (self[above + (word >> 6)] >> (word & 63) & 1 != 0):
                    return False
            first = above
            n_bits = words
