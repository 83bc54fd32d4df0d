"""Running aggregates: what RETURN needs of an interval's events, kept in words of its slot.

A cell is one step of one aggregate. Cells of an open interval are brought up to date only when
somebody looks: at its end, at a report, at the end of a batch. So every row is added once.
"""

from __future__ import annotations

from enum import IntEnum

from piestream.compiled.primitives import as_floats, at_word, signed
from piestream.compiled.records import Carried, Flags, Record, Words, kernel


class CellKind(IntEnum):
    """What a cell keeps of the events that it has seen."""

    ROWS = 0  # how many
    COUNT = 1  # how many values are not NULL
    SUM_INT = 2
    SUM_FLOAT = 3
    MIN_INT = 4
    MAX_INT = 5
    MIN_FLOAT = 6
    MAX_FLOAT = 7
    FIRST = 8
    LAST = 9
    SPREAD = 10  # what the variance is made of


#: Words a cell takes. Single values are (known, value), SPREAD is Welford's (n, mean, M2), a sum of
#: integers is (sum modulo 2^64, sum as a float), and one of floats is as long, so that a type that
#: becomes known late moves nothing. All but FIRST and LAST begin as zeros.
CELL_SIZE = {
    CellKind.ROWS: 1,
    CellKind.COUNT: 1,
    CellKind.SUM_INT: 2,
    CellKind.SUM_FLOAT: 2,
    CellKind.MIN_INT: 2,
    CellKind.MAX_INT: 2,
    CellKind.MIN_FLOAT: 2,
    CellKind.MAX_FLOAT: 2,
    CellKind.FIRST: 2,
    CellKind.LAST: 2,
    CellKind.SPREAD: 3,
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
    words[0] = UNKNOWN_YET if cell.kind == CellKind.FIRST or cell.kind == CellKind.LAST else 0
    if cell.kind != CellKind.ROWS and cell.kind != CellKind.COUNT:
        words[1] = 0
    if cell.kind == CellKind.SPREAD:
        words[2] = 0


@kernel
def add_rows(cell: Cell, words: Words, columns: Columns, row: int, row_end: int) -> None:
    """Add the rows ``[row, row_end)``, of which there are some, to an aggregate."""
    kind = cell.kind
    sums = as_floats(words)
    column = at_word(columns, cell.column * columns.n_rows)
    floats = as_floats(column)
    known = at_word(columns.known, cell.column * columns.n_rows)
    if kind == CellKind.ROWS:
        words[0] += row_end - row
    elif kind == CellKind.COUNT:
        for r in range(row, row_end):
            words[0] += signed(known[r])
    elif kind == CellKind.SUM_INT:
        for r in range(row, row_end):
            if known[r]:
                words[0] += column[r]
                sums[1] += column[r]
    elif kind == CellKind.SUM_FLOAT:
        for r in range(row, row_end):
            if known[r]:
                sums[0] += floats[r]
    elif kind == CellKind.MIN_INT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or column[r] < words[1]):
                words[0] = 1
                words[1] = column[r]
    elif kind == CellKind.MAX_INT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or column[r] > words[1]):
                words[0] = 1
                words[1] = column[r]
    elif kind == CellKind.MIN_FLOAT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or floats[r] < sums[1]):
                words[0] = 1
                sums[1] = floats[r]
    elif kind == CellKind.MAX_FLOAT:
        for r in range(row, row_end):
            if known[r] and (words[0] == 0 or floats[r] > sums[1]):
                words[0] = 1
                sums[1] = floats[r]
    elif kind == CellKind.FIRST:
        if words[0] == UNKNOWN_YET:
            words[0] = signed(known[row])
            words[1] = column[row]
    elif kind == CellKind.LAST:
        words[0] = signed(known[row_end - 1])
        words[1] = column[row_end - 1]
    elif kind == CellKind.SPREAD:  # by Welford's update
        for r in range(row, row_end):
            if known[r]:
                words[0] += 1
                off = floats[r] - sums[1]
                sums[1] += off / words[0]
                sums[2] += off * (floats[r] - sums[1])
