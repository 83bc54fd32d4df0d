"""What a time line shows, as plain numbers: bars, matches, columns, on one clock.

Whatever draws it needs to know nothing of queries, frames and time zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from piestream.diagnosis.intervals import intervals
from piestream.diagnosis.rows import Rows, read_rows
from piestream.expressions.columns import column_named, columns_named
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.pictures.thresholds import Threshold, thresholds
from piestream.show.matches import (
    Match,
    Matches,
    TimeScale,
    key_text,
    matches_frame,
    read_matches,
    with_endpoints,
)
from piestream.show.table import cell_text

__all__ = ["Bar", "Clock", "ColumnLine", "Scene", "drawn_columns", "drawn_points", "scene_of"]

#: Of a column with more values only the least and the greatest of each stretch are drawn.
MOST_POINTS = 20_000


@dataclass(frozen=True, slots=True)
class Clock:
    """Times of a column as numbers to draw.

    Dates and times are milliseconds of the wall clock of their zone; integers are as they are.

    >>> Clock(TimeScale(pl.Date(), None)).numbers([1])
    [86400000.0]
    """

    scale: TimeScale

    @property
    def is_calendar(self) -> bool:
        """Whether the times are dates, not just numbers."""
        return not self.scale.dtype.is_integer()

    def numbers(self, ticks: Sequence[int]) -> list[float]:
        """Ticks as numbers."""
        times = pl.Series(ticks, dtype=pl.Int64)
        if not self.is_calendar:
            return times.to_list()
        if isinstance(self.scale.dtype, pl.Datetime) and self.scale.dtype.time_zone:
            walls = times.cast(self.scale.dtype).dt.replace_time_zone(None, ambiguous="earliest")
            times = walls.to_physical()
        per_tick = self.scale.nanoseconds_per_tick
        assert per_tick is not None
        return (times * (per_tick / 1e6)).to_list()

    def text(self, ticks: int) -> str:
        """A time as people write it."""
        if not self.is_calendar:
            return str(ticks)
        if self.scale.dtype == pl.Date:
            return str(pl.Series([ticks], dtype=pl.Int32).cast(pl.Date)[0])
        time: datetime = pl.Series([ticks], dtype=pl.Int64).cast(self.scale.dtype)[0]
        return cell_text(time)


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval of a symbol. What is open ends at the last event of its partition."""

    symbol: str
    start: float
    end: float
    state: str  # "in a match", "in no match", "not valid"
    is_open: bool
    length: str
    events: int
    matches: int


@dataclass(frozen=True, slots=True)
class ColumnLine:
    """The values of a column, NULL where there is none, and what they are compared with."""

    name: str
    times: list[float]
    values: list[float | None]
    thresholds: tuple[Threshold, ...]


@dataclass(frozen=True)
class Scene:
    """One partition's intervals, matches and columns."""

    query: Query
    partition: str
    clock: Clock
    first: float
    last: float
    bars: tuple[Bar, ...] = field(repr=False)
    matches: tuple[Match, ...] = field(repr=False)
    columns: tuple[ColumnLine, ...] = field(repr=False)

    def spans(self) -> list[tuple[float, float, float]]:
        """Start, end and report of each match."""
        starts, ends, reports = (
            self.clock.numbers([getattr(m, name) for m in self.matches])
            for name in ("start", "end", "reported")
        )
        return list(zip(starts, ends, reports, strict=True))


def scene_of(
    query: Query, frame: Any, matches: Any, partition: Any, options: BoundedOptions
) -> Scene:
    """What there is to see of one partition: by default of the one with the most matches."""
    rows = read_rows(query, frame, options, "timeline")
    asked = with_endpoints(rows.query)
    found = asked.run(rows.frame, ties=options.ties, at_end=options.at_end) if matches is None else (
        matches_frame(matches)
    )  # fmt: skip
    key = partition_key(rows, found, partition)
    read = rows.query if matches is not None else asked
    return scene_of_rows(
        rows, read_matches(read, _of_partition(found, rows.keys, key)), key, options
    )


def partition_key(rows: Rows, found: pl.DataFrame, partition: Any) -> tuple[Any, ...]:
    """The values of the partition columns that were asked for, or those of most matches."""
    keys = rows.keys
    if partition is None:
        for frame in (found, rows.frame):
            if keys and len(frame):
                counts = Counter(frame.select(columns_named(keys)).rows())
                return counts.most_common(1)[0][0]
        return (None,) * len(keys)
    if isinstance(partition, Mapping):
        missing = [name for name in keys if name not in partition]
        if missing or len(partition) != len(keys):
            raise ValueError(f"the partition is a value for each of {', '.join(keys) or 'none'}")
        return tuple(partition[name] for name in keys)
    key = tuple(partition) if isinstance(partition, tuple | list) else (partition,)
    if len(key) != len(keys):
        raise ValueError(
            f"PARTITION BY has {len(keys)} columns, and partition= gives {len(key)} values: "
            f"give a tuple of {', '.join(keys) or 'none'}"
        )
    return key


def _of_partition(frame: pl.DataFrame, keys: Sequence[str], key: tuple[Any, ...]) -> pl.DataFrame:
    for name, value in zip(keys, key, strict=True):
        same = column_named(name).eq_missing(pl.lit(value, dtype=frame.schema.get(name)))
        frame = frame.filter(same)
    return frame


def scene_of_rows(
    rows: Rows, matches: Matches, key: tuple[Any, ...], options: BoundedOptions
) -> Scene:
    """The scene of one partition of rows, and of its matches."""
    part = _of_partition(rows.frame, rows.keys, key)
    if not len(part) and rows.keys:
        named = ", ".join(f"{n} = {key_text(v)}" for n, v in zip(rows.keys, key, strict=True))
        raise ValueError(f"there are no events of the partition {named}")
    part = part.sort(column_named(rows.time.name))
    clock = Clock(TimeScale.of(rows.query, rows.time.dtype))
    times = clock.scale.ticks(part[rows.time.name])
    numbers = clock.numbers(times.to_list())
    latest = times[-1] if len(times) else 0
    return Scene(
        query=rows.query,
        partition=matches.partition_text(key),
        clock=clock,
        first=numbers[0] if numbers else 0.0,
        last=numbers[-1] if numbers else 0.0,
        bars=_bars(rows, part, matches, options, clock, latest),
        matches=matches.matches,
        columns=_columns(rows, part, numbers),
    )


def _bars(
    rows: Rows,
    part: pl.DataFrame,
    matches: Matches,
    options: BoundedOptions,
    clock: Clock,
    latest: int,
) -> tuple[Bar, ...]:
    used = Counter((i.symbol, i.start) for match in matches.matches for i in match.intervals)
    found: pl.DataFrame = intervals(rows.query, part, options)
    begin = clock.scale.ticks(found["ts"]).to_list()
    ends = clock.scale.ticks(found["te"]).to_list()
    shown_ends = [
        max(latest, start) if end is None else end for start, end in zip(begin, ends, strict=True)
    ]
    columns = zip(
        found["symbol"], begin, ends, clock.numbers(begin), clock.numbers(shown_ends),
        found["valid"], found["duration"], found["events"], strict=True,
    )  # fmt: skip
    bars = []
    for symbol, ts, te, start, end, valid, duration, events in columns:
        number = used.get((symbol, ts), 0)
        state = "in a match" if number else "not valid" if valid is False else "in no match"
        length = "open" if te is None else cell_text(duration)
        bars.append(Bar(symbol, start, end, state, te is None, length, events, number))
    return tuple(bars)


def _columns(rows: Rows, part: pl.DataFrame, times: list[float]) -> tuple[ColumnLine, ...]:
    """The columns that are drawn, with what they are compared with."""
    lines, known = [], thresholds(rows.query)
    for name in drawn_columns(rows):
        values = part[name].cast(pl.Float64).fill_nan(None)
        kept = drawn_points(values)
        lines.append(
            ColumnLine(
                name,
                [times[row] for row in kept],
                [v if v is None or np.isfinite(v) else None for v in values[kept].to_list()],
                tuple(threshold for threshold in known if threshold.column == name),
            )
        )
    return tuple(lines)


def drawn_columns(rows: Rows) -> list[str]:
    """The columns of numbers and of truth values that predicates read."""
    types = rows.frame.schema
    return [
        name
        for name in rows.binding.predicate_columns
        if types[name].is_numeric() or types[name] == pl.Boolean
    ]


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
