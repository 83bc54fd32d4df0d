"""The parts of a query as queries of their own, and queries with a part of them lifted."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from piestream.expressions.durations import Duration
from piestream.language.emission import NO_LIMITS
from piestream.language.model import Aggregate, Emit, Endpoint, Query, Return, Symbol
from piestream.plan.columns import TimeColumn

__all__ = [
    "COUNT",
    "END",
    "START",
    "any_length",
    "duration_of_ticks",
    "endpoints",
    "forever",
    "ready_made",
    "restricted",
    "runs_of",
]

#: What the columns of a symbol are called in the results of a part; no column of a user's is.
START, END, COUNT = "start of ", "end of ", "events of "

#: Longer than any data lasts, and short enough to be added to a time.
_FOREVER = 1 << 61


def duration_of_ticks(ticks: int, time: TimeColumn) -> Duration:
    """A length as a duration of a query over this time column."""
    if time.nanoseconds_per_tick is None:
        return Duration(ticks, in_ticks=True)
    return Duration(ticks * time.nanoseconds_per_tick)


def forever(time: TimeColumn) -> Duration:
    """A window that leaves nothing out."""
    return duration_of_ticks(_FOREVER, time)


def any_length(symbol: Symbol) -> Symbol:
    """A symbol whose intervals are all runs of its predicate, bridged as they are."""
    return replace(
        symbol, at_least=None, at_most=None, at_least_events=None, at_most_events=None
    )  # fmt: skip


def endpoints(names: Collection[str]) -> tuple[Return, ...]:
    """The start and the end of each symbol."""
    return tuple(
        Endpoint(name, which, f"{prefix}{name}")
        for name in names
        for which, prefix in (("ts", START), ("te", END))
    )


def runs_of(query: Query, name: str) -> Query:
    """All runs of a symbol's predicate, whatever their lengths, each when it has ended.

    With EMIT ON BOTH the window bounds only the trigger, which is at the start.
    """
    count = Aggregate("COUNT", name, None, f"{COUNT}{name}")
    return _alone(query, name, Duration(0, in_ticks=True), (count,))


def ready_made(query: Query, name: str, time: TimeColumn) -> Query:
    """All intervals of a symbol that come ready-made, when they are known and when they have ended."""
    return _alone(query, name, forever(time), ())


def _alone(query: Query, name: str, within: Duration, more: tuple[Return, ...]) -> Query:
    """All intervals of a symbol, whatever their lengths: at their triggers and at their ends."""
    return replace(
        query,
        symbols=(any_length(query.symbol(name)),),
        constraints=(),
        within=within,
        returns=(*endpoints([name]), *more),
        emit=Emit.BOTH,
        where=None,
        limits=NO_LIMITS,
    )


def without_limits(query: Query) -> Query:
    """A query that gives all its matches."""
    return replace(query, limits=NO_LIMITS)


def restricted(query: Query, names: Collection[str]) -> Query:
    """The pattern of some of its symbols, with what the query says of them alone."""
    kept = tuple(symbol for symbol in query.symbols if symbol.name in names)
    return replace(
        query,
        symbols=kept,
        constraints=tuple(c for c in query.constraints if c.x in names and c.y in names),
        returns=endpoints([symbol.name for symbol in kept]),
        emit=Emit.TRIGGER,
        where=None,
        limits=NO_LIMITS,
    )
