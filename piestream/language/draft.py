"""What the parser or the builder collected, before it is validated."""

from __future__ import annotations

from dataclasses import dataclass, field

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration
from piestream.expressions.predicate import Predicate
from piestream.language.model import Emit, Return, Where
from piestream.relations import Relation

__all__ = ["ConstraintSpec", "QueryDraft", "SymbolSpec"]


@dataclass(frozen=True, slots=True)
class SymbolSpec:
    """A definition as it was given; no predicate if the predicate could not be read."""

    name: str
    predicate: Predicate | None
    at_least: Duration | None = None
    at_most: Duration | None = None
    at_least_events: int | None = None
    at_most_events: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One constraint as it was given, before constraints on one pair are intersected.

    The pattern of a single symbol has ``y`` None.
    """

    x: str
    y: str | None
    relations: Relation
    span: Span | None = None
    x_span: Span | None = None
    y_span: Span | None = None


@dataclass(slots=True)
class QueryDraft:
    """The parts of a query, not yet validated."""

    symbols: list[SymbolSpec] = field(default_factory=list)
    constraints: list[ConstraintSpec] = field(default_factory=list)
    within: Duration | None = None
    returns: list[tuple[Return, Span | None]] = field(default_factory=list)
    source: str | None = None
    source_is_path: bool = False
    partition_by: list[str] = field(default_factory=list)
    order_by: str | None = None
    time_unit: str | None = None
    max_gap: Duration | None = None
    emit: Emit = Emit.TRIGGER
    spans: dict[Where, Span] = field(default_factory=dict)
    text: str | None = None
    #: Names in a PATTERN that has faults of its own, None when it was read whole: what follows
    #: from those faults is not reported again.
    pattern_words: frozenset[str] | None = None
