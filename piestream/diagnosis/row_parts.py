"""The parts of a row pattern as queries of their own, and row patterns with a part of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from piestream.language import parse
from piestream.language.model import Query
from piestream.language.parser import query as read_query
from piestream.language.printer import name as written
from piestream.language.row_patterns import (
    Alternation,
    Anchor,
    Concatenation,
    EmptyMatches,
    Exclusion,
    MatchMode,
    Measure,
    PatternNode,
    Permutation,
    Repetition,
    RowPattern,
    Skip,
    SkipMode,
    Variable,
)
from piestream.language.row_printer import row_query_text

__all__ = [
    "FIRST",
    "LAST",
    "MATCH",
    "VARIABLE",
    "beginnings",
    "measures",
    "of_match",
    "other_pattern",
    "parts_of",
    "places_in",
    "rewritten",
    "with_all_rows",
    "with_pattern",
]

#: Columns of tables that nobody sees; no column of a user's is called so. The number of a match, the
#: variable of a row, and the places of a match's first and last row.
MATCH, VARIABLE, FIRST, LAST = "match:", "variable:", "first:", "last:"


def measures(text: str) -> tuple[Measure, ...]:
    """Measures that name no variable."""
    rows = read_query(
        f"FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {text} PATTERN (A) DEFINE A AS x > 1)"
    ).rows
    assert rows is not None
    return rows.measures


def of_match(name: str) -> tuple[Measure, ...]:
    """The number of a match, and a column's values at its first and its last row."""
    column = written(name)
    return measures(
        f'MATCH_NUMBER() AS "{MATCH}", FIRST({column}) AS "{FIRST}", LAST({column}) AS "{LAST}"'
    )


def with_pattern(query: Query, rows: RowPattern) -> Query:
    """A query with another row pattern over variables of its own, of which some may be left out."""
    conditions = tuple(c for c in rows.conditions if c.variable in rows.variables)
    rows = replace(rows, conditions=conditions)
    return replace(query, rows=rows, symbols=tuple(map(query.symbol, rows.symbols)))


def other_pattern(query: Query, pattern: PatternNode, **changes: Any) -> Query:
    """A query with another pattern over the same variables, which finds a match at every row."""
    assert query.rows is not None
    plain: dict[str, Any] = {
        "within": None, "all_rows": False, "skip": Skip(SkipMode.TO_NEXT_ROW),
        "empty_matches": EmptyMatches.SHOW, "measures": measures("MATCH_NUMBER() AS n"),
        "mode": MatchMode.PREFERRED,
    }  # fmt: skip
    return with_pattern(query, replace(query.rows, pattern=pattern, **{**plain, **changes}))


def rewritten(
    query: Query, conditions: Mapping[str, str], shown: Sequence[tuple[str, str]] | None = None
) -> Query:
    """A query with other conditions of some variables, and other measures: texts and their names.

    As it is read anew, a QueryError says what does not go together.
    """
    texts = None if shown is None else [f"{text} AS {written(alias)}" for text, alias in shown]
    return parse(row_query_text(query, conditions, texts))


def parts_of(rows: RowPattern) -> tuple[PatternNode, ...]:
    """What stands one after the other in a pattern."""
    if isinstance(rows.pattern, Concatenation):
        return rows.pattern.parts
    return (rows.pattern,)


def beginnings(node: PatternNode) -> PatternNode:
    """A pattern that matches whatever a match of this one can begin with: nothing, a part, the whole.

    >>> from piestream.language.row_pattern_text import row_pattern_text
    >>> print(row_pattern_text(beginnings(Concatenation((Variable("A"), Variable("B"))))))
    (A B?) | A?
    """
    match node:
        case Variable():
            return Repetition(node, 0, 1)
        case Anchor():
            return Concatenation(())
        case Exclusion(part):
            return beginnings(part)
        case Alternation(parts):
            return Alternation(tuple(map(beginnings, parts)))
        case Concatenation(parts):
            if len(parts) < 2:
                return beginnings(parts[0]) if parts else node
            rest = beginnings(Concatenation(parts[1:]))
            return Alternation((Concatenation((parts[0], rest)), beginnings(parts[0])))
        case Permutation(parts):
            ways: list[PatternNode] = []
            for number, first in enumerate(parts):
                others = parts[:number] + parts[number + 1 :]
                rest = beginnings(Permutation(others) if len(others) > 1 else others[0])
                ways += [Concatenation((first, rest)), beginnings(first)]
            return Alternation(tuple(ways))
        case Repetition(Variable() as part, _, most):
            return Repetition(part, 0, most)
        case Repetition(part, _, most):
            if most == 1:
                return beginnings(part)
            before = Repetition(part, 0, None if most is None else most - 1)
            return Concatenation((before, beginnings(part)))


def places_in(
    node: PatternNode, whole: Callable[[PatternNode], PatternNode] = lambda part: part
) -> Iterator[tuple[PatternNode, Callable[[PatternNode], PatternNode]]]:
    """Every part of a pattern, with the whole pattern that has another part in its place."""
    yield node, whole
    match node:
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            for number, part in enumerate(parts):

                def among(new: PatternNode, n: int = number) -> PatternNode:
                    return whole(replace(node, parts=(*parts[:n], new, *parts[n + 1 :])))

                yield from places_in(part, among)
        case Repetition(part) | Exclusion(part):
            yield from places_in(part, lambda new: whole(replace(node, part=new)))


def with_all_rows(node: PatternNode) -> PatternNode:
    """The pattern without exclusions, so that each row of a match is one of the result."""
    match node:
        case Exclusion(part):
            return with_all_rows(part)
        case Concatenation(parts) | Alternation(parts) | Permutation(parts):
            return replace(node, parts=tuple(map(with_all_rows, parts)))
        case Repetition(part):
            return replace(node, part=with_all_rows(part))
        case _:
            return node
