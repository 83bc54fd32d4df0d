"""The records of what leaves the loops: result rows, and samples of live intervals."""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.records import Record, Rows, Words
from piestream.joins.records import Program


class Phase(IntEnum):
    """What a result row reports."""

    TRIGGER = 0
    COMPLETION = 1


class Closing(IntEnum):
    """Which of the instants behind the last event of a partition that is closed a row reports.

    What is open ends at them, in this order. They lie a tick later than they are shown, so that no
    end at them is that of an interval that ended, or the start of one that began, with that event.
    """

    NO = 0
    LAST_EVENT = 1  # shown with the time of the last event
    TICK_LATER = 2  # and a tick later: the end of what began with that event


class ResultRow(Record):
    """A result row. Rows lie in columns: the offset of a field is the number of its column."""

    partition: int
    time: int  # of the report
    phase: int  # Phase, and twice the Closing
    outputs: Words  # the output words

    @classmethod
    def words(cls, program: Program) -> int:
        """How many words, and columns, the result rows of a program have."""
        return cls.size + program.n_outputs


class SideSample(Record):
    """Sums over a sample of live intervals on one side of a constraint."""

    intervals: int  # how many were looked at
    candidates: int  # live intervals of the other symbol
    partners: int  # how many of these are partners
    partners_after_all: int  # how many would be if all of these had ended before


class Samples(Record):
    """The samples of all constraints."""

    by_side: Rows[SideSample]  # of each constraint: of the side of x, of the side of y
