"""The value of a query: its parts, as parser and builder make them, and what follows from these.

Nothing here knows of engines or frames. Two queries are equal when they mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from piestream.expressions.diagnostics import Diagnostic, Origin, QueryError, located
from piestream.expressions.durations import Duration
from piestream.language.absences import Absence
from piestream.language.emission import NO_LIMITS, EmissionLimits
from piestream.language.parts import (
    Aggregate,
    Calculated,
    Condition,
    Constraint,
    Emit,
    MatchItem,
    Return,
    Source,
    Symbol,
    Value,
    Where,
    part_of,
)
from piestream.language.row_patterns import RowPattern
from piestream.language.windows import Window, windows_text

__all__ = ["QueryValue"]


@dataclass(frozen=True, slots=True)
class QueryValue:
    """The parts of a query, and what follows from them.

    `Query` is this value with what it can be asked to do, such as `Query.run`.
    """

    symbols: tuple[Symbol, ...]  # in DEFINE order, the absent ones included
    constraints: tuple[Constraint, ...]  # normalised: one a pair; x is defined before y
    within: Duration
    returns: tuple[Return, ...]  # never empty: the default is written out
    streams: tuple[Source, ...] = (Source(),)  # that of FROM, then those of WITH
    partition_by: tuple[str, ...] = ()
    emit: Emit = Emit.TRIGGER
    where: Condition | None = None
    #: Of ``MATCH_RECOGNIZE``: what it says beside its conditions, which are the symbols.
    rows: RowPattern | None = None
    limits: EmissionLimits = NO_LIMITS
    #: The windows of some symbols; ``within`` is NO_WINDOW where there is none of all.
    windows: tuple[Window, ...] = ()
    #: What may not be there besides: each has a symbol of its own, in the order of DEFINE.
    absences: tuple[Absence, ...] = ()
    #: Where the parts stand in the text that the query was read from; None from the builder.
    origin: Origin | None = field(default=None, compare=False, repr=False)
    #: The names that tell several inputs apart; none where there is only one stream of rows.
    names: tuple[str | None, ...] = field(init=False, default=(), repr=False)

    def __new__(cls, *parts: Any, **named: Any) -> Self:
        if parts and isinstance(parts[0], str):
            raise TypeError("ps.query(text) reads a query from a text; Query holds its parts")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        named = [stream.name for stream in self.streams if stream.silence is None]
        if len(named) > 1 or self.streams[0].query is not None:
            names = (*named, *(s.name for s in self.inputs))
            object.__setattr__(self, "names", names)

    @property
    def inputs(self) -> tuple[Source, ...]:
        """The streams of rows that it reads, itself or through its queries; each name once.

        >>> import piestream as ps
        >>> query = ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60")
        >>> [stream.name for stream in query.inputs]
        ['cars']
        """
        found: dict[tuple[str | None, str | None, bool], Source] = {}
        for stream in self.streams:
            if stream.silence is not None:
                continue
            for leaf in (stream,) if stream.query is None else stream.query.inputs:
                found.setdefault((leaf.name, leaf.path, leaf.archive), leaf)
        return tuple(found.values())

    @property
    def reads_archives(self) -> bool:
        """Whether it reads an ARCHIVE stream, itself or through its queries.

        >>> import piestream as ps
        >>> ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60").reads_archives
        False
        """
        return any(stream.archive for stream in self.inputs)

    @property
    def items(self) -> tuple[MatchItem, ...]:
        """All that is read of a match: by RETURN, its calculations included, and by WHERE.

        >>> import piestream as ps
        >>> query = ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 9 WHERE a.te > 5")
        >>> [item.alias for item in query.items]
        ['a_ts', 'a_te', 'a.te']
        """
        found = list(() if self.where is None else self.where.items)
        for item in reversed(self.returns):
            found[:0] = item.items if isinstance(item, Calculated) else (item,)
        return tuple(found)

    @property
    def within_text(self) -> str:
        """All its windows as they are written.

        >>> import piestream as ps
        >>> text = "FROM s DEFINE a AS x > 1, b AS y > 1 PATTERN a meets b WITHIN 2 min OF b, 60 s"
        >>> ps.query(text).within_text
        '1 min, 2 min OF b'
        """
        return windows_text(self.within, self.windows)

    @property
    def is_combined(self) -> bool:
        """Whether it reads anything but one stream of events."""
        return len(self.streams) > 1 or self.streams[0].is_ready_made

    @property
    def has_silences(self) -> bool:
        """Whether symbols are silences of a stream, of the query or of one in brackets.

        >>> import piestream as ps
        >>> ps.query("FROM s DEFINE q AS SILENCE LONGER THAN 3 PATTERN q WITHIN 9").has_silences
        True
        """
        return any(
            stream.silence is not None or (stream.query is not None and stream.query.has_silences)
            for stream in self.streams
        )

    @property
    def is_sequenced(self) -> bool:
        """Whether events of one time are told apart, so that instants are more than times.

        >>> import piestream as ps
        >>> ps.query("FROM s ORDER BY ts, seq DEFINE a AS x > 1 PATTERN a WITHIN 60").is_sequenced
        True
        """
        return any(stream.is_sequenced for stream in self.streams)

    @property
    def turns(self) -> tuple[int, ...]:
        """For each stream when its events come among those of one time: a lower number comes first.

        Streams in the order of a column are compared by that, and share a number. Rows of two streams stand
        in no order, so that streams in the order of their rows come one after the other.

        >>> import piestream as ps
        >>> streams = "s ORDER BY t, seq WITH o ORDER BY t, ROW WITH p ORDER BY t, seq"
        >>> define = "DEFINE a AS x > 1, b AS o.x > 1, c AS p.x > 1"
        >>> ps.query(f"FROM {streams} {define} PATTERN a before b AND b before c WITHIN 9").turns
        (0, 1, 0)
        """
        by_column = (n for n, stream in enumerate(self.streams) if stream.sequence is not None)
        shared = next(by_column, 0)
        return tuple(n if stream.row_order else shared for n, stream in enumerate(self.streams))

    @property
    def is_known_late(self) -> bool:
        """Whether its matches may become known later than they end, as with BRIDGING.

        >>> import piestream as ps
        >>> ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60").is_known_late
        False
        """
        if self.rows is not None or self.absences:
            return True
        if any(symbol.bridging is not None for symbol in self.symbols):
            return True
        return any(stream.is_known_late for stream in self.streams)

    @property
    def present(self) -> tuple[Symbol, ...]:
        """The symbols that a match has intervals of: all but those of NOT.

        >>> import piestream as ps
        >>> query = ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60")
        >>> [symbol.name for symbol in query.present]
        ['a']
        """
        absent = {absence.symbol for absence in self.absences}
        return tuple(symbol for symbol in self.symbols if symbol.name not in absent)

    def stream_of(self, symbol: str) -> Source:
        """The stream whose rows a symbol's intervals are made of.

        >>> import piestream as ps
        >>> ps.query("FROM cars DEFINE a AS x > 1 PATTERN a WITHIN 60").stream_of("a").name
        'cars'
        """
        return self.streams[self.symbol(symbol).stream]

    def same_predicate(self, x: Symbol, y: Symbol) -> bool:
        """Whether two symbols have the same intervals: runs of one predicate over one stream.

        >>> import piestream as ps
        >>> q = ps.query("FROM s DEFINE a AS x > 1, b AS (x>1) PATTERN a before b WITHIN 9")
        >>> q.same_predicate(*q.symbols)
        True
        """
        return (
            x.stream == y.stream
            and x.predicate == y.predicate
            and x.bridging == y.bridging
            and not self.streams[x.stream].is_ready_made
        )

    def over(self, stream: int) -> Self:
        """What the query says of one of its streams: the symbols and the returns of that alone.

        >>> import piestream as ps
        >>> query = ps.query(
        ...     "FROM a WITH b DEFINE x AS p > 1, y AS b.q > 1 PATTERN x before y WITHIN 9"
        ... )
        >>> [symbol.name for symbol in query.over(1).symbols]
        ['y']
        """
        symbols = tuple(replace(s, stream=0) for s in self.symbols if s.stream == stream)
        names = {symbol.name for symbol in symbols}
        returns = (item for item in self.items if isinstance(item, Aggregate | Value))
        return replace(
            self,
            symbols=symbols,
            streams=(self.streams[stream],),
            constraints=(),
            returns=tuple(item for item in returns if item.symbol in names),
            where=None,
            limits=NO_LIMITS,
            absences=(),
            windows=tuple(window for window in self.windows if window.symbol in names),
        )

    def part(self, stream: int, name: str) -> Where:
        """The name of a part of one of its streams, as `fault` takes it."""
        return part_of(stream, self.streams[stream].name, name)

    def __repr__(self) -> str:
        if self.rows is not None:
            return f"<Query of a row pattern, {len(self.rows.measures)} measures>"
        names = ", ".join(symbol.name for symbol in self.present)
        if self.absences:
            names += " without " + ", ".join(absence.symbol for absence in self.absences)
        pairs = len(self.constraints)
        return (
            f"<Query of {names}: {pairs} constraint{'' if pairs == 1 else 's'}, "
            f"within {self.within_text}, {len(self.returns)} returns>"
        )

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; KeyError if there is none.

        >>> import piestream as ps
        >>> query = ps.query("FROM cars DEFINE a AS accel > 8 AT LEAST 5 PATTERN a WITHIN 60")
        >>> query.symbol("a").at_least
        Duration(amount=5, in_ticks=True)
        """
        for symbol in self.symbols:
            if symbol.name == name:
                return symbol
        raise KeyError(name)

    def fault(self, where: Where | None, message: str, hint: str | None = None) -> QueryError:
        """An error at one part of this query, with carets if the query came from text.

        ``where`` names the part as `Origin` does. If the part has no place in a text (a default
        RETURN, a query of the builder), neither has the error.

        >>> import piestream as ps
        >>> query = ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60")
        >>> print(query.fault(("predicate", "a"), "there is no column accel"))
        line 1, column 23: there is no column accel
          1 | FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 60
            |                       ^^^^^^^^^
        """
        return self.faults([(where, message, hint)])

    def faults(self, found: Sequence[tuple[Where | None, str, str | None]]) -> QueryError:
        """One error of several faults, each given as to `fault`.

        >>> import piestream as ps
        >>> query = ps.pattern(ps.define("a", "accel > 8")).within(60).query
        >>> print(query.faults([(None, "one fault", None), (None, "another", "with a hint")]))
        2 faults in the query
        <BLANKLINE>
        one fault
        <BLANKLINE>
        another
          = with a hint
        """
        origin = self.origin
        placed: list[Diagnostic] = []
        for where, message, hint in found:
            span = origin.spans.get(where) if origin is not None and where is not None else None
            text = origin.text if origin is not None else None
            placed.append(located(Diagnostic(span, message, hint), text))
        return QueryError(placed, origin.text if origin is not None else None)

    def ticks(
        self,
        where: Where,
        duration: Duration,
        nanoseconds_per_tick: int | None,
        needs_unit: bool = False,
    ) -> int:
        """`Duration.ticks` of a duration of this query; an error has carets at its place.

        >>> import piestream as ps
        >>> query = ps.query("FROM cars DEFINE a AS accel > 8 PATTERN a WITHIN 5 min")
        >>> query.ticks(("within",), query.within, 1_000_000)
        300000
        """
        what = {
            "at_least": "AT LEAST",
            "at_most": "AT MOST",
            "max_gap": "MAX GAP",
            "predicate": "a length of time",
        }.get(where[0], where[0].upper())
        if where[0] == "distance":
            what = f"a distance of {where[1]} and {where[2]}"
        elif len(where) > 1:
            what = f"{what} of {where[1]}"
        try:
            time = self.streams[0].order_by
            return duration.ticks(nanoseconds_per_tick, what, needs_unit, time)
        except QueryError as error:
            fault = error.faults[0]
            raise self.fault(where, fault.message, fault.hint) from None
