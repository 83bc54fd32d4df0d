"""Runs: where, in rows sorted by partition and time, the matcher has to look.

A predicate arrives as a bit per row, 64 rows a word. The rows where some bit differs from the row
before are found 64 at a time; all others are never looked at again (DESIGN: runs, not rows).
"""

from __future__ import annotations

import numpy as np
from numba import types

from piestream.compiled.layout import NOWHERE
from piestream.compiled.loops import ARRAY, INT, TIMES, WORDS, compiled, pointer, trailing_zeros
from piestream.joins.rings import with_space

_ONE = np.uint64(1)


@compiled(types.UniTuple(ARRAY, 3), types.uint64[:, ::1], ARRAY, ARRAY, TIMES, INT)
def find_changes(own_bits, own_bit_of_symbol, own_row_offsets, own_times, gap):
    """The rows at which a partition begins, a mask changes or a silence exceeds ``gap``.

    ``bits[p]`` holds predicate p's bits, ``bit_of_symbol[s]`` says which predicate symbol s has.
    Gives the rows, the symbols' masks there, and for each partition where its rows begin in them.
    """
    bits = pointer(own_bits)
    bit_of_symbol = pointer(own_bit_of_symbol)
    row_offsets = pointer(own_row_offsets)
    times = pointer(own_times)
    n_symbols = own_bit_of_symbol.size
    n_predicates = own_bits.shape[0]
    n_groups = own_row_offsets.size - 1
    n_rows = row_offsets[n_groups]
    n_words = own_bits.shape[1]

    room = n_groups + (n_rows >> 3) + 64
    held = [np.empty(room, np.int64), np.empty(room, np.int64)]
    rows = pointer(held[0])
    masks = pointer(held[1])
    own_symbols = np.zeros(n_predicates + 1, np.uint64)  # of each predicate, as bits
    symbols = pointer(own_symbols)
    for s in range(n_symbols):
        symbols[bit_of_symbol[s]] |= _ONE << np.uint64(s)
    own_turned = np.zeros(64, np.uint64)  # the symbols that turn at each row of a word
    turned = pointer(own_turned)
    mask = np.uint64(0)
    own_offsets = np.empty(n_groups + 1, np.int64)
    change_offsets = pointer(own_offsets)
    own_carry = np.zeros(n_predicates + 1, np.uint64)
    carry = pointer(own_carry)
    found = 0
    group = 0

    for word in range(n_words):
        changed = np.uint64(0)
        for p in range(n_predicates):
            w = bits[p * n_words + word]
            turns = w ^ ((w << _ONE) | carry[p])
            carry[p] = w >> np.uint64(63)
            changed |= turns
            while turns != 0:
                turned[trailing_zeros(turns)] ^= symbols[p]
                turns &= turns - _ONE
        first = word << 6
        end = min(first + 64, n_rows)
        if gap != NOWHERE:
            for row in range(max(first, 1), end):
                if np.uint64(times[row]) - np.uint64(times[row - 1]) > np.uint64(gap):
                    changed |= _ONE << np.uint64(row - first)
        at = group
        while at < n_groups and row_offsets[at] < end:
            changed |= _ONE << np.uint64(row_offsets[at] - first)
            at += 1
        if end - first < 64:
            changed &= (_ONE << np.uint64(end - first)) - _ONE
        if changed == 0:
            continue
        if found + 64 > room:
            held[0] = with_space(held[0], found, room)
            held[1] = with_space(held[1], found, room)
            rows = pointer(held[0])
            masks = pointer(held[1])
            room = held[0].size
        while changed != 0:
            shift = trailing_zeros(changed)
            changed &= changed - _ONE
            mask ^= turned[shift]
            turned[shift] = np.uint64(0)
            row = first + np.int64(shift)  # type: ignore[assignment]
            while group < n_groups and row_offsets[group] <= row:
                change_offsets[group] = found
                group += 1
            rows[found] = row
            masks[found] = np.int64(mask)
            found += 1
    while group <= n_groups:
        change_offsets[group] = found
        group += 1
    own_carry[0] = own_symbols[0] = own_turned[0] = 0  # the pointers needed them up to here
    return held[0][:found], held[1][:found], own_offsets


@compiled(INT, WORDS, INT, INT, INT)
def first_row_at(times, row, end, due):
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
