"""The intervals of a pattern's symbols as tables, for methods that join tables of intervals."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.peers.forms import Tables
from experiments.peers.parts.interval_sql import NEVER, OPEN
from experiments.peers.pattern import Pattern

__all__ = ["COLUMNS", "interval_rows"]

#: A table's columns: partition, endpoints, the start of the next run and the end of the last one, and
#: when the interval is known to be long enough.
COLUMNS = ("k", "ts", "te", "next_ts", "last_te", "valid")


def interval_rows(given: Tables, pattern: Pattern, *, open_too: bool = False) -> list[pl.DataFrame]:
    """A table for each symbol, of the intervals that keep their durations; without those that are open.

    With ``open_too`` an open interval has an end later than all times. One with a longest length counts
    when it has ended.

    >>> from experiments.peers.forms import tables
    >>> pattern = Pattern(1, (), 9)
    >>> form = tables(pattern)
    >>> loaded = form.load(np.array([3, 4, 5]), np.array([1, 0, 1]), 0)
    >>> interval_rows(form.of_bits(loaded), pattern)[0].select("k", "ts", "te", "next_ts").rows()
    [(0, 3, 4, 5)]
    """
    found = []
    for symbol, (ts, te, valid) in enumerate(given.runs):
        least, most = pattern.at_least[symbol], pattern.at_most[symbol]
        kept = np.ones(len(ts), np.bool_)
        if len(ts) and te[-1] == OPEN and (not open_too or most is not None):
            kept[-1] = False
        if least:
            kept &= te - ts >= least
        if most is not None:
            kept &= te - ts <= most
        of_all = {
            "k": ts // given.apart if given.apart else np.zeros(len(ts), np.int64),
            "ts": ts,
            "te": te,
            "next_ts": np.append(ts[1:], OPEN)[: len(ts)],
            "last_te": np.append(NEVER, te[:-1])[: len(ts)],
            "valid": valid if most is None else te,
        }
        found.append(pl.DataFrame({name: column[kept] for name, column in of_all.items()}))
    return found
