"""Frames as tables of intervals: times in ticks, groups of equal keys, and what is wrong with rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Union

import numpy as np
import polars as pl

from piestream.adapters.event_columns import event_list
from piestream.adapters.frames import Kind, as_kind, as_polars
from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.compiled.records import Array
from piestream.errors import IntervalError, SchemaError
from piestream.expressions.diagnostics import did_you_mean
from piestream.expressions.durations import NANOSECONDS
from piestream.plan.columns import TimeColumn

__all__ = ["Given", "Keys", "Side", "Table", "group_keys", "key_names", "read_frame", "read_tables"]

#: The keys of a join: a column of both frames, several, or the name in y by that in x.
Keys = Union[str, Sequence[str], Mapping[str, str], None]
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
    ticks = [
        _ticks(name, column, scale.dtype) for name, column in zip(names, columns, strict=True)
    ]
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


# -- keys --------------------------------------------------------------------------------------------
def key_names(on: Keys) -> tuple[list[str], list[str]]:
    """The key columns of x, and those of y."""
    if on is None:
        return [], []
    if isinstance(on, str):
        return [on], [on]
    if isinstance(on, Mapping):
        return list(on.keys()), list(on.values())
    return list(on), list(on)


def group_keys(
    tables: Sequence[Table], names: Sequence[Sequence[str]], *, null_is_key: bool = False
) -> tuple[list[Array], int]:
    """The number of each row's group of equal keys, frame by frame, and how many numbers there are.

    Groups are numbered from 1 in order of first appearance; 0 have the rows in which a key is NULL or NaN,
    unless that is a key like others.
    """
    if not names[0]:
        return [np.ones(len(table.frame), np.int64) for table in tables], 2
    keys = [
        table.frame.select(column_of(table.frame, key, table.name, "on") for key in of_table)
        for table, of_table in zip(tables, names, strict=True)
    ]
    try:
        both = pl.concat([_comparable(frame) for frame in keys], how="vertical_relaxed")
    except pl.exceptions.PolarsError:
        types = " and ".join(str(list(frame.dtypes)) for frame in keys)
        raise SchemaError(f"keys cannot be compared: their types are {types}") from None
    numbers = _group_numbers(both, null_is_key)
    cuts = np.cumsum([len(frame) for frame in keys])
    parts: list[Array] = np.split(numbers, cuts[:-1])
    return parts, int(numbers.max(initial=0)) + 1


def _comparable(keys: pl.DataFrame) -> pl.DataFrame:
    """Keys under names that tell their place, with what is missing as NULL."""
    texts = [pl.Categorical, pl.Enum]
    return keys.select(
        (
            pl.col(name).fill_nan(None)
            if dtype.is_float()
            else pl.col(name).cast(pl.String)
            if dtype in texts
            else pl.col(name)
        ).alias(str(place))
        for place, (name, dtype) in enumerate(keys.schema.items())
    )


def _group_numbers(keys: pl.DataFrame, null_is_key: bool) -> Array:
    """The number of each row's group, in order of first appearance."""
    groups = keys.unique(maintain_order=True).with_row_index("number", offset=1)
    if len(groups) == 1 and (null_is_key or not any(groups.row(0)[i] is None for i in range(1, groups.width))):
        return np.ones(len(keys), np.int64)
    if not null_is_key:
        groups = groups.drop_nulls()
    found = keys.join(groups, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    numbers: Array = found["number"].fill_null(0).cast(pl.Int64).to_numpy()
    return numbers


def suffixed(columns: Sequence[str], others: Sequence[str], suffix: str) -> Iterator[str]:
    """The names of columns, with a suffix where the other frame has one of that name."""
    return (name + suffix if name in others else name for name in columns)


def checked_names(names: Sequence[str], advice: str) -> list[str]:
    """The names of a result, of which no two may be equal."""
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise SchemaError(f"two columns of the result would be called {twice[0]}: {advice}")
    return list(chain(names))
