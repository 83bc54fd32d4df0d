"""The matches of one event in the order of their starts, where intervals come as rows.

The matches of an event share their intervals: many are combinations of few. So the intervals that are
held are ranked by their starts, once, and a match is a number of few bits for each symbol, which a
radix sort takes a word at a time, from the symbol that counts least.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Record, Rows, Words, kernel
from piestream.joins.boxes import box_in
from piestream.joins.matches import Matches
from piestream.joins.orders import BY_START
from piestream.joins.partition import Partition
from piestream.joins.sort import FEW, MOST_BITS, bits_of, radix_sorted
from piestream.joins.state_records import NO_MATCH

__all__ = ["places_by_rank"]


class _Ranks(Record):
    """A key of matches: the rank that an interval of a symbol has in it."""

    symbol: int
    head: int  # the id of which the rank comes first
    at: int  # where the ranks lie
    bits: int  # that tell them apart


class _Keys(Record):
    """The keys of matches, that which counts most first: all starts, then all numbers of rows."""

    of: Rows[_Ranks]


_RANKS_WORDS = _Ranks.size


@kernel
def _rank_rows(partition: Partition, s: int, ranks: Words, numbers: Words) -> tuple[int, int]:
    """Write the ranks of a symbol's rows by their starts, and by number of those that start together.

    Gives the highest of each.
    """
    ring = partition.ring(s)
    for place in range(ring.tail - ring.head):
        numbers[place] = NONE
    order = partition.order(s, BY_START)
    head = ring.head
    everything = box_in(order, INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX, NO_MATCH)
    lowest = INT64_MAX
    rank = -1
    before = NONE
    slot_id = everything.following(NONE)[0]
    while slot_id != NONE:
        slot = order.slot(slot_id)
        starts = partition.program.start_instant
        if before != NONE and order.slot(before)[starts] == slot[starts]:
            for tied in (before, slot_id):
                number = order.slot(tied).number
                numbers[tied - head] = number
                lowest = min(lowest, number)
        else:
            rank += 1
        ranks[slot_id - head] = rank
        before = slot_id
        slot_id = everything.following(slot_id)[0]
    highest = 0
    for place in range(ring.tail - head):
        numbers[place] = 0 if numbers[place] == NONE else numbers[place] - lowest
        highest = max(highest, numbers[place])
    return rank, highest


@kernel
def _sorted_by(keys: _Keys, n_keys: int, matches: Matches, ranks: Words, count: int) -> Array:
    """The places of so many matches, sorted by so many keys; none if a key is too long for a word."""
    n = matches.n_symbols
    places = np.arange(0, count * n, n)
    number_bits = bits_of(count - 1)
    end = n_keys
    while end > 0:
        first = end
        taken = number_bits
        while first > 0 and taken + keys.of[first - 1].bits <= MOST_BITS:
            first -= 1
            taken += keys.of[first].bits
        if first == end:
            return places[:0]
        if taken > number_bits:
            words = np.empty(count, np.int64)
            for k in range(count):
                ids = at_word(matches, places[k])
                word = 0
                for number in range(first, end):
                    key = keys.of[number]
                    if key.bits:
                        word = word << key.bits | ranks[key.at + ids[key.symbol] - key.head]
                words[k] = word << number_bits | k
            words = radix_sorted(words, number_bits, taken)
            before = places
            places = np.empty(count, np.int64)
            for k in range(count):
                places[k] = before[words[k] & ((1 << number_bits) - 1)]
        end = first
    return places


@kernel
def places_by_rank(partition: Partition, matches: Matches, count: int) -> Array:
    """Where each of so many matches begins, in the order of their starts.

    None where this would take longer than to compare them: for a few matches, or among many
    intervals that are in none.
    """
    program = partition.program
    n = program.n_present
    held = 0
    for k in range(n):
        s = program.sort_order[k]
        held += partition.rings[s].tail - partition.rings[s].head
    if count < FEW or held > count * n:
        return np.empty(0, np.int64)
    ranks_array = np.empty(2 * held, np.int64)
    ranks = pointer(ranks_array)
    keys_array = np.empty(2 * n * _RANKS_WORDS, np.int64)
    keys = _Keys(pointer(keys_array))
    at = 0
    for k in range(n):
        s = program.sort_order[k]
        ring = partition.ring(s)
        size = ring.tail - ring.head
        by_start = keys.of[k]
        by_number = keys.of[n + k]
        for key in (by_start, by_number):
            key.symbol = s
            key.head = ring.head
            key.bits = 0
        by_start.at = at
        by_number.at = held + at
        highest = size - 1
        if program.rows >> s & 1:
            numbers = at_word(ranks, by_number.at)
            highest, highest_number = _rank_rows(partition, s, at_word(ranks, at), numbers)
            by_number.bits = bits_of(highest_number)
        else:
            for place in range(size):
                ranks[at + place] = place
        by_start.bits = bits_of(highest)
        at += size
    places = _sorted_by(keys, 2 * n, matches, ranks, count)
    keep_alive(ranks_array)
    keep_alive(keys_array)
    return places
