"""A call of the loops of row patterns, in portions: between these control returns to Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from piestream.engine.batches import BatchArrays
from piestream.row_patterns.loops.matching import PROGRESS_WORDS, match_rows
from piestream.row_patterns.loops.records import Program, Progress

__all__ = ["RowCall", "RowState"]

Words = NDArray[np.int64]

#: A call pauses after so many rows, times the threads that read each: a few hundredths of a second.
_PAUSE_WORK = 1 << 18
#: So many rows of a partition are kept before a search begins.
_ROWS_AT_ONCE = 1 << 12


@dataclass(slots=True)
class RowState:
    """The words of partitions, the pool of their rows and the blocks of their threads, as these grow."""

    partitions: Words
    partition_words: int
    pool: Words
    blocks: Words


@dataclass(slots=True)
class RowCall:
    """One call of the loops over a batch.

    No row to come is earlier than ``now``. Where it ``closes``, no rows come at all. Partitions of a
    ``whole`` input are worked on one after the other in the first one's place.
    """

    program: Words
    state: RowState
    batch: BatchArrays
    masks: Words
    now: int
    closes: bool = False
    is_whole: bool = False

    def portions(self) -> Iterator[Words]:
        """The result rows in portions, of which some have none.

        Where nobody asks for the next one the state stays in the middle of a batch.
        """
        header = Program.over(self.program)
        loop = match_rows
        if header.has_memory:
            # these loops are compiled when first needed, which for most patterns is never
            from piestream.row_patterns.loops.memory_matching import match_rows_with_memory

            loop = match_rows_with_memory
        words = np.zeros(PROGRESS_WORDS, np.int64)
        progress = Progress.over(words)
        search = progress.search[0]
        progress.closes, progress.is_whole = int(self.closes), int(self.is_whole)
        progress.most_rows = _ROWS_AT_ONCE
        search.now = self.now
        state = self.state
        while True:
            search.work_left = _PAUSE_WORK
            state.pool, state.blocks, results, n_words = loop(
                self.program, (state.partitions, state.pool, state.blocks), state.partition_words,
                self.batch, self.masks, words,
            )  # fmt: skip
            yield results[:n_words]
            if not progress.is_paused:
                return
