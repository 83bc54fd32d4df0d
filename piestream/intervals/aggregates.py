"""Running aggregates: what RETURN needs of an interval's events, kept in words of its slot.

A cell is one step of one aggregate. Cells of an open interval are brought up to date only when
somebody looks: at its end, at a report, at the end of a batch. So every row is added once.
"""

from __future__ import annotations

import numpy as np

from piestream.joins.layout import CELL_COLUMN, CELL_KIND, CELL_WORD, CELL_WORDS
from piestream.loops import FLAGS, INT, NOTHING, WORDS, as_floats, compiled

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


@compiled(NOTHING, WORDS, INT, INT, WORDS, INT)
def clear_cells(code, cell, cell_end, pool, slot):
    """Start the aggregates of an interval."""
    while cell < cell_end:
        kind = code[cell + CELL_KIND]
        at = slot + code[cell + CELL_WORD]
        pool[at] = 0
        if kind >= SUM_INT:
            pool[at + 1] = 0
        if kind == FIRST or kind == LAST:
            pool[at] = UNKNOWN_YET
        elif kind == SPREAD:
            pool[at + 2] = 0
        cell += CELL_WORDS


@compiled(NOTHING, WORDS, INT, INT, WORDS, INT, WORDS, FLAGS, INT, INT, INT)
def add_rows(code, cell, cell_end, pool, slot, columns, known, n_rows, row, row_end):
    """Add the rows ``[row, row_end)`` of columns of ``n_rows`` to one interval's aggregates."""
    if row >= row_end:
        return
    floats = as_floats(columns)
    words = as_floats(pool)
    while cell < cell_end:
        kind = code[cell + CELL_KIND]
        c = code[cell + CELL_COLUMN] * n_rows
        at = slot + code[cell + CELL_WORD]
        if kind == ROWS:
            pool[at] += row_end - row
        elif kind == COUNT:
            for r in range(row, row_end):
                pool[at] += np.int64(known[c + r])
        elif kind == SUM_INT:
            for r in range(row, row_end):
                if known[c + r]:
                    pool[at] += columns[c + r]
                    words[at + 1] += columns[c + r]
        elif kind == SUM_FLOAT:
            for r in range(row, row_end):
                if known[c + r]:
                    words[at] += floats[c + r]
        elif kind == MIN_INT:
            for r in range(row, row_end):
                if known[c + r] and (pool[at] == 0 or columns[c + r] < pool[at + 1]):
                    pool[at] = 1
                    pool[at + 1] = columns[c + r]
        elif kind == MAX_INT:
            for r in range(row, row_end):
                if known[c + r] and (pool[at] == 0 or columns[c + r] > pool[at + 1]):
                    pool[at] = 1
                    pool[at + 1] = columns[c + r]
        elif kind == MIN_FLOAT:
            for r in range(row, row_end):
                if known[c + r] and (pool[at] == 0 or floats[c + r] < words[at + 1]):
                    pool[at] = 1
                    words[at + 1] = floats[c + r]
        elif kind == MAX_FLOAT:
            for r in range(row, row_end):
                if known[c + r] and (pool[at] == 0 or floats[c + r] > words[at + 1]):
                    pool[at] = 1
                    words[at + 1] = floats[c + r]
        elif kind == FIRST:
            if pool[at] == UNKNOWN_YET:
                pool[at] = np.int64(known[c + row])
                pool[at + 1] = columns[c + row]
        elif kind == LAST:
            pool[at] = np.int64(known[c + row_end - 1])
            pool[at + 1] = columns[c + row_end - 1]
        else:  # SPREAD, by Welford's update
            for r in range(row, row_end):
                if known[c + r]:
                    pool[at] += 1
                    off = floats[c + r] - words[at + 1]
                    words[at + 1] += off / pool[at]
                    words[at + 2] += off * (floats[c + r] - words[at + 1])
        cell += CELL_WORDS
