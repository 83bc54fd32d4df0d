"""What it costs to read pages of an archive, beside a scan of all its rows, whose cost is a unit a row.

A row that is selected costs more than one of a scan, because rows are put in order and predicates asked
apart. To begin a read costs as much as some thousand rows, and of each file the footer may have to be read,
which describes all of its pages.

Where only rows tell how much has to be read, a few cores are tried first, at a small part of the cost of a scan:
so much is lost where it turns out that a scan costs less.
"""

from __future__ import annotations

import numpy as np

from piestream.archives.pages import Pages, stretches
from piestream.archives.verdicts import Flags

__all__ = [
    "AGAIN",
    "DECODED_AGAIN",
    "GAP",
    "LEAST_OF_KEYS",
    "LEAST_ROWS",
    "MOST_COST",
    "MOST_TOGETHER",
    "OF_KEYS",
    "is_worth_it",
    "most_cost",
    "plan_cost",
    "read_cost",
    "rows_cost",
    "scan_cost",
    "trial_cost",
]

#: Of fewer rows all are read: to find out what could be left out takes a twentieth of the time.
LEAST_ROWS = 1 << 19
#: What is selected costs at most so much of a scan, or all is scanned.
MOST_COST = 1.0
#: So large a part of that may be spent to find out how much has to be read, what statistics are asked for included.
TRIED = 1 / 20
#: To ask statistics costs as much as so many rows, and so many for each page.
_PLAN, _PLAN_OF_PAGE = 12_000, 5
#: Where all cores have to be worked on together, as for LIMIT, they have no more rows than these.
MOST_TOGETHER = 1 << 24
#: To find out what keys of pages have in common costs as much as a row of a scan for each pair of both, or less.
#: So many are looked at in any case, and so large a part of a scan may be spent on it.
LEAST_OF_KEYS, OF_KEYS = 1 << 12, 1 / 64
#: So many pages more are read to save beginning anew.
GAP = 3

#: It is given up where it costs so many times as much as was expected, and so much of a scan besides.
_MARGIN, _LEAST_MARGIN = 1.25, 1 / 32
#: The same where no more than rows before is not known: pages that are selected mostly need some others.
_MARGIN_BEFORE, _LEAST_MARGIN_BEFORE = 2.0, 0.1
#: So large a part of all values may be decoded a second time.
DECODED_AGAIN = 0.05

#: What is worked on once more costs so much a row.
AGAIN = 1.0
#: To work on any rows at all costs as much as so many of a scan, of which those with keys cost more.
_RUN, _RUN_BY_KEY = 50_000, 30_000
#: A row that is selected; the beginning of a read; and each page of a file that is read of.
_ROW, _READ, _PAGE = 2.5, 3000, 20


def read_cost(pages: Pages, wanted: Flags, row: float = _ROW) -> float:
    """The cost of reading some pages, in rows of a scan."""
    described = pages.n_pages[np.unique(pages.files[wanted])].sum()
    return rows_cost(pages, wanted, row) + _PAGE * float(described)


def rows_cost(pages: Pages, wanted: Flags, row: float = _ROW) -> float:
    """The same without that of footers, which a scan reads, too."""
    firsts = stretches(np.flatnonzero(wanted), pages.files, GAP)
    return float(row * pages.rows[wanted].sum() + _READ * len(firsts))


def scan_cost(pages: Pages) -> float:
    """The most that what is selected may cost, in rows of a scan."""
    return MOST_COST * pages.n_rows


def trial_cost(pages: Pages, is_keyed: bool) -> float:
    """The most that reading may cost where it is found out how much has to be read."""
    return TRIED * scan_cost(pages) - plan_cost(pages) - (_RUN_BY_KEY if is_keyed else _RUN)


def plan_cost(pages: Pages) -> float:
    """The cost of asking statistics."""
    return _PLAN + _PLAN_OF_PAGE * len(pages)


def most_cost(pages: Pages, expected: float, *, grows: bool) -> float:
    """The most that reading may cost, if a cost is expected, with all that is seen to be needed besides.

    ``grows``: only rows tell how much it is.
    """
    scan = scan_cost(pages)
    if grows:
        return min(scan, _MARGIN * expected + _LEAST_MARGIN * scan)
    return min(_MARGIN * scan, _MARGIN_BEFORE * expected + _LEAST_MARGIN_BEFORE * scan)


def is_worth_it(pages: Pages, wanted: Flags, more: float = 0.0) -> bool:
    """Whether to read some pages costs no more than a scan, if ``more`` is spent besides."""
    return read_cost(pages, wanted) + more <= scan_cost(pages)
