"""Join keys: values that intervals have from their start, and that are equal in every match.

A key is the value of a FIRST cell, two words: whether it is known, and the value. Where the partners
of an interval lie in a range, those with its key are found by a hash index of the ring: a bucket lies
in a word of each *place* of the ring, whatever interval is there, and holds the latest interval whose
key belongs to it; in a word of each interval is the one before it in its bucket. Ids only fall along
such a chain, so that it ends, for whoever follows it, where they are no longer live, and nothing has
to be taken out. (An interval that retires, and so has a later id, is found by none and need not be.)
"""

from __future__ import annotations

from piestream.compiled.constants import INT64_MAX, INT64_MIN, NONE
from piestream.compiled.primitives import at_word
from piestream.compiled.records import kernel
from piestream.intervals.aggregates import Columns, add_rows
from piestream.joins.partition import Partition
from piestream.joins.rings import Ring
from piestream.joins.state_records import Slot


@kernel
def equal_keys(one: Slot, word: int, other: Slot, other_word: int) -> bool:
    """Whether two intervals have the same key, which both know."""
    if one[word] != 1 or other[other_word] != 1:
        return False
    return _are_equal(one[word + 1], other[other_word + 1])


@kernel
def _are_equal(one: int, other: int) -> bool:
    """Whether two words are equal; the two zeros of floats are. (What else that lets pass, WHERE sees.)"""
    return one == other or (one | other) & INT64_MAX == 0


@kernel
def bucket_of(ring: Ring, word: int, slot: Slot, bucket: int) -> int:
    """The place in the pool of the bucket of the key that a slot of some symbol has in a word."""
    key = slot[word + 1] if slot[word + 1] != INT64_MIN else 0
    key ^= key >> 31
    key ^= key >> 17
    key ^= key >> 7
    return ring.base + (key & (ring.capacity - 1)) * ring.width + bucket


@kernel
def next_with_key(
    ring: Ring, word: int, chain: int, slot_id: int, least: int, key: int
) -> tuple[int, int]:
    """The first interval of a chain, from ``slot_id`` on, with a key; NONE if none is from ``least`` on.

    And how many intervals it took to find it, beyond that.
    """
    looked = 0
    while slot_id >= least:
        slot = ring.slot(slot_id)
        if slot[word] == 1 and _are_equal(slot[word + 1], key):
            return slot_id, looked
        slot_id = slot[chain] - 1
        looked += 1
    return NONE, looked


@kernel
def add_keys(partition: Partition, s: int, columns: Columns, row: int) -> None:
    """Note the keys of the interval that starts with this row, and add it to their indexes."""
    symbol = partition.program.symbols[s]
    slot = partition.ring(s).latest()
    for number in range(symbol.key, symbol.key_end):
        key = partition.program.keys[number]
        cell = partition.program.cells[key.cell]
        add_rows(cell, at_word(slot, key.word), columns, row, row + 1)
    index_interval(partition, s, partition.rings[s].tail - 1)


@kernel
def index_interval(partition: Partition, s: int, slot_id: int) -> None:
    """Add an interval to the indexes of its symbol, in which there is none after it."""
    symbol = partition.program.symbols[s]
    ring = partition.ring(s)
    slot = ring.slot(slot_id)
    for number in range(symbol.key, symbol.key_end):
        key = partition.program.keys[number]
        if key.bucket != NONE:
            place = bucket_of(ring, key.word, slot, key.bucket)
            slot[key.chain] = partition.pool[place]
            partition.pool[place] = slot_id + 1


@kernel
def drop_keys(partition: Partition, s: int, slot_id: int) -> None:
    """Take the latest interval out of the indexes of its symbol."""
    symbol = partition.program.symbols[s]
    ring = partition.ring(s)
    slot = ring.slot(slot_id)
    for number in range(symbol.key, symbol.key_end):
        key = partition.program.keys[number]
        if key.bucket != NONE:
            partition.pool[bucket_of(ring, key.word, slot, key.bucket)] = slot[key.chain]


@kernel
def index_keys(partition: Partition, s: int) -> None:
    """Make the indexes of a symbol anew, in a ring that was moved."""
    symbol = partition.program.symbols[s]
    ring = partition.ring(s)
    if symbol.key == symbol.key_end or not ring.capacity:
        return
    for place in range(ring.capacity):
        for word in range(symbol.buckets, ring.width):
            partition.pool[ring.base + place * ring.width + word] = 0
    for slot_id in range(max(ring.head, ring.tail - ring.capacity), ring.tail):
        index_interval(partition, s, slot_id)
