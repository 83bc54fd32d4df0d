"""What lies around single matches: the part of a time line that a report shows of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from piestream.diagnosis.intervals import intervals
from piestream.diagnosis.rows import Rows
from piestream.expressions.columns import column_named, columns_named
from piestream.language.options import BoundedOptions
from piestream.pictures.scene import Clock, drawn_columns, drawn_points
from piestream.pictures.thresholds import thresholds
from piestream.show.matches import Match, Matches
from piestream.show.table import cell_text

__all__ = ["Stretches", "column_limits"]

#: Of what is around a match at most so many intervals of a symbol, and values of a column.
_MOST_BARS = 100
_MOST_VALUES = 300

#: How an interval stands to the match that is shown.
_THIS, _OTHER, _NONE, _INVALID = range(4)


def column_limits(rows: Rows) -> list[dict[str, Any]]:
    """The columns that are drawn, and the numbers that they are compared with."""
    known = thresholds(rows.query)
    return [
        {
            "name": name,
            "limits": [{"value": t.value, "says": str(t)} for t in known if t.column == name],
        }
        for name in drawn_columns(rows)
    ]


class Stretches:
    """Cuts what is around a match out of the rows and out of the intervals."""

    def __init__(self, rows: Rows, shown: Matches, options: BoundedOptions) -> None:
        self._rows = rows
        self._clock = Clock(shown.scale)
        self._columns = drawn_columns(rows)
        keys = rows.keys
        wanted: pl.DataFrame = rows.frame
        if keys:
            known = {n: [m.partition[i] for m in shown.matches] for i, n in enumerate(keys)}
            schema = {name: rows.frame.schema[name] for name in keys}
            chosen = pl.DataFrame(known, schema=schema).unique()
            wanted = wanted.join(chosen, on=keys, how="semi", nulls_equal=True)
        ticks = column_named(rows.time.name).to_physical().cast(pl.Int64)
        ordered = wanted.with_columns(ticks.alias(_TICKS)).sort(_TICKS)
        self._events = _by_partition(ordered, keys)
        found: pl.DataFrame = intervals(rows.query, wanted, options)
        found = found.with_columns(
            pl.col("ts").to_physical().cast(pl.Int64).alias(_START),
            pl.col("te").to_physical().cast(pl.Int64).alias(_END),
        )
        self._intervals = _by_partition(found, keys)
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
        bars = []
        for number, symbol in enumerate(self._rows.query.symbols):
            near = found.filter(inside & (pl.col("symbol") == symbol.name)).head(_MOST_BARS)
            starts = near[_START].to_list()
            shown_ends = [high if end is None else end for end in near[_END]]
            for row, start, end in zip(
                near.iter_rows(named=True),
                self._clock.numbers(starts),
                self._clock.numbers(shown_ends),
                strict=True,
            ):
                place = (symbol.name, row[_START])
                state = (
                    _THIS if place in this else _OTHER if place in used
                    else _INVALID if row["valid"] is False else _NONE
                )  # fmt: skip
                says = f"{cell_text(row['ts'])} to {cell_text(row['te'])}"
                if row["te"] is None:
                    says = f"from {cell_text(row['ts'])}, open"
                bars.append([number, start, end, state, says])
        return bars

    def _values(self, match: Match, low: int, high: int) -> list[list[list[Any]]]:
        events = self._events.get(match.partition)
        if events is None:
            return [[[], []] for _ in self._columns]
        first = int(events[_TICKS].search_sorted(low, "left"))
        last = int(events[_TICKS].search_sorted(high, "right"))
        part = events[max(first - 1, 0) : last]
        lines = []
        for name in self._columns:
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
