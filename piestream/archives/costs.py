"""What it costs to read pages of an archive, beside a scan of all its rows, whose cost is a unit a row.

A row that is selected costs more than one of a scan, because rows are put in order and predicates asked
apart. To begin a read costs as much as some thousand rows, and of each file the footer may have to be read,
which describes all of its pages.
"""

from __future__ import annotations

import numpy as np

from piestream.archives.pages import Pages, stretches
from piestream.archives.verdicts import Flags

__all__ = [
    "GAP",
    "LEAST_ROWS",
    "MOST_COST",
    "MOST_TOGETHER",
    "is_worth_it",
    "may_search",
    "read_cost",
]

#: Of fewer rows all are read: to find out what could be left out takes a twentieth of the time.
LEAST_ROWS = 1 << 19
#: What is selected costs at most so much of a scan, or all is scanned.
MOST_COST = 1.0
#: So large a part of that may be spent on looking for rows that are needed, and may not be there.
_SEARCHED = 1 / 8
#: Where all cores have to be worked on together, as for LIMIT, they have no more rows than these.
MOST_TOGETHER = 1 << 24
#: So many pages more are read to save beginning anew.
GAP = 3

#: A row that is selected; the beginning of a read; and each page of a file that is read of.
_ROW, _READ, _PAGE = 2.5, 3000, 20


def read_cost(pages: Pages, wanted: Flags, row: float = _ROW) -> float:
    """The cost of reading some pages, in rows of a scan."""
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        return 0.0
    firsts = [first for first, _ in stretches(chosen, pages.files, GAP)]
    described = pages.n_pages[np.unique(pages.files[chosen])].sum()
    return float(row * pages.rows[wanted].sum() + _READ * len(firsts) + _PAGE * described)


def is_worth_it(pages: Pages, wanted: Flags, more: float = 0.0) -> bool:
    """Whether to read some pages costs no more than a scan, if ``more`` is spent besides."""
    return read_cost(pages, wanted) + more <= MOST_COST * pages.n_rows


def may_search(pages: Pages, searched: Flags) -> bool:
    """Whether pages may be read on which rows are looked for that may not be there."""
    return read_cost(pages, searched) <= _SEARCHED * MOST_COST * pages.n_rows
