"""Running aggregates: what RETURN needs of an interval's events, kept in words of its slot.

A cell is one step of one aggregate. Cells of an open interval are brought up to date only when
somebody looks: at its end, at a report, at the end of a batch. So every row is added once.
"""

from __future__ import annotations

import numpy as np

from piestream.compiled.loops import as_floats, at_word
from piestream.compiled.records import kernel
from piestream.joins.partition import Columns
from piestream.joins.records import Query, Slot, Symbol

ROWS, COUNT, SUM_INT, SUM_FLOAT, MIN_INT, MAX_INT, MIN_FLOAT, MAX_FLOAT, FIRST, LAST, SPREAD = (
    range(11)
)

#: Words a cell takes if not one: single values are (known, value), SPREAD is Welford's
#: (n, mean, M2), a sum of integers is (sum modulo 2^64, sum as a float),
#: one of floats is as long, so that a type that comes up late moves nothing. All begin as zeros, whatever the type, but for FIRST and LAST.
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


@kernel
def clear_cells(query: Query, symbol: Symbol, slot: Slot) -> None:
    """Start the aggregates of an interval."""
    for number in range(symbol.cell, symbol.cell_end):
        cell = query.cells[number]
        words = at_word(slot, cell.word)
        words[0] = UNKNOWN_YET if cell.kind == FIRST or cell.kind == LAST else 0
        if cell.kind >= SUM_INT:
            words[1] = 0
        if cell.kind == SPREAD:
            words[2] = 0


@kernel
def add_rows(
    query: Query, symbol: Symbol, slot: Slot, columns: Columns, row: int, row_end: int
) -> None:
    """Add the rows ``[row, row_end)`` of columns to an interval's aggregates."""
    if row >= row_end:
        return
    for number in range(symbol.cell, symbol.cell_end):
        cell = query.cells[number]
        kind = cell.kind
        words = at_word(slot, cell.word)
        sums = as_floats(words)
        column = at_word(columns, cell.column * columns.n_rows)
        floats = as_floats(column)
        known = at_word(columns.known, cell.column * columns.n_rows)
        if kind == ROWS:
            words[0] += row_end - row
        elif kind == COUNT:
            for r in range(row, row_end):
                words[0] += np.int64(known[r])
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
                words[0] = np.int64(known[row])
                words[1] = column[row]
        elif kind == LAST:
            words[0] = np.int64(known[row_end - 1])
            words[1] = column[row_end - 1]
        else:  # SPREAD, by Welford's update
            for r in range(row, row_end):
                if known[r]:
                    words[0] += 1
                    off = floats[r] - sums[1]
                    sums[1] += off / words[0]
                    sums[2] += off * (floats[r] - sums[1])
