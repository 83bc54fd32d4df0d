"""Numbers of events where several streams are read, for bounds on how many an interval has.

The rows of a batch are then the instants of all streams. Of a stream whose events are counted, a
column says of each row how many of its events come before it in the batch, and whether it is one:
twice the number, and 1 if it is. A partition keeps how many there were in the batches before, up to
the row that is worked on, and which is the first at which an open interval has its minimum.
"""

from __future__ import annotations

from piestream.compiled.primitives import at_word
from piestream.compiled.records import kernel
from piestream.intervals.aggregates import Columns
from piestream.joins.partition import Partition
from piestream.joins.records import Counter
from piestream.joins.scratch import Scratch
from piestream.joins.state_records import MOST_EVENTS


@kernel
def _up_to(columns: Columns, counter: Counter, row: int) -> int:
    """How many events of the batch come up to a row, itself included."""
    word = at_word(columns, counter.column * columns.n_rows)[row]
    return (word >> 1) + (word & 1)


@kernel
def note_counts(partition: Partition, scratch: Scratch, columns: Columns, row: int) -> None:
    """Note how many events there were before the current row, and how many with it.

    Before the end of the input there were all. No interval has its minimum as yet.
    """
    program = partition.program
    for number in range(program.n_counters):
        counter = program.counters[number]
        before = partition[counter.count]
        up_to = before
        if not scratch.closing:
            up_to += _up_to(columns, counter, row)
            before += at_word(columns, counter.column * columns.n_rows)[row] >> 1
        partition[counter.before] = before
        partition[counter.up_to] = up_to
        partition[counter.due] = MOST_EVENTS


@kernel
def first_row_of_due_count(partition: Partition, columns: Columns, first: int, end: int) -> int:
    """The first row at which an open interval has its minimum of events, from ``first`` on; or ``end``.

    Where each row is an event, that is the first.
    """
    program = partition.program
    if not program.n_counters:
        return first
    for number in range(program.n_counters):
        counter = program.counters[number]
        least = partition[counter.due] + 1 - partition[counter.count]
        low = first
        while low < end:
            row = low + (end - low) // 2
            if _up_to(columns, counter, row) < least:
                low = row + 1
            else:
                end = row
    return end


@kernel
def add_counts(partition: Partition, columns: Columns, last: int) -> None:
    """Add the events of a batch, whose last row this is."""
    for number in range(partition.program.n_counters):
        counter = partition.program.counters[number]
        partition[counter.count] += _up_to(columns, counter, last)
