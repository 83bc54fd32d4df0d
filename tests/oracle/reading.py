"""Rows of all inputs: which of them count, in which order, and what rows of intervals and row patterns say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from piestream.language.model import Query
from piestream.language.parts import Return, Source
from tests.clock import Clock
from tests.row_patterns.oracle import item_value, known_matches
from tests.truth import Expression, Past

__all__ = [
    "END",
    "KNOWN",
    "PLACE",
    "START",
    "WHERE",
    "Condition",
    "Inputs",
    "Place",
    "Row",
    "TieError",
    "in_order",
    "instants_of",
    "of_each_key",
    "row_matches",
]  # fmt: skip

Row = Mapping[str, Any]
Time = Fraction | int
#: The time of an event, and what orders it among those of that time: of all streams, and of its own.
Place = tuple[int, int, Any]

#: An instant is a time; where several events have one time, they lie so far apart behind it.
PLACE = Fraction(1, 1 << 40)


class Condition(NamedTuple):
    """WHERE, and the items that it reads, each named by its text."""

    condition: Expression
    items: Sequence[Return]


#: Where the truth of a query's predicates has its condition on matches.
WHERE = "where:"


class TieError(ValueError):
    """Two events of a partition at one time, where ties are errors."""


@dataclass
class Inputs:
    """The rows of all inputs, by name, and the truth of predicates of each query."""

    rows: Mapping[str, Sequence[Row]]
    truth: Mapping[str, Any]  # by symbol; by the name of a stream, that of its query's symbols
    clock: Clock = field(default_factory=Clock)
    ties: str = "error"
    until: int = 0
    most: int = 100_000
    at_end: str = "open"  # "close": what is open ends behind the last instant of its partition
    time: str = "ts"  # the column of time of a stream that names none


#: Columns of the rows that stand for the matches of a query, and when such a row becomes known.
START, END, KNOWN = "start:", "end:", "known:"


def in_order(source: Source, first: int, rows: Sequence[Row], inputs: Inputs) -> dict[Place, Row]:
    """The rows of a stream of events in their order, one at each place.

    Rows that a column orders are compared by that, whatever their stream. Those in the order in which they
    stand come before what is read of streams behind. ``first`` is where among the streams they come.
    """
    time = source.order_by or inputs.time
    chosen: dict[Place, Row] = {}
    for number, row in enumerate(rows):
        order = row[source.sequence] if source.sequence is not None else number
        place = (row[time], first, order) if source.is_sequenced else (row[time], 0, 0)
        if place in chosen and inputs.ties == "error":
            raise TieError(f"two events at {place}")
        if place not in chosen or inputs.ties == "last":
            chosen[place] = row
    return dict(sorted(chosen.items(), key=lambda one: one[0]))


def instants_of(
    sources: Sequence[Source], streams: Mapping[int, Sequence[Row]], inputs: Inputs
) -> dict[int, dict[Time, Row]]:
    """The rows of streams of events by their instants."""
    by_column = [number for number, source in enumerate(sources) if source.sequence is not None]
    placed = {
        n: in_order(sources[n], min(by_column) if n in by_column else n, rows, inputs)
        for n, rows in streams.items()
    }
    all_places = {place for n, own in placed.items() if sources[n].is_sequenced for place in own}
    ranks = {place: 1 + rank for rank, place in enumerate(sorted(all_places))}
    return {
        n: {place[0] + ranks[place] * PLACE if place in ranks else place[0]: row for place, row in own.items()}
        for n, own in placed.items()
    }  # fmt: skip


def of_each_key(
    query: Query, streams: Sequence[Sequence[Row]]
) -> Iterator[tuple[dict[str, Any], list[list[Row]]]]:
    """The rows of each partition, with its key."""

    def key_of(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in query.partition_by)

    for key in dict.fromkeys(key_of(row) for rows in streams for row in rows):
        own = [[row for row in rows if key_of(row) == key] for rows in streams]
        yield dict(zip(query.partition_by, key, strict=True)), own


def row_matches(query: Query, inputs: Inputs, truth: Mapping[str, Any]) -> Iterator[Row]:
    """The matches of a row pattern with their measures, each a plain item."""
    pattern, (source,) = query.rows, query.streams
    assert pattern is not None
    within = None if pattern.within is None else inputs.clock.ticks(pattern.within)
    for key, (own,) in of_each_key(query, [inputs.rows[str(source.name)]]):
        events = in_order(source, 0, own, inputs).items()
        rows = tuple({**row, "": place[0], "t": place[0]} for place, row in events)
        past = Past(rows, inputs.clock, "")
        for number, row in enumerate(rows):
            row["holds"] = frozenset(
                name
                for name in pattern.variables
                if name not in truth or truth[name].holds(row, past.up_to(number))
            )
        closes = inputs.at_end == "close"
        for one in known_matches(pattern, rows, within, inputs.until, closes):
            values = {
                measure.alias: item_value(pattern, rows, one.match, len(one.match.path), item)
                for measure in pattern.measures
                for _, item in measure.items
            }
            yield {**key, **values, START: one.start, END: one.end, KNOWN: one.since}
