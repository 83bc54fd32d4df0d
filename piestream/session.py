"""A session: push events as they come, get the matches that became known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import polars as pl

from piestream.binding import Binding
from piestream.errors import SchemaError, StateError
from piestream.events import EventReader
from piestream.frames import _converted, bound, check_options, lateness_ticks
from piestream.query.durations import as_duration
from piestream.query.model import Query
from piestream.snapshots import restore, schema_of, snapshot
from piestream.stream import OnLate, Statistics, Stream, Ties

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


class Session:
    """An open stream of one query.

    The types of the columns are those of the first frame or event pushed, or ``schema``. Rows may
    come in any order within ``lateness``; what is older than the largest time seen less the
    lateness is late. What a push gives back has the kind of what was pushed: a frame for a frame,
    a list of dicts for an event.

    >>> import piestream as ps
    >>> session = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9").open()
    >>> session.push({"t": 1, "x": 5})
    [{'detected_at': 1, 'a_ts': 1, 'a_te': None}]
    """

    def __init__(
        self,
        query: Query,
        *,
        state: bytes | None = None,
        lateness: str | int | timedelta = 0,
        on_late: OnLate = "error",
        ties: Ties = "error",
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        check_options(ties, on_late)
        self.query = query
        self._options: dict[str, Any] = {"ties": ties, "on_late": on_late}
        self._lateness = as_duration(lateness, "the lateness")
        self._stream: Stream | None = None
        self._reader: EventReader | None = None
        self._untyped: tuple[str, ...] = ()  # columns whose values were all missing so far
        self._advanced: Any = None  # the time told before the first row
        self._as_events = False
        self._back: Callable[[pl.DataFrame], Any] = _as_it_is
        self._closed = False
        if state is not None:
            stored = schema_of(state)
            self._stream = restore(bound(query, stored), state)
            self._note_untyped()
        elif schema is not None:
            self._bind(pl.DataFrame(schema=dict(schema)).schema)

    def _bind(self, schema: Mapping[str, pl.DataType]) -> Stream:
        binding: Binding = bound(self.query, dict(schema))
        lateness = lateness_ticks(self.query, binding, self._lateness)
        stream = Stream(binding, lateness=lateness, **self._options)
        if self._advanced is not None:
            told, self._advanced = self._advanced, None
            stream.advance(self._ticks(told, binding))
        self._stream = stream
        self._note_untyped()
        return self._stream

    def _note_untyped(self) -> None:
        assert self._stream is not None
        binding = self._stream.binding
        self._untyped = tuple(n for n in binding.columns if binding.schema[n] == pl.Null)
        reader = EventReader(binding)
        self._reader = reader if reader.usable else None

    def push(self, rows: Any) -> Any:
        """Take in an event (a mapping) or a frame; gives the matches that became known."""
        self._check_open()
        if isinstance(rows, Mapping):
            self._as_events = True
            return self._push_event(rows)
        if isinstance(rows, pl.LazyFrame):
            rows = rows.collect()
        if isinstance(rows, pl.DataFrame):
            columns: pl.DataFrame = rows
            back: Callable[[pl.DataFrame], Any] = _as_it_is
        else:
            columns, back = _converted(rows)
        self._as_events, self._back = False, back
        stream = self._stream or self._bind(columns.schema)
        return back(stream.take(self._checked(columns, stream.binding)))

    def _push_event(self, event: Mapping[str, Any]) -> list[dict[str, Any]]:
        stream = self._stream
        if stream is None:
            stream = self._bind({name: _type_of(value) for name, value in event.items()})
        if self._untyped and any(event.get(name) is not None for name in self._untyped):
            found = {n: _type_of(event.get(n)) for n in self._untyped}
            stream.rebind(bound(self.query, {**stream.binding.schema, **found}))
            self._note_untyped()
        reader = self._reader
        if reader is not None:
            read = reader.read(event)
            if read is not None:
                values = reader.attributes(event)
                known = stream.take_one(*read, values, reader.attribute_floats)
                if known is not None:
                    return known.to_dicts() if len(known) else []
        return stream.take(self._frame_of(event, stream.binding)).to_dicts()

    def _frame_of(self, event: Mapping[str, Any], binding: Binding) -> pl.DataFrame:
        columns = []
        for name in binding.columns:
            if name not in event:
                raise SchemaError(f"an event has no value for the column {name}")
            columns.append(_column(name, event[name], binding.schema[name]))
        return pl.DataFrame(columns)

    def _checked(self, frame: pl.DataFrame, binding: Binding) -> pl.DataFrame:
        for name in binding.columns:
            if name not in frame.columns:
                raise SchemaError(f"the rows have no column {name}, which earlier rows had")
            if frame.schema[name] != binding.schema[name]:
                raise SchemaError(
                    f"column {name} has type {frame.schema[name]}; "
                    f"it had {binding.schema[name]} before"
                )
        return frame

    def advance(self, time: Any) -> Any:
        """Time moves on to ``time`` without events: all events before it have come."""
        self._check_open()
        if self._stream is None:  # the time's type is not known yet
            if self._advanced is None or _is_after(time, self._advanced):
                self._advanced = time
            return self._given(pl.DataFrame())
        return self._given(self._stream.advance(self._ticks(time, self._stream.binding)))

    @staticmethod
    def _ticks(time: Any, binding: Binding) -> int:
        column = _column(binding.time.name, time, binding.time.dtype)
        if column.null_count():
            raise SchemaError("time cannot advance to None")
        return int(column.to_physical().cast(pl.Int64)[0])

    def close(self) -> Any:
        """End the stream: work on all that waits for the watermark."""
        self._check_open()
        self._closed = True
        return self._given(pl.DataFrame() if self._stream is None else self._stream.finish())

    def snapshot(self) -> bytes:
        """The state of the session as bytes, for ``query.open(state=...)``."""
        self._check_open()
        if self._stream is None:
            raise StateError("nothing was pushed yet, so there is no state: open a new session")
        return snapshot(self._stream)

    @property
    def statistics(self) -> Statistics:
        """What the session has seen and holds."""
        return Statistics() if self._stream is None else self._stream.statistics

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True

    def _given(self, result: pl.DataFrame) -> Any:
        return result.to_dicts() if self._as_events else self._back(result)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this session is closed")


def _is_after(time: Any, other: Any) -> bool:
    """Whether a time is later; of what cannot be compared, the last that was told counts."""
    try:
        return bool(time > other)
    except TypeError:
        return True


def _as_it_is(result: pl.DataFrame) -> pl.DataFrame:
    return result


def _type_of(value: Any) -> pl.DataType:
    """The column type of an event's value; Null while it is missing."""
    if value is None:
        return pl.Null()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return pl.Datetime("us", getattr(value.tzinfo, "key", "UTC"))
    return _TYPES.get(type(value)) or pl.Series([value]).dtype


def _column(name: str, value: Any, dtype: pl.DataType) -> pl.Series:
    """One value as a column of a known type. Nothing is converted that could lose something."""
    fits = value is None or _fits(value, dtype)
    try:
        if fits and isinstance(dtype, pl.Datetime):
            column = pl.Series(name, [value]).cast(dtype)
            fits = value is None or column.cast(pl.Datetime("us", dtype.time_zone))[0] == value
        elif fits:
            column = pl.Series(name, [value], dtype=dtype)
    except (TypeError, OverflowError, ValueError, pl.exceptions.PolarsError):
        fits = False
    if not fits:
        raise SchemaError(
            f"column {name} holds {dtype}, and an event's is {value!r}; columns keep the type of "
            "their first value, or the one that query.open(schema=...) gives them"
        )
    return column


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
    return dtype != pl.String or isinstance(value, str)
