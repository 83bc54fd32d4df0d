"""What is wrong with a query, where, and what was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

__all__ = [
    "MOST_FAULTS",
    "Diagnostic",
    "Origin",
    "QueryError",
    "Span",
    "did_you_mean",
    "located",
]


#: So many faults of a query are kept and printed.
MOST_FAULTS = 50
#: A longer line of the source is cut around the fault, and a longer message at its end.
_LINE_WIDTH = 300
_MESSAGE_WIDTH = 2_000


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

    ``faults`` has a `Diagnostic` for each of the first fifty, ``source`` the text of the query if
    there is one.

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

    def __init__(
        self, faults: Iterable[Diagnostic] | str, source: str | None = None, more: int = 0
    ) -> None:
        if isinstance(faults, str):
            faults = (Diagnostic(None, faults),)
        found = tuple(faults)
        self.faults = found[:MOST_FAULTS]
        self.source = source
        self._more = more + len(found) - len(self.faults)
        super().__init__(self._printed())

    @classmethod
    def gathered(cls, errors: Sequence[QueryError]) -> QueryError:
        """The faults of several errors about one query as one error, in order of position."""
        faults = dict.fromkeys(fault for error in errors for fault in error.faults)
        source = next((error.source for error in errors if error.source is not None), None)
        return cls(sorted(faults, key=lambda f: (f.line or 0, f.column or 0)), source)

    def __reduce__(self) -> tuple[type[QueryError], tuple[Any, ...]]:
        return type(self), (self.faults, self.source, self._more)

    def __str__(self) -> str:
        return self._printed()

    def _printed(self) -> str:
        shown = [_shown(fault, self.source) for fault in self.faults]
        if len(shown) == 1 and not self._more:
            return shown[0]
        if self._more:
            shown.append(f"and {self._more:,} more")
        return "\n\n".join([f"{len(self.faults) + self._more:,} faults in the query", *shown])


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
        return _cut(diagnostic.message) + (f"\n  = {_cut(hint)}" if hint else "")
    parts = [f"line {line}, column {column}: {_cut(diagnostic.message)}"]
    margin = " " * (2 + len(str(line)))
    if source is not None:
        text = source.split("\n")[line - 1].rstrip("\r")
        text, at = _around(text, column - 1)
        # Tabs are printed as one blank each, so that the carets stand under the fault.
        carets = "^" * max(1, min(diagnostic.length, len(text) - at))
        parts.append(f"  {line} | {text}".replace("\t", " "))
        parts.append(f"{margin} | {' ' * at}{carets}")
    if hint:
        parts.append(f"{margin} = {_cut(hint)}")
    return "\n".join(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _MESSAGE_WIDTH else f"{text[:_MESSAGE_WIDTH]} ..."


def _around(line: str, at: int) -> tuple[str, int]:
    """The part of a line around a place, and where in it that is."""
    if len(line) <= _LINE_WIDTH:
        return line, at
    start = max(0, at - _LINE_WIDTH // 3)
    before, after = "... " * (start > 0), " ..." * (start + _LINE_WIDTH < len(line))
    return before + line[start : start + _LINE_WIDTH] + after, at - start + len(before)


#: Longer words are not compared with those that are known.
_LONGEST_WORD = 200


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A question that offers the known word nearest to this one, if one is near.

    >>> did_you_mean("Speeed", ["speed", "accel"])
    'did you mean speed?'
    """
    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(candidate.lower(), candidate)
    if len(word) > _LONGEST_WORD:
        return None
    near = get_close_matches(word.lower(), list(by_folded), n=1, cutoff=0.6)
    return f"did you mean {by_folded[near[0]]}?" if near else None


@dataclass(frozen=True, slots=True)
class Origin:
    """The text that a query was read from, and where in it each part stands.

    Parts are named by tuples: ``("symbol", s)``, ``("predicate", s)``, ``("at_least", s)``,
    ``("at_most", s)``, ``("at_least_events", s)``, ``("at_most_events", s)``, ``("constraint", x, y)``, ``("return", alias)``,
    ``("column", alias)`` (the attribute inside an aggregate), ``("partition_by", column)``,
    ``("source",)``, ``("order_by",)``, ``("time_unit",)``, ``("max_gap",)``, ``("within",)``, ``("within", s)``,
    ``("emit",)``.
    """

    text: str
    spans: Mapping[tuple[str, ...], Span] = field(default_factory=dict)
