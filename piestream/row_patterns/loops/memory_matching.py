"""Rows in, matches out, as in `matching`, of patterns whose search needs memory."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, FlagRows, Flags, Times, WordRows, kernel
from piestream.row_patterns.loops.conditions import Reading
from piestream.row_patterns.loops.matching import (
    FOUND_WORDS,
    SEARCH_WORDS,
    reset_partition,
    take_rows,
)
from piestream.row_patterns.loops.memory_search import search_with_memory
from piestream.row_patterns.loops.output import Found
from piestream.row_patterns.loops.records import Frontier, Partition, Program, Search
from piestream.row_patterns.loops.rows import BLOCKS, POOL, RESULTS

__all__ = ["match_rows_with_memory"]

_READING_WORDS = Reading.size


@kernel
def match_rows_with_memory(
    program_array: Array, partitions_array: Array, partition_words: int, pool_array: Array,
    blocks_array: Array, numbers_array: Array, offsets_array: Array, times_array: Times,
    masks_array: Array, columns_array: WordRows, known_array: FlagRows, now: int, closes: bool,
    is_whole: bool,
) -> tuple[Array, Array, Array, int]:  # fmt: skip
    """As `match_rows`, with the blocks in which threads lie; gives them behind the pool."""
    program = Program(pointer(program_array))
    numbers, offsets = pointer(numbers_array), pointer(offsets_array)
    times, masks = pointer(times_array), pointer(masks_array)
    columns, known = pointer(columns_array), pointer(known_array)
    empty = np.empty(0, np.int64)
    work = np.zeros(2 * program.n_states + 2 * program.set_words + 8, np.int64)
    stack = np.zeros(program.stack_words, np.int64)
    store = [pool_array, np.empty(64, np.int64), empty, empty, empty, work, empty]
    store += [blocks_array, empty, empty, empty, empty, stack]
    flags_array = np.zeros(program.n_attributes + 1, np.uint8)
    flags: Flags = pointer(flags_array)
    found_array = np.zeros(FOUND_WORDS, np.int64)
    found = Found(pointer(found_array), flags)
    search_array = np.zeros(SEARCH_WORDS, np.int64)
    search = Search(pointer(search_array))
    reading_array = np.zeros(_READING_WORDS, np.int64)
    reading = Reading(pointer(reading_array), flags)
    search.now = now
    for group in range(numbers_array.size):
        place = 0 if is_whole else numbers[group]
        partition = Partition(at_word(pointer(partitions_array), place * partition_words), program)
        if is_whole:
            reset_partition(partition)
        found.partition = numbers[group]
        first, end = offsets[group], offsets[group + 1]
        n_rows: int = columns_array.shape[1]
        take_rows(program, partition, first, end, n_rows, times, masks, columns, known, store)
        search.frontier = Frontier.MORE
        if program.as_intervals or not closes:
            search_with_memory(program, partition, search, reading, found, store)
        if closes:  # what is known before the end has its own instant
            search.frontier = Frontier.END
            search_with_memory(program, partition, search, reading, found, store)
    keep_alive(program_array)
    keep_alive(partitions_array)
    keep_alive(flags_array)
    keep_alive(found_array)
    keep_alive(search_array)
    keep_alive(reading_array)
    return store[POOL], store[BLOCKS], store[RESULTS], found.n_results
