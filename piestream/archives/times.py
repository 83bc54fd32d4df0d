"""Times and lengths of time as somebody gives them, in ticks of a column."""

from __future__ import annotations

from typing import Any

import polars as pl

from piestream.archives.store import in_ticks
from piestream.expressions.durations import DurationLike, as_duration
from piestream.plan.columns import TimeColumn, is_moment

__all__ = ["length_in_ticks", "time_in_ticks"]

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_DAY = 86_400 * 10**9


def length_in_ticks(length: DurationLike, name: str, dtype: pl.DataType, what: str) -> int:
    """A length of time as ticks of a column."""
    unit = _NANOSECONDS.get(getattr(dtype, "time_unit", ""), _DAY if dtype == pl.Date else None)
    return TimeColumn(name, dtype, unit).ticks(as_duration(length, what), what)


def time_in_ticks(time: Any, name: str, dtype: pl.DataType) -> int:
    """A time that somebody gave as ticks of a column."""
    try:
        value = pl.Series(name, [time]).cast(dtype) if dtype.is_integer() else _moment(time, dtype)
        found = value.to_frame(name).select(in_ticks(name)).item()
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        found = None
    if found is None:
        raise TypeError(f"{time!r} is no time of the column {name}, whose type is {dtype}")
    return int(found)


def _moment(time: Any, dtype: pl.DataType) -> pl.Series:
    """A date or a datetime, perhaps as text, as a column of a type."""
    plain = pl.Series([time])
    if plain.dtype == pl.String:
        plain = plain.str.to_datetime(time_unit="us") if dtype != pl.Date else plain.str.to_date()
    elif not is_moment(plain.dtype):
        raise TypeError
    zone = getattr(dtype, "time_zone", None)
    if zone is not None:
        plain = plain.cast(pl.Datetime("us")) if plain.dtype == pl.Date else plain
        own = getattr(plain.dtype, "time_zone", None)
        plain = (
            plain.dt.replace_time_zone(zone) if own is None else plain.dt.convert_time_zone(zone)
        )
    return plain.cast(dtype)
