"""How long the intervals of each symbol are kept, and why: one function a reason.

A new clause that bounds how long an interval matters adds a function to `BOUNDS`, one that keeps
intervals beyond that adds one to `LONGER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from piestream.expressions.canonical import canonical_text
from piestream.expressions.durations import Duration
from piestream.expressions.syntax import Previous, Until, Window, past_in
from piestream.language.difference_bounds import absence_bounds, kept_after_end
from piestream.language.model import Query
from piestream.language.parts import StreamKind, Symbol
from piestream.language.windows import NO_WINDOW, all_windows

__all__ = ["BOUNDS", "FROM_START", "LONGER", "KeepTime", "keep_lines", "keep_times"]


#: Since when an interval with a window is kept.
FROM_START = "from its start"


@dataclass(frozen=True, slots=True)
class KeepTime:
    """How long an interval is kept, the clause that says so, and why that is enough."""

    length: Duration
    clause: str
    why: str
    since: str = FROM_START

    def __str__(self) -> str:
        ticks = " ticks" * self.length.in_ticks
        return f"{self.length}{ticks} {self.since}: {self.clause}, {self.why}"


def _window(query: Query, symbol: Symbol) -> Iterator[KeepTime]:
    """The window bounds all intervals of a match, from the earliest start to the report."""
    if query.within != NO_WINDOW and symbol in query.present:
        why = "from the earliest start of a match to its report"
        yield KeepTime(query.within, f"WITHIN {query.within}", why)


def _own_window(query: Query, symbol: Symbol) -> Iterator[KeepTime]:
    """Its own window bounds an interval from its start to the report."""
    for window, clause in all_windows((), NO_WINDOW, query.windows):
        if window.symbol == symbol.name:
            yield KeepTime(window.length, clause, "from its start to the report")


def _windows_of_others(query: Query, symbol: Symbol) -> Iterator[KeepTime]:
    """Windows of others bound an interval without one from its end, as far as it may lie before them."""
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    kept = kept_after_end(
        query.present, query.constraints, query.within, query.windows, query.emit, unit,
        query.is_sequenced,
    )  # fmt: skip
    length = kept.get(symbol.name)
    if length is not None:
        why = "as relations and distances say how long before these intervals it may end"
        yield KeepTime(length, f"WITHIN {query.within_text}", why, "after its end")


def _absence(query: Query, symbol: Symbol) -> Iterator[KeepTime]:
    """An interval of a NOT is kept as long as it may lie before an interval with a window."""
    unit = next((stream.time_unit for stream in query.streams if stream.time_unit), None)
    for absence in query.absences:
        if absence.symbol != symbol.name:
            continue
        length = absence_bounds(
            query.present, symbol, query.constraints, absence, query.within, query.windows,
            query.emit, unit, has_equal_times=query.is_sequenced,
        ).kept  # fmt: skip
        assert length is not None
        why = "as its NOT (…) says how long ago it may have ended when a match is reported"
        yield KeepTime(length, f"WITHIN {query.within_text}", why, "after its end")


#: Each of these bounds how long an interval can still be in a match; the least of them counts.
BOUNDS: tuple[Callable[[Query, Symbol], Iterator[KeepTime]], ...] = (
    _window,
    _own_window,
    _windows_of_others,
    _absence,
)


def keep_times(query: Query, symbol: Symbol) -> list[KeepTime]:
    """What bounds how long intervals of a symbol are kept, the least first.

    >>> import piestream as ps
    >>> query = ps.query("FROM s ORDER BY t DEFINE a AS x > 1 PATTERN a WITHIN 9")
    >>> print(*keep_times(query, query.symbols[0]))
    9 ticks from its start: WITHIN 9, from the earliest start of a match to its report
    """
    found = [time for bound in BOUNDS for time in bound(query, symbol)]
    return sorted(found, key=lambda time: (time.length.in_ticks, time.length.amount))


def _open_run(query: Query, symbol: Symbol) -> Iterator[str]:
    """A run that has not ended is known as long as nothing ends it."""
    stream = query.streams[symbol.stream]
    if stream.kind is not StreamKind.EVENTS:
        return
    if stream.max_gap is None:
        yield "an open one until an event ends it, however late that comes: MAX GAP would bound it"
    else:
        yield f"an open one until an event ends it, or a silence of more than {stream.max_gap}: MAX GAP"


def _unended_row(query: Query, symbol: Symbol) -> Iterator[str]:
    """An interval that has begun by a row is open until another row ends it."""
    stream = query.streams[symbol.stream]
    if stream.silence is not None:
        yield "one that has begun until the next event, however late that comes"
    elif stream.id is not None and not stream.known_at_start:
        yield f"one that has begun until the row with its end comes, by its {stream.id}"


#: Each of these says what is kept beyond that.
LONGER: tuple[Callable[[Query, Symbol], Iterator[str]], ...] = (_open_run, _unended_row)


def keep_lines(query: Query) -> Iterator[str]:
    """How long the intervals of each symbol are kept, and when a partition is freed."""
    for symbol in query.symbols:
        first, *others = keep_times(query, symbol)
        yield f"{symbol.name} is kept {first}"
        yield from (f"  and no longer than {other}" for other in others)
        for keeps in LONGER:
            yield from (f"  {text}" for text in keeps(query, symbol))
    yield from _freed(query)


def _freed(query: Query) -> Iterator[str]:
    """When nothing of a partition is kept any more."""
    reading = [
        node
        for symbol in query.symbols
        if symbol.predicate.tree is not None
        for node in past_in(symbol.predicate.tree)
    ]
    if any(isinstance(node, Previous) for node in reading):
        yield "a partition is never freed: PREV reads its latest event"
        return
    for node in reading:
        if isinstance(node, Window) and isinstance(node.length, int):
            yield f"a partition is never freed: {canonical_text(node)} reads its latest events"
            return
    yield "a partition is freed when nothing of it is kept any more"
    if any(isinstance(node, Until) for node in reading):
        yield "  and UNTIL has come"
    if query.limits.limit is not None:
        yield "  but for those of which LIMIT has counted a match"
    elif query.limits.cooldown is not None:
        yield "  and COOLDOWN is over"
