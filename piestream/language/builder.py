"""The query builder: what a query's clauses are in text, its methods are in Python.

A query under construction is a `QueryBuilder`. As soon as it has a window it can be used in place
of the `Query` that it makes: it is equal to it, prints as it, runs, opens and explains it.
`piestream.language.symbols` has the symbols, and `pattern_builder` the constraints, that a pattern is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar

from piestream.expressions.diagnostics import Diagnostic, QueryError, located
from piestream.expressions.durations import Duration, DurationLike, as_duration
from piestream.language.aggregates import ReturnBuilder
from piestream.language.arguments import check_mapping, check_name
from piestream.language.conditions import condition_of_text
from piestream.language.draft import AbsenceSpec, ConstraintSpec, QueryDraft, SymbolSpec
from piestream.language.emission import NO_LIMITS, EmissionLimits, limit_fault
from piestream.language.endpoint_builder import EndpointBuilder
from piestream.language.model import Query
from piestream.language.parts import Condition, Emit, Endpoint, Return
from piestream.language.pattern_builder import Pair, PatternBuilder, as_pattern
from piestream.language.printer import UNNAMED_STREAM
from piestream.language.return_clause import calculation_of_text
from piestream.language.returns import Names, names_of
from piestream.language.stream_builder import StreamBuilder, check_sequence, unit_of_ticks
from piestream.language.symbols import SymbolBuilder
from piestream.language.validate import validated
from piestream.language.windows import Window

__all__ = ["QueryBuilder", "as_query", "pattern"]


def pattern(constraints: PatternBuilder | SymbolBuilder) -> QueryBuilder:
    """A query over these constraints; `QueryBuilder.within` makes it complete.

    >>> import piestream as ps
    >>> a, b = ps.define("a", "x > 1"), ps.define("b", "y > 1")
    >>> ps.pattern(a.before(b)).within("1 h").from_("events") == ps.query(
    ...     "FROM events DEFINE a AS x > 1, b AS y > 1 PATTERN a before b WITHIN 1 hour"
    ... )
    True
    """
    given = as_pattern(constraints)
    return QueryBuilder(given.pairs, _absences=given.absences)


P = ParamSpec("P")
R = TypeVar("R")


def _of_the_query(method: Callable[Concatenate[Query, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of the query as one of its builder, with the same signature."""

    @wraps(method)
    def called(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return method(self.query, *args, **options)

    return called


#: The stream that is read where nothing is said of it.
_UNNAMED = StreamBuilder(UNNAMED_STREAM)


@dataclass(frozen=True, eq=False)
class QueryBuilder:
    """A query under construction. It is immutable: every method returns a new one.

    >>> import piestream as ps
    >>> hot = ps.define("hot", "temp > 80", at_least="5 s")
    >>> open_ = ps.define("open", "door = 'open'")
    >>> print(
    ...     ps.pattern(hot.during(open_))
    ...     .from_("sensors").partition_by("room").order_by("ts", unit="ms").max_gap("30 s")
    ...     .within("5 minutes").emit("completion").returning(open_.ts, top=hot.max("temp"))
    ... )
    FROM sensors PARTITION BY room ORDER BY ts UNIT ms MAX GAP 30 s
    DEFINE hot AS temp > 80 AT LEAST 5 s,
           open AS door = 'open'
    PATTERN hot during open
    WITHIN 5 min
    EMIT ON COMPLETION
    RETURN open.ts, MAX(hot.temp) AS top
    """

    _pairs: tuple[Pair, ...]
    _within: Duration | None = None
    _windows: tuple[Window, ...] = ()
    _returns: tuple[Return | _Text, ...] = ()
    _first: StreamBuilder = _UNNAMED
    _partition_by: tuple[str, ...] = ()
    _emit: Emit = Emit.TRIGGER
    _where: tuple[str, ...] = ()
    _limits: EmissionLimits = NO_LIMITS
    _absences: tuple[tuple[Pair, ...], ...] = ()

    def _with(self, **changes: Any) -> QueryBuilder:
        changed = replace(self, **changes)
        if changed._has_window:
            _ = changed.query  # faults are raised by the call that makes them
        return changed

    @property
    def _has_window(self) -> bool:
        return self._within is not None or bool(self._windows)

    def within(
        self,
        window: DurationLike | None = None,
        of: Mapping[Any, DurationLike] | None = None,
    ) -> QueryBuilder:
        """The window: ``"5 minutes"``, a timedelta, or an int that counts ticks of integers.

        ``of`` has the windows of some symbols, which are given themselves or by their names.

        >>> import piestream as ps
        >>> ps.pattern(ps.define("a", "x > 1")).within("90 min")
        <Query of a: 0 constraints, within 90 min, 2 returns>
        >>> low, fast = ps.define("low", "x < 1"), ps.define("fast", "y > 1")
        >>> ps.pattern(low.during(fast)).within(of={low: "30 min", fast: "12 h"})
        <Query of low, fast: 1 constraint, within 30 min OF low, 12 h OF fast, 4 returns>
        """
        if window is None and not of:
            raise QueryError("within takes a window, or the windows `of` some symbols")
        check_mapping(of, "of", "{low: '30 min'}")
        for symbol in of or {}:
            check_name(symbol.name if isinstance(symbol, SymbolBuilder) else symbol, "a symbol")
        windows = [
            Window(symbol if isinstance(symbol, str) else symbol.name, as_duration(length, "of"))
            for symbol, length in (of or {}).items()
        ]
        names = [one.symbol for one in windows]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise QueryError(f"{twice} has two windows: leave one of them out")
        of_all = None if window is None else as_duration(window, "the window")
        return self._with(_within=of_all, _windows=tuple(windows))

    def partition_by(self, *columns: str | Iterable[str]) -> QueryBuilder:
        """Every value of these columns is a stream of its own: names, or a list of names.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> one.partition_by("car", "lane").query.partition_by
        ('car', 'lane')
        """
        listed = [[c] if isinstance(c, str) or not isinstance(c, Iterable) else c for c in columns]
        names = tuple(chain.from_iterable(listed))
        for name in names:
            if not isinstance(name, str):
                raise QueryError(f"partition_by takes the names of columns, not {name!r}")
            check_name(name, "a column")
        return self._with(_partition_by=names)

    def order_by(
        self,
        column: str,
        unit: str | None = None,
        *,
        sequence: str | None = None,
        row_order: bool = False,
    ) -> QueryBuilder:
        """The time column, the unit of its ticks if it is an integer column, and what orders ties.

        Of events of one time, ``sequence`` names the column that orders them; with ``row_order`` the
        order in which their rows stand, or come, does.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> print(one.order_by("ts", unit="milliseconds"))
        FROM stream ORDER BY ts UNIT ms
        DEFINE a AS x > 1
        PATTERN a
        WITHIN 60
        >>> print(one.order_by("ts", sequence="seq"))
        FROM stream ORDER BY ts, seq
        DEFINE a AS x > 1
        PATTERN a
        WITHIN 60
        """
        check_name(column, "a column")
        if sequence is not None or row_order:
            check_sequence(column, sequence, row_order)
        first = replace(
            self._first,
            order_by=column,
            sequence=sequence,
            row_order=bool(row_order),
            time_unit=None if unit is None else unit_of_ticks(unit),
        )
        return self._with(_first=first)

    def max_gap(self, silence: DurationLike) -> QueryBuilder:
        """A longer silence ends every open interval.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> one.max_gap("30 s").query == one.max_gap("30000 ms").query
        True
        """
        gap = as_duration(silence, "the gap")
        return self._with(_first=replace(self._first, max_gap=gap))

    def emit(self, when: str | Emit) -> QueryBuilder:
        """When a match makes a row: ``trigger``, ``completion`` or ``both``.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> one.emit("both").query.emit
        <Emit.BOTH: 'BOTH'>
        """
        try:
            moment = when if isinstance(when, Emit) else Emit(str(when).upper())
        except ValueError:
            raise QueryError(f"emit takes trigger, completion or both, not {when!r}") from None
        return self._with(_emit=moment)

    def where(self, *conditions: str) -> QueryBuilder:
        """What must be true of a match, as SQL over what `returning` could give.

        Several conditions, and those of several calls, must all be true.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> print(one.where("AVG(a.x) > 5", "COUNT(a) > 1 OR a.te IS NULL").query.where)
        AVG(a.x) > 5 AND (COUNT(a) > 1 OR a.te IS NULL)
        """
        for condition in conditions:
            if not isinstance(condition, str):
                raise QueryError(f"where takes SQL such as 'AVG(s.speed) > 70', not {condition!r}")
        return self._with(_where=self._where + conditions)

    def once_per(self, *symbols: SymbolBuilder | str) -> QueryBuilder:
        """Of the matches with the same intervals of these symbols, give only the first.

        >>> import piestream as ps
        >>> a, b = ps.define("a", "x > 1"), ps.define("b", "y > 1")
        >>> ps.pattern(a.before(b)).within(60).once_per(b).query.limits.once_per
        ('b',)
        """
        names = tuple(s.name if isinstance(s, SymbolBuilder) else s for s in symbols)
        if not names or not all(isinstance(name, str) for name in names):
            raise QueryError("once_per takes the symbols whose intervals are in one match only")
        return self._limited(once_per=names)

    def no_overlap(self) -> QueryBuilder:
        """Leave out a match that began before the report of the last one given.

        >>> import piestream as ps
        >>> ps.pattern(ps.define("a", "x > 1")).within(60).no_overlap().query.limits.no_overlap
        True
        """
        return self._limited(no_overlap=True)

    def cooldown(self, duration: DurationLike) -> QueryBuilder:
        """Give no match within this time after one.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within("1 h").cooldown("10 min")
        >>> print(one.query.limits.cooldown)
        10 min
        """
        return self._limited(cooldown=as_duration(duration, "the cooldown"))

    def limit(self, matches: int) -> QueryBuilder:
        """Give so many matches of each partition.

        >>> import piestream as ps
        >>> ps.pattern(ps.define("a", "x > 1")).within(60).limit(3).query.limits.limit
        3
        """
        if fault := limit_fault(matches):
            raise QueryError(fault)
        return self._limited(limit=matches)

    def _limited(self, **limit: Any) -> QueryBuilder:
        return self._with(_limits=replace(self._limits, **limit))

    def from_(
        self, stream: str | StreamBuilder | None = None, *, path: str | None = None
    ) -> QueryBuilder:
        """The first stream: its name, the path of its files, or what `piestream.stream` makes.

        Symbols that are defined without a stream read it.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> one.from_(path="logs/*.parquet").query.streams[0].path
        'logs/*.parquet'
        """
        if isinstance(stream, StreamBuilder):
            return self._with(_first=stream)
        for given, what in ((stream, "a stream"), (path, "the files of FROM")):
            if given is not None:
                check_name(given, what)
        name = stream or (None if path is not None else UNNAMED_STREAM)
        return self._with(_first=replace(self._first, name=name, path=path))

    def returning(
        self,
        *items: ReturnBuilder | EndpointBuilder,
        **named: ReturnBuilder | EndpointBuilder | str,
    ) -> QueryBuilder:
        """What a match returns: positional items under their default names, then named ones.

        A text is a calculation on what a match gives, as RETURN has it.

        >>> import piestream as ps
        >>> a = ps.define("a", "x > 1")
        >>> one = ps.pattern(a).within(60).returning(a.ts, top=a.max("x"))
        >>> [item.alias for item in one.query.returns]
        ['a_ts', 'top']
        >>> print(one.returning(rise="MAX(a.x) - MIN(a.x)"))
        FROM stream
        DEFINE a AS x > 1
        PATTERN a
        WITHIN 60
        RETURN MAX(a.x) - MIN(a.x) AS rise
        """
        for alias in named:
            check_name(alias, "a column")
        returns: list[Return | _Text] = [_as_return(item) for item in items]
        returns += [
            _Text(alias, item) if isinstance(item, str) else replace(_as_return(item), alias=alias)
            for alias, item in named.items()
        ]
        return self._with(_returns=tuple(returns))

    @cached_property
    def query(self) -> Query:
        """The finished, checked query.

        >>> import piestream as ps
        >>> one = ps.pattern(ps.define("a", "x > 1")).within(60)
        >>> one.query == ps.query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 60")
        True
        """
        if not self._has_window:
            raise QueryError("the query has no window: add .within('5 minutes')")
        diagnostics: list[Diagnostic] = []
        symbols = self._symbols()
        streams = self._streams(symbols)
        draft = QueryDraft(
            symbols=[
                SymbolSpec(
                    one.name,
                    one.predicate,
                    one.at_least,
                    one.at_most,
                    stream=streams.index(one.stream or self._first),
                    at_least_events=one.at_least_events,
                    at_most_events=one.at_most_events,
                    bridging=one.bridging,
                    silence=one.silence,
                )
                for one in symbols
            ],
            constraints=_specs(self._pairs),
            absences=[AbsenceSpec(tuple(_specs(pairs))) for pairs in self._absences],
            within=self._within,
            windows=self._windows,
            returns=[(item, None) for item in self._returns if not isinstance(item, _Text)],
            streams=[stream.draft(self._partition_by) for stream in streams],
            partition_by=list(self._partition_by),
            emit=self._emit,
            limits=self._limits,
        )
        draft.where = self._condition(draft)
        draft.returns = [(item, None) for item in self._given(names_of(draft))]
        query = validated(draft, diagnostics)
        if query is None:
            raise QueryError([located(diagnostic, None) for diagnostic in diagnostics])
        return query

    def _given(self, names: Names) -> Iterator[Return]:
        """What RETURN has, calculations read."""
        for item in self._returns:
            if not isinstance(item, _Text):
                yield item
                continue
            read, faults = calculation_of_text(item.text, names, item.alias)
            if read is None:
                raise QueryError([located(fault, item.text) for fault in faults], item.text)
            yield read

    def _condition(self, draft: QueryDraft) -> Condition | None:
        """The conditions of WHERE as one."""
        if not self._where:
            return None
        several = len(self._where) > 1
        text = " AND ".join(f"({one})" if several else one for one in self._where)
        condition, faults = condition_of_text(text, names_of(draft))
        if faults:
            raise QueryError([located(fault, text) for fault in faults], text)
        return condition

    def _streams(self, symbols: list[SymbolBuilder]) -> list[StreamBuilder]:
        """The first stream, and those that symbols read besides, as they come up."""
        reads_first = any(symbol.stream in (None, self._first) for symbol in symbols)
        is_given = reads_first or self._first != _UNNAMED
        first = [self._first] if is_given or not symbols else []
        return list(dict.fromkeys([*first, *(symbol.stream or self._first for symbol in symbols)]))

    def _symbols(self) -> list[SymbolBuilder]:
        found: dict[str, SymbolBuilder] = {}
        for pair in chain(self._pairs, *self._absences):
            for symbol in (pair.x, pair.y):
                if symbol is not None and found.setdefault(symbol.name, symbol) != symbol:
                    raise QueryError(f"two different symbols are named {symbol.name}")
        return sorted(found.values(), key=lambda symbol: symbol.serial)

    run = _of_the_query(Query.run)
    open = _of_the_query(Query.open)
    explain = _of_the_query(Query.explain)
    intervals = _of_the_query(Query.intervals)
    why = _of_the_query(Query.why)
    why_not = _of_the_query(Query.why_not)
    diagnose = _of_the_query(Query.diagnose)
    timeline = _of_the_query(Query.timeline)
    report = _of_the_query(Query.report)
    export = _of_the_query(Query.export)

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        return repr(self.query) if self._has_window else "<QueryBuilder without a window>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, QueryBuilder):
            other = other.query
        return self.query == other if isinstance(other, Query) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.query)


@dataclass(frozen=True, slots=True)
class _Text:
    """A calculation that is read when the symbols are known."""

    alias: str
    text: str


def _specs(pairs: Iterable[Pair]) -> list[ConstraintSpec]:
    """Constraints as a draft has them."""
    return [
        ConstraintSpec(
            pair.x.name, pair.y.name if pair.y else None, pair.relations, distances=pair.distances
        )
        for pair in pairs
    ]


def _as_return(item: ReturnBuilder | EndpointBuilder) -> Return:
    if isinstance(item, ReturnBuilder):
        return item.item
    if isinstance(item, EndpointBuilder):
        name = item.symbol.name
        return Endpoint(name, item.which, f"{name}_{item.which}")
    raise QueryError(f"returning takes s.avg('speed'), s.ts and the like, not {item!r}")


def as_query(given: str | Query | QueryBuilder) -> Query:
    """The query that a text, a builder or a query stands for.

    >>> as_query("FROM s DEFINE a AS x > 1 PATTERN a WITHIN 10")
    <Query of a: 0 constraints, within 10, 2 returns>
    """
    if isinstance(given, Query):
        return given
    if isinstance(given, QueryBuilder):
        return given.query
    if isinstance(given, str):
        from piestream.language.parser import query as parse

        return parse(given)
    raise QueryError(f"this is not a query: {given!r}")
