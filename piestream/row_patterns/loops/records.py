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

__all__ = [
    "BITS",
    "KNOWN_AT",
    "BlocksHeader",
    "Entry",
    "Frontier",
    "Giving",
    "Holding",
    "Mode",
    "Operator",
    "Partition",
    "PoolHeader",
    "Program",
    "Progress",
    "Register",
    "Search",
    "Skipping",
    "Stage",
    "Step",
    "Truth",
    "What",
]

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


class Mode(IntEnum):
    """Which of the matches that there are is given."""

    PREFERRED = 0
    INCREMENTAL = 1  # of those that end at a row, the longest
    MAXIMAL = 2  # of those that begin at a row, the longest


class Truth(IntEnum):
    """What is known of a value in a condition."""

    NULL = 0
    KNOWN = 1
    PENDING = 2  # NEXT reads a row that is yet to come


class Holding(IntEnum):
    """What a register keeps of the rows of a match so far."""

    FIRST = 0  # how many of its rows there were, then whether it is known, and the value
    LAST = 1  # whether it is known and the value of the last row, then of the one before …
    CELL = 2  # the words of an aggregate's cell


class Operator(IntEnum):
    """What a step of a condition does with the values on the stack."""

    CONSTANT = 0  # of these some put a value there
    NULL = 1
    BIT = 2
    CURRENT = 3
    REGISTER = 4
    COUNT = 5
    SUM_INT = 6
    SUM_FLOAT = 7
    MEAN_INT = 8
    MEAN_FLOAT = 9
    VARIANCE = 10
    DEVIATION = 11
    NUMBER = 12
    NOT = 20  # others change the value at the top
    IS_NULL = 21
    TO_FLOAT = 22
    TO_INT = 23
    ABS_INT = 24
    ABS_FLOAT = 25
    ROOT = 26
    FLOOR = 27
    CEILING = 28
    ROUND = 29  # to so many digits
    EXPONENTIAL = 30
    LOGARITHM = 31
    SIGN_INT = 32
    SIGN_FLOAT = 33
    AND = 40  # others make one value of two
    OR = 41
    COALESCE = 42
    EQUAL_INT = 50
    UNEQUAL_INT = 51
    LESS_INT = 52
    AT_MOST_INT = 53
    EQUAL_FLOAT = 54
    UNEQUAL_FLOAT = 55
    LESS_FLOAT = 56
    AT_MOST_FLOAT = 57
    ADD_INT = 60
    SUBTRACT_INT = 61
    MULTIPLY_INT = 62
    REMAINDER = 63
    ADD_FLOAT = 64
    SUBTRACT_FLOAT = 65
    MULTIPLY_FLOAT = 66
    DIVIDE = 67
    POWER = 68
    GREATEST_INT = 70
    LEAST_INT = 71
    GREATEST_FLOAT = 72
    LEAST_FLOAT = 73
    SELECT = 90  # a condition, and what it is if that is true, and if not


class Step(Record):
    """A step of a condition: what is to be done, and with what."""

    operator: int
    operand: int
    other: int


class Register(Record):
    """What conditions see of the rows of a match so far, of some variables."""

    holding: int
    variables: int  # a bit each; those whose rows count
    skipped: int  # of FIRST and LAST: rows of them before the one that is meant
    shift: int  # rows of the partition
    column: int  # an attribute, or NONE: the number of the row's variable
    place: int  # of its first word among the registers
    n_words: int
    cell: Annotated[Rows[Cell], 1]


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
    work_words: int  # that loops work with
    context: int  # rows before a match that measures read
    lookahead: int  # rows behind
    as_intervals: int  # 1: matches are intervals of a larger query, given with the row behind them
    is_sequenced: int  # 1: several rows of a partition may have one time
    successors_from: WordTable  # of each state, one more at the end
    successors: WordTable
    successor_sets: WordTable  # of each state, as a set
    variable_of: WordTable  # of each state
    excluded: WordTable  # of each state
    states_of: WordTable  # of each variable, as a set
    entries: Table[Entry]
    # of conditions that read other rows of the match, and of INCREMENTAL and MAXIMAL MATCH:
    has_memory: int
    mode: int
    horizon: int  # rows behind its own that a condition reads
    n_registers: int
    register_words: int
    stack_words: int
    live: WordTable  # of each state, which registers are read on any way from it, a bit each
    steps_from: WordTable  # of each variable, one more at the end
    registers: Table[Register]
    steps: Table[Step]


#: Where the threads of a partition begin.
_THREADS_AT = 21


class Search(Record):
    """A search for matches among the kept rows of a partition."""

    now: int  # no row to come is earlier
    frontier: int  # what comes behind the last row
    row: int  # at which a match is to begin
    limit: int  # the first row that is too late for it
    end: int  # behind its last row
    decided: int  # when it was certain what becomes of it, of a search with memory
    work_left: int  # until it pauses: rows read, times the threads that read them
    is_paused: int  # it is not at its end: search again, with `resumes`
    resumes: int
    on_trial: int  # threads read what they may have to take back, so that nothing pauses


class Stage(IntEnum):
    """What a call does next with a partition of its batch."""

    BEGIN = 0
    ROWS = 1  # keep the next rows of the batch
    SEARCH = 2  # look at what they have made certain
    END = 3  # look at what the end of the partition has made certain


class Progress(Record):
    """Where a call of the loops is in its batch; a call that has paused goes on from there."""

    closes: int  # no rows come behind those of the batch
    is_whole: int  # partitions are worked on one after the other in the first one's place
    is_paused: int
    most_rows: int  # of a partition that are kept before a search begins
    group: int  # the partition of the batch that is worked on
    stage: int  # Stage
    row: int  # the first of its rows that is not kept yet
    search: Annotated[Rows[Search], 1]
    found: Words  # a `Found`


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
    given_until: int  # with INCREMENTAL MATCH: those that end before this row are given
    # what follows is not kept in a state: threads are followed again from the head
    is_followed: int
    followed_until: int  # the first row, counted from the first, that threads have not read
    best_node: int  # of the complete match that is preferred to what no thread may yet become
    best_end: int
    block: int  # where threads and their nodes lie
    block_words: int
    n_nodes: int
    n_kept_nodes: int  # there were when those that nothing needs were dropped last
    n_following: int
    n_threads: int
    threads: Words  # the states in which a match that begins at the head can be, in order

    program: Carried[Program]

    @method
    def is_after(self, latest: int) -> bool:
        """Whether no row to come has a time up to this one."""
        return self.last_time > latest or (
            self.last_time == latest and not self.program.is_sequenced
        )

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


class BlocksHeader(Record):
    """The first words of the blocks in which threads with memory lie."""

    used: int
    wasted: int  # words of blocks that partitions have left
