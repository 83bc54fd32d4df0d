"""How far what queries over live streams and archives find depends on rows, and whether it is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from piestream.archives.reach import has_only, past_of, reach_of
from piestream.automata.endpoints import endpoint_orders
from piestream.language.model import Query
from piestream.language.options import RunOptions
from piestream.language.parts import Constraint, Emit, Source, Symbol, Where, part_of
from piestream.language.row_patterns import RowItem, RowPattern, SkipMode
from piestream.language.windows import all_windows
from piestream.plan.binding import Binding, query_ticks

__all__ = [
    "IntervalNeeds",
    "PartReach",
    "RelativeBounds",
    "fault_of",
    "fault_of_row_order",
    "interval_needs",
    "part_reach",
    "relative_bounds",
]

Fault = tuple[Where | None, str, str | None]


@dataclass(frozen=True)
class PartReach:
    """What the matches of a query in brackets depend on before they start, at most.

    So many rows of their partition, and so many ticks. It is not bounded where they are not ``local``.
    """

    is_local: bool
    rows: int = 0
    ticks: int = 0
    has_deadlines: bool = (
        False  # whether time alone ends what is open, or decides what may not be there
    )
    longest: int | None = None  # how long a match lasts, at most; None: nothing bounds it


def part_reach(binding: Binding) -> PartReach:
    """What the matches of a query in brackets depend on before they start."""
    query = replace(
        binding.query,
        streams=tuple(replace(s, archive=False, path=None) for s in binding.query.streams),
    )
    has_deadlines = any(stream.max_gap is not None for stream in query.streams)
    has_deadlines |= any(symbol.bridging is not None for symbol in query.symbols)
    has_deadlines |= bool(query.absences)
    if query.limits or not _is_known(query, _INSIDE):  # what is given depends on all that was
        return PartReach(False, has_deadlines=has_deadlines)
    if query.rows is not None:
        return _row_reach(query, query.rows, binding)
    found = reach_of(replace(query, emit=Emit.TRIGGER), binding, RunOptions())
    if found is None or found.latches or found.counted:
        return PartReach(False, has_deadlines=has_deadlines)
    bridges = query_ticks(query, binding.time).bridging
    before = max((bridge for bridge in bridges if bridge is not None), default=0)
    before = max(before, found.absent)
    return PartReach(True, found.rows, found.ticks + before, has_deadlines, found.window)


def _row_reach(query: Query, rows: RowPattern, binding: Binding) -> PartReach:
    """Of a row pattern: what its conditions and measures read, and how long matches stay open.

    Matches become known in order, so that one waits for those that began before it.
    """
    past = past_of([column.node for column in binding.past])
    items = list(_items(rows))
    if past is None or rows.skip.mode is not SkipMode.TO_NEXT_ROW or rows.within is None:
        return PartReach(False)
    if any(item.function == "MATCH_NUMBER" for item in items):
        return PartReach(False)
    unit = binding.time.nanoseconds_per_tick
    ticks = past[1] + query.ticks(("within",), rows.within, unit)
    rows_before = past[0] + max((abs(item.shift) for item in items), default=0)
    return PartReach(
        True, rows_before, ticks
    )  # a match ends with the row after it, whenever that comes


def _items(rows: RowPattern) -> Iterator[RowItem]:
    """Everything that a row pattern reads of its matches."""
    for measure in rows.measures:
        yield from (item for _, item in measure.items)
    for condition in rows.conditions:
        yield from (item for _, item in condition.all_items)


_QUERY = frozenset(
    {"symbols", "constraints", "within", "returns", "streams", "partition_by", "emit", "where",
     "limits", "rows", "origin", "names", "windows", "absences"}
)  # fmt: skip
_SYMBOL = frozenset(
    {"name", "predicate", "at_least", "at_most", "stream", "at_least_events", "at_most_events"}
)
_CONSTRAINT = frozenset({"x", "y", "relations", "distances"})
#: What a session knows of the query around the brackets, and of those inside that read archives.
_AROUND: Mapping[type, frozenset[str]] = {
    Query: _QUERY, Symbol: _SYMBOL, Constraint: _CONSTRAINT, Source: frozenset({"name", "query"}),
}  # fmt: skip
_INSIDE: Mapping[type, frozenset[str]] = {
    **_AROUND,
    Symbol: _SYMBOL | {"bridging"},
    Source: frozenset({"name", "path", "archive", "order_by", "sequence", "time_unit", "max_gap"}),
}


def _is_known(query: Query, known: Mapping[type, frozenset[str]]) -> bool:
    """Whether there is nothing in a query but what is known."""
    constraints = (*query.constraints, *(c for one in query.absences for c in one.constraints))
    parts = [query, *query.symbols, *constraints, *query.streams]
    return all(has_only(part, known[type(part)]) for part in parts)


def fault_of_row_order(name: str) -> tuple[str, str]:
    """Why a stream that has its past in an archive cannot be in the order of its rows."""
    return (
        f"rows of {name} and of its archive at one time cannot be told apart with ROW: nothing says which "
        "of them are the same",
        "name a column that orders events of one time, as in ORDER BY ts, seq",
    )


def fault_of(query: Query) -> Fault | None:
    """Why matches in archives cannot be looked for around live matches; None if they can."""
    live = 0
    past = [s.query for s in query.streams if s.query is not None and s.query.reads_archives]
    if any(s.silence for s in query.streams) or any(one.has_silences for one in past):
        return (
            None,
            "SILENCE beside an archive that is read as rows come stands in a query in brackets",
            "put it in brackets over a live stream: FROM (FROM … DEFINE q AS SILENCE … PATTERN q) AS name",
        )
    for number, stream in enumerate(query.streams):
        where = part_of(number, stream.name, "source")
        if stream.query is None:
            what = "an ARCHIVE stream" if stream.archive else f"the stream {stream.name}"
            return (
                where,
                f"{what} beside an archive stands in a query in brackets",
                (
                    "put what is looked for in it in brackets: FROM (FROM … DEFINE … PATTERN …) AS name, "
                    "or behind MATCH_RECOGNIZE"
                ),
            )
        inner = stream.query
        if inner.reads_archives and inner.is_combined:
            message = f"the query {stream.name} reads an archive and other streams"
            return where, message, "a query in brackets over an archive reads nothing else"
        if inner.reads_archives and any(one.row_order for one in inner.streams):
            return where, *fault_of_row_order(str(inner.streams[0].name))
        if inner.reads_archives and not _is_known(inner, _INSIDE):
            return (
                where,
                f"the query {stream.name} cannot be worked on where an archive is read as rows come: it has "
                "what depends on more than times",
                "query.run() over frames takes it",
            )
        live += not inner.reads_archives
    if not live:
        return (
            part_of(0, query.streams[0].name, "source"),
            "this query reads no live stream",
            ("query.run() looks for all matches in an archive; leave ARCHIVE out where rows come"),
        )
    if not _is_known(query, _AROUND):
        return (
            None,
            "a part of this query cannot be decided beside an archive as rows come",
            "query.run() over frames takes it",
        )
    names = {symbol.name for symbol in query.present}
    if names != {window.symbol for window, _ in all_windows(names, query.within, query.windows)}:
        return (
            None,
            "a symbol without a window may lie arbitrarily far back in an archive",
            "give each symbol a window, as in WITHIN 30 min OF low, 12 h OF fast",
        )
    return None


@dataclass(frozen=True)
class IntervalNeeds:
    """Which intervals of one part a match depends on, by how long before its report they are at most."""

    is_present: bool  # whether a match has intervals of it
    since_start: int  # those count that begin so long before a report
    since_end: int | None  # and those that end so long before; None: of these no others

    def back(self, longest: int | None) -> int:
        """How long before a report those that last no longer than this begin, at most."""
        if self.since_end is None:
            return self.since_start
        assert longest is not None
        return max(self.since_start, self.since_end + longest)


def interval_needs(binding: Binding, part: int) -> IntervalNeeds:
    """Which intervals of a part the matches of the query around it depend on: what is absent counts by its end."""
    query, ticks = binding.query, binding.compiled.ticks
    stream_of = {symbol.name: symbol.stream for symbol in query.symbols}
    kept = {symbol.name: ticks.kept[s].length for s, symbol in enumerate(query.symbols)}
    present = {symbol.name for symbol in query.present}
    window = max(kept[name] for name in present)
    ends = [kept[name] for name in kept if name not in present and stream_of[name] == part]
    is_present = any(stream_of[name] == part for name in present)
    return IntervalNeeds(is_present, window, max(ends, default=None))


@dataclass(frozen=True)
class RelativeBounds:
    """How the intervals of one part lie to those of another in every match."""

    starts_no_earlier: bool
    ends_no_later: bool


def relative_bounds(query: Query, part: int, other: int) -> RelativeBounds:
    """How all intervals of ``part`` lie to one of ``other`` in every match."""
    place = {symbol.name: number for number, symbol in enumerate(query.symbols)}
    orders = endpoint_orders(
        len(query.symbols), [(place[c.x], place[c.y], c.relations) for c in query.constraints]
    )
    mine = np.array([n for n, s in enumerate(query.symbols) if s.stream == part])
    others = np.array([n for n, s in enumerate(query.symbols) if s.stream == other])
    starts = orders[np.ix_(2 * others, 2 * mine)] > 0  # the other starts no later
    ends = orders[np.ix_(2 * mine + 1, 2 * others + 1)] > 0
    return RelativeBounds(bool(starts.all()), bool(ends.all()))
