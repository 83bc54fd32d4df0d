"""The streams of the query builder: what FROM and WITH are in text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from piestream.expressions.diagnostics import QueryError
from piestream.expressions.durations import (
    NANOSECONDS,
    Duration,
    DurationLike,
    as_duration,
    tick_unit,
)
from piestream.language.arguments import check_name
from piestream.language.draft import StreamDraft
from piestream.language.model import Query
from piestream.language.parts import Emit, Source
from piestream.language.signatures import named_options

if TYPE_CHECKING:
    from piestream.language.builder import QueryBuilder

__all__ = ["StreamBuilder", "check_stream", "stream", "unit_of_ticks"]


@dataclass(frozen=True)
class StreamBuilder:
    """A stream that symbols read; `stream` makes one."""

    name: str | None
    path: str | None = None
    archive: bool = False
    order_by: str | None = None
    sequence: str | None = None
    row_order: bool = False
    time_unit: str | None = None
    max_gap: Duration | None = None
    start: str | None = None
    end: str | None = None
    id: str | None = None
    known_at_start: bool = False
    query: Query | None = None

    def draft(self, partition_by: Sequence[str]) -> StreamDraft:
        """The stream as the parser would give it; a query has the partitions of the one around."""
        parts = {part: getattr(self, part) for part in self.__dataclass_fields__}
        drafted = StreamDraft.of(Source(**parts))
        if self.query is not None:
            drafted.query = replace(
                self.query,
                emit=Emit.COMPLETION if self.query.rows is None else self.query.emit,
                partition_by=self.query.partition_by or tuple(partition_by),
            )
        return drafted


@named_options
def stream(
    name: str,
    query: str | Query | QueryBuilder | None = None,
    *,
    path: str | None = None,
    archive: bool = False,
    order_by: str | None = None,
    sequence: str | None = None,
    row_order: bool = False,
    unit: str | None = None,
    max_gap: DurationLike | None = None,
    start: str | None = None,
    end: str | None = None,
    id: str | None = None,
    known_at_start: bool = False,
) -> StreamBuilder:
    """A stream for `define`: rows of events, rows of intervals, or the matches of a query.

    Parameters
    ----------
    name
        The name by which rows are given for it, and by which a text qualifies its columns.
    query
        A query, whose matches are the intervals of this stream.
    path
        The files that hold its rows, if the query is to read them itself.
    archive
        Whether ``path`` is that of an archive, which has the stream's past.
    order_by, sequence, row_order, unit, max_gap
        For events: the time column; the column that orders events of one time, or whether the order
        of rows does; the unit of ticks if time is an integer column; and the silence that ends every
        open interval.
    start, end, id, known_at_start
        For intervals: the columns in which they start and end, the column by which the row of an
        end finds that of its beginning, and whether complete rows count as announced at their
        start.

    >>> import piestream as ps
    >>> vitals = ps.stream("vitals", order_by="ts")
    >>> infusions = ps.stream("infusions", start="started", end="stopped")
    >>> fever = ps.define("fever", "temp > 38.5", stream=vitals)
    >>> dose = ps.define("dose", "drug = 'heparin'", stream=infusions)
    >>> print(ps.pattern(dose.during(fever)).within("6 h").returning(dose.value("drug")))
    FROM vitals ORDER BY ts
    WITH infusions FROM started TO stopped
    DEFINE fever AS temp > 38.5,
           dose AS infusions.drug = 'heparin'
    PATTERN fever contains dose
    WITHIN 6 h
    RETURN dose.drug
    """
    check_name(name, "a stream")
    for column in (order_by, start, end, id):
        if column is not None:
            check_name(column, "a column")
    if path is not None:
        check_name(path, f"the files of {name}")
    if (start is None) != (end is None):
        raise QueryError(f"the stream {name} needs both start and end, the columns of intervals")
    of_events = order_by is not None or max_gap is not None
    if (start is not None) + of_events + (query is not None) > 1:
        raise QueryError(
            f"the stream {name} is one of events (order_by, max_gap), of intervals (start, end) "
            "or a query, not several of these"
        )
    if sequence is not None or row_order:
        check_sequence(order_by, sequence, row_order)
    if archive and (path is None or start is not None or query is not None):
        raise QueryError(f"the stream {name} needs path, where its archive is, and has events")
    if start is None and (id is not None or known_at_start):
        raise QueryError(f"the stream {name} needs start and end: id and known_at_start are for "
                         "intervals")  # fmt: skip
    if query is not None:
        from piestream.language.builder import as_query

        query = as_query(query)
    return StreamBuilder(
        name=name,
        path=path,
        archive=archive,
        order_by=order_by,
        sequence=sequence,
        row_order=bool(row_order),
        time_unit=None if unit is None else unit_of_ticks(unit),
        max_gap=None if max_gap is None else as_duration(max_gap, "the gap"),
        start=start,
        end=end,
        id=id,
        known_at_start=known_at_start,
        query=query,
    )


def check_stream(stream: object, symbol: str) -> None:
    """Refuse what no symbol can read.

    >>> check_stream(None, "a")
    """
    if stream is not None and not isinstance(stream, StreamBuilder):
        raise QueryError(f"the stream of {symbol} is one that ps.stream(…) made, not {stream!r}")


def check_sequence(order_by: str | None, sequence: str | None, row_order: bool) -> None:
    """Refuse what cannot order events of one time.

    >>> check_sequence("ts", "seq", False)
    """
    if order_by is None:
        raise QueryError("what orders events of one time stands behind a time: give order_by too")
    if sequence is not None and row_order:
        raise QueryError("sequence and row_order both order events of one time: give one of them")
    if sequence is not None:
        check_name(sequence, "a column")
    if sequence is not None and sequence == order_by:
        raise QueryError(f"sequence is another column than the time, not {sequence!r}")


def unit_of_ticks(unit: str) -> str:
    """The unit of an integer time column by any of its names, or how long a tick lasts.

    >>> unit_of_ticks("milliseconds"), unit_of_ticks("20 ms")
    ('ms', '20 ms')
    """
    name = tick_unit(unit) if isinstance(unit, str) else None
    if name is None:
        raise QueryError(
            f"{unit} is not a unit; the units are {', '.join(NANOSECONDS)}, or so many of one: "
            f"20 ms; a column that orders events of one time is sequence={unit!r}"
        )
    return name
