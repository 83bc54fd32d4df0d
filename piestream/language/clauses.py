"""Where the clauses of a query begin and end, whatever their order."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise, zip_longest

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor, depths
from piestream.language.emission import EMISSION_CLAUSES

__all__ = ["CLAUSES", "Clause", "clauses_of"]

CLAUSES = (
    "FROM",
    "WITH",
    "PARTITION BY",
    "ORDER BY",
    "MAX GAP",
    "LET",
    "DEFINE",
    "PATTERN",
    "WITHIN",
    "WHERE",
    "EMIT",
    *EMISSION_CLAUSES,
    "RETURN",
)

_RETURNED = "what a row of the result holds stands in RETURN, behind the pattern"
#: Clauses of SQL and of other pattern languages that this language does not have, and what to do.
_FOREIGN = {
    "SELECT": _RETURNED,
    "MEASURES": _RETURNED,
    "HAVING": "a condition on a match stands in WHERE, as WHERE AVG(a.speed) > 70",
    "GROUP": "PARTITION BY makes a stream of its own of each key",
    "JOIN": "the intervals of two streams are related in PATTERN: WITH names another stream",
    "UNION": "put the events of both into one frame, or name another stream by WITH",
    "WINDOW": "how long a match may take is written WITHIN 5 minutes",
    "MATCH_RECOGNIZE": "it stands behind the name of a stream: FROM trades MATCH_RECOGNIZE ( … )",
    "INSERT": "a query gives rows; write them with the frame's own methods, or with -o",
}
#: Expressions may say FROM (``EXTRACT(HOUR FROM ts)``), ORDER and MAX inside brackets.
_ONLY_OUTSIDE_BRACKETS = frozenset({"FROM", "WITH", "PARTITION BY", "ORDER BY", "MAX GAP", "LET"})
#: Words that are no keywords where a name or an expression may still go on.
_NOT_RESERVED = frozenset(EMISSION_CLAUSES)
#: What may be followed by a query in brackets, or by the columns of intervals' ends.
_STREAMS = frozenset({"FROM", "WITH"})
#: Words after which an expression goes on, so that no clause begins there.
_INSIDE_EXPRESSIONS = frozenset(
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
        "UNTIL",
        "DISTINCT",
        "AS",
        "AT",
        "BY",
        "ON",
    ]
)


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: its keyword, where that stands, and a cursor over the rest."""

    keyword: str
    span: Span
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class _Keyword:
    """Where a clause begins."""

    name: str
    start: int  # among the tokens
    length: int  # one word or two
    is_exact: bool = True  # else it is misspelt, or of another language

    @property
    def stop(self) -> int:
        return self.start + self.length

    def span(self, tokens: list[Token]) -> Span:
        return tokens[self.start].span.joined(tokens[self.stop - 1].span)


def clauses_of(tokens: list[Token], diagnostics: list[Diagnostic]) -> list[Clause]:
    """The clauses in the order of the text; a misspelt one is reported and read as what it meant."""
    *tokens, end = tokens
    while tokens and tokens[-1].is_sign(";"):
        tokens.pop()
    keywords = _keywords(tokens)
    diagnostics.extend(_misspelt(tokens, keyword) for keyword in keywords if not keyword.is_exact)
    first = keywords[0].start if keywords else len(tokens)
    if first:
        span = tokens[0].span.joined(tokens[first - 1].span)
        hint = "a query begins with FROM, and each clause with its keyword"
        diagnostics.append(Diagnostic(span, "this is not a clause of a query", hint))
    clauses: list[Clause] = []
    for keyword, following in zip_longest(keywords, keywords[1:]):
        inside = tokens[keyword.stop : following.start if following else len(tokens)]
        span = keyword.span(tokens)
        if following:
            closing = tokens[following.start].span
        else:
            last = inside[-1].span.end if inside else span.end
            closing = Span(min(last, end.span.start), min(last, end.span.start) + 1)
        clauses.append(Clause(keyword.name, span, Cursor(inside, closing, diagnostics)))
    return clauses


def _misspelt(tokens: list[Token], keyword: _Keyword) -> Diagnostic:
    written = " ".join(token.text for token in tokens[keyword.start : keyword.stop])
    meant = f"did you mean {keyword.name}?"
    hint = meant if keyword.name in CLAUSES else _FOREIGN[keyword.name]
    behind = tokens[keyword.stop :]
    if keyword.name == "SELECT" and any(token.upper == "MATCH_RECOGNIZE" for token in behind):
        hint = "leave it out: MEASURES in the brackets says what a row of the result holds"
    return Diagnostic(keyword.span(tokens), f"there is no clause {written}", hint)


def _keywords(tokens: list[Token]) -> list[_Keyword]:
    depth = depths(tokens)
    defined = {
        token.text
        for token, after in pairwise(tokens)
        if after.upper == "AS" and token.kind is Kind.WORD
    }
    found: list[_Keyword] = []
    index = 0
    while index < len(tokens):
        # The word after a keyword is what the clause is about, whatever it looks like.
        is_first = bool(found) and index == found[-1].stop and found[-1].name != "NO OVERLAP"
        if is_first and found[-1].name in _STREAMS and tokens[index].is_sign("("):
            index = _behind_bracket(depth, index)  # its clauses are those of a query of its own
            continue
        if _begins_row_pattern(tokens, index, found):
            index = _behind_bracket(depth, index + 1)
            continue
        if _names_endpoints(tokens, index, found):
            index += 1
            continue
        keyword = _keyword_at(tokens, index, depth[index], defined, is_first)
        if keyword is None:
            index += 1
        else:
            found.append(keyword)
            index = keyword.stop
    return found


def _behind_bracket(depth: list[int], index: int) -> int:
    """The first token behind the bracket that closes the one at ``index``."""
    rest = range(index + 1, len(depth))
    return next((i + 1 for i in rest if depth[i] == depth[index]), len(depth))


def _begins_row_pattern(tokens: list[Token], index: int, found: list[_Keyword]) -> bool:
    """Whether this is the MATCH_RECOGNIZE of a stream; what follows in brackets are its clauses.

    Behind a clause of the stream it is refused, but its brackets are no clauses of the query either.
    """
    return (
        tokens[index].upper == "MATCH_RECOGNIZE"
        and bool(found)
        and found[-1].name in {*_STREAMS, "PARTITION BY", "ORDER BY", "MAX GAP"}
        and index > found[-1].stop
        and index + 1 < len(tokens)
        and tokens[index + 1].is_sign("(")
    )


def _names_endpoints(tokens: list[Token], index: int, found: list[_Keyword]) -> bool:
    """Whether this is the FROM of ``infusions FROM started TO stopped``."""
    return (
        tokens[index].upper == "FROM"
        and bool(found)
        and found[-1].name in _STREAMS
        and index > found[-1].stop
        and index + 2 < len(tokens)
        and tokens[index + 2].upper == "TO"
    )


def _keyword_at(
    tokens: list[Token], index: int, depth: int, defined: set[str], is_first: bool
) -> _Keyword | None:
    token = tokens[index]
    if token.kind is not Kind.WORD:
        return None
    before = tokens[index - 1] if index else None
    following = tokens[index + 1].upper if index + 1 < len(tokens) else ""
    if before is not None and before.is_sign("."):
        return None
    if token.text in defined:
        return None  # a reserved word used as a symbol: reported where it is defined
    for name in CLAUSES:
        first, *second = name.split()
        if token.upper != first or (depth and name in _ONLY_OUTSIDE_BRACKETS):
            continue
        if second and following != second[0]:
            continue
        if name in _NOT_RESERVED and (depth or is_first or not _begins_limit(tokens, index)):
            continue
        if name == "FROM" and before is not None and before.upper == "DISTINCT":
            continue
        if name == "LET" and not _names_something(tokens, index, is_first):
            continue  # a column, a stream or a symbol of that name
        return _Keyword(name, index, 1 + len(second))
    return None if is_first or depth else _inexact_keyword_at(tokens, index)


def _names_something(tokens: list[Token], index: int, is_first: bool) -> bool:
    """Whether a LET begins a clause: behind a whole one, and before a name."""
    if is_first or (index and not _may_end_expression(tokens[index - 1])):
        return False
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    return following is None or following.kind in (Kind.WORD, Kind.QUOTED)


def _begins_limit(tokens: list[Token], index: int) -> bool:
    """Whether a clause such as LIMIT may begin here, rather than a column of that name stand."""
    before = tokens[index - 1]
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if not _may_end_expression(before):
        return False
    if after is None or after.is_sign("-"):  # LIMIT -1 is refused as what it is meant to be
        return True
    return after.kind is not Kind.SIGN and after.upper not in _INSIDE_EXPRESSIONS


def _inexact_keyword_at(tokens: list[Token], index: int) -> _Keyword | None:
    """A keyword of another language, or one that is spelt nearly like ours."""
    token = tokens[index]
    if index and not _may_end_expression(tokens[index - 1]):
        return None
    after = tokens[index + 1] if index + 1 < len(tokens) else None
    if after is not None and (after.is_sign(".", "(", ",") or after.upper == "AS"):
        return None
    if token.upper in _FOREIGN:
        return _Keyword(token.upper, index, 1, is_exact=False)
    following = after.upper if after is not None else ""
    near: list[tuple[float, str, int]] = []
    for name in CLAUSES:
        words = name.split()
        if name == "LET" or (len(words) == 2 and following not in ("BY", "GAP", "PER", "OVERLAP")):
            continue
        written = f"{token.upper} {following}" if len(words) == 2 else token.upper
        if len(token.text) >= 3 and (likeness := _likeness(written, name)) >= 0.75:
            near.append((likeness, name, len(words)))
    if not near:
        return None
    _, name, length = max(near)
    return _Keyword(name, index, length, is_exact=False)


@lru_cache(10_000)
def _likeness(written: str, name: str) -> float:
    matcher = SequenceMatcher(None, written, name)
    if min(matcher.real_quick_ratio(), matcher.quick_ratio()) < 0.75:
        return 0.0
    return matcher.ratio()


def _may_end_expression(token: Token) -> bool:
    """Whether an expression may end here, so that the next word can begin a clause."""
    if token.kind is Kind.SIGN:
        return token.text in (")", "]", ";")
    return token.upper not in _INSIDE_EXPRESSIONS
