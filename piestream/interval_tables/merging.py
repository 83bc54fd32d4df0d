"""Unions of intervals, key by key."""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from piestream.expressions.durations import DurationLike, as_duration
from piestream.interval_tables.conditions import in_ticks
from piestream.interval_tables.finding import grouped
from piestream.interval_tables.keys import GroupKeys, group_keys, key_rows
from piestream.interval_tables.loops.unions import find_unions
from piestream.interval_tables.tables import (
    read_frame,
    read_tables,
    stretches,
)
from piestream.language.inputs import AnyFrame, Events

__all__ = ["merge"]


@overload
def merge(
    frame: AnyFrame, *, on: GroupKeys = ..., gap: DurationLike = ..., start: str = ...,
    end: str = ...,
) -> AnyFrame: ...  # fmt: skip
@overload
def merge(
    frame: Events, *, on: GroupKeys = ..., gap: DurationLike = ..., start: str = ...,
    end: str = ...,
) -> list[dict[str, Any]]: ...  # fmt: skip
def merge(
    frame: Any, *, on: GroupKeys = None, gap: DurationLike = 0, start: str = "ts",
    end: str = "te",
) -> Any:  # fmt: skip
    """The unions of intervals that overlap, touch, or lie at most ``gap`` apart, key by key.

    A frame of the same kind: the columns ``on``, start and end of each union, and ``count``, the number of
    its intervals. Keys come in order of first appearance, NULL as a key like others; unions by start.

    >>> import polars as pl, piestream as ps
    >>> shifts = pl.DataFrame({"ts": [0, 4, 10, 17], "te": [5, 8, 12, 20]})
    >>> ps.merge(shifts).rows()
    [(0, 8, 2), (10, 12, 1), (17, 20, 1)]
    >>> ps.merge(shifts, gap=2).rows()
    [(0, 12, 3), (17, 20, 1)]
    """
    length = as_duration(gap, "gap")
    given = read_frame(frame)
    (table,), scale = read_tables([("the frame", given.frame)], start, end)
    ticks = in_ticks(length, scale, "gap")
    names = key_rows(on)
    (groups,), n_groups = group_keys([table], [names], null_is_key=True)
    sorted_rows = grouped(groups, table.starts, table.ends, n_groups)
    first, ends = find_unions(groups[sorted_rows.rows], sorted_rows.starts, sorted_rows.ends, ticks)
    counts = np.diff(first, append=len(groups))
    rows = stretches(
        table, scale, names, sorted_rows.rows[first], sorted_rows.starts[first], ends, counts
    )
    return given.same_kind(rows)
