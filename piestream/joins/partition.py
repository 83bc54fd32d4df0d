"""A partition: its row of words, with the query and the pool that they refer to."""

from __future__ import annotations

from piestream.compiled.records import Carried, Flags, Record, Rows, Words, method
from piestream.joins.records import Query, RingWords
from piestream.joins.rings import Ring


class Partition(Record):
    """A partition's words; the states of its automata, and those of Side.ended, lie behind."""

    last_time: int  # time of the last event
    mask: int  # which predicates held at it
    valid: int  # bit s: the latest interval of symbol s is valid (SPEC 4)
    dropped: int  # bit s: the latest run of s violated its duration and is not there
    previous_dropped: int  # bit s: the same of the run before it
    due: int  # earliest time at which an open interval reaches its minimum duration
    used: int  # 1 while the row belongs to a partition
    waiting: int  # matches that have triggered and not completed
    rings: Rows[RingWords]  # one a symbol

    query: Carried[Query]
    pool: Carried[Words]

    @method
    def ring(self, s: int) -> Ring:
        """The live intervals of a symbol."""
        return Ring(self.rings[s], self.pool, self.query.symbols[s].width)


class Columns(Record):
    """The columns that RETURN aggregates, one behind the other."""

    known: Carried[Flags]  # of each value, whether it is not NULL
    n_rows: Carried[int]
