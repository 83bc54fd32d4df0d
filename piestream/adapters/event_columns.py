"""Events as columns: the types of their Python values, and the values converted exactly.

Nothing is converted that could lose something; what does not fit its column is refused by name.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from piestream.adapters.read_columns import columns_to_read, named_columns
from piestream.errors import SchemaError
from piestream.language.inputs import Event
from piestream.language.model import Query

#: How far down values may stand in values.
_DEEPEST = 50

_TYPES: dict[type, pl.DataType] = {
    bool: pl.Boolean(),
    int: pl.Int64(),
    float: pl.Float64(),
    str: pl.String(),
    bytes: pl.Binary(),
    datetime: pl.Datetime("us"),
    date: pl.Date(),
    timedelta: pl.Duration("us"),
}


def event_list(rows: Any) -> list[Event] | None:
    """The events of a list, a tuple or a generator of dicts; None if it is none of these."""
    if isinstance(rows, str | bytes) or not isinstance(rows, Sequence | Iterator):
        return None
    if hasattr(rows, "__arrow_c_stream__"):  # an iterator too, but of batches of columns
        return None
    events = list(rows)
    for number, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise TypeError(
                f"a list of events holds dicts of column and value; number {number} of this one "
                f"is of type {type(event).__name__}"
            )
    return events


def event_types(events: Sequence[Event], query: Query) -> dict[str, pl.DataType]:
    """The columns of events. Whole numbers beside floats are floats; NULL is of any type."""
    names = column_names(chain.from_iterable(events))
    read = named_columns(query)
    schema = {}
    for name in columns_to_read(query, names, lambda name: _may_be_time(events, name)):
        examples: dict[type, Any] = {}
        for event in events:
            value = _plain(event.get(name))
            if value is not None:
                examples.setdefault(type(value), value)
        types = list(dict.fromkeys(map(value_type, examples.values())))
        if set(types) == {pl.Int64(), pl.Float64()}:
            types = [pl.Float64()]
        if len(types) > 1 and name in read:
            one, other = list(examples.values())[:2]
            raise SchemaError(
                f"column {name} holds {one!r} and {other!r}, which are of different types: give "
                "all events' values one type"
            )
        schema[name] = types[0] if len(types) == 1 else pl.Object() if types else pl.Null()
    return schema


def column_names(names: Iterable[Any]) -> list[str]:
    """Each name once. What is no text cannot be named in a query, and is left out."""
    return [name for name in dict.fromkeys(names) if isinstance(name, str)]


def _may_be_time(events: Sequence[Event], name: str) -> bool:
    """Whether the first value of a column, if it has any, is a date or a time."""
    value = next((v for e in events if (v := _plain(e.get(name))) is not None), None)
    return isinstance(value, date | np.datetime64)


def events_frame(
    events: Sequence[Event], columns: Sequence[str], types: Mapping[str, pl.DataType]
) -> pl.DataFrame:
    """These columns of events, a row each event."""
    return pl.DataFrame(
        [value_column(name, _values(events, name), types[name]) for name in columns]
    )


def _values(events: Sequence[Event], name: str) -> list[Any]:
    try:
        return [event[name] for event in events]
    except KeyError:
        number = next(n for n, event in enumerate(events) if name not in event)
        which = "an event" if len(events) == 1 else f"event {number} of the list"
        raise SchemaError(
            f"{which} has no value for the column {name}; a missing value is written None"
        ) from None


def value_type(value: Any) -> pl.DataType:
    """The column type of an event's value; Null while it is missing."""
    value = _plain(value)
    if value is None:
        return pl.Null()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return pl.Datetime("us", getattr(value.tzinfo, "key", "UTC"))
    if _nests_deeply(value):
        return pl.Object()
    try:
        return _TYPES.get(type(value)) or pl.Series([value]).dtype
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        return pl.Object()


def _nests_deeply(value: Any) -> bool:
    """Whether values stand in values further down than Polars follows: it crashes, or takes for ever."""
    level = [value]
    for _ in range(_DEEPEST):
        inside = chain.from_iterable(
            outer.values() if isinstance(outer, dict) else outer for outer in level
            if isinstance(outer, list | tuple | dict)
        )  # fmt: skip
        level = list({id(value): value for value in inside}.values())
    return bool(level)


def value_column(name: str, given: Iterable[Any], dtype: pl.DataType) -> pl.Series:
    """Values as a column of a known type. Nothing is converted that could lose something."""
    values = [_plain(value) for value in given]
    for value in values:
        if value is not None and not _fits(value, dtype):
            raise _misfit(name, dtype, value)
    try:
        if dtype.is_float():
            values = [None if value is None else float(value) for value in values]
        if not isinstance(dtype, pl.Datetime):
            return pl.Series(name, values, dtype=dtype)
        column = _times(name, values, dtype)
        exact = column.cast(pl.Datetime("us", dtype.time_zone)).to_list()
        changed = [value for value, kept in zip(values, exact, strict=True) if value != kept]
    except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
        if len(values) > 1:
            for value in values:  # which of them is it?
                value_column(name, [value], dtype)
        changed = values
    if changed:
        raise _misfit(name, dtype, changed[0])
    return column


def _times(name: str, values: list[Any], dtype: pl.Datetime) -> pl.Series:
    """Times in the column's zone, whatever their own."""
    if dtype.time_zone is None:
        return pl.Series(name, values, dtype=pl.Datetime("us")).cast(dtype)
    times = [None if value is None else value.astimezone(UTC) for value in values]
    return pl.Series(name, times, dtype=pl.Datetime("us", "UTC")).cast(dtype)


def time_column(name: str, time: Any, dtype: pl.DataType) -> pl.Series:
    """A time that a user gives by itself, as a column of the time column's name and type."""
    try:
        return value_column(name, [time], dtype)
    except SchemaError:
        instead = _zones(time, dtype) or "give a time of that type"
        raise SchemaError(
            f"{time!r} is no time of the column {name}, which holds {dtype}; {instead}"
        ) from None


def refuse_no_time(time: Any) -> None:
    """Refuse what no column of times can hold, while it is not known yet of which type they are."""
    value = _plain(time)
    if isinstance(value, bool) or not isinstance(value, int | date | np.datetime64):
        instead = "give a whole number, a date or a datetime, whichever the time column will have"
        raise SchemaError(f"{time!r} is no time; {instead}")


def _zones(value: Any, dtype: pl.DataType) -> str | None:
    """What to do where only the zones of two times differ."""
    if isinstance(value, datetime) and isinstance(dtype, pl.Datetime):
        return "give all times a zone, as time.replace(tzinfo=timezone.utc) does, or none of them"
    return None


def _misfit(name: str, dtype: pl.DataType, value: Any) -> SchemaError:
    instead = (
        _zones(value, dtype)
        or "columns keep the type of their first value, or the one that query.open(schema=...) gives them"
    )
    shown = reprlib.repr(value) if isinstance(value, list | tuple | dict) else repr(value)
    return SchemaError(f"column {name} holds {dtype}, and an event's is {shown}; {instead}")


#: What stands where a value is missing in the dicts that pandas makes of its rows.
_MISSING = frozenset({"NAType", "NaTType"})


def _plain(value: Any) -> Any:
    """A NumPy value as Python's, what pandas calls missing as None; anything else as it is."""
    if isinstance(value, np.generic):
        if value.dtype.kind in "biuf":
            return value.item()
        if value.dtype.kind in "mM":
            return _plain_time(value)
    elif type(value).__name__ in _MISSING and type(value).__module__.startswith("pandas."):
        return None
    return value


def _plain_time(value: Any) -> Any:
    """A NumPy time as Python's if that says the same: it has no nanoseconds."""
    plain = value.item()
    if isinstance(plain, int):
        exact = value.astype(f"{value.dtype.kind}8[us]")
        plain = exact.item() if exact == value else value
    return value if isinstance(plain, int) else plain


def _fits(value: Any, dtype: pl.DataType) -> bool:
    """Whether a Python value is one of a column's type, without any guess."""
    kind = type(value)
    if isinstance(dtype, pl.Datetime):
        return isinstance(value, datetime) and (value.tzinfo is None) == (dtype.time_zone is None)
    if dtype == pl.Date:
        return isinstance(value, date) and not isinstance(value, datetime)
    if dtype == pl.Boolean:
        return kind is bool
    if dtype.is_integer():
        return isinstance(value, int) and kind is not bool
    if dtype.is_float():
        return isinstance(value, int | float) and kind is not bool
    if dtype.is_nested():
        return not _nests_deeply(value)
    return dtype != pl.String or isinstance(value, str)
