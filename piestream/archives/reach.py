"""How far a query looks beyond the rows of a match, and whether that is bounded at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace

from piestream.archives.row_reach import is_bounded
from piestream.expressions.typed import Expression, Previous, Until, Window, children
from piestream.language.model import NO_WINDOW, Constraint, Emit, Query, Source, Symbol
from piestream.language.options import RunOptions
from piestream.plan.binding import Binding, query_ticks

__all__ = ["Reach", "is_local", "reach_of"]


@dataclass(frozen=True)
class Reach:
    """What a match and its report depend on, apart from the rows between its start and its report."""

    window: int  # from the earliest start to the report, at most
    rows: (
        int  # rows of the partition before its start: the last one, and those that predicates read
    )
    ticks: int  # and those of so long before these
    max_gap: int | None
    reads_the_past: bool


#: What is known here of a query and of its parts: with anything else all rows are read.
_KNOWN: dict[type, frozenset[str]] = {
    Query: frozenset({
        "symbols", "constraints", "within", "returns", "streams", "partition_by", "emit", "where",
        "rows", "limits", "origin", "names",
    }),
    Symbol: frozenset({
        "name", "predicate", "at_least", "at_most", "stream", "at_least_events", "at_most_events",
    }),
    Source: frozenset({
        "name", "path", "order_by", "time_unit", "max_gap", "start", "end", "id", "known_at_start",
        "query",
    }),
    Constraint: frozenset({"x", "y", "relations", "distances"}),
}  # fmt: skip


def reach_of(query: Query, binding: Binding, options: RunOptions) -> Reach | None:
    """How far a query looks; None where its matches depend on rows that are far away.

    They do where rows follow a match however long that takes (EMIT ON BOTH, UNTIL), where the end of
    the rows counts (``at_end``), and in row patterns without WITHIN.
    """
    once = query if query.limits else replace(query, emit=Emit.TRIGGER)
    if query.is_combined or not is_local(once, options):
        return None
    past = _past([column.node for column in binding.past])
    if past is None:
        return None
    rows, length = past
    if query.rows is not None:
        time = binding.time
        window = query.ticks(("within",), query.within, time.nanoseconds_per_tick, time.needs_units)
        return Reach(window, rows, length, None, bool(binding.past))
    ticks = query_ticks(query, binding.time)
    return Reach(ticks.within, 1 + rows, length, ticks.max_gap, bool(binding.past))


def is_local(query: Query, options: RunOptions) -> bool:
    """Whether a match depends on nothing but the rows of its window, but for what predicates read."""
    if query.within == NO_WINDOW or query.emit is Emit.BOTH or options.at_end != "open":
        return False
    if query.rows is not None and not is_bounded(query):
        return False
    return _is_known(query)


def _is_known(query: Query) -> bool:
    """Whether there is nothing in a query but what is known here."""
    parts = [query, *query.symbols, *query.streams, *query.constraints]
    return all(_has_only(part, _KNOWN[type(part)]) for part in parts)


def _has_only(part: object, known: frozenset[str]) -> bool:
    assert is_dataclass(part)
    for field in fields(part):
        if field.name not in known:
            value = getattr(part, field.name)
            if field.default is MISSING or value != field.default:
                return False
    return True


def _past(nodes: Iterable[Expression]) -> tuple[int, int] | None:
    """How many rows before its own predicates read, and how long before; None: it is not bounded.

    Lengths in events and in ticks are not bounded together: a row before a window of time may be
    anywhere.
    """
    rows = ticks = 0
    for node in nodes:
        found = _needed(node)
        if found is None:
            return None
        rows, ticks = max(rows, found[0]), max(ticks, found[1])
    return None if rows and ticks else (rows, ticks)


def _needed(expression: Expression) -> tuple[int, int] | None:
    if isinstance(expression, Until):
        return None
    rows = ticks = 0
    for child in children(expression):
        below = _needed(child)
        if below is None:
            return None
        rows, ticks = max(rows, below[0]), max(ticks, below[1])
    match expression:
        case Previous(events=events):
            rows += events
        case Window(length=None):
            return None
        case Window(length=int(length), of_events=of_events):
            rows, ticks = (rows + length, ticks) if of_events else (rows, ticks + length)
    return rows, ticks
