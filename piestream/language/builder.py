"""The builder: the same queries as the text, said in Python.

A query under construction is a `QueryBuilder`; from the moment that it has a window it is as
good as the `Query` it makes: it is equal to it, prints as it, runs, opens and explains it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar

from piestream.expressions.diagnostics import Diagnostic, QueryError, located
from piestream.expressions.durations import NANOSECONDS, Duration, as_duration, unit_named
from piestream.language.model import Emit, Endpoint, Query, Return
from piestream.language.patterns import ConstraintSpec
from piestream.language.printer import UNNAMED_STREAM
from piestream.language.symbols import (
    DurationLike,
    EndpointBuilder,
    Pair,
    PatternBuilder,
    ReturnBuilder,
    SymbolBuilder,
    as_pattern,
    define,
)
from piestream.language.validate import QueryDraft, SymbolPart, checked

__all__ = ["QueryBuilder", "as_query", "define", "pattern"]


def pattern(constraints: PatternBuilder | SymbolBuilder) -> QueryBuilder:
    """A query over these constraints; `QueryBuilder.within` makes it complete.

    >>> from piestream.language import parse
    >>> a, b = define("a", "x > 1"), define("b", "y > 1")
    >>> pattern(a.before(b)).within("1 h").from_("events") == parse(
    ...     "FROM events DEFINE a AS x > 1, b AS y > 1 PATTERN a before b WITHIN 1 hour"
    ... )
    True
    """
    return QueryBuilder(as_pattern(constraints).pairs)


P = ParamSpec("P")
R = TypeVar("R")


def _of_the_query(method: Callable[Concatenate[Query, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A query's method as one of the builder that makes it: the same signature."""

    @wraps(method)
    def called(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return method(self.query, *args, **options)

    return called


@dataclass(frozen=True, eq=False)
class QueryBuilder:
    """A query being written, immutable: every method gives a new one."""

    _pairs: tuple[Pair, ...]
    _within: Duration | None = None
    _returns: tuple[Return, ...] = ()
    _source: str = UNNAMED_STREAM
    _source_is_path: bool = False
    _partition_by: tuple[str, ...] = ()
    _order_by: str | None = None
    _time_unit: str | None = None
    _max_gap: Duration | None = None
    _emit: Emit = Emit.TRIGGER

    def _with(self, **changes: Any) -> QueryBuilder:
        changed = replace(self, **changes)
        if changed._within is not None:
            _ = changed.query  # what is wrong is said where it was written
        return changed

    def within(self, window: DurationLike) -> QueryBuilder:
        """The window: ``"5 minutes"``, a timedelta, or an int of ticks."""
        return self._with(_within=as_duration(window, "the window"))

    def partition_by(self, *columns: str | Iterable[str]) -> QueryBuilder:
        """Every value of these columns is a stream of its own: names, or a list of names."""
        listed = [[c] if isinstance(c, str) or not isinstance(c, Iterable) else c for c in columns]
        names = tuple(chain.from_iterable(listed))
        for name in names:
            if not isinstance(name, str):
                raise QueryError(f"partition_by takes the names of columns, not {name!r}")
        return self._with(_partition_by=names)

    def order_by(self, column: str, unit: str | None = None) -> QueryBuilder:
        """The time column, and the unit of its ticks if it is an integer column."""
        if unit is None:
            return self._with(_order_by=column, _time_unit=None)
        nanoseconds = unit_named(unit)
        named = [name for name, length in NANOSECONDS.items() if length == nanoseconds]
        if not named:
            raise QueryError(f"{unit} is not a unit; the units are {', '.join(NANOSECONDS)}")
        return self._with(_order_by=column, _time_unit=named[0])

    def max_gap(self, silence: DurationLike) -> QueryBuilder:
        """A longer silence ends every open interval."""
        return self._with(_max_gap=as_duration(silence, "the gap"))

    def emit(self, when: str | Emit) -> QueryBuilder:
        """When a match makes a row: ``trigger``, ``completion`` or ``both``."""
        try:
            moment = when if isinstance(when, Emit) else Emit(str(when).upper())
        except ValueError:
            raise QueryError(f"emit takes trigger, completion or both, not {when!r}") from None
        return self._with(_emit=moment)

    def from_(self, name: str | None = None, *, path: str | None = None) -> QueryBuilder:
        """The name of the stream, or the path of the files that the query reads."""
        if path is not None:
            return self._with(_source=path, _source_is_path=True)
        return self._with(_source=name or UNNAMED_STREAM, _source_is_path=False)

    def returning(
        self, *items: ReturnBuilder | EndpointBuilder, **named: ReturnBuilder | EndpointBuilder
    ) -> QueryBuilder:
        """What a match returns: positional items under their default names, then named ones."""
        returns = [_as_return(item) for item in items]
        returns += [replace(_as_return(item), alias=alias) for alias, item in named.items()]
        return self._with(_returns=tuple(returns))

    @cached_property
    def query(self) -> Query:
        """The finished, checked query."""
        if self._within is None:
            raise QueryError("the query has no window: add .within('5 minutes')")
        diagnostics: list[Diagnostic] = []
        query = checked(
            QueryDraft(
                symbols=self._symbols(),
                stated=[
                    ConstraintSpec(
                        p.x.name, p.y.name if p.y else None, p.relations, None, None, None
                    )
                    for p in self._pairs
                ],
                within=self._within,
                returns=[(item, None) for item in self._returns],
                source=self._source,
                source_is_path=self._source_is_path,
                partition_by=list(self._partition_by),
                order_by=self._order_by,
                time_unit=self._time_unit,
                max_gap=self._max_gap,
                emit=self._emit,
            ),
            diagnostics,
        )
        if query is None:
            raise QueryError([located(diagnostic, None) for diagnostic in diagnostics])
        return query

    def _symbols(self) -> list[SymbolPart]:
        found: dict[str, SymbolBuilder] = {}
        for pair in self._pairs:
            for symbol in (pair.x, pair.y):
                if symbol is not None and found.setdefault(symbol.name, symbol) != symbol:
                    raise QueryError(f"two different symbols are named {symbol.name}")
        ordered = sorted(found.values(), key=lambda symbol: symbol.serial)
        return [SymbolPart(s.name, s.predicate, s.at_least, s.at_most) for s in ordered]

    run = _of_the_query(Query.run)
    open = _of_the_query(Query.open)
    explain = _of_the_query(Query.explain)

    def __str__(self) -> str:
        return str(self.query)

    def __repr__(self) -> str:
        return repr(self.query) if self._within is not None else "<QueryBuilder without a window>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, QueryBuilder):
            other = other.query
        return self.query == other if isinstance(other, Query) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.query)


def _as_return(item: ReturnBuilder | EndpointBuilder) -> Return:
    if isinstance(item, ReturnBuilder):
        return item.item
    if isinstance(item, EndpointBuilder):
        name = item.symbol.name
        return Endpoint(name, item.which, f"{name}_{item.which}")
    raise QueryError(f"returning takes s.avg('speed'), s.ts and the like, not {item!r}")


def as_query(given: str | Query | QueryBuilder) -> Query:
    """The query that a text, a builder or a query is.

    >>> as_query(pattern(define("a", "x > 1")).within(10)).within
    Duration(amount=10, in_ticks=True)
    """
    if isinstance(given, Query):
        return given
    if isinstance(given, QueryBuilder):
        return given.query
    if isinstance(given, str):
        from piestream.language.parser import parse

        return parse(given)
    raise QueryError(f"this is not a query: {given!r}")
