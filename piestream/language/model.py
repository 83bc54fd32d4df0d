"""What a query is: one frozen value, made by the parser and by the builder alike.

Nothing here knows of engines or frames. Two queries are equal when they say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Union

from piestream.expressions.diagnostics import Diagnostic, Fault, Origin, QueryError, located
from piestream.expressions.durations import Duration
from piestream.language.options import named_options
from piestream.relations import Relation

if TYPE_CHECKING:
    from piestream.adapters.session import Session
    from piestream.engine.stream import OnLate, Ties
    from piestream.expressions.predicate import Predicate
    from piestream.language.symbols import DurationLike
    from piestream.spark.worker_plan import Partitioning

#: Names one part of a query, as `Origin` lists them: ``("within",)``, ``("symbol", "a")``.
Where = tuple[str, ...]


class Emit(Enum):
    """When a match makes a row."""

    TRIGGER = "TRIGGER"
    COMPLETION = "COMPLETION"
    BOTH = "BOTH"


@dataclass(frozen=True, slots=True)
class Symbol:
    """``name AS predicate AT LEAST d``: bounds are inclusive, None where there is none."""

    name: str
    predicate: Predicate
    at_least: Duration | None = None
    at_most: Duration | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """The relations allowed between two different symbols, at most one constraint a pair."""

    x: str
    y: str
    relations: Relation


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``AVG(s.speed) AS avg_s_speed``; ``COUNT(s)`` has no column."""

    function: str  # FIRST LAST MIN MAX SUM AVG COUNT STDDEV
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


Return = Union[Aggregate, Endpoint, DurationOf, RelationOf]


@dataclass(frozen=True, slots=True)
class Query:
    """Everything a query says, frozen. Its methods hand the work to the rooms that do it.

    ``str(query)`` is its canonical text, which parses back into an equal query. A bare FROM name
    only labels the stream and a text's layout says nothing, so neither takes part in ``==``;
    the path of a FROM does.
    """

    symbols: tuple[Symbol, ...]  # in DEFINE order; all of them appear in the pattern
    constraints: tuple[Constraint, ...]  # normalised: one a pair; x is defined before y
    within: Duration
    returns: tuple[Return, ...]  # never empty: the default is written out
    source: str | None = field(default=None, compare=False)  # FROM name, or a path
    source_is_path: bool = False
    partition_by: tuple[str, ...] = ()
    order_by: str | None = None
    time_unit: str | None = None  # declared unit of an integer time column: a key of NANOSECONDS
    max_gap: Duration | None = None
    emit: Emit = Emit.TRIGGER
    #: Where the parts stand in the text that the query was read from; None from the builder.
    origin: Origin | None = field(default=None, compare=False, repr=False)
    #: The path of FROM, None when FROM only names the stream.
    path: str | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", self.source if self.source_is_path else None)

    def __str__(self) -> str:
        from piestream.language.printer import canonical_text

        return canonical_text(self)

    def __repr__(self) -> str:
        names = ", ".join(symbol.name for symbol in self.symbols)
        pairs = len(self.constraints)
        return (
            f"<Query of {names}: {pairs} constraint{'' if pairs == 1 else 's'}, "
            f"within {self.within}, {len(self.returns)} returns>"
        )

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; KeyError if there is none."""
        for symbol in self.symbols:
            if symbol.name == name:
                return symbol
        raise KeyError(name)

    def fault(self, where: Where | None, message: str, hint: str | None = None) -> QueryError:
        """An error at one part of this query, with carets if the query came from text.

        ``where`` names the part as `Origin` does; a part that the text does not show
        (a default RETURN, the builder) gives an error without a place.
        """
        return self.faults([(where, message, hint)])

    def faults(self, found: Sequence[tuple[Where | None, str, str | None]]) -> QueryError:
        """One error of several faults, each as in `fault`."""
        origin = self.origin
        placed: list[Fault] = []
        for where, message, hint in found:
            span = origin.spans.get(where) if origin is not None and where is not None else None
            text = origin.text if origin is not None else None
            placed.append(located(Diagnostic(span, message, hint), text))
        return QueryError(placed, origin.text if origin is not None else None)

    def ticks(self, where: Where, duration: Duration, nanoseconds_per_tick: int | None) -> int:
        """`Duration.ticks` of a duration of this query, with a fault that stands in its place."""
        what = {"at_least": "AT LEAST", "at_most": "AT MOST", "max_gap": "MAX GAP"}.get(
            where[0], where[0].upper()
        )
        if len(where) > 1:
            what = f"{what} of {where[1]}"
        try:
            return duration.ticks(nanoseconds_per_tick, what)
        except QueryError as error:
            fault = error.faults[0]
            raise self.fault(where, fault.message, fault.hint) from None

    @named_options
    def run(
        self,
        frame: Any = None,
        *,
        ties: Ties | None = None,
        lateness: DurationLike | None = None,
        on_late: OnLate | None = None,
        threads: int | None = None,
        delimiter: str | None = None,
        decimal_comma: bool | None = None,
        buckets: int | None = None,
        partitioning: Partitioning | None = None,
        slices: int | None = None,
        metrics: str | None = None,
    ) -> Any:
        """Every match in a frame, as a frame of the same kind; without one, FROM's files.

        ``delimiter`` and ``decimal_comma`` are for CSV files, ``threads`` for what is no Spark
        frame; ``buckets`` and what follows it are for Spark frames.
        """
        from piestream.adapters import frames

        return frames.run(
            self,
            frame,
            ties=ties,
            lateness=lateness,
            on_late=on_late,
            threads=threads,
            delimiter=delimiter,
            decimal_comma=decimal_comma,
            buckets=buckets,
            partitioning=partitioning,
            slices=slices,
            metrics=metrics,
        )

    @named_options
    def open(
        self,
        state: bytes | None = None,
        *,
        lateness: DurationLike | None = None,
        on_late: OnLate | None = None,
        ties: Ties | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Session:
        """A session: push events, get the matches that became known."""
        from piestream.adapters import session

        return session.Session(
            self, state=state, lateness=lateness, on_late=on_late, ties=ties, schema=schema
        )

    def explain(self) -> Any:
        """How the query will be worked: predicates, automata, decision points, join plan."""
        from piestream import show

        return show.explain(self)
