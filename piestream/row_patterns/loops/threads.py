"""The match that begins at the head of a partition, row by row, as far as its rows are known.

It is followed by the states that it can be in, in the order of preference; as soon as none is left
that is preferred to a complete match, or none at all, the outcome is certain.
"""

from __future__ import annotations

from piestream.compiled.constants import NONE
from piestream.compiled.records import Words, kernel
from piestream.row_patterns.loops.records import BITS, Partition, Program

__all__ = ["begin_threads", "is_undecided", "step_threads"]


@kernel
def begin_threads(program: Program, partition: Partition) -> None:
    """Nothing has been read from the head on."""
    partition.threads[0] = program.first_start if partition.dropped + partition.head == 0 else 0
    partition.n_threads = 1
    partition.has_match = 0


@kernel
def step_threads(program: Program, partition: Partition, mask: int, scratch: Words) -> None:
    """Read a row of which the variables of ``mask`` hold; ``scratch`` has room for two sets of states."""
    threads = partition.threads
    for word in range(program.set_words):
        scratch[word] = 0
    n_old = partition.n_threads
    old = program.set_words
    for thread in range(n_old):
        scratch[old + thread] = threads[thread]
    found = 0
    for thread in range(n_old):
        state = scratch[old + thread]
        for at in range(program.successors_from[state], program.successors_from[state + 1]):
            target = program.successors[at]
            if target == program.accept:  # what comes behind is less preferred than this match
                partition.n_threads = found
                partition.has_match = 1
                return
            if target == program.accept_at_end:
                continue
            seen = scratch[target // BITS] >> (target % BITS) & 1
            if seen == 0 and mask >> program.variable_of[target] & 1:
                scratch[target // BITS] |= 1 << (target % BITS)
                threads[found] = target
                found += 1
    partition.n_threads = found


@kernel
def is_undecided(program: Program, partition: Partition) -> bool:
    """Whether rows to come say what becomes of the match that begins at the head."""
    if partition.n_threads == 0:
        return False
    first = program.successors_from[partition.threads[0]]
    following = (
        program.successors[first]
        if first < program.successors_from[partition.threads[0] + 1]
        else NONE
    )
    return following != NONE and following != program.accept
