"""What the parser or the builder collected, before it is validated."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration
from piestream.expressions.predicate import Predicate
from piestream.language.distances import Distance
from piestream.language.emission import NO_LIMITS, EmissionLimits
from piestream.language.model import Query
from piestream.language.parts import Condition, Emit, Return, Silence, Source, Where
from piestream.language.windows import Window
from piestream.relations import Relation

__all__ = ["AbsenceSpec", "ConstraintSpec", "QueryDraft", "StreamDraft", "SymbolSpec"]


@dataclass(slots=True)
class StreamDraft:
    """A stream as FROM or WITH gives it; `Source` says what its parts are."""

    name: str | None = None
    path: str | None = None
    archive: bool = False
    alias: str | None = None  # another name by which its columns are qualified
    order_by: str | None = None
    sequence: str | None = None
    row_order: bool = False
    time_unit: str | None = None
    max_gap: Duration | None = None
    start: str | None = None
    end: str | None = None
    id: str | None = None
    known_at_start: bool = False
    query: Query | None = None
    silence: Silence | None = None
    is_query: bool = False  # also where the query could not be read
    span: Span | None = None

    @property
    def qualifiers(self) -> tuple[str, ...]:
        """The names that may stand before its columns."""
        return tuple(name for name in (self.name, self.alias) if name is not None)

    @property
    def is_ready_made(self) -> bool:
        """Whether its rows are intervals."""
        return self.is_query or self.start is not None or self.silence is not None

    @property
    def is_sequenced(self) -> bool:
        """Whether ORDER BY says more than the time."""
        return self.sequence is not None or self.row_order

    def source(self) -> Source:
        """The stream as the query holds it."""
        return Source(
            name=self.name,
            path=self.path,
            archive=self.archive,
            order_by=self.order_by,
            sequence=self.sequence,
            row_order=self.row_order,
            time_unit=self.time_unit,
            max_gap=self.max_gap,
            start=self.start,
            end=self.end,
            id=self.id,
            known_at_start=self.known_at_start,
            query=self.query,
            silence=self.silence,
        )

    @classmethod
    def of(cls, source: Source) -> StreamDraft:
        """The draft that would give a stream."""
        parts = {part: getattr(source, part) for part in source.__slots__}
        return cls(**parts, is_query=source.query is not None)


@dataclass(frozen=True, slots=True)
class SymbolSpec:
    """A definition as it was given; no predicate if the predicate could not be read."""

    name: str
    predicate: Predicate | None
    at_least: Duration | None = None
    at_most: Duration | None = None
    span: Span | None = None
    stream: int = 0
    at_least_events: int | None = None
    at_most_events: int | None = None
    bridging: Duration | None = None
    silence: Duration | None = None  # SILENCE LONGER THAN: of the stream


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One constraint as it was given, before constraints on one pair are intersected.

    The pattern of a single symbol has ``y`` None; one that only gives distances, all relations.
    """

    x: str
    y: str | None
    relations: Relation
    span: Span | None = None
    x_span: Span | None = None
    y_span: Span | None = None
    distances: tuple[Distance, ...] = ()


@dataclass(frozen=True, slots=True)
class AbsenceSpec:
    """``NOT ( … )`` as it was given: which of its symbols is absent, the rest of the pattern says."""

    constraints: tuple[ConstraintSpec, ...]
    span: Span | None = None


@dataclass(slots=True)
class QueryDraft:
    """The parts of a query, not yet validated."""

    symbols: list[SymbolSpec] = field(default_factory=list)
    constraints: list[ConstraintSpec] = field(default_factory=list)
    absences: list[AbsenceSpec] = field(default_factory=list)
    within: Duration | None = None  # the window of all symbols
    windows: tuple[Window, ...] = ()
    returns: list[tuple[Return, Span | None]] = field(default_factory=list)
    #: That of FROM, then those of WITH; the first is there even where FROM is missing.
    streams: list[StreamDraft] = field(default_factory=lambda: [StreamDraft()])
    partition_by: list[str] = field(default_factory=list)
    emit: Emit = Emit.TRIGGER
    where: Condition | None = None
    limits: EmissionLimits = NO_LIMITS
    spans: dict[Where, Span] = field(default_factory=dict)
    text: str | None = None
    #: Names in a PATTERN that has faults of its own, None when it was read whole: what follows
    #: from those faults is not reported again.
    pattern_words: frozenset[str] | None = None
    #: The names that LET gives, and where.
    lets: dict[str, Span | None] = field(default_factory=dict)

    @property
    def is_sequenced(self) -> bool:
        """Whether events of one time may be told apart."""
        return any(stream.is_sequenced for stream in self.streams)

    @property
    def ready_made(self) -> list[str]:
        """The symbols whose intervals are rows of their own."""
        return [
            spec.name
            for spec in self.symbols
            if self.streams[spec.stream].is_ready_made or spec.silence is not None
        ]

    def add_silences(self) -> None:
        """Give the symbols that are silences of a stream a stream of their own, behind all others."""
        for place, spec in enumerate(self.symbols):
            if spec.silence is None:
                continue
            silence = Silence(spec.stream, spec.silence)
            known = [stream.silence for stream in self.streams]
            if silence not in known:
                self.streams.append(StreamDraft(silence=silence, span=spec.span))
                known.append(silence)
            self.symbols[place] = replace(spec, stream=known.index(silence))
