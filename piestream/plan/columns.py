"""The columns of the input, as a query uses them: which there are, what their times and values are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import polars as pl

from piestream.errors import TimeError
from piestream.expressions.diagnostics import QueryError, did_you_mean
from piestream.expressions.durations import NANOSECONDS, Duration, tick_length
from piestream.language.lets import let_hint, names_in
from piestream.language.model import Query
from piestream.language.parts import Source, Where

P = ParamSpec("P")
T = TypeVar("T")

_NANOSECONDS_OF = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_DAY = NANOSECONDS["d"]

#: How a column's values lie in the 64-bit words of an aggregate: as integers, as floats, or as
#: codes of a dictionary.
INTEGER, FLOAT, CODE = "integer", "float", "code"

#: Where a row may stand for a group of rows: how many values of a column the group has, and their sum.
COUNTED, SUMMED = "counted", "summed"

#: The attribute that every row of a stream has: what COUNT(s) counts where streams are merged.
ROW = ""


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The time column: its type, and what one tick of it is."""

    name: str
    dtype: pl.DataType
    nanoseconds_per_tick: int | None

    @property
    def needs_units(self) -> bool:
        """Whether durations need a unit: only of an integer column a number alone counts ticks."""
        return not self.dtype.is_integer()

    def ticks(self, duration: Duration, what: str) -> int:
        """A duration in ticks of this column; ``what`` it is begins the error."""
        return duration.ticks(self.nanoseconds_per_tick, what, self.needs_units, self.name)

    @property
    def length_dtype(self) -> pl.DataType:
        """The type of a difference of two times."""
        if isinstance(self.dtype, pl.Datetime):
            return pl.Duration(self.dtype.time_unit)
        return pl.Duration("ms") if self.dtype == pl.Date else pl.Int64()

    def as_times(self, ticks: pl.Series) -> pl.Series:
        """Ticks as values of the column's own type."""
        if self.dtype == pl.Date:
            return ticks.cast(pl.Int32).cast(pl.Date)
        found = ticks.cast(self.dtype, strict=False)
        if found.null_count() > ticks.null_count():
            beyond = ticks.filter(found.is_null() & ticks.is_not_null())[0]
            raise TimeError(
                f"a time of the result is {beyond}, more than the time column {self.name} can hold, whose type is "
                f"{self.dtype}: give the times as Int64"
            )
        return found

    def as_lengths(self, ticks: pl.Series) -> pl.Series:
        """Differences of ticks as a user reads them."""
        if self.dtype == pl.Date:
            return (ticks * 86_400_000).cast(pl.Duration("ms"))
        return ticks.cast(self.length_dtype)


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """The column that orders events of one time."""

    name: str
    dtype: pl.DataType

    @staticmethod
    def can_be(dtype: pl.DataType) -> bool:
        """Whether values of a type have an order that 64-bit integers have too."""
        if dtype in (pl.Int128, pl.UInt128):
            return False
        return dtype.is_integer() or dtype.is_temporal() or dtype == pl.Null

    def is_comparable(self, other: SequenceColumn) -> bool:
        """Whether the integers of both columns have the order of their values."""
        types = (self.dtype, other.dtype)
        if all(dtype.is_integer() for dtype in types) and pl.UInt64 not in types:
            return True
        return self.dtype == other.dtype or pl.Null in types

    def as_words(self, column: pl.Expr) -> pl.Expr:
        """Values as integers in the same order."""
        if self.dtype == pl.UInt64:
            return (column ^ pl.lit(1 << 63, pl.UInt64)).reinterpret(signed=True)
        return column.to_physical().cast(pl.Int64)

    def as_values(self, words: pl.Series) -> pl.Series:
        """The values of which these are the integers."""
        if self.dtype == pl.UInt64:
            return words.reinterpret(signed=False) ^ pl.Series([1 << 63], dtype=pl.UInt64)
        if self.dtype == pl.Date:
            words = words.cast(pl.Int32)
        return words.cast(self.dtype)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An input column that RETURN aggregates, in one of its forms.

    Where several streams are read, a value is one of its own stream's rows; between them there is
    none, unless it is ``carried`` on from the row before, as FIRST and LAST need it.
    """

    name: str  # ROW for the presence of a row
    form: str
    stream: int = 0
    carried: bool = False


class Errors:
    """Collects the errors of steps that go on without each other."""

    def __init__(self) -> None:
        self._found: list[QueryError] = []

    def attempt(self, step: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
        """The result of a step; None if it fails: `raise_all` reports that."""
        try:
            return step(*given, **named)
        except QueryError as error:
            self._found.append(error)
            return None

    def raise_all(self) -> None:
        """Raise all that was found as one error, if there is any."""
        if self._found:
            raise QueryError.gathered(self._found)


@dataclass(frozen=True)
class InputColumns:
    """The input's columns, and what is wrong with how a query uses them."""

    query: Query
    schema: Mapping[str, pl.DataType]
    stream: int = 0  # whose columns they are
    #: Whether a row may stand for a group of rows, whose counts and sums are given with it.
    is_grouped: bool = False

    @property
    def source(self) -> Source:
        """The stream whose columns they are."""
        return self.query.streams[self.stream]

    def _part(self, name: str) -> Where:
        return self.query.part(self.stream, name)

    def dtype(self, name: str, where: Where, clause: str) -> pl.DataType:
        """The type of a column whose values are used."""
        dtype = self._known(name, where, clause)
        if dtype == pl.Object:
            raise self.query.fault(
                where,
                f"{clause} cannot use the column {name}: its type is Object",
                f"it holds Python objects: make numbers, strings or times of {name} first",
            )
        return dtype

    def time(self) -> TimeColumn:
        """The time column: that of ORDER BY, else the only date or datetime column."""
        name = self.source.order_by
        name = self._only_moment() if name is None else name
        return self._time_column(name, self._part("order_by"), "ORDER BY")

    def sequence(self) -> SequenceColumn | None:
        """The column that orders events of one time, if ORDER BY names one."""
        name = self.source.sequence
        if name is None:
            return None
        where = self._part("order_by")
        dtype = self._known(name, where, "ORDER BY")
        if not SequenceColumn.can_be(dtype):
            raise self.query.fault(
                where,
                f"the column {name} has type {dtype}; what orders events of one time must be an "
                "integer, a date, a datetime, a time or a duration",
                _how_to_order(name, dtype),
            )
        return SequenceColumn(name, dtype)

    def endpoints(self) -> tuple[TimeColumn, TimeColumn]:
        """The columns in which intervals start and end."""
        source = self.source
        assert source.start is not None
        assert source.end is not None
        start = self._time_column(source.start, self._part("start"), "FROM")
        return start, self._time_column(source.end, self._part("end"), "TO")

    def _time_column(self, name: str, where: Where, clause: str) -> TimeColumn:
        dtype = self._known(name, where, clause)
        if dtype.is_integer() and dtype not in (pl.Int128, pl.UInt128):
            unit = self.source.time_unit
            return TimeColumn(name, dtype, None if unit is None else tick_length(unit))
        if not is_moment(dtype):
            raise self.query.fault(
                where,
                f"the time column {name} has type {dtype}; it must be an integer"
                f"{' of up to 64 bits' if dtype.is_integer() else ''}, a date or a datetime",
                _how_to_time(name, dtype),
            )
        unit = dtype.time_unit if isinstance(dtype, pl.Datetime) else None
        return TimeColumn(name, dtype, _DAY if unit is None else _NANOSECONDS_OF[unit])

    def check_unit(self, time: TimeColumn) -> None:
        """Refuse UNIT if the type of the time column determines its unit."""
        if self.source.time_unit is not None and not time.dtype.is_integer():
            raise self.query.fault(
                self._part("time_unit"),
                f"UNIT is for integer time columns; {time.name} has type {time.dtype}, "
                "which has its own",
            )

    def _known(self, name: str, where: Where, clause: str) -> pl.DataType:
        if name in self.schema:
            return self.schema[name]
        hint = did_you_mean(name, self.schema) or f"the columns are {', '.join(self.schema)}"
        times = self._moments()
        if clause == "ORDER BY" and len(times) == 1:
            hint = f"{times[0]} holds times: write ORDER BY {times[0]}; {hint}"
        if clause == "ORDER BY" and name.upper() in ("ROW", "ROWS"):
            time = times[0] if len(times) == 1 else "ts"
            hint = f"the order in which rows stand is written behind the time: ORDER BY {time}, ROW"
        parts = _parts_of_times(self.schema)
        if clause == "ORDER BY" and parts is not None:
            hint = f"{_made_one(*parts, name)}; {hint}"
        if name in names_in([s.predicate.tree for s in self.query.symbols if s.predicate.tree]):
            hint = f"{name} is a name of LET; {let_hint(name, self.query.symbols[0].name)}"
        if not self.schema:
            hint = "the input has no columns at all"
        raise self.query.fault(where, f"{clause}: there is no column {name}", hint)

    def _only_moment(self) -> str:
        found = self._moments()
        if len(found) == 1:
            return found[0]
        what = f"several date or datetime columns: {', '.join(found)}"
        parts = _parts_of_times(self.schema)
        if not found and parts is not None:
            message = "the input has no date or datetime column, which could be the time column"
            raise self.query.fault(self._part("order_by"), message, _made_one(*parts, "when"))
        raise self.query.fault(
            self._part("order_by"),
            f"the input has {what if found else 'no date or datetime column'}, "
            "so the time column must be named",
            "write ORDER BY and the name of the time column after FROM or PARTITION BY",
        )

    def _moments(self) -> list[str]:
        return [name for name, dtype in self.schema.items() if is_moment(dtype)]


#: What columns are called that hold a date, or a time of day.
_PARTS_OF_TIMES = frozenset({"date", "day", "time", "hour"})


def own_form(dtype: pl.DataType) -> str:
    """The form in which a column's values can be compared and given back exactly."""
    if dtype.is_float():
        return FLOAT
    if dtype in (pl.UInt64, pl.Int128, pl.UInt128) or isinstance(dtype, pl.Decimal):
        return CODE
    if dtype.is_integer() or dtype.is_temporal() or dtype in (pl.Boolean, pl.Null):
        return INTEGER
    return CODE


def tick_of(dtype: pl.DataType) -> int | None:
    """The nanoseconds of a tick of a date or datetime column; None for other types."""
    if isinstance(dtype, pl.Datetime):
        return _NANOSECONDS_OF[dtype.time_unit]
    return _DAY if dtype == pl.Date else None


def is_text(dtype: pl.DataType) -> bool:
    """Whether a type is one of texts."""
    return dtype == pl.String or isinstance(dtype, pl.Categorical | pl.Enum)


def is_moment(dtype: pl.DataType) -> bool:
    """Whether a type is one of dates or datetimes."""
    return isinstance(dtype, pl.Datetime) or dtype == pl.Date


def _parts_of_times(schema: Mapping[str, pl.DataType]) -> tuple[str, str] | None:
    """A column of dates and one of times of day, or of texts that are called so."""

    def first(dtype: type[pl.DataType], names: Collection[str]) -> str | None:
        for name, found in schema.items():
            if found == dtype or (found == pl.String and name.lower() in names):
                return name
        return None

    date, time = first(pl.Date, ("date", "day")), first(pl.Time, ("time", "hour"))
    return None if date is None or time is None else (date, time)


def _made_one(date: str, time: str, name: str) -> str:
    """How to make a time column of a date and a time of day."""
    return (
        "a date and its time of day in two columns are made one: "
        f'pl.concat_str("{date}", "{time}", separator=" ").str.to_datetime() in Polars, '
        f'pd.to_datetime(frame["{date}"] + " " + frame["{time}"]) in pandas, '
        f'--type "{name}=datetime({date},{time})" of a file'
    )


def _how_to_order(name: str, dtype: pl.DataType) -> str:
    """How to make a column that orders events of one time of one that cannot."""
    by_row = f"write ROW instead of {name} where rows stand in order"
    column = f'pl.col("{name}")'
    if is_text(dtype):
        return (
            f"as texts, 10 comes before 9: where these are digits make numbers of them, by "
            f"{column}.cast(pl.Int64) in Polars, int(text) of an event, --type {name}=int of a file; "
            f"identifiers without an order order nothing: {by_row}"
        )
    if dtype.is_float():
        return (
            f"make whole numbers of it: {column}.cast(pl.Int64), or ({column} * 1000).cast(pl.Int64) "
            f'where it has fractions; a column of pandas with missing values is frame["{name}"]'
            f'.astype("Int64"); or {by_row}'
        )
    if dtype.is_numeric() or dtype == pl.Boolean:
        return f"make integers of it, by {column}.cast(pl.Int64) in Polars, or {by_row}"
    return f"make one of it, or {by_row}"


def _how_to_time(name: str, dtype: pl.DataType) -> str | None:
    """How to make a time column of one that is none."""
    if dtype == pl.Time or (dtype == pl.String and name.lower() in _PARTS_OF_TIMES):
        alone = "a time of day comes again every day: add the date; " * (dtype == pl.Time)
        return alone + _made_one("Date", "Time", "when")
    if dtype == pl.String:
        return (
            f'make times of it: pl.col("{name}").str.to_datetime() in Polars, '
            f'pd.to_datetime(frame["{name}"]) in pandas, '
            f"datetime.fromisoformat(text) of an event, --type {name}=datetime of a file"
        )
    if dtype.is_float():
        return (
            f'make whole ticks of it, such as (pl.col("{name}") * 1000).cast(pl.Int64) of seconds, '
            f"and say what they are: ORDER BY {name} UNIT ms"
        )
    if dtype.is_integer():
        return f'where its values fit 64 bits: pl.col("{name}").cast(pl.Int64)'
    if dtype == pl.Null:
        return "every event needs a time"
    if isinstance(dtype, pl.Duration):
        return f'count it from an instant, as datetime(2026, 1, 1) + pl.col("{name}") does'
    if dtype.is_nested():
        return "an event is one row; many rows are a frame, such as pl.DataFrame(columns)"
    if "pandas.period" in str(dtype):
        return f'take the start of each period: frame["{name}"].dt.to_timestamp()'
    return None
