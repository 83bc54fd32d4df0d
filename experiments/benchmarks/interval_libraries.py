"""Joins by libraries of intervals that others wrote, where they are installed: superintervals, NCLS, bioframe.

Each finds the pairs that intersect, and no others. A case whose pairs all intersect is asked as it is and
its pairs are filtered by NumPy; "before, at most so much later" is asked of the stretch behind each end, in
which a start has to lie. Keys are moved apart on one line where the library knows none.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from experiments.peers.pattern import Ints, UnsupportedPatternError

if TYPE_CHECKING:
    from experiments.benchmarks.interval_joins import Case

__all__ = ["LIBRARIES", "joining_by", "missing"]

#: Starts, ends and keys of one table.
Table = tuple[Ints, Ints, Ints]
#: Gives, of two tables, a function that finds the rows of all pairs that intersect.
Finder = Callable[[Table, Table], Callable[[], tuple[np.ndarray, np.ndarray]]]

_PAIRS: Mapping[str, Callable[[Ints, Ints, Ints, Ints], Any]] = {
    "intersects": lambda xs, xe, ys, ye: slice(None),
    "overlaps": lambda xs, xe, ys, ye: (xs < ys) & (xe < ye),
    "during": lambda xs, xe, ys, ye: (ys < xs) & (xe < ye),
}


def missing(library: str) -> str:
    """Why a library cannot be run here; empty if it can."""
    if importlib.util.find_spec(library) is None:
        return f"{library} is not installed: pip install {library}"
    return ""


def joining_by(library: str, case: Case) -> Callable[[], pl.DataFrame]:
    """The join by a library: the pairs, what is left of them, and the columns of both tables."""
    x, y = case.tables()
    xs, xe, ys, ye = (table[name].to_numpy() for table in (x, y) for name in ("ts", "te"))
    x_keys, y_keys = x["k"].to_numpy(), y["k"].to_numpy()
    behind = case.at_most
    if case.relations == "before" and behind is not None:
        find = LIBRARIES[library]((xe + 1, xe + behind + 1, x_keys), (ys, ys + 1, y_keys))
    elif case.relations in _PAIRS:
        find = LIBRARIES[library]((xs, xe, x_keys), (ys, ye, y_keys))
    else:
        raise UnsupportedPatternError(f"{library} finds pairs that intersect")
    y_named = y.rename({name: f"{name}_y" for name in y.columns})
    holds = _PAIRS.get(case.relations, _PAIRS["intersects"])

    def join() -> pl.DataFrame:
        of_x, of_y = find()
        kept = holds(xs[of_x], xe[of_x], ys[of_y], ye[of_y])
        found: pl.DataFrame = x[of_x[kept]].hstack(y_named[of_y[kept]])
        return found

    return join


def _moved_apart(x: Table, y: Table) -> tuple[Ints, Ints, Ints, Ints]:
    """The endpoints of both on one line, on which no two keys meet."""
    apart = int(max(x[1].max(), y[1].max())) + 1
    return x[0] + x[2] * apart, x[1] + x[2] * apart, y[0] + y[2] * apart, y[1] + y[2] * apart


def _superintervals(x: Table, y: Table) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    interval_map: Any = importlib.import_module("superintervals").IntervalMap

    def find() -> tuple[np.ndarray, np.ndarray]:
        xs, xe, ys, ye = _moved_apart(x, y)
        order = np.arange(len(ys))
        ends = (int(xe.max()), int(ye.max()))
        if max(ends) >= 2**31:  # its coordinates have 32 bits: ranks keep what is less than what
            ranks = np.unique(np.concatenate([xs, xe, ys, ye]), return_inverse=True)[1]
            xs, xe, ys, ye = np.split(ranks, np.cumsum([len(xs), len(xe), len(ys)]))
        if (np.diff(ys) < 0).any():
            order = np.argsort(ys, kind="stable")
        # Its intervals have their ends in them.
        of_y = interval_map.from_arrays(
            ys[order].astype(np.int32), (ye[order] - 1).astype(np.int32), order
        )
        found = of_y.search_values_batch(xs.astype(np.int32), (xe - 1).astype(np.int32))
        counts = np.fromiter(map(len, found), np.int64, len(found))
        rows = np.fromiter((row for each in found for row in each), np.int64, int(counts.sum()))
        return np.repeat(np.arange(len(xs)), counts), rows

    return find


def _ncls(x: Table, y: Table) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    nested: Any = importlib.import_module("ncls").NCLS

    def find() -> tuple[np.ndarray, np.ndarray]:
        xs, xe, ys, ye = _moved_apart(x, y)
        of_y = nested(ys, ye, np.arange(len(ys)))
        found: tuple[np.ndarray, np.ndarray] = of_y.all_overlaps_both(xs, xe, np.arange(len(xs)))
        return found

    return find


def _bioframe(x: Table, y: Table) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    bioframe: Any = importlib.import_module("bioframe")
    import pandas as pd

    frames = [
        pd.DataFrame({"chrom": keys.astype(str), "start": starts, "end": ends})
        for starts, ends, keys in (x, y)
    ]

    def find() -> tuple[np.ndarray, np.ndarray]:
        found = bioframe.overlap(
            *frames, how="inner", return_index=True, return_input=False, ensure_int=False
        )
        return found["index"].to_numpy(np.int64), found["index_"].to_numpy(np.int64)

    return find


LIBRARIES: Mapping[str, Finder] = {
    "superintervals": _superintervals,
    "ncls": _ncls,
    "bioframe": _bioframe,
}
