"""What the checks of a draft share: the symbols that are defined, and where faults go."""

from __future__ import annotations

from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.durations import Duration, tick_length
from piestream.language.draft import QueryDraft, SymbolSpec
from piestream.language.parts import Where

__all__ = ["RESERVED_COLUMNS", "Validation"]

#: Columns that every output may have besides those of RETURN.
RESERVED_COLUMNS = ("detected_at", "completed_at", "phase")


class Validation:
    """A draft being validated."""

    def __init__(self, draft: QueryDraft, diagnostics: list[Diagnostic]) -> None:
        self.draft = draft
        self.diagnostics = diagnostics
        #: The position of each symbol among the definitions.
        self.position: dict[str, int] = {}
        #: The symbols of which a match has no interval; known once the pattern has been validated.
        self.absent: frozenset[str] = frozenset()
        for spec in draft.symbols:
            self.position.setdefault(spec.name, len(self.position))

    def report(self, span: Span | None, message: str, hint: str | None = None) -> None:
        """Report a fault at a place in the text, if there is a text."""
        self.diagnostics.append(Diagnostic(span, message, hint))

    def report_at(self, where: Where, message: str, hint: str | None = None) -> None:
        """Report a fault of one part of the query, wherever that stands."""
        self.report(self.draft.spans.get(where), message, hint)

    @property
    def present(self) -> list[SymbolSpec]:
        """The definitions of the symbols that a match has intervals of."""
        return [spec for spec in self.draft.symbols if spec.name not in self.absent]

    def is_in_match(self, name: str, span: Span | None) -> bool:
        """Whether a match has an interval of a symbol; reports it if not."""
        if name in self.absent:
            message = f"{name} is absent: a match has no interval of it"
            self.report(span, message, f"{name} may stand in its NOT (…) only")
            return False
        return self.is_defined(name, span)

    def is_defined(self, name: str, span: Span | None) -> bool:
        """Whether a symbol is defined; reports it if not."""
        if name in self.position:
            return True
        hint = did_you_mean(name, self.position)
        if hint is None and self.position:
            hint = f"the symbols are {', '.join(self.position)}"
        if name in self.draft.partition_by:
            hint = f"each {name} of PARTITION BY is judged by itself anyway; {hint}"
        self.report(span, f"there is no symbol {name}", hint)
        return False

    def difference(self, longer: Duration, shorter: Duration) -> int | None:
        """By how much a duration exceeds another; None where they cannot be compared yet."""
        unit = next((s.time_unit for s in self.draft.streams if s.time_unit), None)

        def comparable(duration: Duration) -> tuple[int, bool]:
            if duration.in_ticks and unit is not None:
                return duration.amount * tick_length(unit), False
            return duration.amount, duration.in_ticks

        (amount, in_ticks), (limit, limit_in_ticks) = comparable(longer), comparable(shorter)
        return amount - limit if in_ticks == limit_in_ticks else None
