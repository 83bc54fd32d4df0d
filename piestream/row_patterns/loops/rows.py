"""The rows that are kept of a partition: a run of words in a pool, in order of time."""

from __future__ import annotations

import numpy as np

from piestream.compiled.arrays import copy_words, ensure_capacity
from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Words, kernel
from piestream.row_patterns.loops.records import BITS, KNOWN_AT, Partition, PoolHeader, Program

__all__ = [
    "compact_pool",
    "forget_rows",
    "give_room_back",
    "remap_kept_codes",
    "room_for_rows",
    "rows_of",
]

#: The arrays that loops work with, by their places in a list: each may be replaced by a longer one.
POOL, RESULTS, REACH, WINDOW_REACH, PATH, WORK, CERTAIN = range(7)
#: And those of threads with memory: blocks of all partitions, the threads of one before and behind a
#: row, a copy of them, a table in which equal ones are found, and room for a stack of values.
BLOCKS, THREADS, FOLLOWING, TRIED, EQUALS, STACK = range(7, 13)
#: Rows for which a partition has room at first.
_LEAST_ROWS = 8
_POOL_HEAD = PoolHeader.size


@kernel
def rows_of(partition: Partition, store: list[Array]) -> Words:
    """The kept rows of a partition."""
    return at_word(pointer(store[POOL]), partition.base)


@kernel
def forget_rows(program: Program, partition: Partition, rows: Words) -> int:
    """Drop the kept rows that no match or measure reads any more; gives how many there were."""
    gone = max(0, partition.head - program.context)
    if gone > 0:
        rest = (partition.count - gone) * program.row_words
        copy_words(at_word(rows, gone * program.row_words), rows, rest)
        partition.count -= gone
        partition.head -= gone
        partition.dropped += gone
    return gone


@kernel
def room_for_rows(program: Program, partition: Partition, more: int, store: list[Array]) -> Words:
    """The kept rows of a partition, with room for more behind them."""
    width = program.row_words
    if partition.count + more > partition.capacity:
        if 2 * (partition.head - program.context) >= partition.capacity:
            forget_rows(program, partition, rows_of(partition, store))
        if partition.count + more > partition.capacity:
            capacity = max(_LEAST_ROWS, 2 * partition.capacity, partition.count + more)
            header = PoolHeader(pointer(store[POOL]))
            used = header.used
            store[POOL] = ensure_capacity(store[POOL], used, capacity * width)
            header = PoolHeader(pointer(store[POOL]))
            target = at_word(pointer(store[POOL]), used)
            copy_words(rows_of(partition, store), target, partition.count * width)
            header.wasted += partition.capacity * width
            header.used = used + capacity * width
            partition.base = used
            partition.capacity = capacity
    return rows_of(partition, store)


@kernel
def give_room_back(program: Program, partition: Partition, store: list[Array]) -> None:
    """Cut the place of a partition that has room for far more rows than are kept."""
    needed = partition.count - max(0, partition.head - program.context)
    room = max(_LEAST_ROWS, 2 * needed)
    if partition.capacity >= 2 * room and partition.capacity > 4 * _LEAST_ROWS:
        forget_rows(program, partition, rows_of(partition, store))
        wasted = (partition.capacity - room) * program.row_words
        PoolHeader(pointer(store[POOL])).wasted += wasted
        partition.capacity = room


@kernel
def compact_pool(
    program_array: Array, partitions_array: Array, n_partitions: int, pool_array: Array
) -> Array:
    """The pool without places that rows have left, and without rows that nothing reads."""
    program = Program(pointer(program_array))
    width = program.row_words
    partition_words = partitions_array.size // max(n_partitions, 1)
    store = [pool_array]
    words = _POOL_HEAD
    for number in range(n_partitions):
        partition = Partition(at_word(pointer(partitions_array), number * partition_words), program)
        forget_rows(program, partition, rows_of(partition, store))
        words += partition.count * width
    compacted = [np.zeros(words, np.int64)]
    at = _POOL_HEAD
    for number in range(n_partitions):
        partition = Partition(at_word(pointer(partitions_array), number * partition_words), program)
        target = at_word(pointer(compacted[0]), at)
        copy_words(rows_of(partition, store), target, partition.count * width)
        partition.base = at
        partition.capacity = partition.count
        at += partition.count * width
    header = PoolHeader(pointer(compacted[0]))
    header.used = at
    header.wasted = 0
    keep_alive(program_array)
    keep_alive(partitions_array)
    return compacted[0]


@kernel
def remap_kept_codes(
    program_array: Array, partitions_array: Array, partition_words: int, n_partitions: int,
    pool_array: Array, column: int, new_codes: Array, used: Array,
) -> None:  # fmt: skip
    """Give the kept values of a column their new codes, or note in ``used`` which codes there are."""
    program = Program(pointer(program_array))
    for number in range(n_partitions):
        place = at_word(pointer(partitions_array), number * partition_words)
        partition = Partition(place, program)
        rows = at_word(pointer(pool_array), partition.base)
        for kept in range(partition.count):
            row = at_word(rows, kept * program.row_words)
            if row[KNOWN_AT + column // BITS] >> (column % BITS) & 1:
                value = row[program.values_at + column]
                if used.size > 0:
                    used[value] = 1
                else:
                    row[program.values_at + column] = new_codes[value]
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(pool_array)
