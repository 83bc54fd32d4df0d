"""What is wrong with a query, where, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

__all__ = [
    "Diagnostic",
    "Fault",
    "Origin",
    "QueryError",
    "Span",
    "did_you_mean",
    "located",
    "plain",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source text: from ``start`` up to, not including, ``end``."""

    start: int
    end: int

    def moved(self, distance: int) -> Span:
        """The same stretch in a text that begins ``distance`` characters earlier."""
        return Span(self.start + distance, self.end + distance)

    def joined(self, other: Span) -> Span:
        """From the first of both to the last of both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong: lines and columns count from 1; None where there is no text."""

    line: int | None
    column: int | None
    length: int
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A fault that has not met its source text yet."""

    span: Span | None
    message: str
    hint: str | None = None


class QueryError(ValueError):
    """All the faults that were found in a query, each with its line and carets.

    >>> import piestream.language as language
    >>> try:
    ...     language.parse("FROM cars DEFINE a AS accel > 8 PATTERN a WITHN 5 s")
    ... except language.QueryError as error:
    ...     print(error)
    line 1, column 43: there is no clause WITHN
      1 | FROM cars DEFINE a AS accel > 8 PATTERN a WITHN 5 s
        |                                           ^^^^^
        = did you mean WITHIN?
    """

    faults: tuple[Fault, ...]
    source: str | None

    def __init__(self, faults: Iterable[Fault] | str, source: str | None = None) -> None:
        if isinstance(faults, str):
            faults = (plain(faults),)
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self._printed())

    @classmethod
    def gathered(cls, errors: Sequence[QueryError]) -> QueryError:
        """The faults of several errors about one query as one error, in order of position."""
        faults = {fault: None for error in errors for fault in error.faults}
        source = next((error.source for error in errors if error.source is not None), None)
        return cls(sorted(faults, key=lambda f: (f.line or 0, f.column or 0)), source)

    def __reduce__(self) -> tuple[type[QueryError], tuple[tuple[Fault, ...], str | None]]:
        return type(self), (self.faults, self.source)

    def __str__(self) -> str:
        return self._printed()

    def _printed(self) -> str:
        shown = [_shown(fault, self.source) for fault in self.faults]
        if len(shown) == 1:
            return shown[0]
        return "\n\n".join([f"{len(shown)} faults in the query", *shown])


def plain(message: str, hint: str | None = None) -> Fault:
    """A fault of a query that has no text, or of no place in it."""
    return Fault(None, None, 0, message, hint)


def located(diagnostic: Diagnostic, source: str | None) -> Fault:
    """A finding with its line and column in the source text."""
    if diagnostic.span is None or source is None:
        return plain(diagnostic.message, diagnostic.hint)
    start = min(diagnostic.span.start, len(source))
    line_start = source.rfind("\n", 0, start) + 1
    line = source.count("\n", 0, start) + 1
    length = max(1, diagnostic.span.end - start)
    return Fault(line, start - line_start + 1, length, diagnostic.message, diagnostic.hint)


def _shown(fault: Fault, source: str | None) -> str:
    if fault.line is None or fault.column is None:
        return fault.message + (f"\n  = {fault.hint}" if fault.hint else "")
    parts = [f"line {fault.line}, column {fault.column}: {fault.message}"]
    margin = " " * (2 + len(str(fault.line)))
    if source is not None:
        text = source.split("\n")[fault.line - 1].rstrip("\r")
        # Tabs are printed as one blank each, so that the carets stand under the fault.
        carets = "^" * max(1, min(fault.length, len(text) - fault.column + 1))
        parts.append(f"  {fault.line} | {text}".replace("\t", " "))
        parts.append(f"{margin} | {' ' * (fault.column - 1)}{carets}")
    if fault.hint:
        parts.append(f"{margin} = {fault.hint}")
    return "\n".join(parts)


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A question that offers the known word nearest to this one, if one is near.

    >>> did_you_mean("Speeed", ["speed", "accel"])
    'did you mean speed?'
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.lower(), candidate)
    near = get_close_matches(word.lower(), list(by_folded), n=1, cutoff=0.6)
    return f"did you mean {by_folded[near[0]]}?" if near else None


@dataclass(frozen=True, slots=True)
class Origin:
    """The text that a query was read from, and where in it each part stands.

    Parts are named by tuples: ``("symbol", s)``, ``("predicate", s)``, ``("at_least", s)``,
    ``("at_most", s)``, ``("constraint", x, y)``, ``("return", alias)``,
    ``("column", alias)`` (the attribute inside an aggregate), ``("partition_by", column)``,
    ``("source",)``, ``("order_by",)``, ``("time_unit",)``, ``("max_gap",)``, ``("within",)``,
    ``("emit",)``.
    """

    text: str
    spans: Mapping[tuple[str, ...], Span] = field(default_factory=dict)
