"""The builder's symbols: their relations, endpoints and what they return."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Union

from piestream.expressions.diagnostics import QueryError, did_you_mean
from piestream.expressions.durations import Duration, as_duration
from piestream.expressions.predicate import Predicate
from piestream.language.endpoints import relations_where
from piestream.language.model import Aggregate, DurationOf, RelationOf, Return
from piestream.language.options import named_options
from piestream.language.printer import alias_of
from piestream.relations import ALL_NAMES, Relation, inverse, relation_named

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "DurationLike",
    "EndpointBuilder",
    "Pair",
    "PatternBuilder",
    "ReturnBuilder",
    "SymbolBuilder",
    "as_pattern",
    "define",
]

DurationLike = Union[str, int, timedelta, Duration]

_serial = count()


@named_options
def define(
    name: str,
    predicate: str | Predicate | pl.Expr,
    at_least: DurationLike | None = None,
    at_most: DurationLike | None = None,
) -> SymbolBuilder:
    """A symbol: ``DEFINE name AS predicate AT LEAST ... AT MOST ...``.

    The predicate is SQL text or a Polars expression (embedded engine only); durations are text
    (``"5s"``), a timedelta, or an int that counts ticks.

    >>> from piestream.language.builder import pattern
    >>> a = define("a", "accel > 8", at_least="5s")
    >>> s = define("s", "speed > 70")
    >>> print(pattern(a.meets(s) | a.overlaps(s)).within("5 minutes"))
    FROM stream
    DEFINE a AS accel > 8 AT LEAST 5 s,
           s AS speed > 70
    PATTERN a meets; overlaps s
    WITHIN 5 min
    """
    if not isinstance(name, str) or not name:
        raise QueryError(f"the name of a symbol is a text, not {name!r}")
    if isinstance(predicate, str):
        predicate = Predicate.parse(predicate)
    elif not isinstance(predicate, Predicate):
        if type(predicate).__module__.partition(".")[0] != "polars":
            raise QueryError(
                f"the predicate of {name} is a {type(predicate).__name__}; "
                "give SQL text or a Polars expression"
            )
        predicate = Predicate.from_polars(predicate)
    least = None if at_least is None else as_duration(at_least, f"at_least of {name}")
    most = None if at_most is None else as_duration(at_most, f"at_most of {name}")
    return SymbolBuilder(name, predicate, least, most, next(_serial))


@dataclass(frozen=True)
class SymbolBuilder:
    """A symbol that can be related to others and returned from; see `define`."""

    name: str
    predicate: Predicate
    at_least: Duration | None = None
    at_most: Duration | None = None
    #: When it was defined: the order of a query's symbols is the order of their definitions.
    serial: int = field(default=0, compare=False, repr=False)

    def relates(self, other: SymbolBuilder, *relations: str | Relation) -> PatternBuilder:
        """A constraint that allows any of these relations.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.relates(b, "meets", "overlaps") == (a.meets(b) | a.overlaps(b))
        True
        """
        allowed = Relation(0)
        for given in relations:
            relation = given if isinstance(given, Relation) else relation_named(str(given))
            if relation is None:
                near = did_you_mean(str(given), ALL_NAMES)
                raise QueryError(f"there is no relation {given}" + (f"; {near}" if near else ""))
            allowed |= relation
        if not relations:
            raise QueryError("relates needs at least one relation")
        return _constraint(self, other, allowed)

    def before(self, other: SymbolBuilder) -> PatternBuilder:
        """This ends before the other begins."""
        return _constraint(self, other, Relation.BEFORE)

    def followed_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other is the immediate successor."""
        return _constraint(self, other, Relation.FOLLOWED_BY)

    def meets(self, other: SymbolBuilder) -> PatternBuilder:
        """This ends where the other begins."""
        return _constraint(self, other, Relation.MEETS)

    def overlaps(self, other: SymbolBuilder) -> PatternBuilder:
        """This begins first, and ends inside the other."""
        return _constraint(self, other, Relation.OVERLAPS)

    def finished_by(self, other: SymbolBuilder) -> PatternBuilder:
        """This begins first; both end together."""
        return _constraint(self, other, Relation.FINISHED_BY)

    def contains(self, other: SymbolBuilder) -> PatternBuilder:
        """The other lies inside this."""
        return _constraint(self, other, Relation.CONTAINS)

    def starts(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin together; this ends first."""
        return _constraint(self, other, Relation.STARTS)

    def equals(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin and end together."""
        return _constraint(self, other, Relation.EQUALS)

    def started_by(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin together; the other ends first."""
        return _constraint(self, other, Relation.STARTED_BY)

    def during(self, other: SymbolBuilder) -> PatternBuilder:
        """This lies inside the other."""
        return _constraint(self, other, Relation.DURING)

    def finishes(self, other: SymbolBuilder) -> PatternBuilder:
        """The other begins first; both end together."""
        return _constraint(self, other, Relation.FINISHES)

    def overlapped_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other begins first, and ends inside this."""
        return _constraint(self, other, Relation.OVERLAPPED_BY)

    def met_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other ends where this begins."""
        return _constraint(self, other, Relation.MET_BY)

    def follows(self, other: SymbolBuilder) -> PatternBuilder:
        """This is the other's immediate successor."""
        return _constraint(self, other, Relation.FOLLOWS)

    def after(self, other: SymbolBuilder) -> PatternBuilder:
        """The other ends before this begins."""
        return _constraint(self, other, Relation.AFTER)

    @property
    def ts(self) -> EndpointBuilder:
        """The start: to compare (``a.ts < b.ts``) or to return."""
        return EndpointBuilder(self, "ts")

    @property
    def te(self) -> EndpointBuilder:
        """The end: to compare or to return."""
        return EndpointBuilder(self, "te")

    def _aggregate(self, function: str, column: str | None) -> ReturnBuilder:
        alias = alias_of(function, self.name, column)
        return ReturnBuilder(Aggregate(function, self.name, column, alias))

    def first(self, column: str) -> ReturnBuilder:
        """The column at the interval's first event."""
        return self._aggregate("FIRST", column)

    def last(self, column: str) -> ReturnBuilder:
        """The column at the interval's last known event."""
        return self._aggregate("LAST", column)

    def min(self, column: str) -> ReturnBuilder:
        """The least value over the interval."""
        return self._aggregate("MIN", column)

    def max(self, column: str) -> ReturnBuilder:
        """The greatest value over the interval."""
        return self._aggregate("MAX", column)

    def sum(self, column: str) -> ReturnBuilder:
        """The sum over the interval."""
        return self._aggregate("SUM", column)

    def avg(self, column: str) -> ReturnBuilder:
        """The mean over the interval."""
        return self._aggregate("AVG", column)

    def stddev(self, column: str) -> ReturnBuilder:
        """The sample standard deviation over the interval."""
        return self._aggregate("STDDEV", column)

    def count(self, column: str | None = None) -> ReturnBuilder:
        """The number of events, or of values of a column that are not NULL."""
        return self._aggregate("COUNT", column)

    def duration(self) -> ReturnBuilder:
        """te - ts."""
        return ReturnBuilder(DurationOf(self.name, alias_of("DURATION", self.name)))

    def relation_to(self, other: SymbolBuilder) -> ReturnBuilder:
        """The name of the relation that holds: ``RELATION(self, other)``."""
        alias = alias_of("RELATION", self.name, other.name)
        return ReturnBuilder(RelationOf(self.name, other.name, alias))


@dataclass(frozen=True)
class ReturnBuilder:
    """Something that a match returns; its name comes from `returning`, or is the default."""

    item: Return

    def alias(self, name: str) -> ReturnBuilder:
        """The same under another name."""
        return ReturnBuilder(replace(self.item, alias=name))


class EndpointBuilder:
    """``a.ts`` or ``a.te``; comparing two of them makes a constraint."""

    __slots__ = ("symbol", "which")

    def __init__(self, symbol: SymbolBuilder, which: str) -> None:
        self.symbol = symbol
        self.which = which

    def _compared(self, sign: str, other: object) -> PatternBuilder:
        if not isinstance(other, EndpointBuilder):
            raise QueryError(
                f"{self.symbol.name}.{self.which} can be compared with an endpoint "
                f"of another symbol, not with {other!r}"
            )
        relations = relations_where(self.which, sign, other.which)
        return _constraint(self.symbol, other.symbol, relations)

    def __lt__(self, other: object) -> PatternBuilder:
        return self._compared("<", other)

    def __le__(self, other: object) -> PatternBuilder:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> PatternBuilder:
        return self._compared(">", other)

    def __ge__(self, other: object) -> PatternBuilder:
        return self._compared(">=", other)

    def __eq__(self, other: object) -> PatternBuilder:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> PatternBuilder:  # type: ignore[override]
        return self._compared("!=", other)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Pair:
    x: SymbolBuilder
    y: SymbolBuilder | None
    relations: Relation


@dataclass(frozen=True)
class PatternBuilder:
    """Constraints: ``|`` joins alternatives on one pair, ``&`` joins constraints."""

    pairs: tuple[Pair, ...]

    def __and__(self, other: PatternBuilder | SymbolBuilder) -> PatternBuilder:
        return PatternBuilder(self.pairs + as_pattern(other).pairs)

    def __or__(self, other: PatternBuilder) -> PatternBuilder:
        if len(self.pairs) != 1 or len(as_pattern(other).pairs) != 1:
            raise QueryError("| joins alternatives on one pair; constraints are joined with &")
        (mine,), (theirs,) = self.pairs, other.pairs
        if mine.y is None or theirs.y is None:
            raise QueryError("| joins relations between two symbols")
        relations = theirs.relations
        if (theirs.x, theirs.y) == (mine.y, mine.x):
            relations = inverse(relations)
        elif (theirs.x, theirs.y) != (mine.x, mine.y):
            raise QueryError(
                f"| joins alternatives on one pair, not on {mine.x.name}, {mine.y.name} "
                f"and {theirs.x.name}, {theirs.y.name}; join constraints with &"
            )
        return PatternBuilder((Pair(mine.x, mine.y, mine.relations | relations),))

    def __bool__(self) -> bool:
        raise TypeError(
            "a constraint is neither true nor false: join constraints with & and |, "
            "and write (a.ts < b.ts) & (b.ts <= a.te) for a.ts < b.ts <= a.te"
        )


def _constraint(x: SymbolBuilder, y: SymbolBuilder, relations: Relation) -> PatternBuilder:
    if not isinstance(y, SymbolBuilder):
        raise QueryError(f"{x.name} can be related to a symbol, not to {y!r}")
    return PatternBuilder((Pair(x, y, relations),))


def as_pattern(given: PatternBuilder | SymbolBuilder) -> PatternBuilder:
    if isinstance(given, SymbolBuilder):
        return PatternBuilder((Pair(given, None, Relation(0)),))
    if isinstance(given, PatternBuilder):
        return given
    raise QueryError(f"a pattern is made of symbols and their relations, not of {given!r}")
