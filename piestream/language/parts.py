"""What a query is made of: its streams, symbols, constraints, and what it reads of a match."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Union

from piestream.expressions.durations import Duration
from piestream.expressions.values import ValueExpression
from piestream.language.distances import Distance
from piestream.relations import Relation

if TYPE_CHECKING:
    from piestream.expressions.predicate import Predicate
    from piestream.language.lateness import Lateness
    from piestream.language.model import Query

#: The name of one part of a query, as `Origin` lists them: ``("within",)``, ``("symbol", "a")``.
Where = tuple[str, ...]


def part_of(stream: int, name: str | None, part: str) -> Where:
    """The name of a part of a stream: of the first it needs no name of the stream.

    >>> part_of(1, "infusions", "max_gap")
    ('max_gap', 'infusions')
    """
    return (part,) if stream == 0 else (part, str(name))


class Emit(Enum):
    """When a match makes a row.

    >>> import piestream as ps
    >>> ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 60 EMIT ON BOTH").emit
    <Emit.BOTH: 'BOTH'>
    """

    TRIGGER = "TRIGGER"
    COMPLETION = "COMPLETION"
    BOTH = "BOTH"


class StreamKind(Enum):
    """What the rows of a stream are.

    >>> import piestream as ps
    >>> ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 60").streams[0].kind
    <StreamKind.EVENTS: 'events'>
    """

    EVENTS = "events"
    INTERVALS = "intervals"
    QUERY = "matches of a query"
    SILENCE = "silences of a stream"


@dataclass(frozen=True, slots=True)
class Silence:
    """``SILENCE LONGER THAN 30 s``: from an event of a stream to the next one that comes so late.

    >>> import piestream as ps
    >>> query = ps.query("FROM s DEFINE quiet AS SILENCE LONGER THAN 30 PATTERN quiet WITHIN 60")
    >>> print(query.stream_of("quiet").silence.longer_than)
    30
    """

    of: int  # which of the query's streams is silent
    longer_than: Duration


@dataclass(frozen=True, slots=True)
class Source:
    """A stream that a query reads: rows of events, rows of intervals, matches of a query, or silences.

    The name of a query's only stream does not take part in ``==``.
    """

    name: str | None = field(default=None, compare=False)
    path: str | None = None  # of its files, None where FROM or WITH only names it
    archive: bool = False  # whether the path is that of an archive, which has the stream's past
    order_by: str | None = None  # the time column of events
    sequence: str | None = (
        None  # the column that orders events of one time, where there may be several
    )
    row_order: bool = False  # whether events of one time are in the order in which their rows stand
    time_unit: str | None = None  # what one tick of integer times is: ms, or 20 ms
    max_gap: Duration | None = None
    start: str | None = None  # the columns of intervals: where each starts and ends
    end: str | None = None
    id: str | None = None  # tells which begin row an end row belongs to
    known_at_start: bool = False
    query: Query | None = None
    silence: Silence | None = None  # its intervals are the silences of another stream

    @property
    def kind(self) -> StreamKind:
        """What its rows are."""
        if self.silence is not None:
            return StreamKind.SILENCE
        if self.query is not None:
            return StreamKind.QUERY
        return StreamKind.EVENTS if self.start is None else StreamKind.INTERVALS

    @property
    def is_ready_made(self) -> bool:
        """Whether its rows are intervals, rather than events whose runs are."""
        return self.kind is not StreamKind.EVENTS

    @property
    def is_sequenced(self) -> bool:
        """Whether several events of a partition may have one time, as something else orders them."""
        return self.sequence is not None or self.row_order

    @property
    def has_times_only(self) -> bool:
        """Whether its intervals start and end at times, whatever else orders the events of one time."""
        return self.kind in (StreamKind.INTERVALS, StreamKind.QUERY)

    @property
    def is_known_late(self) -> bool:
        """Whether its intervals may become known later than they end."""
        return self.query is not None and self.query.is_known_late

    @property
    def lateness(self) -> Lateness | None:
        """How late its intervals may become known after their ends; None: not at all, or nothing bounds that."""
        from piestream.language.lateness import lateness_of

        return lateness_of(self.query) if self.query is not None and self.is_known_late else None

    @property
    def is_input(self) -> bool:
        """Whether its rows are given, and not made of those of other streams."""
        return self.query is None and self.silence is None

    @property
    def known_by(self) -> str:
        """The endpoint at which an interval is known at the latest: "ts" or "te".

        What has come of rows with an ID, or of a query, may come at its end only. The start of a
        silence is known late, but is that of an event.
        """
        return "te" if self.has_times_only and not self.known_at_start else "ts"

    @property
    def is_known_at_end(self) -> bool:
        """Whether its rows are intervals none of which is known before it ends."""
        return self.kind is StreamKind.INTERVALS and self.id is None and not self.known_at_start


def name_of_archive(path: str) -> str:
    """The stream whose past an archive has, where nothing else is said: what its path ends with.

    >>> from piestream.language.parts import name_of_archive
    >>> name_of_archive("lake/trades/")
    'trades'
    """
    return PurePath(path).name or path


@dataclass(frozen=True, slots=True)
class Symbol:
    """``name AS predicate AT LEAST d``: bounds are inclusive, None where there is none.

    The number of an interval's events may have bounds too: ``AT LEAST n EVENTS``.
    """

    name: str
    predicate: Predicate  # TRUE for all intervals of a stream of intervals
    at_least: Duration | None = None
    at_most: Duration | None = None
    stream: int = 0  # which of the query's streams the predicate reads
    at_least_events: int | None = None
    at_most_events: int | None = None
    #: BRIDGING: runs that lie at most so far apart are one interval.
    bridging: Duration | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """The relations allowed between two different symbols, at most one constraint a pair.

    With ``distances``, how far endpoints of the two may lie apart: all of them must hold besides.
    """

    x: str
    y: str
    relations: Relation
    distances: tuple[Distance, ...] = ()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``AVG(s.speed) AS avg_s_speed``; ``COUNT(s)`` has no column."""

    function: str  # a name of language.aggregates.AGGREGATES
    symbol: str
    column: str | None
    alias: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``s.ts`` or ``s.te``."""

    symbol: str
    which: str  # "ts" or "te"
    alias: str


@dataclass(frozen=True, slots=True)
class DurationOf:
    """``DURATION(s)``: te - ts, NULL while te is not known."""

    symbol: str
    alias: str


@dataclass(frozen=True, slots=True)
class RelationOf:
    """``RELATION(x, y)``: the name of the relation that holds, NULL while not yet known."""

    x: str
    y: str
    alias: str


@dataclass(frozen=True, slots=True)
class Value:
    """``s.drug``: the value of a column of an interval that comes ready-made."""

    symbol: str
    column: str
    alias: str


#: What a match gives.
@dataclass(frozen=True, slots=True)
class Instant:
    """Where an endpoint, or the report, stands among the events of its partition: as a number.

    No query writes it. What looks into rows tells events of one time apart by it.
    """

    symbol: str
    which: str  # "start", "end" or "report"
    alias: str


MatchItem = Union[Aggregate, Endpoint, DurationOf, RelationOf, Value, Instant]


@dataclass(frozen=True, slots=True)
class Calculated:
    """``MAX(a.x) - MIN(a.x) AS rise``: an expression over what a match gives.

    The names in it are what a match gives, by the text that names it.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 RETURN max(a.x)-MIN(a.x) AS rise"
    ... )
    >>> print(query.returns[0].expression)
    MAX(a.x) - MIN(a.x)
    >>> [item.alias for item in query.returns[0].items]
    ['MAX(a.x)', 'MIN(a.x)']
    """

    expression: ValueExpression
    items: tuple[MatchItem, ...] = field(compare=False)  # each named by its text
    lengths: tuple[tuple[str, Duration], ...] = field(compare=False)  # ``5 s``
    alias: str


Return = Union[MatchItem, Calculated]


@dataclass(frozen=True, slots=True)
class Condition:
    """``WHERE AVG(s.speed) > 70``: what must be true of a match, else it is left out.

    The columns of its predicate are what a match gives, by the text that names it.

    >>> import piestream as ps
    >>> query = ps.query(
    ...     "FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE max(a.x)>5 and DURATION(a) < 7"
    ... )
    >>> print(query.where)
    MAX(a.x) > 5 AND DURATION(a) < 7
    >>> [item.alias for item in query.where.items]
    ['MAX(a.x)', 'DURATION(a)']
    """

    predicate: Predicate
    items: tuple[MatchItem, ...] = field(compare=False)  # each named by its text
    lengths: tuple[tuple[str, Duration], ...] = field(default=(), compare=False)  # ``5 s``

    def __str__(self) -> str:
        from piestream.expressions.canonical import canonical_text

        assert self.predicate.tree is not None
        return canonical_text(self.predicate.tree, names_are_text=True)
