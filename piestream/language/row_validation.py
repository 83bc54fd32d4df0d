"""What a row pattern must satisfy beyond its grammar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.language.clauses import CLAUSES, Clause
from piestream.language.cursor import Cursor
from piestream.language.draft import StreamDraft
from piestream.language.parts import Where
from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    EmptyMatches,
    Exclusion,
    MatchMode,
    PatternNode,
    Permutation,
    Repetition,
    RowPattern,
    SkipMode,
    Variable,
)

__all__ = ["beside_row_pattern", "endless_part", "validate_rows"]

#: What to do with a clause behind a row pattern that stands alone, by its keyword.
_BESIDE = {
    "WHERE": "filter the result; or relate its matches to others: MATCH_RECOGNIZE ( … ) AS m "
    "DEFINE a AS m.n > 3 PATTERN a WITHIN 1 h",
    "RETURN": "MEASURES in its brackets says what a row of the result holds",
    "LIMIT": "take the first rows of the result",
}
_IN_BRACKETS = ("WITHIN", "PARTITION BY", "ORDER BY")


class Report(Protocol):
    """Takes a fault at a part of the query."""

    def __call__(self, where: Where, message: str, hint: str | None = None) -> None: ...


#: One bit of a word for each variable.
MOST_VARIABLES = 62


def validate_rows(
    rows: RowPattern,
    partition_by: Sequence[str],
    source: StreamDraft,
    cursor: Cursor,
    spans: Mapping[Where, Span],
) -> None:
    """Report what does not go together; faults go to the cursor's list."""

    def report(where: Where, message: str, hint: str | None = None) -> None:
        cursor.report(spans.get(where, cursor.span()), message, hint)

    variables = rows.variables
    if not variables:
        report(("pattern",), "the pattern names no variable", "write PATTERN (A B+)")
    facts = sum(len(condition.facts) for condition in rows.conditions)
    if len(variables) + facts > MOST_VARIABLES:
        report(("pattern",), f"a pattern has at most {MOST_VARIABLES} variables and conditions")
    taken = dict.fromkeys(partition_by, "in PARTITION BY")
    if rows.all_rows and source.order_by is not None:
        taken[source.order_by] = "in ORDER BY"
    for measure in rows.measures:
        if measure.alias in taken:
            message = f"the output already has a column {measure.alias}, {taken[measure.alias]}"
            report(("return", measure.alias), message, "name it differently with AS")
    for column in (source.order_by, source.sequence):
        if column is not None and column in partition_by:
            report(("order_by",), f"{column} is in PARTITION BY and in ORDER BY")
    if rows.all_rows and _has_exclusion(rows.pattern) and rows.empty_matches.value[:4] == "WITH":
        report(("all",), "WITH UNMATCHED ROWS cannot be given with an exclusion {- -}")
    if rows.mode is MatchMode.INCREMENTAL:
        _validate_incremental(rows, report)
    else:
        _validate_skip(rows, report)


def _validate_incremental(rows: RowPattern, report: Report) -> None:
    """Its matches end at different rows, and may overlap."""
    if rows.skip.mode is not SkipMode.TO_NEXT_ROW:
        report(
            ("skip",) if rows.skip.variable is not None else ("incremental",),
            "INCREMENTAL MATCH gives the longest match that ends at each row, so that matches overlap",
            "write AFTER MATCH SKIP TO NEXT ROW",
        )
    if rows.empty_matches is EmptyMatches.WITH_UNMATCHED:
        report(("all",), "WITH UNMATCHED ROWS cannot be given with INCREMENTAL MATCH")
    if _has_end(rows.pattern):
        report(("pattern",), "$ cannot be used with INCREMENTAL MATCH, which waits for no end")
    for condition in rows.conditions:
        if any(item.function == "MATCH_NUMBER" for _, item in condition.all_items):
            message = "MATCH_NUMBER() in a condition has no meaning with INCREMENTAL MATCH"
            report(("predicate", condition.variable), message)


def _has_end(node: PatternNode) -> bool:
    match node:
        case Anchor(at_start):
            return not at_start
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return any(map(_has_end, parts))
        case Repetition(part) | Exclusion(part):
            return _has_end(part)
    return False


def beside_row_pattern(clauses: Sequence[Clause]) -> Iterator[Diagnostic]:
    """What is wrong with the clauses of a query that is ``FROM t MATCH_RECOGNIZE ( … )`` and has more."""
    for clause in clauses:
        keyword = clause.keyword
        if keyword == "FROM" or keyword not in CLAUSES:  # others have been reported
            continue
        hint = _BESIDE.get(keyword, "leave it out")
        if keyword in _IN_BRACKETS:
            hint = "write it in the brackets of MATCH_RECOGNIZE"
        yield Diagnostic(clause.span, f"{keyword} does not go with MATCH_RECOGNIZE alone", hint)


def endless_part(node: PatternNode) -> Repetition | None:
    """The first part of a pattern that may read any number of rows; None if there is none."""
    match node:
        case Variable() | Anchor():
            return None
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return next((found for part in parts if (found := endless_part(part))), None)
        case Exclusion(part):
            return endless_part(part)
        case Repetition(part, _, most):
            reads_rows = bool(_first_names(part))
            return node if most is None and reads_rows else endless_part(part)


def _has_exclusion(node: PatternNode) -> bool:
    match node:
        case Exclusion():
            return True
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return any(map(_has_exclusion, parts))
        case Repetition(part):
            return _has_exclusion(part)
    return False


def _validate_skip(rows: RowPattern, report: Report) -> None:
    """A row to skip to is in every match, and never its first."""
    target = rows.skip.variable
    if target is None:
        return
    members = set(rows.members(target))
    if not members <= set(rows.variables):
        report(("skip",), f"{target} is not a variable of the pattern")
        return
    if _can_lack(rows.pattern, members):
        report(
            ("skip",),
            f"a match may have no row of {target}, and there would be none to skip to",
            f"every match must have a row of {target}, as in PATTERN (A {target}+)",
        )
    elif not _never_first(rows, members):
        report(
            ("skip",),
            f"the row of {target} may be the first of the match: the search would never go on",
            "skip to a variable that stands behind another",
        )


def _can_lack(node: PatternNode, members: set[str]) -> bool:
    """Whether some match of one row or more has no row of these variables.

    A match without rows goes on at the next row whatever SKIP says.
    """
    return any(rows for rows in _without(node, members))


def _without(node: PatternNode, members: set[str]) -> set[bool]:
    """What can be matched without these variables: some rows (True), no rows (False)."""
    match node:
        case Variable(name):
            return set() if name in members else {True}
        case Anchor():
            return {False}
        case Exclusion(part):
            return _without(part, members)
        case Alternation(parts):
            return {rows for part in parts for rows in _without(part, members)}
        case Concatenation(parts) | Permutation(parts):
            found = {False}
            for part in parts:
                found = {a or b for a in found for b in _without(part, members)}
            return found
        case Repetition(part, least):
            inside = _without(part, members)
            return inside | {False} if least == 0 else inside


def _never_first(rows: RowPattern, members: set[str]) -> bool:
    """Whether the row to skip to always has another one before it.

    For TO FIRST it is the first of these variables, for TO LAST the last: that is the first row of a
    match where a match can begin with one and, for TO LAST, have no other.
    """
    if rows.skip.mode.value == "TO FIRST":
        return not _first_names(rows.pattern) & members
    return not _begins_and_ends(rows.pattern, members)


def _first_names(node: PatternNode) -> set[str]:
    match node:
        case Variable(name):
            return {name}
        case Anchor():
            return set()
        case Exclusion(part) | Repetition(part):
            return _first_names(part)
        case Alternation(parts) | Permutation(parts):
            return {name for part in parts for name in _first_names(part)}
        case Concatenation(parts):
            found: set[str] = set()
            for part in parts:
                found |= _first_names(part)
                if not _is_nullable(part):
                    break
            return found


def _is_nullable(node: PatternNode) -> bool:
    return False in _without(node, set())


def _begins_and_ends(node: PatternNode, members: set[str]) -> bool:
    """Whether a match can begin with one of these variables, and have no other row of them."""
    return "only first" in _shapes(node, members)


#: Of what can be matched: no rows, rows without any of the variables, one of them that is the first
#: row, or anything else.
_NOTHING, _NONE_OF_THEM, _ONLY_FIRST, _OTHERWISE = "nothing", "none", "only first", "otherwise"


def _shapes(node: PatternNode, members: set[str]) -> set[str]:
    match node:
        case Variable(name):
            return {_ONLY_FIRST if name in members else _NONE_OF_THEM}
        case Anchor():
            return {_NOTHING}
        case Exclusion(part):
            return _shapes(part, members)
        case Alternation(parts):
            return {shape for part in parts for shape in _shapes(part, members)}
        case Permutation(parts):
            found: set[str] = set()
            for first in range(len(parts)):
                rest = [part for n, part in enumerate(parts) if n != first]
                shapes = _shapes(parts[first], members)
                for part in rest:
                    shapes = {_followed(a, b) for a in shapes for b in _shapes(part, members)}
                found |= shapes
            return found
        case Concatenation(parts):
            found = {_NOTHING}
            for part in parts:
                found = {_followed(a, b) for a in found for b in _shapes(part, members)}
            return found
        case Repetition(part, least, most):
            inside = _shapes(part, members)
            found = inside if least else inside | {_NOTHING}
            if most is None or most > 1:
                twice = {_followed(a, b) for a in inside for b in inside}
                found = (found | twice) if least < 2 else twice
            return found


def _followed(first: str, second: str) -> str:
    if first == _NOTHING:
        return second
    if second == _NOTHING:
        return first
    if second == _NONE_OF_THEM:
        return first
    return _OTHERWISE
