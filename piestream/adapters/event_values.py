"""How a value of a single event becomes that of its column, and a key, without a frame.

Only what means the same as in a frame is read so; everything else is left to a frame of one row.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

from piestream.compiled.constants import INT64_MAX, INT64_MIN

__all__ = [
    "NEEDS_A_FRAME",
    "Conversion",
    "conversion_of",
    "exact_types",
    "integer_range",
    "key_of",
    "ticks_of",
]

#: What a conversion gives for a value that it does not read.
NEEDS_A_FRAME = object()
Conversion = Callable[[Any], Any]

_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_MICROSECOND = {"ns": 1_000, "us": 1}

#: The Python types whose values are a column's as they are.
_EXACT: dict[Any, tuple[type, ...]] = {
    pl.Boolean: (bool, type(None)),
    pl.Int8: (int, type(None)),
    pl.Int16: (int, type(None)),
    pl.Int32: (int, type(None)),
    pl.Int64: (int, type(None)),
    pl.UInt8: (int, type(None)),
    pl.UInt16: (int, type(None)),
    pl.UInt32: (int, type(None)),
    pl.Float64: (float, type(None)),
    pl.String: (str, type(None)),
    pl.Date: (date, type(None)),
}
#: A decimal number of so many digits is the same float in Python and in a frame.
_DECIMAL_DIGITS, _DECIMAL_SCALE = 15, 22


def exact_types(dtype: pl.DataType) -> tuple[type, ...] | None:
    """The Python types whose values a column holds as they are; None if each must be looked at."""
    return _EXACT.get(dtype)


def integer_range(dtype: pl.DataType) -> tuple[int, int]:
    """The least and the largest value of a column of integers."""
    bits = int(str(dtype).lstrip("UInt"))
    return (
        (0, 2**bits - 1)
        if dtype.is_unsigned_integer()
        else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def conversion_of(dtype: pl.DataType) -> Conversion | None:
    """How values become those of a column in which not all are as they are."""
    if isinstance(dtype, pl.Datetime):
        return _naive(dtype.time_unit) if dtype.time_zone is None else _zoned(dtype)
    if isinstance(dtype, pl.Decimal):
        return _decimal(dtype)
    return None


def _naive(unit: str) -> Conversion:
    step = 1_000 if unit == "ms" else 1

    def of_datetime(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not datetime or value.tzinfo is not None or value.microsecond % step:
            return NEEDS_A_FRAME
        return value

    return of_datetime if unit != "ns" else _within_nanoseconds(of_datetime, _EPOCH)


def _zoned(dtype: pl.Datetime) -> Conversion:
    zone, step = ZoneInfo(str(dtype.time_zone)), 1_000 if dtype.time_unit == "ms" else 1

    def of_datetime(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not datetime or value.utcoffset() is None or value.microsecond % step:
            return NEEDS_A_FRAME
        local = value if value.tzinfo is zone else value.astimezone(zone)
        # Python compares times of one zone by what its clocks show, also where that comes twice.
        return NEEDS_A_FRAME if _comes_twice(local) else local

    return of_datetime if dtype.time_unit != "ns" else _within_nanoseconds(of_datetime, _EPOCH_UTC)


def _comes_twice(local: datetime) -> bool:
    """Whether the zone's clocks show this time twice, or never."""
    return local.fold == 1 or local.utcoffset() != local.replace(fold=1).utcoffset()


def _within_nanoseconds(convert: Conversion, epoch: datetime) -> Conversion:
    def of_datetime(value: Any) -> Any:
        found = convert(value)
        if found is None or found is NEEDS_A_FRAME:
            return found
        return found if abs(found - epoch) < timedelta(days=106_000) else NEEDS_A_FRAME

    return of_datetime


def _decimal(dtype: pl.Decimal) -> Conversion:
    scale = dtype.scale
    largest = Decimal(10) ** (min(dtype.precision or 38, _DECIMAL_DIGITS) - scale)

    def of_decimal(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not Decimal or not value.is_finite():
            return NEEDS_A_FRAME
        exponent = value.as_tuple().exponent
        fits = isinstance(exponent, int) and -scale <= exponent and abs(value) < largest
        return value if fits and scale <= _DECIMAL_SCALE else NEEDS_A_FRAME

    return of_decimal


def ticks_of(dtype: pl.DataType) -> Callable[[Any], int | None] | None:
    """How a time becomes ticks; the function gives None for a time that needs a frame."""
    if dtype.is_integer():
        least, most = integer_range(dtype) if dtype != pl.Int64 else (INT64_MIN + 1, INT64_MAX - 1)
        if most >= INT64_MAX:
            return None

        def of_integer(time: Any) -> int | None:
            return time if type(time) is int and least <= time <= most else None

        return of_integer
    if dtype == pl.Date:

        def of_date(time: Any) -> int | None:
            return (time - _EPOCH_DAY).days if type(time) is date else None

        return of_date
    return _ticks_of_datetime(dtype) if isinstance(dtype, pl.Datetime) else None


def _ticks_of_datetime(dtype: pl.Datetime) -> Callable[[Any], int | None]:
    is_zoned = dtype.time_zone is not None
    epoch = _EPOCH_UTC if is_zoned else _EPOCH
    unit = _MICROSECOND * (1_000 if dtype.time_unit == "ms" else 1)
    scale = _PER_MICROSECOND.get(dtype.time_unit, 1)

    def of_datetime(time: Any) -> int | None:
        if type(time) is not datetime or (time.tzinfo is not None) is not is_zoned:
            return None
        if is_zoned and time.utcoffset() is None:
            return None
        ticks, rest = divmod(time - epoch, unit)
        ticks *= scale
        return None if rest or not INT64_MIN < ticks < INT64_MAX else ticks

    return of_datetime


def key_of(dtype: pl.DataType) -> Conversion | None:
    """How a value becomes a part of a partition's key; None if such a column takes a frame.

    Times are keys as ticks, because times that Python finds equal may be different.
    """
    if dtype in (pl.String, pl.Boolean) or (dtype.is_integer() and exact_types(dtype)):
        return _itself
    ticks = ticks_of(dtype) if dtype.is_temporal() else None
    if ticks is None:
        return None

    def of_time(value: Any) -> Any:
        if value is None:
            return None
        found = ticks(value)
        return NEEDS_A_FRAME if found is None else found

    return of_time


def _itself(value: Any) -> Any:
    return value
