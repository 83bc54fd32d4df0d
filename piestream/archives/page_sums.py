"""What pages add to counts and sums of an interval that goes on there: the statistics have it.

Only sums of whole numbers are taken from there: of floats a running sum depends in its last digits on the
order in which they are added, so that another one would come out than of the rows.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from piestream.archives.pages import Pages, Words
from piestream.archives.statistics import HIGHEST, LOWEST, MISSING, ROWS, SUM, whole_sum
from piestream.archives.verdicts import Flags
from piestream.plan.columns import COUNTED, ROW, Attribute

__all__ = ["added", "has_count", "has_sum"]

#: Sums that may be larger are added row by row: what comes out beyond 64 bits depends on the order, too.
_MOST_SUM = 2.0**62


def has_count(pages: Pages, name: str) -> Flags:
    """The pages of which it is known how many values of a column they have."""
    if MISSING + name not in pages.table.columns:
        return np.zeros(len(pages), np.bool_)
    return pages.table[MISSING + name].is_not_null().to_numpy().copy()


def has_sum(pages: Pages, name: str) -> Flags:
    """The pages of which the sum of a column's values is known, where these are whole numbers."""
    table, nothing = pages.table, np.zeros(len(pages), np.bool_)
    if table.schema.get(SUM + name) != pl.List(pl.Int64):
        return nothing
    low, high = (table[end + name].cast(pl.Float64).abs().fill_null(0) for end in (LOWEST, HIGHEST))
    largest = np.maximum(low.to_numpy(), high.to_numpy())
    if float((largest * pages.rows).sum()) > _MOST_SUM:
        return nothing
    found: Flags = has_count(pages, name) & table[SUM + name].is_not_null().to_numpy()
    return found


def added(pages: Pages, chosen: Words, attribute: Attribute) -> pl.Series:
    """What some pages add to the cells of an attribute that counts, or sums, values of groups of rows.

    NULL where it is not known: no symbol whose values are counted, or summed, holds there.
    """
    table, name = pages.table[chosen], attribute.name
    if name == ROW:
        return table[ROWS]
    is_known = (has_count if attribute.form == COUNTED else has_sum)(pages, name)[chosen]
    if not is_known.any():
        return pl.Series([None] * len(chosen), dtype=pl.Int64)
    values = table[ROWS] - table[MISSING + name]
    if attribute.form == COUNTED:
        return values
    sums = [
        whole_sum(words) if known else None
        for words, known in zip(table[SUM + name].to_list(), is_known, strict=True)
    ]
    return pl.Series(sums, dtype=pl.Int64).set(values == 0, None)
