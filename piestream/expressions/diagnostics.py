"""What is wrong with a query, where, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

__all__ = [
    "Diagnostic",
    "Origin",
    "QueryError",
    "Span",
    "did_you_mean",
    "located",
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
class Diagnostic:
    """One thing that is wrong with a query, and perhaps what to do about it.

    ``span`` is its place in the source text, None if it has none. `located` adds line and
    column, which count from 1.
    """

    span: Span | None
    message: str
    hint: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def length(self) -> int:
        """How many characters of the source text are at fault."""
        return 0 if self.span is None else max(1, self.span.end - self.span.start)

    def moved(self, distance: int) -> Diagnostic:
        """The same of a text that begins ``distance`` characters earlier."""
        return self if self.span is None else replace(self, span=self.span.moved(distance))


class QueryError(ValueError):
    """All the faults that were found in a query, each with its line and carets.

    ``faults`` has a `Diagnostic` for each, ``source`` the text of the query if there is one.

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

    faults: tuple[Diagnostic, ...]
    source: str | None

    def __init__(self, faults: Iterable[Diagnostic] | str, source: str | None = None) -> None:
        if isinstance(faults, str):
            faults = (Diagnostic(None, faults),)
        self.faults = tuple(faults)
        self.source = source
        super().__init__(self._printed())

    @classmethod
    def gathered(cls, errors: Sequence[QueryError]) -> QueryError:
        """The faults of several errors about one query as one error, in order of position."""
        faults = dict.fromkeys(fault for error in errors for fault in error.faults)
        source = next((error.source for error in errors if error.source is not None), None)
        return cls(sorted(faults, key=lambda f: (f.line or 0, f.column or 0)), source)

    def __reduce__(self) -> tuple[type[QueryError], tuple[tuple[Diagnostic, ...], str | None]]:
        return type(self), (self.faults, self.source)

    def __str__(self) -> str:
        return self._printed()

    def _printed(self) -> str:
        shown = [_shown(fault, self.source) for fault in self.faults]
        if len(shown) == 1:
            return shown[0]
        return "\n\n".join([f"{len(shown)} faults in the query", *shown])


def located(diagnostic: Diagnostic, source: str | None) -> Diagnostic:
    """A diagnostic with its line and column in the source text; without a text it has no place.

    >>> located(Diagnostic(Span(4, 6), "no such column"), "a >\\nbb").line
    2
    """
    if diagnostic.span is None or source is None:
        return Diagnostic(None, diagnostic.message, diagnostic.hint)
    start = min(diagnostic.span.start, len(source))
    line_start = source.rfind("\n", 0, start) + 1
    return replace(
        diagnostic,
        span=Span(start, diagnostic.span.end),
        line=source.count("\n", 0, start) + 1,
        column=start - line_start + 1,
    )


def _shown(diagnostic: Diagnostic, source: str | None) -> str:
    line, column, hint = diagnostic.line, diagnostic.column, diagnostic.hint
    if line is None or column is None:
        return diagnostic.message + (f"\n  = {hint}" if hint else "")
    parts = [f"line {line}, column {column}: {diagnostic.message}"]
    margin = " " * (2 + len(str(line)))
    if source is not None:
        text = source.split("\n")[line - 1].rstrip("\r")
        # Tabs are printed as one blank each, so that the carets stand under the fault.
        carets = "^" * max(1, min(diagnostic.length, len(text) - column + 1))
        parts.append(f"  {line} | {text}".replace("\t", " "))
        parts.append(f"{margin} | {' ' * (column - 1)}{carets}")
    if hint:
        parts.append(f"{margin} = {hint}")
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
