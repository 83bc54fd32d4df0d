"""Frames as tables of intervals: times in ticks, groups of equal keys, and what is wrong with rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Union

import polars as pl

from piestream.adapters.event_columns import event_list
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.records import Array
from piestream.errors import IntervalError, SchemaError
from piestream.expressions.columns import column_named
from piestream.expressions.diagnostics import did_you_mean
from piestream.expressions.durations import NANOSECONDS
from piestream.plan.columns import TimeColumn

__all__ = [
    "Given",
    "Side",
    "Table",
    "checked_names",
    "read_frame",
    "read_tables",
    "stretches",
    "suffixed",
]

#: A column's name, or one for x and one for y.
Side = Union[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Given:
    """A frame as Polars' own, and what kind it was."""

    frame: pl.DataFrame
    kind: Kind
    is_lazy: bool = False

    def same_kind(self, result: pl.DataFrame) -> Any:
        """Rows as the kind of this frame."""
        return result.lazy() if self.is_lazy else as_kind(self.kind, result)


def read_frame(rows: Any) -> Given:
    """A frame of any kind, or a list of dicts."""
    if isinstance(rows, pl.LazyFrame):
        return Given(rows.collect(), "polars", is_lazy=True)
    events = event_list(rows)
    if events is None:
        return Given(*as_polars(rows))
    if not events:
        raise ValueError("an empty list has no columns: give a frame without rows instead")
    return Given(pl.from_dicts(events, infer_schema_length=None), "events")


@dataclass(frozen=True, slots=True)
class Table:
    """A frame whose rows are intervals. ``name`` is what errors call it."""

    name: str
    frame: pl.DataFrame
    start: str
    end: str
    starts: Array
    ends: Array

    @property
    def endpoints(self) -> dict[str, str]:
        """What the columns of start and end may be called in conditions."""
        return {self.end: "te", self.start: "ts", "te": "te", "ts": "ts"}


def _of_side(given: Side, side: int, what: str) -> str:
    if isinstance(given, str):
        return given
    if len(given) != 2:
        raise ValueError(f"{what} is a column's name, or two: that of x and that of y")
    return given[side]


def column_of(frame: pl.DataFrame, column: str, name: str, option: str) -> pl.Series:
    """A column, or an error that says which there are."""
    if column not in frame.columns:
        near = did_you_mean(column, frame.columns)
        hint = near or f"its columns are {', '.join(frame.columns)}"
        raise SchemaError(f"{name} has no column {column}, which {option} names: {hint}")
    return frame[column]


def read_tables(
    frames: Sequence[tuple[str, pl.DataFrame]], start: Side, end: Side
) -> tuple[list[Table], TimeColumn]:
    """Tables of frames with names, their times in ticks of one scale, and this scale."""
    columns = []
    for side, (name, frame) in enumerate(frames):
        for option, given in (("start", start), ("end", end)):
            columns.append(column_of(frame, _of_side(given, side, option), name, option))
    names = [name for name, _ in frames for _ in range(2)]
    scale = _common_scale(list(zip(names, columns, strict=True)))
    ticks = [_ticks(name, column, scale.dtype) for name, column in zip(names, columns, strict=True)]
    tables = []
    for side, (name, frame) in enumerate(frames):
        s, e = columns[2 * side : 2 * side + 2]
        table = Table(name, frame, s.name, e.name, ticks[2 * side], ticks[2 * side + 1])
        _check_order(table)
        tables.append(table)
    return tables, scale


def _common_scale(columns: list[tuple[str, pl.Series]]) -> TimeColumn:
    """The one type in which the times of all columns can be compared."""
    kinds: dict[str, str] = {}
    for name, column in columns:
        where = f"{column.name} of {name}"
        kinds.setdefault(_kind_of_time(where, column.dtype), where)
    if len(kinds) > 1:
        (one, here), (other, there), *_ = kinds.items()
        raise SchemaError(
            f"times cannot be compared: {here} holds {one}, {there} {other}. "
            "Make both the same, such as with cast(pl.Datetime), dt.replace_time_zone"
        )
    dtypes = [column.dtype for _, column in columns]
    first = columns[0][1].name
    if dtypes[0] == pl.Date:
        return TimeColumn(first, pl.Date(), NANOSECONDS["d"])
    units = [dtype.time_unit for dtype in dtypes if isinstance(dtype, pl.Datetime)]
    if units:
        unit = min(units, key=lambda unit: NANOSECONDS[unit])
        return TimeColumn(first, pl.Datetime(unit), NANOSECONDS[unit])
    return TimeColumn(first, pl.Int64(), None)


def _kind_of_time(where: str, dtype: pl.DataType) -> str:
    if dtype == pl.Date:
        return "dates"
    if isinstance(dtype, pl.Datetime):
        return "times without a zone" if dtype.time_zone is None else "times of a time zone"
    if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
        return "integers"
    raise SchemaError(
        f"{where} has type {dtype}; a time is an integer, a date or a datetime: "
        "cast the column first"
    )


def _ticks(name: str, column: pl.Series, dtype: pl.DataType) -> Array:
    """A column of times as 64-bit ticks."""
    if column.null_count():
        row = column.is_null().arg_max() or 0
        raise IntervalError(
            f"row {row + 1} of {name} is no interval: {column.name} is NULL. "
            "An interval needs a start and an end: fill what is still open with a time "
            f'that is late enough, such as pl.col("{column.name}").fill_null(now), or filter it out'
        )
    physical = column.to_physical()
    factor = 1
    if isinstance(dtype, pl.Datetime) and isinstance(column.dtype, pl.Datetime):
        factor = NANOSECONDS[column.dtype.time_unit] // NANOSECONDS[dtype.time_unit]
    # ticks of the first and the last instant that 64 bits hold are left to the loops
    low, high = INT64_MIN // factor + 1, INT64_MAX // factor - 1
    if len(column) and not (low <= int(physical.min()) and int(physical.max()) <= high):  # type: ignore[arg-type]
        row = (~physical.is_between(low, high)).arg_max() or 0
        raise IntervalError(
            f"row {row + 1} of {name}: {column.name} = {column[row]} "
            "is out of the range of times that 64 bits hold"
        )
    ticks: Array = physical.cast(pl.Int64).to_numpy()
    return ticks if factor == 1 else ticks * factor


def _check_order(table: Table) -> None:
    wrong = table.starts >= table.ends
    if wrong.any():
        row = int(wrong.argmax())
        begins, ends = table.frame[table.start][row], table.frame[table.end][row]
        raise IntervalError(
            f"row {row + 1} of {table.name} is no interval: {table.start} = {begins}, "
            f"{table.end} = {ends}; an interval ends after it begins"
        )


def stretches(
    table: Table,
    scale: TimeColumn,
    keys: list[str],
    rows: Array,
    starts: Array,
    ends: Array,
    counts: Array,
) -> pl.DataFrame:
    """A result of stretches of time: the keys of some rows, start, end and count."""
    names = checked_names(
        [*keys, table.start, table.end, "count"], "give start, end and on different columns"
    )
    found = table.frame.select(
        column_named(key).fill_nan(None) if table.frame[key].dtype.is_float() else column_named(key)
        for key in keys
    )
    numbers = pl.Series(rows).cast(pl.get_index_type())
    times = [_times(table, scale, ticks) for ticks in (starts, ends)]
    columns = [*found.select(pl.all().gather(numbers)), *times, pl.Series(counts)]
    return pl.DataFrame([column.alias(n) for column, n in zip(columns, names, strict=True)])


def _times(table: Table, scale: TimeColumn, ticks: Array) -> pl.Series:
    """Ticks as times of the type of the start, or of the finer one of start and end."""
    own, other = table.frame[table.start].dtype, table.frame[table.end].dtype
    times = scale.as_times(pl.Series(ticks))
    if isinstance(own, pl.Datetime):
        times = pl.Series(ticks).cast(pl.Datetime(scale.dtype.time_unit, own.time_zone))  # type: ignore[attr-defined]
    return times.cast(own) if own == other else times


def suffixed(columns: Sequence[str], others: Sequence[str], suffix: str) -> Iterator[str]:
    """The names of columns, with a suffix where the other frame has one of that name."""
    return (name + suffix if name in others else name for name in columns)


def checked_names(names: Sequence[str], advice: str) -> list[str]:
    """The names of a result, of which no two may be equal."""
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise SchemaError(f"two columns of the result would be called {twice[0]}: {advice}")
    return list(chain(names))
