"""What the loops of row patterns share with Python: their program, and the state of a partition.

States are numbered: 0 is the start, 1 up to the number of places are those behind a row of each, then
the start at the first row of a partition. What is no state but may come next stands behind: the match
is complete, or is complete if the partition ends. Sets of states are bits, `BITS` a word.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from piestream.compiled.constants import INT64_MIN
from piestream.compiled.records import Carried, Record, Rows, Table, Words, WordTable, method
from piestream.intervals.aggregates import Cell

__all__ = ["BITS", "Entry", "Frontier", "Partition", "Program", "Skipping", "What"]

#: States in a word of a set of states; the sign and the next bit stay free.
BITS = 62
#: Behind the time and the mask of a kept row: which of its attributes are known, `BITS` a word.
KNOWN_AT = 2


class What(IntEnum):
    """What an entry of the program writes into a result row."""

    FIRST = 0  # whether it is known, and the value, at the first row of some variables
    LAST = 1
    CELL = 2  # the words of an aggregate's cell
    NUMBER = 3  # of the match in its partition
    CURRENT = 4  # whether it is known, and the value, at the row of the result
    START = 5  # the time of the first row
    END = 6  # the time of the row behind the last


class Skipping(IntEnum):
    """Where the search goes on behind a match."""

    PAST_LAST_ROW = 0
    TO_NEXT_ROW = 1
    TO_FIRST = 2
    TO_LAST = 3


class Giving(IntEnum):
    """Which rows a match gives."""

    ONE_ROW = 0
    ALL_ROWS = 1
    ALL_BUT_EMPTY = 2
    ALL_AND_UNMATCHED = 3


class Frontier(IntEnum):
    """What comes behind the last row that is known."""

    MORE = 0  # perhaps another row
    END = 1  # the partition ends
    CUT = 2  # rows that are beyond WITHIN
    CUT_OR_END = 3  # either of these


class Entry(Record):
    """Words of a result row."""

    what: int
    variables: int  # a bit each; those whose rows count
    is_final: int  # all rows of the match count, not only those up to the row of the result
    skipped: int  # rows of these variables before the one that is meant
    shift: int
    column: int  # an attribute, or NONE: the number of the row's variable
    place: int  # of its first word among the outputs
    n_words: int
    cell: Annotated[Rows[Cell], 1]


class Program(Record):
    """A row pattern as the loops read it."""

    n_variables: int
    n_states: int
    first_start: int  # the start at the first row of a partition
    accept: int
    accept_at_end: int
    set_words: int  # words of a set of states
    row_words: int  # words of a kept row
    values_at: int  # where its attributes begin
    n_attributes: int
    n_entries: int
    n_outputs: int
    giving: int
    skipping: int
    skip_to: int  # the variables to whose rows it skips
    within: int
    context: int  # rows before a match that measures read
    lookahead: int  # rows behind
    as_intervals: int  # 1: matches are intervals of a larger query, given with the row behind them
    successors_from: WordTable  # of each state, one more at the end
    successors: WordTable
    successor_sets: WordTable  # of each state, as a set
    variable_of: WordTable  # of each state
    excluded: WordTable  # of each state
    states_of: WordTable  # of each variable, as a set
    entries: Table[Entry]


#: Where the threads of a partition begin.
_THREADS_AT = 11


class Partition(Record):
    """What is kept of a partition: rows that may yet be in a match, and where the search is."""

    last_time: int
    used: int
    base: int  # where its rows lie in the pool
    capacity: int
    count: int  # of rows that are kept
    head: int  # the first of them at which it is not decided whether a match begins
    dropped: int  # how many rows came before those that are kept
    matches: int
    matched_until: int  # rows before this one, counted from the first, are in a match
    has_match: (
        int  # a match that begins at the head is complete, whether or not another is preferred
    )
    n_threads: int
    threads: Words  # the states in which a match that begins at the head can be, in order

    program: Carried[Program]

    @method
    def reset(self) -> None:
        """Make these words a partition without any row."""
        for word in range(_THREADS_AT + self.program.n_states):
            self[word] = 0
        self.used = 1
        self.last_time = INT64_MIN


assert Partition.offset("threads") == _THREADS_AT


class PoolHeader(Record):
    """The first words of a pool of rows."""

    used: int
    wasted: int  # words of places that rows have left
