"""Dates and times in NDJSON, which has none: text that is one in every row is read as one."""

from __future__ import annotations

import re

import polars as pl

__all__ = ["as_times", "is_time", "time_type"]

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?P<time>[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)


def is_time(dtype: pl.DataType) -> bool:
    """Whether a type is a date or a time."""
    return isinstance(dtype, pl.Datetime) or dtype == pl.Date


def time_type(column: pl.Series) -> pl.DataType:
    """JSON has no times: text that is a date or a time in every row is read as one."""
    values = column.drop_nulls()
    if column.dtype != pl.String or not len(values):
        return column.dtype
    found = _TIME.fullmatch(values[0])
    if found is None or not values.str.contains(f"^{_TIME.pattern}$").all():
        return column.dtype
    if not found["time"]:
        kind: pl.DataType = pl.Date()
    else:
        kind = pl.Datetime("us", "UTC" if found["zone"] else None)
    try:
        as_times(values, kind)
    except pl.exceptions.PolarsError:
        return column.dtype
    return kind


def as_times(text: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Text as dates or times. Polars reads them one by one in JSON, and here all at once."""
    if isinstance(dtype, pl.Datetime):
        zone = dtype.time_zone
        times = text.str.to_datetime(time_unit=dtype.time_unit, time_zone=zone, strict=False)
    else:
        times = text.str.to_date(strict=False)
    unread = text.filter(times.is_null() & text.is_not_null())
    if len(unread):
        raise pl.exceptions.ComputeError(
            f"could not parse {unread[0]!r} as dtype {dtype} at column {text.name!r}"
        )
    return times
