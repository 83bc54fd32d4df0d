"""The conditions of a row pattern's variables: their texts, and what they read at a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from piestream.diagnosis.row_parts import rewritten
from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import QueryError
from piestream.expressions.syntax import And, Column, Node, Previous, children, columns_of
from piestream.language.model import Query
from piestream.language.row_patterns import RowItem, RowPattern
from piestream.language.row_printer import row_condition_text
from piestream.show.table import cell_text

__all__ = [
    "certain_parts",
    "condition_tree",
    "conditions_and",
    "items_of",
    "short",
    "shown_condition",
    "shown_values",
    "with_items",
]

#: The measures of what a condition reads are called so, and a number.
_ITEM = "item "


def condition_tree(query: Query, variable: str) -> tuple[Node | None, bool]:
    """The condition of a variable, and whether its columns are items of the match so far."""
    assert query.rows is not None
    condition = query.rows.condition(variable)
    if condition is not None:
        return condition.tree, True
    return query.symbol(variable).predicate.tree, False


def shown_condition(query: Query, variable: str) -> str:
    """A condition as people read it: ``B.price`` rather than ``LAST(B.price)``.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B) DEFINE B AS x > PREV(x))")
    >>> shown_condition(query, "B"), shown_condition(query, "A")
    ('x > PREV(x)', 'TRUE')
    """
    return short(row_condition_text(query, variable)) or "TRUE"


def short(text: str) -> str:
    """Values at the last row as they are mostly written: ``B.price`` for ``LAST(B.price)``.

    >>> short("LAST(B.price) > LAST(price, 1) + PREV(LAST(x), 1)")
    'B.price > LAST(price, 1) + PREV(x, 1)'
    """
    return re.sub(r"\bLAST\(([^(),]+)\)", r"\1", text)


def conditions_and(query: Query, mark: str) -> dict[str, str]:
    """All conditions, each of which holds only at rows with a mark."""
    assert query.rows is not None
    marked = f'"{mark}:" = 1'
    return {
        variable: f"({text}) AND {marked}"
        if (text := row_condition_text(query, variable))
        else marked
        for variable in query.rows.variables
    }


def items_of(query: Query, variable: str) -> list[str]:
    """What the condition of a variable reads, each as the text of a measure."""
    assert query.rows is not None
    condition = query.rows.condition(variable)
    if condition is not None:
        return [text for text, _ in condition.all_items]
    tree = query.symbol(variable).predicate.tree
    return [] if tree is None else list(dict.fromkeys(_leaves(tree)))


def _leaves(node: Node) -> Iterator[str]:
    match node:
        case Column():
            yield canonical_text(node)
        case Previous(Column()):
            yield canonical_text(node)
        case _:
            for child in children(node):
                yield from _leaves(child)


def certain_parts(query: Query, variable: str) -> list[str]:
    """The parts of a condition that the values of its own row do not change.

    >>> import piestream as ps
    >>> query = ps.query("FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES COUNT(*) AS n "
    ...                  "PATTERN (A B+) DEFINE B AS B.x > A.x AND COUNT(B.*) <= 3)")
    >>> certain_parts(query, "B")
    ['COUNT(B.*) <= 3']
    """
    assert query.rows is not None
    condition = query.rows.condition(variable)
    if condition is None:
        return []
    items = dict(condition.all_items)
    whole = condition.tree
    parts = whole.operands if isinstance(whole, And) else (whole,)
    return [
        canonical_text(part, names_are_text=True)
        for part in parts
        if not any(
            column.name in items and _reads_row(query.rows, variable, items[column.name])
            for column in columns_of(part)
        )
    ]


def _reads_row(rows: RowPattern, variable: str, item: RowItem) -> bool:
    """Whether an item may depend on a value of the current row, or of one behind."""
    if item.column is None:
        return False
    return item.shift > 0 or item.variable is None or variable in rows.members(item.variable)


def with_items(query: Query, items: Sequence[str]) -> Query:
    """A query whose measures are what conditions read, but for what cannot be a measure."""
    shown = [(text, f"{_ITEM}{number}") for number, text in enumerate(items)]
    count = [("COUNT(*)", "count:")]
    try:
        return rewritten(query, {}, shown or count)
    except QueryError:
        return rewritten(query, {}, [each for each in shown if _can_be_read(query, each)] or count)


def _can_be_read(query: Query, shown: tuple[str, str]) -> bool:
    try:
        rewritten(query, {}, [shown])
    except QueryError:
        return False
    return True


def shown_values(items: Sequence[str], of: Iterable[str], row: Mapping[str, Any]) -> str:
    """The values of some items at a row of a result, each beside its text."""
    wanted = set(of)
    return ", ".join(
        f"{short(text)} {_value(row[f'{_ITEM}{number}'])}"
        for number, text in enumerate(items)
        if text in wanted and f"{_ITEM}{number}" in row
    )


def _value(value: Any) -> str:
    return "NULL" if value is None else cell_text(value)
