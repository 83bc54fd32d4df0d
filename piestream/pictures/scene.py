"""What a time line shows, as plain numbers: bars, matches, columns, on one clock.

Whatever draws it needs to know nothing of queries, frames and time zones.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from piestream.diagnosis.input_rows import read_given
from piestream.diagnosis.intervals import intervals_of
from piestream.diagnosis.rows import TIME, GivenRows
from piestream.errors import SchemaError
from piestream.expressions.columns import column_named, columns_named
from piestream.language.model import Query
from piestream.language.options import BoundedOptions
from piestream.pictures.columns import drawn_columns, drawn_points
from piestream.pictures.thresholds import Threshold
from piestream.show.exports.lanes import lanes_of
from piestream.show.matches import (
    Match,
    Matches,
    TimeScale,
    key_text,
    lanes,
    matches_frame,
    read_matches,
    with_endpoints,
)
from piestream.show.table import cell_text

#: Intervals of a symbol that overlap have so many rows; more than that share the last one.
MOST_ROWS = 8

__all__ = ["Bar", "Clock", "ColumnLine", "Scene", "scene_of"]


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
    events: int | None  # None of intervals that come ready-made
    matches: int
    row: int = 0  # of the symbol's lane, where intervals overlap


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
    rows = read_given(query, frame, options)
    if query.rows is not None:
        return _row_scene(rows, matches, partition)
    whole = with_endpoints(rows.query)
    found = rows.run(whole) if matches is None else matches_frame(matches)
    key = partition_key(rows, found, partition)
    read = rows.query if matches is not None else whole
    return scene_of_rows(rows, read_matches(read, _of_partition(found, rows.keys, key)), key)


def _row_scene(rows: GivenRows, matches: Any, partition: Any) -> Scene:
    """The scene of a row pattern; matches that are given must have their endpoints in MEASURES."""
    query = rows.query
    from piestream.pictures.row_scene import matches_of_rows, row_bars, row_matches

    given = None if matches is None else matches_frame(matches)
    key = partition_key(rows, matches_of_rows(rows) if given is None else given, partition)
    part = _part(rows, key)
    if given is None:
        found = Matches(query, part.clock.scale, row_matches(part.rows))
    else:
        found = read_matches(query, _of_partition(given, rows.keys, key))
    return replace(
        part.scene(found, key, row_bars(part.rows, part.clock, part.last)),
        query=replace(query, symbols=tuple(map(query.symbol, lanes(query)))),
    )


def partition_key(rows: GivenRows, found: pl.DataFrame, partition: Any) -> tuple[Any, ...]:
    """The values of the partition columns that were asked for, or those of most matches."""
    keys = rows.keys
    if partition is None:
        for frame in (found, rows.times):
            if keys and len(frame):
                counts = Counter(frame.select(columns_named(keys)).rows())
                return counts.most_common(1)[0][0]
        return (None,) * len(keys)
    if isinstance(partition, Mapping):
        missing = [name for name in keys if name not in partition]
        if missing or len(partition) != len(keys):
            raise ValueError(f"the partition is a value for each of {', '.join(keys) or 'none'}")
        return _fitting(rows, tuple(partition[name] for name in keys))
    key = tuple(partition) if isinstance(partition, tuple | list) else (partition,)
    if len(key) != len(keys):
        raise ValueError(
            f"PARTITION BY has {len(keys)} columns, and partition= gives {len(key)} values: "
            f"give a tuple of {', '.join(keys) or 'none'}"
        )
    return _fitting(rows, key)


def _fitting(rows: GivenRows, key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key whose values are of their columns' types; others are no partition's."""
    for name, value in zip(rows.keys, key, strict=True):
        dtype = rows.times.schema[name]
        try:
            pl.select(pl.lit(value, dtype=dtype))
        except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
            message = f"partition: {name} holds {dtype}, and {reprlib.repr(value)} is none"
            raise ValueError(message) from None
    return tuple(None if value != value else value for value in key)  # NaN is NULL


def _of_partition(frame: pl.DataFrame, keys: Sequence[str], key: tuple[Any, ...]) -> pl.DataFrame:
    for name, value in zip(keys, key, strict=True):
        if name not in frame.columns:
            raise SchemaError(
                f"the matches have no column {name}, by which their query is partitioned"
            )
        same = column_named(name).eq_missing(pl.lit(value, dtype=frame.schema.get(name)))
        frame = frame.filter(same)
    return frame


@dataclass(frozen=True)
class _Part:
    """The rows of one partition, and where they lie in time, in ticks."""

    rows: GivenRows
    in_time: GivenRows  # with the latest rows of others, which say how late it is
    clock: Clock
    first: int
    last: int

    def scene(self, matches: Matches, key: tuple[Any, ...], bars: tuple[Bar, ...]) -> Scene:
        """Their scene, with these matches and bars."""
        first, last = self.clock.numbers([self.first, self.last])
        reports = self.clock.numbers([match.reported for match in matches.matches])
        return Scene(
            query=self.rows.query,
            partition=matches.partition_text(key),
            clock=self.clock,
            first=first,
            last=max([last, *(bar.end for bar in bars), *reports]),
            bars=bars,
            matches=matches.matches,
            columns=_columns(self.rows, self.clock),
        )


def _part(rows: GivenRows, key: tuple[Any, ...]) -> _Part:
    schema = {name: rows.times.schema[name] for name in rows.keys}
    keys = pl.DataFrame([key] if rows.keys else [], schema=schema, orient="row")
    part = rows.of_partitions(keys)
    partition = dict(zip(rows.keys, key, strict=True))
    in_time = replace(rows.of_partitions_in_time(keys), partition=partition)
    clock = Clock(TimeScale.of(rows.query, rows.time.dtype))
    times = clock.scale.ticks(part.times[TIME])
    if not len(times) and rows.keys:
        named = ", ".join(f"{n} = {key_text(v)}" for n, v in zip(rows.keys, key, strict=True))
        raise ValueError(f"there are no events of the partition {named}")
    ends = [int(np.asarray(end)) for end in (times.min(), times.max())] if len(times) else [0, 0]
    return _Part(part, in_time, clock, *ends)


def scene_of_rows(rows: GivenRows, matches: Matches, key: tuple[Any, ...]) -> Scene:
    """The scene of one partition of rows, and of its matches."""
    part = _part(rows, key)
    return part.scene(matches, key, _bars(part.in_time, matches, part.clock, part.last))


def _bars(rows: GivenRows, matches: Matches, clock: Clock, latest: int) -> tuple[Bar, ...]:
    used = Counter((i.symbol, i.start) for match in matches.matches for i in match.intervals)
    found = intervals_of(rows, [f"key {number}:" for number in range(len(rows.keys))])
    begin = clock.scale.ticks(found["ts"]).to_list()
    ends = clock.scale.ticks(found["te"]).to_list()
    shown_ends = [
        max(latest, start) if end is None else end for start, end in zip(begin, ends, strict=True)
    ]
    numbers = _rows_of_lanes(rows.query, found["symbol"].to_list(), begin, shown_ends)
    columns = zip(
        numbers, found["symbol"], begin, ends, clock.numbers(begin), clock.numbers(shown_ends),
        found["valid"], found["duration"], found["events"], strict=True,
    )  # fmt: skip
    bars = []
    for row, symbol, ts, te, start, end, valid, duration, events in columns:
        number = used.get((symbol, ts), 0)
        state = "in a match" if number else "not valid" if valid is False else "in no match"
        length = "open" if te is None else cell_text(duration)
        bars.append(Bar(symbol, start, end, state, te is None, length, events, number, row))
    return tuple(bars)


def _rows_of_lanes(
    query: Query, symbols: list[str], starts: list[int], ends: list[int]
) -> list[int]:
    """The row of each interval in the lane of its symbol: those that overlap get rows of their own."""
    rows = [0] * len(symbols)
    for symbol in query.symbols:
        if query.stream_of(symbol.name).is_ready_made:
            own = [number for number, name in enumerate(symbols) if name == symbol.name]
            lanes = lanes_of([(starts[number], ends[number]) for number in own])
            for number, lane in zip(own, lanes, strict=True):
                rows[number] = min(lane, MOST_ROWS - 1)
    return rows


def _columns(rows: GivenRows, clock: Clock) -> tuple[ColumnLine, ...]:
    """The columns that are drawn, with what they are compared with."""
    lines = []
    for drawn in drawn_columns(rows):
        part = drawn.rows.frame.sort(column_named(drawn.rows.time))
        times = clock.numbers(clock.scale.ticks(part[drawn.rows.time]).to_list())
        values = part[drawn.column].cast(pl.Float64).fill_nan(None)
        kept = drawn_points(values)
        lines.append(
            ColumnLine(
                drawn.name,
                [times[row] for row in kept],
                [v if v is None or np.isfinite(v) else None for v in values[kept].to_list()],
                drawn.thresholds,
            )
        )
    return tuple(lines)
