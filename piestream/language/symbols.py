"""The symbols of the query builder, and their relations.

`define` makes a symbol. Its relations and the comparisons of its endpoints (`endpoint_builder`) make
constraints, which ``|`` and ``&`` join (`pattern_builder`); its aggregates are in `aggregates`. What
is made of them goes into `piestream.language.builder.pattern`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

from piestream.expressions.diagnostics import QueryError, did_you_mean
from piestream.expressions.durations import Duration, DurationLike, as_duration, event_count
from piestream.expressions.parameters import parameters_in
from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.language.aggregates import AggregateMethods, ReturnBuilder
from piestream.language.arguments import check_mapping, check_name
from piestream.language.endpoint_builder import EndpointBuilder
from piestream.language.lets import lets_of_texts
from piestream.language.parts import DurationOf, RelationOf, Value
from piestream.language.pattern_builder import Pair, PatternBuilder, PatternPart
from piestream.language.printer import alias_of
from piestream.language.signatures import named_options
from piestream.language.stream_builder import StreamBuilder, check_stream
from piestream.relations import ALL_NAMES, SETS, Relation, relations_named

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SymbolBuilder", "define", "silence"]

_serial = count()


@named_options
def define(
    name: str,
    predicate: str | Predicate | pl.Expr | None = None,
    at_least: DurationLike | None = None,
    at_most: DurationLike | None = None,
    stream: StreamBuilder | None = None,
    at_least_events: int | None = None,
    at_most_events: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    until: str | None = None,
    let: Mapping[str, str] | None = None,
    bridging: DurationLike | None = None,
) -> SymbolBuilder:
    """A symbol: ``DEFINE name AS predicate AT LEAST ... AT MOST ...``.

    The predicate is SQL text or a Polars expression (embedded engine only); durations are text
    (``"5s"``), a timedelta, or an int that counts ticks of integers; bounds on the number of an
    interval's events are ints. A symbol reads the first stream of its query, or the ``stream`` that
    `piestream.stream` made; of a stream of intervals it takes all where there is no predicate. ``:limit`` in the predicate
    stands for the value of that name in ``parameters``, which is never read as text.

    With ``until`` the symbol begins where the predicate holds, and lasts until that condition does.
    ``let`` has expressions by the names that the predicate uses: LET of a text. With ``bridging``,
    runs that lie at most so far apart are one interval.

    >>> import piestream as ps
    >>> a = ps.define("a", "accel > 8", at_least="5s")
    >>> s = ps.define("s", "speed > 70")
    >>> print(ps.pattern(a.meets(s) | a.overlaps(s)).within("5 minutes"))
    FROM stream
    DEFINE a AS accel > 8 AT LEAST 5 s,
           s AS speed > 70
    PATTERN a meets; overlaps s
    WITHIN 5 min
    >>> ps.define("fast", "speed > :limit", parameters={"limit": 70}).predicate
    Predicate(text='speed > 70')
    >>> ps.define("hot", "smooth > 80", until="smooth < 75", let={"smooth": "AVG(t) OVER 30 s"}).predicate
    Predicate(text='AVG(t) OVER 30 s > 80 UNTIL AVG(t) OVER 30 s < 75')
    """
    check_name(name, "a symbol")
    check_mapping(let, f"let of {name}", "{'smooth': 'AVG(x) OVER 5 s'}")
    check_mapping(parameters, f"parameters of {name}", "{'limit': 70}")
    check_stream(stream, name)
    if (until is not None or let) and not isinstance(predicate, str):
        raise QueryError(f"until and let go with a predicate that is a text, and {name} has none")
    if parameters and not isinstance(predicate, str):
        raise QueryError(
            f"{name} has parameters, and its predicate is no text that they could fill"
        )
    if predicate is None:
        if stream is None or (stream.start is None and stream.query is None):
            raise QueryError(f"{name} needs a predicate: only a stream of intervals has intervals")
        predicate = EVERY_INTERVAL
    elif isinstance(predicate, str):
        predicate = _predicate(predicate, until, let, parameters)
    elif not isinstance(predicate, Predicate):
        if type(predicate).__module__.partition(".")[0] != "polars":
            raise QueryError(
                f"the predicate of {name} is a {type(predicate).__name__}; "
                "give SQL text or a Polars expression"
            )
        predicate = Predicate.from_polars(predicate)
    least = None if at_least is None else as_duration(at_least, f"at_least of {name}")
    most = None if at_most is None else as_duration(at_most, f"at_most of {name}")
    bridged = None if bridging is None else as_duration(bridging, f"bridging of {name}")
    for what, events in (("at_least", at_least_events), ("at_most", at_most_events)):
        if events is not None:
            event_count(events, f"{what}_events of {name}")
    return SymbolBuilder(
        name,
        predicate,
        least,
        most,
        stream,
        at_least_events,
        at_most_events,
        bridged,
        serial=next(_serial),
    )


@named_options
def silence(
    name: str,
    longer_than: DurationLike,
    at_least: DurationLike | None = None,
    at_most: DurationLike | None = None,
    stream: StreamBuilder | None = None,
) -> SymbolBuilder:
    """A symbol that is the silences of a stream: ``DEFINE name AS SILENCE LONGER THAN ...``.

    Each of its intervals is from an event to the next one that comes later than so long after it. It
    is known from the instant on at which that long has passed. The stream is the first of its query, or
    the ``stream`` of events that `piestream.stream` made.

    >>> import piestream as ps
    >>> hot = ps.define("hot", "temp > 80")
    >>> quiet = ps.silence("quiet", longer_than="30 s")
    >>> print(ps.pattern(hot.contains(quiet) | hot.overlaps(quiet)).within("5 minutes"))
    FROM stream
    DEFINE hot AS temp > 80,
           quiet AS SILENCE LONGER THAN 30 s
    PATTERN hot overlaps; contains quiet
    WITHIN 5 min
    """
    check_name(name, "a symbol")
    check_stream(stream, name)
    return SymbolBuilder(
        name,
        EVERY_INTERVAL,
        None if at_least is None else as_duration(at_least, f"at_least of {name}"),
        None if at_most is None else as_duration(at_most, f"at_most of {name}"),
        stream,
        silence=as_duration(longer_than, f"longer_than of {name}"),
        serial=next(_serial),
    )


def _predicate(
    text: str,
    until: str | None,
    let: Mapping[str, str] | None,
    parameters: Mapping[str, Any] | None,
) -> Predicate:
    whole = text if until is None else f"{text} UNTIL {until}"
    in_lets = parameters_in(*(text for text in (let or {}).values() if isinstance(text, str)))
    only_there = in_lets - parameters_in(whole)
    own = {k: value for k, value in (parameters or {}).items() if k not in only_there}
    return Predicate.parse(whole, own, lets_of_texts(let or {}, parameters))


@dataclass(frozen=True)
class SymbolBuilder(AggregateMethods, PatternPart):
    """A symbol: it is related to others, and RETURN takes its endpoints and aggregates.

    >>> import piestream as ps
    >>> a, s = ps.define("a", "accel > 8"), ps.define("s", "speed > 70")
    >>> (a.meets(s) | a.overlaps(s)) & (a.ts < s.ts)
    a meets; overlaps s AND a before; meets; overlaps; finished-by; contains s
    """

    name: str
    predicate: Predicate
    at_least: Duration | None = None
    at_most: Duration | None = None
    stream: StreamBuilder | None = None
    at_least_events: int | None = None
    at_most_events: int | None = None
    bridging: Duration | None = None
    silence: Duration | None = None
    #: When it was defined: the order of a query's symbols is the order of their definitions.
    serial: int = field(default=0, compare=False, repr=False)

    def __invert__(self) -> NoReturn:
        raise QueryError(
            f"say how {self.name} may not lie to others, as in ~{self.name}.intersects(a)"
        )

    if not TYPE_CHECKING:  # where it would hide misspelt names

        def __getattr__(self, name: str) -> Any:
            """Say what was probably meant by a name that a symbol does not have.

            >>> define("a", "x > 1").overlap(define("b", "y > 1"))
            Traceback (most recent call last):
            AttributeError: a symbol has no 'overlap': did you mean overlaps?
            """
            message = f"a symbol has no {name!r}"
            if not name.startswith("_"):
                public = [one for one in dir(type(self)) if not one.startswith("_")]
                ends = {"start": "write .ts", "begin": "write .ts", "end": "write .te"}
                near = ends.get(name) or did_you_mean(name, public)
                message += f": {near}" if near else f"; relations are {', '.join(ALL_NAMES)}"
            raise AttributeError(message, name=name, obj=self)

    def _as_pattern(self) -> PatternBuilder:
        return PatternBuilder((Pair(self, None, Relation(0)),))

    def relates(self, other: SymbolBuilder, *relations: str | Relation) -> PatternBuilder:
        """A constraint that allows any of these relations, or of these sets of them.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.relates(b, "meets", "overlaps") == (a.meets(b) | a.overlaps(b))
        True
        """
        allowed = Relation(0)
        for given in relations:
            relation = given if isinstance(given, Relation) else relations_named(str(given))
            if relation is None:
                near = did_you_mean(str(given), [*ALL_NAMES, *SETS])
                raise QueryError(f"there is no relation {given}" + (f"; {near}" if near else ""))
            allowed |= relation
        if not relations:
            raise QueryError("relates needs at least one relation")
        return _constraint(self, other, allowed)

    def before(self, other: SymbolBuilder) -> PatternBuilder:
        """This ends before the other begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.before(b) == (a.te < b.ts)
        True
        """
        return _constraint(self, other, Relation.BEFORE)

    def followed_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other is the immediate successor: neither predicate holds in between.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.followed_by(b)
        a followed-by b
        """
        return _constraint(self, other, Relation.FOLLOWED_BY)

    def meets(self, other: SymbolBuilder) -> PatternBuilder:
        """This ends where the other begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.meets(b) == (a.te == b.ts)
        True
        """
        return _constraint(self, other, Relation.MEETS)

    def overlaps(self, other: SymbolBuilder) -> PatternBuilder:
        """This begins first, and ends inside the other.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.overlaps(b)
        a overlaps b
        """
        return _constraint(self, other, Relation.OVERLAPS)

    def finished_by(self, other: SymbolBuilder) -> PatternBuilder:
        """This begins first; both end together.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.finished_by(b)
        a finished-by b
        """
        return _constraint(self, other, Relation.FINISHED_BY)

    def contains(self, other: SymbolBuilder) -> PatternBuilder:
        """The other lies inside this.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.contains(b)
        a contains b
        """
        return _constraint(self, other, Relation.CONTAINS)

    def starts(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin together; this ends first.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.starts(b)
        a starts b
        """
        return _constraint(self, other, Relation.STARTS)

    def equals(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin and end together.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.equals(b) | a.starts(b) | a.started_by(b)
        a starts; equals; started-by b
        """
        return _constraint(self, other, Relation.EQUALS)

    def started_by(self, other: SymbolBuilder) -> PatternBuilder:
        """Both begin together; the other ends first.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.started_by(b)
        a started-by b
        """
        return _constraint(self, other, Relation.STARTED_BY)

    def during(self, other: SymbolBuilder) -> PatternBuilder:
        """This lies inside the other.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.during(b) | b.contains(a)
        a during b
        """
        return _constraint(self, other, Relation.DURING)

    def finishes(self, other: SymbolBuilder) -> PatternBuilder:
        """The other begins first; both end together.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.finishes(b)
        a finishes b
        """
        return _constraint(self, other, Relation.FINISHES)

    def overlapped_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other begins first, and ends inside this.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.overlapped_by(b)
        a overlapped-by b
        """
        return _constraint(self, other, Relation.OVERLAPPED_BY)

    def met_by(self, other: SymbolBuilder) -> PatternBuilder:
        """The other ends where this begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.met_by(b) == (a.ts == b.te)
        True
        """
        return _constraint(self, other, Relation.MET_BY)

    def follows(self, other: SymbolBuilder) -> PatternBuilder:
        """This is the other's immediate successor.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.follows(b)
        a follows b
        """
        return _constraint(self, other, Relation.FOLLOWS)

    def after(self, other: SymbolBuilder) -> PatternBuilder:
        """The other ends before this begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.after(b) == (a.ts > b.te)
        True
        """
        return _constraint(self, other, Relation.AFTER)

    def intersects(self, other: SymbolBuilder) -> PatternBuilder:
        """Both hold at some instant: each begins before the other ends.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> from piestream.relations import names
        >>> len(names(a.intersects(b).pairs[0].relations))
        9
        """
        return _constraint(self, other, SETS["intersects"])

    def disjoint(self, other: SymbolBuilder) -> PatternBuilder:
        """The two share no instant: one ends before the other begins, or where it does.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.disjoint(b) == (a.before(b) | a.meets(b) | a.met_by(b) | a.after(b))
        True
        """
        return _constraint(self, other, SETS["disjoint"])

    def covers(self, other: SymbolBuilder) -> PatternBuilder:
        """The other lies inside this, and may begin or end with it.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.covers(b)
        a finished-by; contains; equals; started-by b
        """
        return _constraint(self, other, SETS["covers"])

    def inside(self, other: SymbolBuilder) -> PatternBuilder:
        """This lies inside the other, and may begin or end with it.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.inside(b) == (a.during(b) | a.starts(b) | a.finishes(b) | a.equals(b))
        True
        """
        return _constraint(self, other, SETS["inside"])

    def precedes(self, other: SymbolBuilder) -> PatternBuilder:
        """This has ended when the other begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.precedes(b) == (a.te <= b.ts)
        True
        """
        return _constraint(self, other, SETS["precedes"])

    def succeeds(self, other: SymbolBuilder) -> PatternBuilder:
        """The other has ended when this begins.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.succeeds(b) == (a.ts >= b.te)
        True
        """
        return _constraint(self, other, SETS["succeeds"])

    @property
    def ts(self) -> EndpointBuilder:
        """The start: to compare or to return.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.ts == b.ts
        a starts; equals; started-by b
        """
        return EndpointBuilder(self, "ts")

    @property
    def te(self) -> EndpointBuilder:
        """The end: to compare or to return.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.te <= b.ts
        a before; meets b
        """
        return EndpointBuilder(self, "te")

    def duration(self) -> ReturnBuilder:
        """How long the interval is, NULL while its end is not known: ``DURATION(self)``.

        >>> define("a", "x > 1").duration().alias("length").item
        DurationOf(symbol='a', alias='length')
        """
        return ReturnBuilder(DurationOf(self.name, alias_of("DURATION", self.name)))

    def value(self, column: str) -> ReturnBuilder:
        """The value of a column of an interval that comes ready-made: ``self.column``.

        >>> import piestream as ps
        >>> infusions = ps.stream("infusions", start="started", end="stopped")
        >>> ps.define("dose", stream=infusions).value("drug").item
        Value(symbol='dose', column='drug', alias='dose_drug')
        """
        check_name(column, "a column")
        return ReturnBuilder(Value(self.name, column, f"{self.name}_{column}"))

    def relation_to(self, other: SymbolBuilder) -> ReturnBuilder:
        """The name of the relation that holds: ``RELATION(self, other)``.

        >>> a, b = define("a", "x > 1"), define("b", "y > 1")
        >>> a.relation_to(b).item
        RelationOf(x='a', y='b', alias='relation_a_b')
        """
        if not isinstance(other, SymbolBuilder):
            raise QueryError(f"{self.name} has a relation to a symbol, not to {other!r}")
        alias = alias_of("RELATION", self.name, other.name)
        return ReturnBuilder(RelationOf(self.name, other.name, alias))


def _constraint(x: SymbolBuilder, y: SymbolBuilder, relations: Relation) -> PatternBuilder:
    if not isinstance(y, SymbolBuilder):
        raise QueryError(f"{x.name} can be related to a symbol, not to {y!r}")
    return PatternBuilder((Pair(x, y, relations),))
