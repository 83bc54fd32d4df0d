"""Time in the tests: whole ticks inside, whatever a frame or a dictionary holds outside.

Rows of the oracle and of the random cases hold their time as an ``int`` count of ticks. A
:class:`Clock` says what a tick is, how many of them a duration of so many *beats* has, and how a
tick is written in a query, in a frame and in an event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from piestream.expressions.durations import NANOSECONDS, Duration

__all__ = ["CLOCKS", "Clock"]

_EPOCH = datetime(1970, 1, 1)

#: Nanoseconds in a tick of each kind of time column; None where a tick is just a number.
_TICK = {
    "int": None,
    "int-ms": 1_000_000,
    "int-s": NANOSECONDS["s"],
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
    "utc": 1_000,
    "date": NANOSECONDS["d"],
}

_DTYPE: dict[str, pl.DataType] = {
    "int": pl.Int64(),
    "int-ms": pl.Int64(),
    "int-s": pl.Int64(),
    "ms": pl.Datetime("ms"),
    "us": pl.Datetime("us"),
    "ns": pl.Datetime("ns"),
    "utc": pl.Datetime("us", "UTC"),
    "date": pl.Date(),
}


@dataclass(frozen=True, slots=True)
class Clock:
    """A kind of time column, and the unit in which a query's durations are written.

    >>> Clock("us", "s").beats(3)
    3000000
    >>> Clock("us", "s").text(3)
    '3 s'
    >>> Clock("int", scale=10).text(3)
    '30'
    """

    kind: str = "int"
    unit: str | None = None  # of a beat: a key of NANOSECONDS; None: bare ticks
    scale: int = 1  # ticks in a beat, where unit is None

    @property
    def dtype(self) -> pl.DataType:
        """The Polars type of the time column."""
        return _DTYPE[self.kind]

    @property
    def declared_unit(self) -> str | None:
        """What ``Query.time_unit`` says: the unit of an integer column, if it was declared."""
        return self.kind.removeprefix("int-") if self.kind.startswith("int-") else None

    def duration(self, beats: int) -> Duration:
        """So many beats, as the query model has it."""
        if self.unit is None:
            return Duration(beats * self.scale, in_ticks=True)
        return Duration(beats * NANOSECONDS[self.unit])

    def ticks(self, duration: Duration) -> int:
        """A duration of the model in ticks; it must be a whole number of them."""
        if duration.in_ticks:
            return duration.amount
        tick = _TICK[self.kind]
        if tick is None or duration.amount % tick:
            raise ValueError(f"{duration} is not a whole number of ticks of {self.kind!r} time")
        return duration.amount // tick

    def beats(self, beats: int) -> int:
        """So many beats in ticks."""
        return self.ticks(self.duration(beats))

    def text(self, beats: int) -> str:
        """So many beats as a query writes them."""
        return str(beats * self.scale) if self.unit is None else f"{beats} {self.unit}"

    def native(self, tick: int) -> Any:
        """A tick as an event dictionary holds it (nanoseconds below 1 us cannot be held)."""
        if self.dtype == pl.Int64():
            return tick
        if self.kind == "date":
            return date(1970, 1, 1) + timedelta(days=tick)
        moment = _EPOCH + timedelta(microseconds=tick * _nanoseconds(self.kind) // 1_000)
        return moment.replace(tzinfo=UTC) if self.kind == "utc" else moment

    def held_by_dictionaries(self, tick: int) -> bool:
        """Whether Python's own time types can hold this tick."""
        return self.kind != "ns" or tick % 1_000 == 0

    def plain(self, value: Any) -> Any:
        """A value of a result row with times and lengths of time turned into ticks."""
        if isinstance(value, datetime):
            value = value.replace(tzinfo=None) - _EPOCH
        elif isinstance(value, date):
            value = value - date(1970, 1, 1)
        if isinstance(value, timedelta):
            return value // timedelta(microseconds=1) * 1_000 // _nanoseconds(self.kind)
        return None if isinstance(value, float) and math.isnan(value) else value

    def plain_frame(self, frame: pl.DataFrame) -> list[dict[str, Any]]:
        """The rows of a result frame with times and lengths of time turned into ticks."""
        columns = []
        for name, dtype in frame.schema.items():
            column = pl.col(name)
            if dtype.is_temporal():
                unit: Any = getattr(self.dtype, "time_unit", "ms")
                if isinstance(dtype, pl.Datetime | pl.Duration):
                    column = column.dt.cast_time_unit(unit)
                column = column.to_physical().cast(pl.Int64)
                if self.kind == "date" and not isinstance(dtype, pl.Date):
                    column = column // 86_400_000
            columns.append(column.alias(name))
        rows = frame.select(columns).to_dicts()
        return [{name: self.plain(value) for name, value in row.items()} for row in rows]


def _nanoseconds(kind: str) -> int:
    tick = _TICK[kind]
    if tick is None:
        raise ValueError(f"{kind!r} time has no unit")
    return tick


#: Every kind of clock that the random cases use, with weights: integers most of the time.
CLOCKS: tuple[tuple[int, Clock], ...] = (
    (8, Clock("int")),
    (2, Clock("int", scale=7)),
    (1, Clock("int-ms", "ms")),
    (1, Clock("int-ms", "s")),
    (2, Clock("us", "s")),
    (2, Clock("us", "ms")),
    (2, Clock("ms", "s")),
    (1, Clock("ms", "min")),
    (2, Clock("ns", "us")),
    (1, Clock("ns", "ns")),
    (1, Clock("utc", "h")),
    (1, Clock("date", "d")),
)
