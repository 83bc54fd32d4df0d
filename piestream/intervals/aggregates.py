"""Running aggregates: what RETURN needs of an interval's events, kept in words of its slot.

A cell is one step of one aggregate. Cells of an open interval are brought up to date only when
somebody looks: at its end, at a report, at the end of a batch. So every row is added once.
"""

from __future__ import annotations

from piestream.compiled.primitives import as_floats, at_word, signed
from piestream.compiled.records import Carried, Flags, Record, Words, kernel

ROWS, COUNT, SUM_INT, SUM_FLOAT, MIN_INT, MAX_INT, MIN_FLOAT, MAX_FLOAT, FIRST, LAST, SPREAD = (
    range(11)
)

#: Words a cell takes if not one: single values are (known, value), SPREAD is Welford's
#: (n, mean, M2), a sum of integers is (sum modulo 2^64, sum as a float), and one of floats is as
#: long, so that a type that becomes known late moves nothing. All but FIRST and LAST begin as zeros.
CELL_SIZE = {
    SUM_INT: 2,
    SUM_FLOAT: 2,
    MIN_INT: 2,
    MAX_INT: 2,
    MIN_FLOAT: 2,
    MAX_FLOAT: 2,
    FIRST: 2,
    LAST: 2,
    SPREAD: 3,
}

#: Of FIRST and LAST: there was no event yet; known 0 is an event whose value is NULL.
UNKNOWN_YET = -1


class Cell(Record):
    """A running aggregate of a symbol."""

    kind: int
    column: int
    word: int  # the first of its words in a slot


class Columns(Record):
    """The columns that RETURN aggregates, one behind the other."""

    known: Carried[Flags]  # of each value, whether it is not NULL
    n_rows: Carried[int]


@kernel
def clear_cell(cell: Cell, words: Words) -> None:
    """Start an aggregate, whose words these are."""
    words[0] = UNKNOWN_YET if cell.kind == FIRST or cell.kind == LAST else 0
    if cell.kind >= SUM_INT:
        words[1] = 0
    if cell.kind == SPREAD:
        words[2] = 0


@kernel
def add_rows(cell: Cell, words: Words, columns: Columns, row: int, row_end: int) -> None:
    """Add the rows ``[row, row_end)``, of which there are some, to an aggregate."""
    kind = cell.kind
    sums = as_floats(words)
    column = at_word(columns, cell.column * columns.n_rows)
    floats = as_floats(column)
    known = at_word(columns.known, cell.column * columns.n_rows)
    if kind == ROWS:
        words[0] += row_end - row
    elif kind == COUNT:
        for r in range(row, row_end):
            words[0] += signed(known[r])
    elif kind == SUM_INT:
        for r in range(row, row_end):
            if known[r]:
                words[0] += column[r]
                sums[1] += column[r]
    elif kind == SUM_FLOAT:
        for r in range(row, row_end):
            if known[r]:
                sums[0] += floats[r]
    elif kind == MIN_INT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or column[r] < words[1]):
                words[0] = 1
                words[1] = column[r]
    elif kind == MAX_INT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or column[r] > words[1]):
                words[0] = 1
                words[1] = column[r]
    elif kind == MIN_FLOAT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or floats[r] < sums[1]):
                words[0] = 1
                sums[1] = floats[r]
    elif kind == MAX_FLOAT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or floats[r] > sums[1]):
                words[0] = 1
                sums[1] = floats[r]
    elif kind == FIRST:
        if words[0] == UNKNOWN_YET:
            words[0] = signed(known[row])
            words[1] = column[row]
    elif kind == LAST:
        words[0] = signed(known[row_end - 1])
        words[1] = column[row_end - 1]
    else:  # SPREAD, by Welford's update
        for r in range(row, row_end):
            if known[r]:
                words[0] += 1
                off = floats[r] - sums[1]
                sums[1] += off / words[0]
                sums[2] += off * (floats[r] - sums[1])
