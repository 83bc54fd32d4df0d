"""The types that a user may give for a column of text, and dates and times out of text.

Text has no times: what is written year first is read as one by itself. Everything else needs a
format, because 1/4/1999 is one day where the day comes first and another where the month does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import polars as pl

from piestream.adapters.formats import TypeName
from piestream.expressions.diagnostics import did_you_mean

__all__ = ["TextType", "as_times", "first_stray", "given_types", "is_time", "time_type"]

_TYPES: Mapping[str, pl.DataType] = {
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "date": pl.Date(),
    "datetime": pl.Datetime("us"),
}
_ZONES = ("%z", "%:z", "%#z", "%+")

#: Dates and times that are read without a format: year first.
_YEAR_FIRST = re.compile(r"\s*\d{4}[-/.]")
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d"
    r"(?P<time>[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
#: Dates that two formats fit, and the time that may follow.
_AMBIGUOUS = re.compile(
    r"\s*\d{1,2}(?P<sign>[-/. ])\d{1,2}(?P=sign)(?P<year>\d{4}|\d\d)"
    r"(?P<time>[T ]+\d{1,2}:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d+)?)?)?\s*"
)


@dataclass(frozen=True, slots=True)
class TextType:
    """The type of a column of text, and of dates and times perhaps how they are written.

    >>> TextType.of("date:%m/%d/%Y")
    TextType(dtype=Date, format='%m/%d/%Y')
    >>> TextType.of("datetme")
    Traceback (most recent call last):
    ValueError: there is no type datetme: did you mean datetime?
    """

    dtype: pl.DataType
    format: str | None = None

    @classmethod
    def of(cls, text: str) -> TextType:
        """The type that a text names; the format of a date or a time follows a colon."""
        name, colon, format = text.partition(":")
        names = get_args(TypeName)
        if name not in names:
            hint = did_you_mean(name, names) or f"types are {', '.join(names)}"
            raise ValueError(f"there is no type {text}: {hint}")
        dtype = _TYPES[name]
        if not colon:
            return cls(dtype)
        if name not in ("date", "datetime"):
            raise ValueError(f"{text}: only dates and times have a format, not {name}")
        if "%" not in format:
            raise ValueError(
                f"{text}: a format is written like %m/%d/%Y"
                f"{' %H:%M:%S' if name == 'datetime' else ''}"
            )
        if name == "datetime" and any(zone in format for zone in _ZONES):
            dtype = pl.Datetime("us", "UTC")
        return cls(dtype, format)


def given_types(types: Mapping[str, Any]) -> dict[str, TextType]:
    """The types that are given for columns, by their names or as Polars types."""
    given = {}
    for column, type in types.items():
        if isinstance(type, str):
            try:
                given[column] = TextType.of(type)
            except ValueError as error:
                raise ValueError(f"the type of {column}: {error}") from None
        elif isinstance(type, pl.DataType):
            given[column] = TextType(type)
        else:
            names = ", ".join(get_args(TypeName))
            raise ValueError(f"the type of {column} is {names}, or a Polars type, not {type!r}")
    return given


def is_time(dtype: pl.DataType) -> bool:
    """Whether a type is a date or a time."""
    return isinstance(dtype, pl.Datetime) or dtype == pl.Date


def time_type(column: pl.Series) -> pl.DataType:
    """JSON has no times: text that is a date or a time in every row is read as one."""
    values = column.drop_nulls()
    if column.dtype != pl.String or not len(values):
        return column.dtype
    found = _ISO.fullmatch(values[0])
    if found is None or not values.str.contains(f"^{_ISO.pattern}$").all():
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


def as_times(text: pl.Series, dtype: pl.DataType, format: str | None = None) -> pl.Series:
    """Text as dates or times: all at once, which is quicker than one by one while it is parsed."""
    name, text = text.name, text.alias("")  # a name like ^x$ would be taken for a pattern
    if format is None:
        first = text.drop_nulls().head(1)
        if len(first) and not _YEAR_FIRST.match(first[0]):
            raise pl.exceptions.ComputeError(_unread(first[0], dtype, name))
    try:
        times = _parsed(text, dtype, format)
    except pl.exceptions.ComputeError:  # of no value it can be said how it is written
        times = pl.Series([None] * len(text), dtype=dtype)
    unread = text.filter(times.is_null() & text.is_not_null())
    if len(unread):
        raise pl.exceptions.ComputeError(_unread(unread[0], dtype, name, format))
    return times.alias(name)


def first_stray(text: pl.Series) -> tuple[str, TypeName] | None:
    """A text among numbers or times that is none, where few are, and the type of the others.

    >>> first_stray(pl.Series(["1", "2", "3.5", "4", "5", "6", "7", "8", "9", "x"]))
    ('x', 'float')
    """
    numbers = text.cast(pl.Float64, strict=False)
    if _few(numbers):
        is_whole = not text.filter(numbers.is_not_null()).cast(pl.Int64, strict=False).null_count()
        return text.filter(numbers.is_null())[0], "int" if is_whole else "float"
    if not len(text) or not _YEAR_FIRST.match(text[0]):
        return None
    kind: TypeName = "datetime" if ":" in text[0] else "date"
    try:
        times = _parsed(text, _TYPES[kind], None)
    except pl.exceptions.ComputeError:
        return None
    return (text.filter(times.is_null())[0], kind) if _few(times) else None


def _few(values: pl.Series) -> bool:
    """Whether some values are missing, and no more than a tenth."""
    return 0 < values.null_count() * 10 <= len(values)


def _parsed(text: pl.Series, dtype: pl.DataType, format: str | None) -> pl.Series:
    """Text as dates or times; NULL of what is none."""
    if not isinstance(dtype, pl.Datetime):
        return text.str.to_date(format, strict=False)
    times = text.str.to_datetime(
        format, time_unit=dtype.time_unit, time_zone=dtype.time_zone, strict=False
    )
    return times if times.dtype == dtype else times.cast(dtype)


def _unread(value: str, dtype: pl.DataType, column: str, format: str | None = None) -> str:
    kind = "date" if dtype == pl.Date else "datetime"
    if format is not None:
        return f"column {column}: {value!r} is no {kind} written as {format}"
    ambiguous = ambiguous_advice(column, value, kind)
    return ambiguous or (
        f"column {column}: {value!r} is no {kind}; if it is written in another way, say how: "
        f'--type "{column}={kind}:%b %d %Y" reads Jan 31 2000'
    )


def ambiguous_advice(column: str, value: str, kind: str | None = None) -> str | None:
    """What to do about a date of which it is not known what comes first; None if it is another text.

    >>> print(ambiguous_advice("Day", "1/4/1999"))
    column Day: '1/4/1999' may begin with the day or with the month; give the format, --type \
"Day=date:%d/%m/%Y" or "Day=date:%m/%d/%Y", in Python run(types={"Day": "date:%d/%m/%Y"})
    """
    found = _AMBIGUOUS.fullmatch(value)
    if found is None:
        return None
    sign, year = found["sign"], "%Y" if len(found["year"]) == 4 else "%y"
    time = ""
    if found["time"]:
        time = "T%H:%M" if found["time"].startswith("T") else " %H:%M"
        time += ":%S" if found["seconds"] else ""
        time += "%.f" if found["fraction"] else ""
    kind = kind or ("datetime" if time else "date")
    day, month = (
        f"{kind}:{sign.join([*first, year])}{time}" for first in (("%d", "%m"), ("%m", "%d"))
    )
    return (
        f"column {column}: {value!r} may begin with the day or with the month; give the format, "
        f'--type "{column}={day}" or "{column}={month}", in Python run(types={{"{column}": "{day}"}})'
    )
