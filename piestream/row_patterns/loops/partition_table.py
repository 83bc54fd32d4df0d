"""The words of all partitions of a row pattern, as a table: a row a partition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from piestream.compiled.partition_words import PartitionWords
from piestream.row_patterns.loops.records import Partition, Program

__all__ = ["THREAD_FIELDS", "RowPartitionTable", "forget_threads"]

Words = NDArray[np.int64]

#: What says where threads with memory are, which are no part of a stored state.
THREAD_FIELDS = (
    "is_followed", "followed_until", "best_node", "best_end", "block", "block_words", "n_nodes",
    "n_kept_nodes", "n_following",
)  # fmt: skip


def forget_threads(rows: Words) -> None:
    """Let threads with memory be followed again from the heads of partitions, a row each."""
    for field in THREAD_FIELDS:
        Partition.column_of(rows, field)[:] = 0


class RowPartitionTable(PartitionWords):
    """The words of the partitions of a row pattern. Behind the threads is what orders events of one time."""

    def __init__(self, program: Words) -> None:
        header, self._program = Program.over(program), program
        sequence = Partition.offset("threads") + header.n_states
        super().__init__(Partition, sequence + header.is_sequenced, sequence)

    def _reset(self, blank: Words) -> None:
        Partition.over(blank, program=Program.over(self._program)).reset()
