"""Times and lengths of time as users give them, in ticks of a column."""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.event_columns import value_column
from piestream.archives.store import in_ticks
from piestream.errors import SchemaError
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.durations import DurationLike, as_duration
from piestream.plan.columns import TimeColumn

__all__ = ["length_in_ticks", "time_in_ticks"]

_NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_DAY = 86_400 * 10**9


def length_in_ticks(length: DurationLike, name: str, dtype: pl.DataType, what: str) -> int:
    """A length of time as ticks of a column."""
    unit = _NANOSECONDS.get(getattr(dtype, "time_unit", ""), _DAY if dtype == pl.Date else None)
    duration = as_duration(length, what)
    if dtype.is_integer() and not duration.in_ticks:
        raise QueryError(
            f"{what} is {duration}, and the times in {name} are integers without a unit: "
            f"give the number of them, as in {what}=5"
        )
    return TimeColumn(name, dtype, unit).ticks(duration, what)


def time_in_ticks(time: Any, name: str, dtype: pl.DataType) -> int:
    """A time that a user gave, in ticks of a column; what is no time of that column is refused."""
    try:
        value = _moment(time, dtype) if isinstance(dtype, pl.Datetime) else _whole(time, dtype)
        found = value.alias("time").to_frame().select(in_ticks("time")).item()
    except (pl.exceptions.PolarsError, SchemaError, TypeError, ValueError, OverflowError):
        found = None
    if found is None:
        raise TypeError(
            f"{time!r} is no time of the column {name}, whose type is {dtype}: give {_example(dtype)}"
        )
    return int(found)


def _example(dtype: pl.DataType) -> str:
    """What a time of a column is written as."""
    if dtype == pl.Date:
        return "a date without a time of day"
    if not isinstance(dtype, pl.Datetime):
        return "a whole number"
    zone = (
        "with a time zone or as the clock there shows" if dtype.time_zone else "without a time zone"
    )
    digits = _DIGITS[dtype.time_unit]
    return f"a datetime {zone}, with at most {digits} digits behind the second"


def _whole(time: Any, dtype: pl.DataType) -> pl.Series:
    """A date, perhaps as text, or a whole number as a column of a type."""
    if dtype == pl.Date and isinstance(time, str):
        time = date.fromisoformat(time)
    return value_column("time", [time], dtype)


def _moment(time: Any, dtype: pl.Datetime) -> pl.Series:
    """A date or a datetime, perhaps as text, as a column of a type.

    One without a zone is what the clock shows in the zone of the column.
    """
    if isinstance(time, np.datetime64):
        time = str(time)
    zone, plain = dtype.time_zone, pl.Datetime(dtype.time_unit)
    if isinstance(time, str):
        given = _text(time, dtype)
        own = getattr(given.dtype, "time_zone", None)
        if own is not None and zone is not None:
            return given.dt.convert_time_zone(zone)
        if own is not None:
            raise TypeError
        return given.dt.replace_time_zone(zone)
    if isinstance(time, date) and not isinstance(time, datetime):
        time = datetime(time.year, time.month, time.day)
    if zone is not None and isinstance(time, datetime) and time.tzinfo is None:
        return value_column("time", [time], plain).dt.replace_time_zone(zone)
    return value_column("time", [time], dtype)


#: So many digits behind the second has a time of each unit.
_DIGITS = {"ms": 3, "us": 6, "ns": 9}


def _text(text: str, dtype: pl.Datetime) -> pl.Series:
    """A datetime that is written, if the column can hold it."""
    behind = re.search(r"[.,]([0-9]+)", text)
    if behind is not None and len(behind[1].rstrip("0")) > _DIGITS[dtype.time_unit]:
        raise ValueError
    return pl.Series([text]).str.to_datetime(time_unit=dtype.time_unit)
