"""The rows of a row pattern in their order: each with the number of its instant, its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from piestream.diagnosis.rows import GivenRows, in_partition
from piestream.expressions.columns import column_named
from piestream.language.parts import Source
from piestream.show.table import cell_text

__all__ = ["PLACE", "Instant", "Places", "numbered"]

#: Columns of tables that nobody sees; no column of a user's is called so. The number of a row's instant
#: among those of all rows, and that of the row itself.
PLACE, _ROW = "place:", "row:"


@dataclass(frozen=True, slots=True)
class Instant:
    """When a row is, where several have one time: the time, and what orders it among those.

    ``value`` is that of the ``column``; where the rows themselves are the order, it counts those of one
    time, from 1 on, and ``column`` is None.

    >>> print(Instant(9, "seq", 2), Instant(9, None, 3))
    9 (seq 2) 9 (row 3)
    """

    time: Any
    column: str | None
    value: Any

    def __str__(self) -> str:
        return f"{cell_text(self.time)} ({self.column or 'row'} {cell_text(self.value)})"


@dataclass(frozen=True)
class Places:
    """The rows of one partition in their order: the place of each, its time in ticks, and what shows it."""

    numbers: list[int]
    times: list[int]
    shown: list[Any]  # its time, or its Instant where several rows have one time

    @classmethod
    def of(cls, rows: GivenRows) -> Places:
        """Of rows that are `numbered`."""
        (frame,) = rows.inputs.values()
        if rows.partition:
            frame = frame.filter(in_partition(frame.schema, rows.partition))
        source, time = rows.query.streams[0], rows.time.name
        order = {PLACE: PLACE, "ticks:": time, "time:": time}
        if source.sequence is not None:
            order["order:"] = source.sequence
        found = frame.select(column_named(name).alias(alias) for alias, name in order.items())
        found = found.unique(PLACE, keep="first").drop_nulls().sort(PLACE)
        found = found.with_columns(pl.col("ticks:").to_physical().cast(pl.Int64))
        if source.row_order:
            of_time = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("ticks:")
            found = found.with_columns(of_time.alias("order:"))
        return cls(found[PLACE].to_list(), found["ticks:"].to_list(), list(_shown(source, found)))


def _shown(source: Source, found: pl.DataFrame) -> list[Any]:
    times = found["time:"].to_list()
    if not source.is_sequenced:
        return times
    order = found["order:"].to_list()
    return [Instant(t, source.sequence, v) for t, v in zip(times, order, strict=True)]


def numbered(rows: GivenRows) -> tuple[GivenRows, pl.DataFrame]:
    """The rows with the number of their instant; and a table of these: the keys, number, ``ts``."""
    ((key, frame),) = rows.inputs.items()
    source, by = rows.query.streams[0], [*rows.keys, rows.time.name]
    frame = frame.drop(PLACE, _ROW, strict=False)
    if source.row_order:
        frame = frame.with_row_index(_ROW)
        by.append(_ROW)
    elif source.sequence is not None:
        by.append(source.sequence)
    ordered = frame.select(map(column_named, by)).unique(maintain_order=True)
    ordered = ordered.sort([column_named(name) for name in by[len(rows.keys) :]])
    ordered = ordered.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(PLACE))
    placed = frame.join(ordered, on=by, how="left", nulls_equal=True, maintain_order="left")
    time = column_named(rows.time.name).to_physical().cast(pl.Int64)
    places = ordered.select(*map(column_named, rows.keys), PLACE, time.alias("ts"))
    return rows.with_inputs({key: placed}), places
