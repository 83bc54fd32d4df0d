"""What the conditions of a row pattern keep of a match, and how many ways that tells apart."""

from __future__ import annotations

from collections.abc import Iterator

from piestream.language.model import Query
from piestream.language.row_patterns import MatchMode
from piestream.plan.row_ways import values_told_apart
from piestream.row_patterns.automaton import RowAutomaton

__all__ = ["memory_lines"]


def memory_lines(query: Query, automaton: RowAutomaton) -> Iterator[str]:
    """How matches are found that need more than one look at each row; nothing for others."""
    rows = query.rows
    assert rows is not None
    if rows.mode is MatchMode.INCREMENTAL:
        yield "INCREMENTAL: the longest match that ends at a row is given at that row"
    elif rows.mode is MatchMode.MAXIMAL:
        yield "MAXIMAL: the longest match that begins at a row is given when none can be longer"
    if not rows.conditions:
        if rows.mode is not MatchMode.PREFERRED:
            count = len(automaton.variables)
            yield f"at most {count} threads at a row are followed for each first row"
        return
    names = ", ".join(condition.variable for condition in rows.conditions)
    yield f"with memory, for conditions that read other rows of the match: {names}"
    degree, unbounded = 0, []
    for text, of_item in values_told_apart(rows, automaton):
        if of_item is None:
            unbounded.append(text)
            yield f"{text}: a value for each way in which rows can be of these variables"
        elif of_item:
            degree += of_item
            yield f"{text}: {_power(of_item)} values at a row, of a match of n rows"
    count = len(automaton.variables)
    threads = f"{count} × {_power(degree)}" if degree else str(count)
    of_rows = ", of a match of n rows" if degree else ""
    if unbounded:
        values = ", ".join(unbounded)
        yield f"at most {threads} threads at a row for each first row{of_rows}, for each of {values}"
        bound = "without a bound" if rows.within is None else f"within WITHIN {rows.within}"
        yield f"these may double with each row: at most 2^n of n rows, {bound}"
    else:
        yield f"at most {threads} threads at a row for each first row{of_rows}"


def _power(degree: int) -> str:
    return {1: "n", 2: "n²", 3: "n³"}.get(degree, f"n^{degree}")
