"""PATTERN: constraints joined with AND, each a list of alternatives on one pair of symbols.

``NOT ( … )`` holds constraints of its own, which no interval of the symbol that is absent may satisfy.
"""

from __future__ import annotations

from collections.abc import Sequence

from piestream.expressions.tokens import Kind, Token
from piestream.language.constraints import read_alternatives, words_of
from piestream.language.cursor import Cursor
from piestream.language.draft import AbsenceSpec, ConstraintSpec
from piestream.language.endpoints import COMPARISONS, read_comparisons
from piestream.relations import ANY, Relation, inverse, names, relations_named

__all__ = ["read_pattern"]

_ABSENCE_HINT = "write what no interval may be: NOT (c after a AND c.ts - a.te <= 10 s)"


def read_pattern(
    cursor: Cursor, symbols: Sequence[str]
) -> tuple[list[ConstraintSpec], list[AbsenceSpec]]:
    """The constraints of a PATTERN clause and its NOTs; faults go to the cursor's list."""
    constraints: list[ConstraintSpec] = []
    absences: list[AbsenceSpec] = []
    if cursor.at_end:
        cursor.report(cursor.peek(), "PATTERN is empty", "write PATTERN a meets b")
    for conjunct in _conjuncts(cursor):
        conjunct = _unwrapped(conjunct)
        if _is_absence(conjunct):
            absences += _read_absence(conjunct, symbols)
        else:
            constraints += _read_conjunct(conjunct, symbols)
    return constraints, absences


def _conjuncts(cursor: Cursor) -> list[Cursor]:
    found: list[Cursor] = []
    current: list[Token] = []
    of_between = False  # the AND that comes next belongs to a BETWEEN
    depth = 0  # of the brackets of a NOT
    for token in [*cursor.tokens, cursor.end]:
        if depth and token is not cursor.end:
            depth += token.is_sign("(") - token.is_sign(")")
            current.append(token)
        elif of_between and token.upper == "AND":
            current.append(token)
            of_between = False
        elif (token.kind is Kind.END and token is cursor.end) or token.upper == "AND":
            part = Cursor(current, token.span, cursor.diagnostics)
            if not current:
                cursor.report(token, "a constraint is missing here", "write: a meets b")
            else:
                found.append(part)
            current = []
        elif token.upper == "OR":
            hint = "alternatives are separated by ; or |"
            cursor.report(token, f"{token.text} does not belong in PATTERN", hint)
            current.append(Token(Kind.SIGN, ";", token.span))
        elif token.is_sign(","):
            hint = "constraints join with AND"
            cursor.report(token, f"{token.text} does not belong in PATTERN", hint)
            if current:
                found.append(Cursor(current, token.span, cursor.diagnostics))
            current = []
        else:
            depth = int(token.is_sign("(") and bool(current) and current[-1].upper == "NOT")
            current.append(token)
            of_between |= token.upper == "BETWEEN"
    return found


def _unwrapped(cursor: Cursor) -> Cursor:
    """Without brackets around the whole."""
    while (
        len(cursor.tokens) > 2 and cursor.tokens[0].is_sign("(") and cursor.tokens[-1].is_sign(")")
    ):
        cursor = Cursor(cursor.tokens[1:-1], cursor.tokens[-1].span, cursor.diagnostics)
    return cursor


def _is_absence(cursor: Cursor) -> bool:
    """Whether a conjunct is ``NOT (``, behind which everything is in its brackets."""
    tokens = cursor.tokens
    return len(tokens) > 1 and tokens[0].upper == "NOT" and tokens[1].is_sign("(")


def _read_absence(cursor: Cursor, symbols: Sequence[str]) -> list[AbsenceSpec]:
    """``NOT ( constraints )``; none if what is in the brackets cannot be read."""
    bracket, last = cursor.tokens[1], cursor.tokens[-1]
    depth = sum(t.is_sign("(") for t in cursor.tokens) - sum(t.is_sign(")") for t in cursor.tokens)
    if depth > 0:
        cursor.report(bracket, "this bracket is not closed", "write NOT (c after a AND …)")
        return []
    if not last.is_sign(")"):
        first = _behind_bracket(cursor)
        cursor.report(first, f"{first.text} does not belong behind NOT (…)", "join it with AND")
        return []
    inside = Cursor(cursor.tokens[2:-1], last.span, cursor.diagnostics)
    if inside.at_end:
        cursor.report(bracket.span.joined(last.span), "NOT (…) is empty", _ABSENCE_HINT)
        return []
    found: list[ConstraintSpec] = []
    before = len(cursor.diagnostics)
    for conjunct in _conjuncts(inside):
        conjunct = _unwrapped(conjunct)
        if _is_absence(conjunct):
            message = "a NOT stands in the brackets of another"
            cursor.report(conjunct.tokens[0], message, "join it with AND behind them")
        else:
            found += _read_conjunct(conjunct, symbols)
    if len(cursor.diagnostics) > before:
        return []
    return [AbsenceSpec(tuple(found), cursor.tokens[0].span.joined(last.span))]


def _behind_bracket(cursor: Cursor) -> Token:
    """The first token behind the brackets of a NOT."""
    depth = 0
    for number, token in enumerate(cursor.tokens[1:-1], 2):
        depth += token.is_sign("(") - token.is_sign(")")
        if not depth:
            return cursor.tokens[number]
    return cursor.tokens[-1]


def _read_conjunct(cursor: Cursor, symbols: Sequence[str]) -> list[ConstraintSpec]:
    cursor = _unwrapped(cursor)
    if any(token.upper == "NOT" or token.is_sign("!") for token in cursor.tokens[:2]):
        _report_negation(cursor, symbols)
        return []
    segments = list(cursor.split(";", "|"))
    for segment in segments:
        if not segment.tokens:
            segment.report(segment.end, "an alternative is missing here")
            return []
    if any(_compares_endpoints(segment) for segment in segments):
        return _read_with_comparisons(segments, symbols, cursor)
    words = [words_of(segment) for segment in segments]
    if any(w is None for w in words):
        return []
    written = [w for w in words if w]
    if len(written) == 1 and len(written[0]) == 1:
        only = written[0][0]
        if only.is_quoted or only.text in symbols or relations_named(only.text) is None:
            return [ConstraintSpec(only.text, None, Relation(0), only.span, only.span, only.span)]
    return _united(read_alternatives(written, symbols, cursor), cursor)


def _report_negation(cursor: Cursor, symbols: Sequence[str]) -> None:
    """NOT without brackets is not part of a pattern; the hint is what was probably meant by it."""
    sign = next(t for t in cursor.tokens if t.upper == "NOT" or t.is_sign("!"))
    rest = [token for token in cursor.tokens if token is not sign]
    negated = Cursor(rest, cursor.end.span, [])
    constraints = _read_conjunct(negated, symbols) if rest else []
    hint = "write the relations that may hold: a meets; overlaps b"
    if len(constraints) == 1:
        (only,) = constraints
        if only.y is None:
            hint = f"where {only.x} does not hold is a symbol too: DEFINE not_{only.x} AS NOT (...)"
            other = next((each for each in symbols if each != only.x), None)
            if other is not None:
                there_is_none = f"NOT ({only.x} intersects {other})"
                hint = f"say where there is no {only.x}, as in {there_is_none}; {hint}"
        elif not negated.diagnostics:
            others = ANY & ~only.relations
            if others and not only.relations & ~ANY:
                listed = "; ".join(names(others))
                hint = f"write the relations that may hold: {only.x} {listed} {only.y}"
    cursor.report(sign, "a constraint lists the relations that may hold; it has no NOT", hint)


def _compares_endpoints(segment: Cursor) -> bool:
    return any(t.is_sign(*COMPARISONS) or t.upper == "BETWEEN" for t in segment.tokens)


def _read_with_comparisons(
    segments: list[Cursor], symbols: Sequence[str], cursor: Cursor
) -> list[ConstraintSpec]:
    """Alternatives of which at least one compares endpoints."""
    if len(segments) == 1:
        return read_comparisons(segments[0])
    alternatives: list[ConstraintSpec] = []
    for segment in segments:
        if _compares_endpoints(segment):
            comparisons = read_comparisons(segment)
            if len(comparisons) > 1:
                segment.report(
                    segment.span(),
                    "one alternative compares two endpoints",
                    "write a chain of comparisons as a constraint of its own, joined with AND",
                )
                return []
            if any(comparison.distances for comparison in comparisons):
                segment.report(
                    segment.span(),
                    "a distance is no alternative",
                    "a distance holds besides the relations: join it with AND",
                )
                return []
            alternatives += comparisons
        else:
            words = words_of(segment)
            if words is None:
                return []
            alternatives += read_alternatives([words], symbols, cursor)
    return _united(alternatives, cursor)


def _united(alternatives: list[ConstraintSpec], cursor: Cursor) -> list[ConstraintSpec]:
    """Alternatives on one pair as one constraint."""
    if not alternatives:
        return []
    first = alternatives[0]
    assert first.y is not None
    relations, span = first.relations, first.span
    for other in alternatives[1:]:
        if (other.x, other.y) == (first.x, first.y):
            relations |= other.relations
        elif (other.y, other.x) == (first.x, first.y):
            relations |= inverse(other.relations)
        else:
            assert other.span is not None
            cursor.report(
                other.span,
                f"this alternative is about {other.x} and {other.y}, "
                f"the first about {first.x} and {first.y}",
                "alternatives are about one pair; join different pairs with AND",
            )
        if span is not None and other.span is not None:
            span = span.joined(other.span)
    return [ConstraintSpec(first.x, first.y, relations, span, first.x_span, first.y_span)]
