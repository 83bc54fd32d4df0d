"""WHERE: a condition on what RETURN could give.

It is an expression of the language of predicates, whose columns are items of RETURN. Each of these
is read as RETURN reads it, and is one column to whoever reads the expression.
"""

from __future__ import annotations

from dataclasses import replace

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.predicate import Predicate
from piestream.expressions.tokens import tokenize
from piestream.language.cursor import Cursor
from piestream.language.match_items import read_items
from piestream.language.parts import Condition, Where
from piestream.language.returns import Names

__all__ = ["condition_of_text", "read_condition"]


def condition_of_text(text: str, names: Names) -> tuple[Condition | None, list[Diagnostic]]:
    """The condition of a text of its own, and what is wrong with it.

    >>> print(condition_of_text("AVG(s.speed)>70", Names(["s"]))[0])
    AVG(s.speed) > 70
    """
    tokens, diagnostics = tokenize(text)
    if diagnostics:
        return None, diagnostics
    cursor = Cursor(tokens[:-1], tokens[-1].span, diagnostics)
    return read_condition(cursor, text, names, {}), diagnostics


def read_condition(
    cursor: Cursor, text: str, names: Names, spans: dict[Where, Span]
) -> Condition | None:
    """The condition of a WHERE clause; faults go to the cursor's list."""
    if cursor.at_end:
        cursor.report(cursor.peek(), "WHERE is empty", "write WHERE AVG(s.speed) > 70")
        return None
    found = read_items(cursor, replace(names, clause="WHERE"), spans)
    if found is None:
        return None
    predicate, faults = Predicate.read(
        found.of(text), text, found.place.start,
        parameters=found.parameters, leaves=found.leaves,
    )  # fmt: skip
    cursor.diagnostics.extend(
        Diagnostic(fault.span or found.place, fault.message, fault.hint) for fault in faults
    )
    if predicate is None or predicate.tree is None:
        return None
    if not found.check_names(predicate.tree, cursor):
        return None
    return Condition(predicate, found.items, found.lengths)
