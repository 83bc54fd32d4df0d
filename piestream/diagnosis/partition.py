"""Rows of one partition, and of a stretch of time in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from piestream.diagnosis.rows import Rows
from piestream.errors import SchemaError
from piestream.expressions.columns import column_named

__all__ = ["of_partition", "plain", "stretch", "ticks_of"]

#: Times before a stretch that it needs: one, at which no run begins too early.
_BEFORE = 1


def plain(value: Any) -> Any:
    """A value of a row; None for what frames call missing."""
    if value is None or value != value:
        return None
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value.item() if type(value).__module__ == "numpy" else value


def of_partition(rows: Rows, keys: Mapping[str, Any], needs: str) -> Rows:
    """The rows of one partition, in order of time.

    The latest row of all stays too, whatever its partition: it says how late it is.
    """
    missing = [name for name in rows.keys if name not in keys]
    if missing:
        wanted = ", ".join(f'"{name}": …' for name in rows.keys)
        raise SchemaError(
            f"{needs} needs the partition, {{{wanted}}}: {', '.join(missing)} is missing"
        )
    frame, time = rows.frame, rows.time.name
    chosen = pl.lit(True)
    for name in rows.keys:
        column = column_named(name)
        if frame.schema[name].is_float():
            column = column.fill_nan(None)
        value = plain(keys[name])
        chosen &= column.is_null() if value is None else column.eq_missing(pl.lit(value))
    mine = frame.filter(chosen).sort(time, maintain_order=True)
    latest = frame[time].arg_max()
    others = frame[:0] if latest is None else frame[latest : latest + 1].filter(~chosen)
    return replace(rows, frame=pl.concat([mine, others]))


def ticks_of(rows: Rows) -> pl.Series:
    """The times of the rows, in ticks."""
    return rows.frame[rows.time.name].to_physical().cast(pl.Int64)


def stretch(rows: Rows, first: int, last: int) -> Rows:
    """The rows of one partition, in order of time, around a stretch of time.

    What begins in it, and is known by its end, is what it is among all rows.
    """
    times = ticks_of(rows)
    before = times.filter(times < first).unique().sort().tail(_BEFORE)
    after = times.filter(times > last)
    start = first if before.is_empty() else before[0]
    if any(symbol.predicate.reads_the_past for symbol in rows.query.symbols):
        start = times.min()  # how far back that goes is known of no UNTIL
    end = last if after.is_empty() else after.min()
    return replace(rows, frame=rows.frame.filter((times >= start) & (times <= end)))
