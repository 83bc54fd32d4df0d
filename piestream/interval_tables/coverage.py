"""How much of an interval is covered by others, and how many there are at each time."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import polars as pl

from piestream.compiled.records import Array
from piestream.interval_tables.finding import Grouped, grouped
from piestream.interval_tables.keys import GroupKeys, Keys, group_keys, key_names, key_rows
from piestream.interval_tables.loops.order import sorted_places
from piestream.interval_tables.loops.unions import find_depths, find_unions
from piestream.interval_tables.tables import (
    Side,
    checked_names,
    read_frame,
    read_tables,
    stretches,
)
from piestream.language.inputs import AnyFrame, Events

__all__ = ["coverage", "depth"]


def _ends_in_order(rows: Grouped) -> Array:
    """The ends by group and time."""
    return rows.ends[sorted_places(np.stack([rows.groups(), rows.ends]))]


@overload
def coverage(
    x: AnyFrame, y: Any, *, on: Keys = ..., start: Side = ..., end: Side = ...
) -> AnyFrame: ...
@overload
def coverage(
    x: Events, y: Any, *, on: Keys = ..., start: Side = ..., end: Side = ...
) -> list[dict[str, Any]]: ...
def coverage(x: Any, y: Any, *, on: Keys = None, start: Side = "ts", end: Side = "te") -> Any:
    """How much of each interval of x is covered by those of y: the rows of x with three columns more.

    ``covered`` is the time in which there is at least one interval of y (ticks of integers, else a
    duration), ``covered_share`` the part of the interval's length that this is, and ``covering`` how many
    intervals of y share an instant with it. A key that is NULL or NaN is covered by nothing.

    >>> import polars as pl, piestream as ps
    >>> shifts = pl.DataFrame({"ts": [0, 10], "te": [10, 20]})
    >>> staff = pl.DataFrame({"ts": [2, 4, 14], "te": [5, 8, 30]})
    >>> ps.coverage(shifts, staff).rows()
    [(0, 10, 6, 0.6, 2), (10, 20, 6, 0.6, 1)]
    """
    from piestream.interval_tables.loops.covered import measure_cover

    given, other = read_frame(x), read_frame(y)
    (one, two), scale = read_tables([("x", given.frame), ("y", other.frame)], start, end)
    names = checked_names(
        [*given.frame.columns, "covered", "covered_share", "covering"], "rename that of x"
    )
    (x_groups, y_groups), n_groups = group_keys((one, two), key_names(on))
    y_rows = grouped(y_groups, two.starts, two.ends, n_groups)
    order = sorted_places(np.stack([x_groups, one.starts]))
    union_offsets, unions = _unions(y_rows, y_groups, n_groups)
    times = np.stack([one.starts[order], one.ends[order]])
    y_times = np.stack([y_rows.starts, _ends_in_order(y_rows)])
    found = measure_cover(x_groups[order], times, y_rows.offsets, y_times, union_offsets, unions)
    covered, covering = np.empty_like(found[0]), np.empty_like(found[1])
    covered[order], covering[order] = found
    lengths = (one.ends - one.starts).view(np.uint64)  # which may exceed 63 bits
    rows = given.frame.with_columns(
        scale.as_lengths(pl.Series(covered)).alias(names[-3]),
        pl.Series(names[-2], covered.view(np.uint64) / lengths),
        pl.Series(names[-1], covering),
    )
    return given.same_kind(rows)


def _unions(y: Grouped, groups: Array, n_groups: int) -> tuple[Array, Array]:
    """Where the unions of each group begin; and their starts, ends, and the length of all before."""
    of_places = groups[y.rows]
    first, ends = find_unions(of_places, y.starts, y.ends, 0)
    starts = y.starts[first]
    offsets = np.searchsorted(of_places[first], np.arange(n_groups + 1))
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    return offsets, np.stack([np.append(starts, 0), np.append(ends, 0), before])


@overload
def depth(
    frame: AnyFrame, *, on: GroupKeys = ..., start: str = ..., end: str = ...
) -> AnyFrame: ...
@overload
def depth(
    frame: Events, *, on: GroupKeys = ..., start: str = ..., end: str = ...
) -> list[dict[str, Any]]: ...
def depth(frame: Any, *, on: GroupKeys = None, start: str = "ts", end: str = "te") -> Any:
    """How many intervals there are at each time, key by key, as stretches of equally many.

    A frame of the same kind: the columns ``on``, start and end of each longest stretch in which the
    number does not change, and ``count``, which is at least 1. Keys come in order of first appearance,
    NULL as a key like others; stretches by start.

    >>> import polars as pl, piestream as ps
    >>> calls = pl.DataFrame({"ts": [0, 3, 5], "te": [5, 9, 7]})
    >>> ps.depth(calls).rows()
    [(0, 3, 1), (3, 7, 2), (7, 9, 1)]
    """
    given = read_frame(frame)
    (table,), scale = read_tables([("the frame", given.frame)], start, end)
    names = key_rows(on)
    (groups,), n_groups = group_keys([table], [names], null_is_key=True)
    rows = grouped(groups, table.starts, table.ends, n_groups)
    of_group, starts, ends, counts = find_depths(rows.offsets, rows.starts, _ends_in_order(rows))
    some_row = rows.rows[rows.offsets[of_group]]
    return given.same_kind(stretches(table, scale, names, some_row, starts, ends, counts))
