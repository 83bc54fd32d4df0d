"""What lies around single matches: the part of a time line that a report shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from piestream.diagnosis.intervals import intervals_of
from piestream.diagnosis.rows import GivenRows
from piestream.expressions.columns import column_named, columns_named
from piestream.pictures.columns import drawn_columns, drawn_points
from piestream.pictures.scene import Clock
from piestream.show.matches import Match, Matches, lanes
from piestream.show.table import cell_text

__all__ = ["Stretches", "column_limits"]

#: Of what is around a match at most so many intervals of a symbol, and values of a column.
_MOST_BARS = 100
_MOST_VALUES = 300

#: How an interval stands to the match that is shown.
_THIS, _OTHER, _NONE, _INVALID = range(4)


def column_limits(rows: GivenRows) -> list[dict[str, Any]]:
    """The columns that are drawn, and the numbers that they are compared with."""
    return [
        {
            "name": drawn.name,
            "limits": [{"value": t.value, "says": str(t)} for t in drawn.thresholds],
        }
        for drawn in drawn_columns(rows)
    ]


class Stretches:
    """Cuts what is around a match out of the rows and out of the intervals."""

    def __init__(self, rows: GivenRows, shown: Matches) -> None:
        self._rows = rows
        self._clock = Clock(shown.scale)
        keys = rows.keys
        known = {n: [m.partition[i] for m in shown.matches] for i, n in enumerate(keys)}
        schema = {name: rows.times.schema[name] for name in keys}
        wanted = rows.of_partitions_in_time(pl.DataFrame(known, schema=schema).unique())
        drawn = drawn_columns(wanted)
        self._columns = [(column.column, column.rows.stream) for column in drawn]
        self._events: dict[int, Mapping[tuple[Any, ...], pl.DataFrame]] = {}
        for events in (column.rows for column in drawn):
            if events.stream not in self._events:
                ticks = column_named(events.time).to_physical().cast(pl.Int64)
                ordered = events.frame.with_columns(ticks.alias(_TICKS)).sort(_TICKS)
                self._events[events.stream] = _by_partition(ordered, keys)
        named = [f"key {number}:" for number in range(len(keys))]
        found = intervals_of(wanted, named)
        found = found.with_columns(
            pl.col("ts").to_physical().cast(pl.Int64).alias(_START),
            pl.col("te").to_physical().cast(pl.Int64).alias(_END),
        )
        self._intervals = _by_partition(found, named)
        self._used: dict[tuple[Any, ...], set[tuple[str, int]]] = {}
        for match in shown.matches:
            places = self._used.setdefault(match.partition, set())
            places.update((i.symbol, i.start) for i in match.intervals)

    def around(self, match: Match) -> dict[str, Any]:
        """What a page draws of a match."""
        length = max(match.end - match.start, 1)
        low, high = match.start - length // 3 - 1, match.end + length // 3 + 1
        numbers = self._clock.numbers([low, high, match.start, match.end, match.reported])
        return {
            "span": numbers,
            "bars": self._bars(match, low, high),
            "columns": self._values(match, low, high),
        }

    def _bars(self, match: Match, low: int, high: int) -> list[list[Any]]:
        found = self._intervals.get(match.partition)
        if found is None:
            return []
        inside = (pl.col(_START) <= high) & (pl.col(_END).is_null() | (pl.col(_END) >= low))
        this = {(i.symbol, i.start) for i in match.intervals}
        used = self._used[match.partition]
        bars: list[list[Any]] = []
        query = self._rows.query
        for number, symbol in enumerate(lanes(query)):
            near = found.filter(inside & (pl.col("symbol") == symbol)).head(_MOST_BARS)
            starts = near[_START].to_list()
            shown_ends = [high if end is None else end for end in near[_END]]
            for row, start, end in zip(
                near.iter_rows(named=True),
                self._clock.numbers(starts),
                self._clock.numbers(shown_ends),
                strict=True,
            ):
                place = (symbol, row[_START])
                state = (
                    _THIS if place in this else _OTHER if place in used
                    else _INVALID if row["valid"] is False else _NONE
                )  # fmt: skip
                says = f"{cell_text(row['ts'])} to {cell_text(row['te'])}"
                if row["te"] is None:
                    says = f"from {cell_text(row['ts'])}, open"
                bars.append([number, start, end, state, says])
        if query.is_combined or query.rows is not None:
            # intervals may overlap: those of the match lie above others
            bars.sort(key=lambda bar: -bar[3])
        return bars

    def _values(self, match: Match, low: int, high: int) -> list[list[list[Any]]]:
        lines: list[list[list[Any]]] = []
        for name, stream in self._columns:
            events = self._events[stream].get(match.partition)
            if events is None:
                lines.append([[], []])
                continue
            first = int(events[_TICKS].search_sorted(low, "left"))
            last = int(events[_TICKS].search_sorted(high, "right"))
            part = events[max(first - 1, 0) : last]
            values = part[name].cast(pl.Float64)
            values = values.set(values.is_nan() | values.is_infinite(), None)
            kept = drawn_points(values, _MOST_VALUES)
            lines.append(
                [self._clock.numbers(part[_TICKS][kept].to_list()), values[kept].to_list()]
            )
        return lines


_TICKS, _START, _END = "time:", "start:", "end:"


def _by_partition(frame: pl.DataFrame, keys: list[str]) -> Mapping[tuple[Any, ...], pl.DataFrame]:
    if not keys:
        return {(): frame}
    parts = frame.partition_by(keys, maintain_order=True)
    return {part.select(columns_named(keys)).row(0): part for part in parts}
