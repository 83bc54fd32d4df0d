"""Rows in, matches out, as in `matching`, of patterns whose search needs memory."""

from __future__ import annotations

import numpy as np

from piestream.compiled.primitives import at_word, keep_alive, pointer
from piestream.compiled.records import Array, Flags, kernel
from piestream.row_patterns.loops.conditions import Reading
from piestream.row_patterns.loops.matching import (
    BatchArrays,
    Matched,
    State,
    end_stage,
    new_store,
    next_stage,
)
from piestream.row_patterns.loops.memory_search import search_with_memory
from piestream.row_patterns.loops.output import Found
from piestream.row_patterns.loops.records import Program, Progress
from piestream.row_patterns.loops.rows import BLOCKS, POOL, RESULTS

__all__ = ["match_rows_with_memory"]

_READING_WORDS = Reading.size
_FOUND_AT = Progress.offset("found")


@kernel
def match_rows_with_memory(
    program_array: Array, state: State, partition_words: int, batch: BatchArrays,
    masks_array: Array, progress_array: Array,
) -> Matched:  # fmt: skip
    """As `match_rows`."""
    partitions_array, pool_array, blocks_array = state
    program = Program(pointer(program_array))
    progress = Progress(pointer(progress_array))
    search = progress.search[0]
    flags_array = np.zeros(program.n_attributes + 1, np.uint8)
    flags: Flags = pointer(flags_array)
    found = Found(at_word(pointer(progress_array), _FOUND_AT), flags)
    reading_array = np.zeros(_READING_WORDS, np.int64)
    reading = Reading(pointer(reading_array), flags)
    found.n_results = 0
    progress.is_paused = 0
    n_groups, offsets = batch[0].size, pointer(batch[1])
    store = new_store(program, pool_array, blocks_array)
    while progress.group < n_groups and not progress.is_paused:
        partition = next_stage(
            program, partitions_array, partition_words, batch, masks_array, progress, found, store
        )
        end = offsets[progress.group + 1]
        search_with_memory(program, partition, search, reading, found, store)
        end_stage(program, partition, progress, end, store)
    keep_alive(program_array)
    keep_alive(progress_array)
    keep_alive(flags_array)
    keep_alive(reading_array)
    keep_alive(state)
    keep_alive(batch)
    keep_alive(masks_array)
    return store[POOL], store[BLOCKS], store[RESULTS], found.n_results
