"""Where the clauses of a query begin and end, whatever their order."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Reader, depths

__all__ = ["CLAUSES", "Clause", "clauses_of"]

CLAUSES = (
    "FROM",
    "PARTITION BY",
    "ORDER BY",
    "MAX GAP",
    "DEFINE",
    "PATTERN",
    "WITHIN",
    "EMIT",
    "RETURN",
)

#: Clauses of SQL and of other pattern languages that this language does not have.
_FOREIGN = frozenset(
    [
        "SELECT",
        "WHERE",
        "HAVING",
        "LIMIT",
        "GROUP",
        "JOIN",
        "UNION",
        "WINDOW",
        "MEASURES",
        "MATCH_RECOGNIZE",
        "INSERT",
    ]
)
#: Expressions may say FROM (``EXTRACT(HOUR FROM ts)``), ORDER and MAX inside brackets.
_ONLY_OUTSIDE_BRACKETS = frozenset({"FROM", "PARTITION BY", "ORDER BY", "MAX GAP"})


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: its keyword, where that stands, and a reader over the rest."""

    keyword: str
    span: Span
    reader: Reader


def clauses_of(tokens: list[Token], diagnostics: list[Diagnostic]) -> list[Clause]:
    """The clauses in the order of the text; a misspelt one is named and taken for what it meant."""
    *tokens, end = tokens
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    depth = depths(tokens)
    defined = {
        token.text
        for token, after in pairwise(tokens)
        if after.upper == "AS" and token.kind is Kind.WORD
    }
    starts: list[tuple[int, int, str]] = []
    index = 0
    while index < len(tokens):
        # The word after a keyword is what the clause is about, whatever it looks like.
        is_first = bool(starts) and index == starts[-1][0] + starts[-1][1]
        found = _clause_at(tokens, index, depth[index], defined, is_first)
        if found is None:
            index += 1
            continue
        keyword, length, exact = found
        if not exact:
            span = tokens[index].span.joined(tokens[index + length - 1].span)
            written = " ".join(t.text for t in tokens[index : index + length])
            hint = (
                f"did you mean {keyword}?"
                if keyword in CLAUSES
                else f"the clauses are {', '.join(CLAUSES)}"
            )
            diagnostics.append(Diagnostic(span, f"there is no clause {written}", hint))
        starts.append((index, length, keyword))
        index += length
    first = starts[0][0] if starts else len(tokens)
    if first:
        span = tokens[0].span.joined(tokens[first - 1].span)
        hint = "a query begins with FROM, and each clause with its keyword"
        diagnostics.append(Diagnostic(span, "this is not a clause of a query", hint))
    clauses: list[Clause] = []
    if not starts:
        return clauses
    bounds = [*(start for start, _, _ in starts[1:]), len(tokens)]
    for (start, length, keyword), stop in zip(starts, bounds, strict=True):
        span = tokens[start].span.joined(tokens[start + length - 1].span)
        inside = tokens[start + length : stop]
        last = inside[-1].span.end if inside else span.end
        closing = tokens[stop].span if stop < len(tokens) else Span(last, last + 1)
        if stop == len(tokens):
            closing = Span(min(last, end.span.start), min(last, end.span.start) + 1)
        clauses.append(Clause(keyword, span, Reader(inside, closing, diagnostics)))
    return clauses


def _clause_at(
    tokens: list[Token], index: int, depth: int, defined: set[str], is_first: bool
) -> tuple[str, int, bool] | None:
    """The clause that begins here: its keyword, how many words that is, whether it is exact."""
    token = tokens[index]
    if token.kind is not Kind.WORD:
        return None
    before = tokens[index - 1] if index else None
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if before is not None and before.is_sign("."):
        return None
    following = after.upper if after is not None else ""
    if token.text in defined:
        return None  # a reserved word used as a symbol: said so where it is defined
    for keyword in CLAUSES:
        first, *second = keyword.split()
        if token.upper != first or (depth and keyword in _ONLY_OUTSIDE_BRACKETS):
            continue
        if second and following != second[0]:
            continue
        if keyword == "FROM" and before is not None and before.upper == "DISTINCT":
            continue
        return keyword, 1 + len(second), True
    return None if is_first else _misspelt(token, before, after, depth, defined)


def _misspelt(
    token: Token, before: Token | None, after: Token | None, depth: int, defined: set[str]
) -> tuple[str, int, bool] | None:
    if depth or token.text in defined or (before is not None and not _ends_an_item(before)):
        return None
    if after is not None and (after.is_sign(".", "(", ",") or after.upper == "AS"):
        return None
    if token.upper in _FOREIGN:
        return token.upper, 1, False
    following = after.upper if after is not None else ""
    near: list[tuple[float, str, int]] = []
    for keyword in CLAUSES:
        words = keyword.split()
        if len(words) == 2 and following not in ("BY", "GAP"):
            continue
        written = f"{token.upper} {following}" if len(words) == 2 else token.upper
        likeness = SequenceMatcher(None, written, keyword).ratio()
        if len(token.text) >= 3 and likeness >= 0.75:
            near.append((likeness, keyword, len(words)))
    if not near:
        return None
    _, keyword, length = max(near)
    return keyword, length, False


_JOINING = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "ILIKE",
        "BETWEEN",
        "IS",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "ESCAPE",
        "DISTINCT",
        "AS",
        "AT",
        "BY",
        "ON",
    ]
)


def _ends_an_item(token: Token) -> bool:
    """Whether an operand may end here, so that a word that follows is none of an expression."""
    if token.kind is Kind.SIGN:
        return token.text in (")", "]", ";")
    return token.upper not in _JOINING
