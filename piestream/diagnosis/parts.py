"""The parts of a query as queries of their own, and queries with a part of them lifted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from piestream.expressions.durations import NANOSECONDS, Duration
from piestream.language.emission import NO_LIMITS
from piestream.language.model import Query
from piestream.language.parts import (
    Aggregate,
    Constraint,
    Emit,
    Endpoint,
    Instant,
    Return,
    Symbol,
    Value,
)
from piestream.plan.columns import TimeColumn

__all__ = [
    "COUNT",
    "END",
    "END_INSTANT",
    "ID",
    "REPORT_INSTANT",
    "START",
    "START_INSTANT",
    "any_length",
    "duration_of_ticks",
    "endpoints",
    "forever",
    "identity",
    "length_above",
    "length_below",
    "pair",
    "partitioned_by",
    "ready_made",
    "restricted",
    "runs_of",
    "with_inner",
    "with_window",
    "without_absences",
    "without_bridge",
    "without_limits",
]

#: What the columns of a symbol are called in the results of a part; no column of a user's is.
START, END, COUNT, ID = "start of ", "end of ", "events of ", "id of "
#: Where events of one time are told apart, the instants besides, as numbers of their partition.
START_INSTANT, END_INSTANT = "instant of the start of ", "instant of the end of "
REPORT_INSTANT = "instant of the report"

#: A length of so many units is hardly another one if it is less by one.
_MANY_UNITS = 20
#: Longer than any data lasts, and short enough to be added to a time.
_FOREVER = 1 << 61


def duration_of_ticks(ticks: int, time: TimeColumn) -> Duration:
    """A length as a duration of a query over this time column."""
    if time.nanoseconds_per_tick is None:
        return Duration(ticks, in_ticks=True)
    return Duration(ticks * time.nanoseconds_per_tick)


def length_below(ticks: int, time: TimeColumn) -> Duration:
    """A length that is shorter: of a unit that is small beside it, if there is one, else by a tick."""
    return _beside(ticks, time, is_longer=False)


def length_above(ticks: int, time: TimeColumn) -> Duration:
    """A length that is longer: by a unit that is small beside it, if there is one, else by a tick."""
    return _beside(ticks, time, is_longer=True)


def _beside(ticks: int, time: TimeColumn, is_longer: bool) -> Duration:
    tick = time.nanoseconds_per_tick
    if tick is None:
        return duration_of_ticks(ticks + (1 if is_longer else -1), time)
    length = ticks * tick
    units = (n for n in NANOSECONDS.values() if n % tick == 0 and length // n >= _MANY_UNITS)
    unit = max(units, default=tick)
    return Duration((length // unit + 1 if is_longer else (length - 1) // unit) * unit)


def forever(time: TimeColumn) -> Duration:
    """A window that leaves nothing out."""
    return duration_of_ticks(_FOREVER, time)


def with_window(query: Query, length: Duration) -> Query:
    """A query with this window of all symbols alone."""
    return replace(query, within=length, windows=())


def any_length(symbol: Symbol) -> Symbol:
    """A symbol whose intervals are all runs of its predicate, bridged as they are."""
    return replace(
        symbol, at_least=None, at_most=None, at_least_events=None, at_most_events=None
    )  # fmt: skip


def endpoints(symbols: Collection[str]) -> tuple[Return, ...]:
    """The start and the end of each symbol."""
    return tuple(
        Endpoint(name, which, f"{prefix}{name}")
        for name in symbols
        for which, prefix in (("ts", START), ("te", END))
    )


def identity(query: Query) -> tuple[Return, ...]:
    """What tells the intervals of a match apart: starts and ends, and the IDs of rows that have one.

    Where events of one time are told apart, also the instants of these.
    """
    ids = (
        Value(symbol.name, source.id, f"{ID}{symbol.name}")
        for symbol in query.present
        if (source := query.streams[symbol.stream]).id is not None
    )
    names = [symbol.name for symbol in query.present]
    return (*endpoints(names), *ids, *(_instants(names) if query.is_sequenced else ()))


def _instants(symbols: Sequence[str]) -> Iterator[Return]:
    """The instants of the endpoints of symbols, and of the report."""
    for name in symbols:
        yield Instant(name, "start", f"{START_INSTANT}{name}")
        yield Instant(name, "end", f"{END_INSTANT}{name}")
    yield Instant(symbols[0], "report", REPORT_INSTANT)


def runs_of(query: Query, name: str) -> Query:
    """All runs of a symbol's predicate, whatever their lengths, each when it has ended.

    With EMIT ON BOTH the window bounds only the trigger, which is at the start.
    """
    count = Aggregate("COUNT", name, None, f"{COUNT}{name}")
    return _alone(query, name, Duration(0, in_ticks=True), (count,))


def without_bridge(query: Query, name: str) -> Query:
    """A query in which a symbol has the runs of its predicate, none of them bridged."""
    return replace(
        query,
        symbols=tuple(replace(s, bridging=None) if s.name == name else s for s in query.symbols),
    )


def ready_made(query: Query, name: str, time: TimeColumn) -> Query:
    """All intervals of a symbol that come ready-made, when they are known and when they have ended."""
    return _alone(query, name, forever(time), ())


def _alone(query: Query, name: str, within: Duration, more: tuple[Return, ...]) -> Query:
    """All intervals of a symbol, whatever their lengths: at their triggers and at their ends."""
    only = (any_length(query.symbol(name)),)
    alone = replace(query, symbols=only, constraints=(), absences=())
    return replace(
        with_window(alone, within),
        returns=(*identity(alone), *more),
        emit=Emit.BOTH,
        where=None,
        limits=NO_LIMITS,
    )


def without_limits(query: Query) -> Query:
    """A query that gives all its matches."""
    return replace(query, limits=NO_LIMITS)


def without_absences(query: Query, absent: Collection[str] | None = None) -> Query:
    """A query in which some symbols, or all, may be there that may not."""
    given = {absence.symbol for absence in query.absences}
    gone = given if absent is None else given.intersection(absent)
    return replace(
        query,
        symbols=tuple(symbol for symbol in query.symbols if symbol.name not in gone),
        absences=tuple(absence for absence in query.absences if absence.symbol not in gone),
    )


def restricted(query: Query, symbols: Collection[str]) -> Query:
    """The pattern of some of its symbols, with what the query says of them alone: all are there."""
    kept = tuple(symbol for symbol in query.symbols if symbol.name in symbols)
    part = replace(
        query,
        symbols=kept,
        constraints=tuple(c for c in query.constraints if c.x in symbols and c.y in symbols),
        windows=tuple(window for window in query.windows if window.symbol in symbols),
        absences=(),
    )
    return replace(
        part,
        returns=identity(part),
        emit=Emit.TRIGGER,
        where=None,
        limits=NO_LIMITS,
    )


def pair(query: Query, constraint: Constraint, time: TimeColumn) -> Query:
    """The pairs of a constraint alone, whatever the lengths of their intervals."""
    part = restricted(query, [constraint.x, constraint.y])
    symbols = tuple(map(any_length, part.symbols))
    only = tuple(c for c in part.constraints if c == constraint)
    return replace(with_window(part, forever(time)), symbols=symbols, constraints=only)


def partitioned_by(query: Query, column: str) -> Query:
    """A query with one more column of PARTITION BY, and so those inside it."""
    streams = tuple(
        source
        if source.query is None
        else replace(source, query=partitioned_by(source.query, column))
        for source in query.streams
    )
    return replace(query, streams=streams, partition_by=(*query.partition_by, column))


def with_inner(query: Query, number: int, changed: Query) -> Query:
    """A query with another query in brackets as one of its streams."""
    streams = list(query.streams)
    streams[number] = replace(streams[number], query=changed)
    return replace(query, streams=tuple(streams))
