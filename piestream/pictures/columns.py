"""The columns that are drawn below the intervals, of each stream of events."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from piestream.diagnosis.rows import EventRows, GivenRows
from piestream.pictures.thresholds import Threshold, thresholds

__all__ = ["MOST_POINTS", "DrawnColumn", "drawn_columns", "drawn_points"]

#: Of a column with more values only the least and the greatest of each stretch are drawn.
MOST_POINTS = 20_000


@dataclass(frozen=True)
class DrawnColumn:
    """A column of a stream of events, what it is called, and what it is compared with."""

    name: str
    column: str
    rows: EventRows
    thresholds: tuple[Threshold, ...]


def drawn_columns(rows: GivenRows) -> list[DrawnColumn]:
    """The columns of numbers and of truth values that predicates read.

    Where several streams are read they are called ``stream.column``.
    """
    query, known = rows.query, thresholds(rows.query)
    found = []
    for events in rows.event_streams:
        types = events.frame.schema
        for column in events.columns:
            if types[column].is_numeric() or types[column] == pl.Boolean:
                of = f"{query.streams[events.stream].name}." * query.is_combined
                own = tuple(
                    t for t in known
                    if t.column == column and query.symbol(t.symbol).stream == events.stream
                )  # fmt: skip
                found.append(DrawnColumn(f"{of}{column}", column, events, own))
    return found


def drawn_points(values: pl.Series, most: int = MOST_POINTS) -> list[int]:
    """The rows to draw: all, or the least and the greatest value of each of many stretches.

    >>> drawn_points(pl.Series([3.0, 1.0, 2.0, 5.0, 4.0, 6.0]), most=4)
    [0, 1, 4, 5]
    """
    number = len(values)
    if number <= most:
        return list(range(number))
    rows = pl.DataFrame({"value": values}).with_row_index("row")
    stretch = pl.col("row").cast(pl.Int64) * (most // 2) // number
    kept = rows.group_by(stretch.alias("stretch")).agg(
        pl.col("row").get(pl.col("value").arg_min().fill_null(0)).alias("least"),
        pl.col("row").get(pl.col("value").arg_max().fill_null(0)).alias("greatest"),
    )
    return sorted({*kept["least"], *kept["greatest"]})
