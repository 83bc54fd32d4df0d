"""Runs: where, in rows sorted by partition and time, the matcher has to look.

A predicate arrives as a bit per row, 64 rows a word. The rows where some bit differs from the row
before are found 64 at a time; all others are never looked at again: the cost is that of runs.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import ensure_capacity
from piestream.compiled.constants import NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer, signed, trailing_zeros
from piestream.compiled.records import Array, BitRows, BitWords, Times, Words, kernel

_ONE = np.uint64(1)


@kernel
def _bits_that_change(
    bits: BitWords, n_words: int, n_predicates: int, symbols: BitWords, carry: BitWords,
    turned: BitWords,
) -> np.uint64:  # fmt: skip
    """The rows of a word at which some predicate differs from the row before, as bits.

    ``bits`` is the first predicate's word; those of the others are ``n_words`` further each.
    ``carry[p]`` is predicate p's last bit so far. The symbols of predicates that differ at a row
    (``symbols[p]``) are noted in ``turned``.
    """
    changed = np.uint64(0)
    for p in range(n_predicates):
        word = bits[p * n_words]
        turns = word ^ ((word << _ONE) | carry[p])
        carry[p] = word >> np.uint64(63)
        changed |= turns
        while turns != 0:
            turned[trailing_zeros(turns)] ^= symbols[p]
            turns &= turns - _ONE
    return changed


@kernel
def _rows_after_gaps(times: Words, first: int, end: int, gap: int) -> np.uint64:
    """The rows of a word, as bits, before which more than ``gap`` passed."""
    found = np.uint64(0)
    for row in range(max(first, 1), end):
        if np.uint64(times[row]) - np.uint64(times[row - 1]) > np.uint64(gap):
            found |= _ONE << np.uint64(row - first)
    return found


@kernel
def find_changes(
    bits_array: BitRows,
    bit_of_symbol_array: Array,
    row_offsets_array: Array,
    times_array: Times,
    gap: int,
) -> tuple[Array, Array, Array]:
    """The rows at which a partition begins, a mask changes or a silence exceeds ``gap``.

    ``bits[p]`` holds predicate p's bits, ``bit_of_symbol[s]`` says which predicate symbol s has.
    Gives the rows, the symbols' masks there, and for each partition where its rows begin in them.
    """
    bits = pointer(bits_array)
    bit_of_symbol = pointer(bit_of_symbol_array)
    row_offsets = pointer(row_offsets_array)
    times = pointer(times_array)
    n_predicates: int = bits_array.shape[0]
    n_groups = row_offsets_array.size - 1
    n_rows = row_offsets[n_groups]
    n_words = bits_array.shape[1]

    capacity = n_groups + (n_rows >> 3) + 64
    growing = [np.empty(capacity, np.int64), np.empty(capacity, np.int64)]
    rows = pointer(growing[0])
    masks = pointer(growing[1])
    symbols_array = np.zeros(n_predicates + 1, np.uint64)  # of each predicate, as bits
    symbols = pointer(symbols_array)
    for s in range(bit_of_symbol_array.size):
        symbols[bit_of_symbol[s]] |= _ONE << np.uint64(s)
    turned_array = np.zeros(64, np.uint64)  # the symbols that turn at each row of a word
    turned = pointer(turned_array)
    carry_array = np.zeros(n_predicates + 1, np.uint64)
    carry = pointer(carry_array)
    change_offsets_array = np.empty(n_groups + 1, np.int64)
    change_offsets = pointer(change_offsets_array)
    mask = np.uint64(0)
    found = 0
    group = 0

    for word in range(n_words):
        first = word << 6
        end = min(first + 64, n_rows)
        changed = _bits_that_change(
            at_word(bits, word), n_words, n_predicates, symbols, carry, turned
        )
        if gap != NONE:
            changed |= _rows_after_gaps(times, first, end, gap)
        begun = group
        while begun < n_groups and row_offsets[begun] < end:
            changed |= _ONE << np.uint64(row_offsets[begun] - first)
            begun += 1
        if end - first < 64:
            changed &= (_ONE << np.uint64(end - first)) - _ONE
        if changed == 0:
            continue
        if found + 64 > capacity:
            growing[0] = ensure_capacity(growing[0], found, capacity)
            growing[1] = ensure_capacity(growing[1], found, capacity)
            rows = pointer(growing[0])
            masks = pointer(growing[1])
            capacity = growing[0].size
        while changed != 0:
            shift = trailing_zeros(changed)
            changed &= changed - _ONE
            mask ^= turned[shift]
            turned[shift] = np.uint64(0)
            row = first + signed(shift)
            while group < n_groups and row_offsets[group] <= row:
                change_offsets[group] = found
                group += 1
            rows[found] = row
            masks[found] = signed(mask)
            found += 1
    while group <= n_groups:
        change_offsets[group] = found
        group += 1
    keep_alive(symbols_array)
    keep_alive(turned_array)
    keep_alive(carry_array)
    return growing[0][:found], growing[1][:found], change_offsets_array


@kernel
def first_row_at(times: Words, row: int, end: int, due: int) -> int:
    """The first of the rows ``[row, end)`` whose time is at least ``due``, else ``end``.

    Gallops, because the row is nearly always close by.
    """
    step = 1
    low = row
    while row < end and times[row] < due:
        low = row + 1
        row += step
        step <<= 1
    high = min(row, end)
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < due:
            low = middle + 1
        else:
            high = middle
    return low
