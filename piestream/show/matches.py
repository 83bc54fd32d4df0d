"""Matches as intervals on a time line: what pictures, reports and exports are made of.

>>> import piestream as ps
>>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
>>> matches = query.run([{"t": 1, "x": 5}, {"t": 3, "x": 0}])
>>> read_matches(query, matches).matches[0].intervals
(MatchInterval(symbol='a', start=1, end=None),)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from piestream.adapters.frames import as_polars
from piestream.expressions.columns import column_named
from piestream.expressions.durations import NANOSECONDS, tick_length
from piestream.language.model import Query
from piestream.language.parts import Emit, Endpoint
from piestream.show.row_endpoints import (
    LAST_ROW,
    endpoint_measures,
    missing_measure,
    with_endpoint_measures,
)
from piestream.show.table import cell_text

__all__ = [
    "Match",
    "MatchInterval",
    "Matches",
    "TimeScale",
    "checked_matches",
    "key_text",
    "lanes",
    "matches_frame",
    "read_matches",
    "with_endpoints",
]

_NANOSECONDS_PER_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000}


@dataclass(frozen=True, slots=True)
class TimeScale:
    """What the ticks of a time column are.

    >>> TimeScale(pl.Date(), None).nanoseconds_per_tick
    86400000000000
    """

    dtype: pl.DataType
    unit: str | None  # declared unit of an integer column

    @classmethod
    def of(cls, query: Query, dtype: pl.DataType) -> TimeScale:
        """That of a query over time columns of this type; those of its streams have one unit.

        >>> import piestream as ps
        >>> query = ps.query("FROM s ORDER BY t UNIT ms DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> TimeScale.of(query, pl.Int64()).nanoseconds_per_tick
        1000000
        """
        return cls(dtype, next((s.time_unit for s in query.inputs if s.time_unit), None))

    @property
    def nanoseconds_per_tick(self) -> int | None:
        """None where nobody knows: integers without a declared unit."""
        if isinstance(self.dtype, pl.Datetime):
            return _NANOSECONDS_PER_UNIT[self.dtype.time_unit]
        if self.dtype == pl.Date:
            return NANOSECONDS["d"]
        return tick_length(self.unit) if self.unit is not None else None

    def ticks(self, times: pl.Series) -> pl.Series:
        """The times of a column as integers."""
        return times.to_physical().cast(pl.Int64)

    def in_units(self, ticks: int, nanoseconds: int) -> float | int:
        """Ticks in units of so many nanoseconds; whole numbers where it comes out even.

        >>> TimeScale(pl.Datetime("us"), None).in_units(2_500, 1_000_000)
        2.5
        """
        per_tick = self.nanoseconds_per_tick
        if per_tick is None:
            raise ValueError(
                "the unit of the time column is not known: declare it, as in ORDER BY t UNIT s"
            )
        whole, rest = divmod(ticks * per_tick, nanoseconds)
        return whole + rest / nanoseconds if rest else whole


@dataclass(frozen=True, slots=True)
class MatchInterval:
    """An interval of a match, in ticks; its end is None if it was not known at the report."""

    symbol: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Match:
    """A match: where it lies, and the row that reported it."""

    partition: tuple[Any, ...]
    reported: int
    intervals: tuple[MatchInterval, ...]
    row: dict[str, Any]

    @property
    def start(self) -> int:
        """Its earliest start."""
        return min(interval.start for interval in self.intervals)

    @property
    def end(self) -> int:
        """Its latest end, as far as it was known: a match lasts until its report at least."""
        return max(self.reported, *(i.end for i in self.intervals if i.end is not None), self.start)

    def known_end(self, interval: MatchInterval) -> int:
        """Where an interval ends, or until when it is known to last."""
        return max(self.reported, interval.start) if interval.end is None else interval.end

    def text(self, column: str) -> str:
        """A value of its row, as people write it."""
        return cell_text(self.row[column])


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches of a result, and the clock that they are read on."""

    query: Query
    scale: TimeScale
    matches: tuple[Match, ...]

    def partition_text(self, partition: Sequence[Any]) -> str:
        """The name of a partition.

        >>> import piestream as ps
        >>> query = ps.query("FROM s PARTITION BY car ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
        >>> Matches(query, TimeScale(pl.Int64(), None), ()).partition_text((7,))
        'car = 7'
        """
        named = zip(self.query.partition_by, partition, strict=True)
        return ", ".join(f"{column} = {key_text(value)}" for column, value in named)


def key_text(value: Any) -> str:
    """A partition's value, never rounded.

    >>> key_text(1234567.5), key_text("north\\n"), key_text(None)
    ('1234567.5', 'north\\\\n', 'NULL')
    """
    return repr(value) if isinstance(value, float) else cell_text(value)


def with_endpoints(query: Query) -> Query:
    """The query with the endpoints of all its symbols in RETURN, after what it returns itself.

    Of a row pattern, those of its variables are in MEASURES.

    >>> import piestream as ps
    >>> q = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN AVG(a.x) AS mean, a.ts")
    >>> [item.alias for item in with_endpoints(q).returns]
    ['mean', 'a_ts', 'a_te']
    """
    taken = {name.lower() for name in (*query.partition_by, *_REPORT, "phase")}
    if query.rows is not None:
        return with_endpoint_measures(query, taken)
    found = _endpoint_columns(query)
    taken |= {item.alias.lower() for item in query.returns}
    added = []
    for symbol in query.present:
        for which in ("ts", "te"):
            if (symbol.name, which) not in found:
                alias = f"{symbol.name}_{which}"
                while alias.lower() in taken:
                    alias += "_"
                taken.add(alias.lower())
                added.append(Endpoint(symbol.name, which, alias))
    return replace(query, returns=(*query.returns, *added)) if added else query


_REPORT = ("detected_at", "completed_at")


def lanes(query: Query) -> tuple[str, ...]:
    """What a match has intervals of: the symbols of a query, the variables of a row pattern.

    >>> import piestream as ps
    >>> lanes(ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9"))
    ('a',)
    """
    if query.rows is not None:
        return query.rows.variables
    return tuple(symbol.name for symbol in query.present)


def _endpoint_columns(query: Query) -> dict[tuple[str, str], str]:
    """The column of each endpoint that RETURN gives."""
    if query.rows is not None:
        return endpoint_measures(query)
    endpoints = [item for item in query.returns if isinstance(item, Endpoint)]
    return {(item.symbol, item.which): item.alias for item in reversed(endpoints)}


def read_matches(query: Query, matches: Any) -> Matches:
    """The matches of a result of this query, whatever kind of frame it is.

    Of a match that EMIT ON BOTH reports twice its completion counts. ValueError names an endpoint that
    the result lacks.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN a.te")
    >>> read_matches(query, [])
    Traceback (most recent call last):
        ...
    ValueError: the start of a is missing: let RETURN give a.ts too, or leave RETURN out
    """
    frame, report, columns = checked_matches(query, matches)
    scale = TimeScale.of(query, frame.schema[report])
    return Matches(query, scale, tuple(_read(query, frame, scale, report, columns)))


def checked_matches(
    query: Query, matches: Any
) -> tuple[pl.DataFrame, str, dict[tuple[str, str], str]]:
    """A row for each match, the column of the report, and the columns of the endpoints.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> checked_matches(query, [])[2]
    {('a', 'te'): 'a_te', ('a', 'ts'): 'a_ts'}
    """
    columns = _endpoint_columns(query)
    if query.rows is not None:
        _check_measures(query, columns)
    for name in lanes(query):
        for which, what in (("ts", "start"), ("te", "end")):
            if (name, which) not in columns:
                raise ValueError(
                    f"the {what} of {name} is missing: let RETURN give "
                    f"{name}.{which} too, or leave RETURN out"
                )
    report = _report_column(query, columns)
    frame = matches_frame(matches)
    needed = [*query.partition_by, report, *columns.values()]
    if frame.width == 0 and not len(frame):
        frame = pl.DataFrame(schema=dict.fromkeys(needed, pl.Int64))
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise ValueError(f"these are no matches of this query: there is no column {missing[0]}")
    if query.emit is Emit.BOTH and "phase" in frame.columns:
        frame = _last_known(frame, query, columns)
    if query.rows is not None:  # what has no rows lies nowhere
        frame = frame.filter(column_named(report).is_not_null())
    return frame, report, columns


def _report_column(query: Query, columns: dict[tuple[str, str], str]) -> str:
    """The column of the time of a report; of a row pattern, that of a match's last row."""
    if query.rows is None:
        return _REPORT[query.emit is Emit.COMPLETION]
    return columns.pop(LAST_ROW)


def _check_measures(query: Query, columns: dict[tuple[str, str], str]) -> None:
    """ValueError if the measures of a row pattern do not say where its matches lie."""
    wanted = [(name, which) for name in lanes(query) for which in ("ts", "te")]
    missing = [missing_measure(query, end) for end in (*wanted, LAST_ROW) if end not in columns]
    if missing:
        raise ValueError(
            f"where the rows of its matches lie is missing: let MEASURES give {', '.join(missing)}"
        )


def matches_frame(matches: Any) -> pl.DataFrame:
    """A result of any kind as a Polars frame.

    >>> matches_frame([{"a_ts": 1}, {"a_ts": 2}])["a_ts"].to_list()
    [1, 2]
    """
    if isinstance(matches, pl.LazyFrame):
        return matches.collect()
    if isinstance(matches, list):
        return pl.DataFrame(matches, infer_schema_length=None)
    return as_polars(matches)[0]


def _last_known(
    frame: pl.DataFrame, query: Query, columns: dict[tuple[str, str], str]
) -> pl.DataFrame:
    """The last row of each match: its completion, if there is one."""
    starts = [columns[name, "ts"] for name in lanes(query)]
    key = [*query.partition_by, *starts]
    rows = frame.select(column_named(name).alias(str(i)) for i, name in enumerate(key))
    keep = rows.with_row_index("row").group_by([str(i) for i in range(len(key))]).agg(
        pl.col("row").last()
    )  # fmt: skip
    return frame[keep["row"].sort()]


def _read(
    query: Query,
    frame: pl.DataFrame,
    scale: TimeScale,
    report: str,
    columns: dict[tuple[str, str], str],
) -> list[Match]:
    ticks = {name: scale.ticks(frame[name]).to_list() for name in (report, *columns.values())}
    found = []
    for number, row in enumerate(frame.iter_rows(named=True)):
        intervals = []
        for name in lanes(query):
            start, end = (ticks[columns[name, which]][number] for which in ("ts", "te"))
            if start is not None:  # a match may have no row of a variable
                intervals.append(MatchInterval(name, start, end))
        partition = tuple(row[name] for name in query.partition_by)
        found.append(Match(partition, ticks[report][number], tuple(intervals), row))
    return found
