"""When the outcome at a row is certain, of all rows at once, going backwards.

A match that is an interval of a larger query counts from the instant at which it is known, however rows
came. That is found from the outcomes of `reach.py`: of each row and state the last row that must be
read until its outcome is certain. The row behind the last stands for the end of the partition.
"""

from __future__ import annotations

from piestream.compiled.primitives import at_word
from piestream.compiled.records import Words, kernel
from piestream.intervals.ticks import plus
from piestream.row_patterns.loops.reach import reached
from piestream.row_patterns.loops.records import Frontier, Partition, Program

__all__ = ["decided_at", "find_certainty"]


@kernel
def find_certainty(
    program: Program, rows: Words, first: int, end: int, frontier: int, reach: Words, certain: Words
) -> None:
    """The last row that must be read, at the rows ``[first, end]``, for each state.

    It is of use where the outcome is a match or none: what is tried before a match must have failed.
    """
    n_states = program.n_states
    for row in range(end, first - 1, -1):
        here = at_word(certain, (row - first) * n_states)
        for state in range(n_states):
            last = row - 1
            for at in range(program.successors_from[state], program.successors_from[state + 1]):
                target = program.successors[at]
                if target == program.accept:
                    break
                last = max(last, row)
                if target == program.accept_at_end:
                    if row == end and frontier == Frontier.END:
                        break
                elif row < end:
                    mask = rows[row * program.row_words + 1]
                    if mask >> program.variable_of[target] & 1:
                        last = max(last, here[n_states + target])
                        if reached(program, reach, row + 1 - first, target, 0):
                            break
            here[state] = last


@kernel
def decided_at(
    program: Program, partition: Partition, rows: Words, first: int, row: int, reach: Words,
    certain: Words,
) -> int:  # fmt: skip
    """When it is certain what becomes of the match that begins at a row: by rows, or when WITHIN is over.

    ``first`` is the row from which on the outcomes are known.
    """
    width = program.row_words
    latest = plus(rows[row * width], program.within)
    start = program.first_start if partition.dropped + row == 0 else 0
    if reached(program, reach, row - first, start, 1):
        return latest
    last = max(row, certain[(row - first) * program.n_states + start])
    time = rows[last * width] if last < partition.count else partition.last_time
    return min(time, latest)
