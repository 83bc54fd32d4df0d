"""DEFINE of a row pattern: conditions that read more than their own row and those before it.

Such a condition is read as a measure is: each navigation and aggregate over the match so far is an
item, and the expression around them one of the language of predicates. Its parts that read nothing but
the row itself, and rows before that, are predicates of the row, which are evaluated as those of any
query; what is left is its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, get_args

from piestream.expressions.canonical import canonical_text
from piestream.expressions.diagnostics import Span
from piestream.expressions.durations import Duration, unit_named
from piestream.expressions.parameters import values_of
from piestream.expressions.predicate import EVERY_INTERVAL, Predicate
from piestream.expressions.syntax import (
    And,
    Between,
    Case,
    Column,
    Comparison,
    Is,
    Like,
    Literal,
    Node,
    Not,
    OneOf,
    Or,
    Previous,
    columns_of,
)
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor
from piestream.language.parts import Where
from piestream.language.row_measures import (
    ROW_AGGREGATES,
    RowNames,
    is_over,
    item_text,
    read_items,
)
from piestream.language.row_patterns import RowCondition, RowItem

__all__ = ["needs_memory", "read_condition"]

#: What reads rows other than the current one and those before it, as a function.
_FUNCTIONS = ("FIRST", "LAST", "NEXT", "CLASSIFIER", "MATCH_NUMBER", *ROW_AGGREGATES)
#: Parts of a condition that are true or false.
_TRUTHS = (And, Between, Comparison, Is, Like, Not, OneOf, Or)
_NODES = get_args(Node)


def needs_memory(written: Sequence[Token], variable: str, names: Sequence[str]) -> bool:
    """Whether a condition names other variables, or functions that look at a match.

    An aggregate ``OVER`` so many events is one of the partition, and not of the match.
    """
    if _has_length(written):
        return True
    for index, (token, following) in enumerate(pairwise(written)):
        if following.is_sign(".") and token.text in names and token.text != variable:
            return True
        is_function = token.upper in _FUNCTIONS and following.is_sign("(")
        if is_function and not is_over(written[index + 1 :]):
            return True
        if token.upper in ("RUNNING", "FINAL") and following.kind is Kind.WORD:
            return True
    return False


def _has_length(written: Sequence[Token]) -> bool:
    """Whether a length of time stands anywhere but behind OVER, which says how long a window is."""
    for index, token in enumerate(written):
        if index and written[index - 1].upper == "OVER":
            continue
        following = written[index + 1] if index + 1 < len(written) else None
        if token.kind is Kind.PARAMETER and isinstance(token.value, timedelta):
            return True
        if following is None:
            continue
        if token.upper == "INTERVAL" and following.kind in (Kind.STRING, Kind.NUMBER):
            return True
        if token.kind in (Kind.NUMBER, Kind.PARAMETER) and unit_named(following.text) is not None:
            return True
    return False


def read_condition(
    variable: str, cursor: Cursor, text: str, names: RowNames,
    members: Callable[[str | None], tuple[str, ...]], spans: dict[Where, Span],
) -> tuple[Predicate, RowCondition | None] | None:  # fmt: skip
    """What the rows of a variable must be like by themselves, and in a match that has come so far.

    Faults go to the cursor's list.
    """
    before = len(cursor.diagnostics)
    found = read_items(cursor, names, text)
    if len(cursor.diagnostics) > before:
        return None
    whole = cursor.span()
    items, leaves = dict(found.items), found.leaves_from(whole.start)
    read, faults = Predicate.read(
        text[whole.start : whole.end], text, whole.start, None, values_of(found.others), leaves,
        "a condition of DEFINE",
    )  # fmt: skip
    for fault in faults:
        cursor.report(fault.span or whole, fault.message, fault.hint)
    if read is None:
        return None
    for item, span in found.places:
        spans.setdefault(("column", item_text(item)), span)
    assert read.tree is not None
    reader = _Splitter(variable, items, found.lengths, members, read)
    return reader.split(read.tree)


class _Splitter:
    """Tells what a condition says of its row alone from what it says of the match so far."""

    def __init__(
        self, variable: str, items: dict[str, RowItem], lengths: dict[str, Duration],
        members: Callable[[str | None], tuple[str, ...]], read: Predicate,
    ) -> None:  # fmt: skip
        self.variable, self.items, self.members, self.read = variable, items, members, read
        self.lengths = lengths
        self.facts: dict[str, Predicate] = {}

    def split(self, tree: Node) -> tuple[Predicate, RowCondition | None]:
        parts = tuple(_conjuncts(tree))
        own = tuple(part for part in parts if self._is_of_row(part))
        rest = tuple(part for part in parts if not self._is_of_row(part))
        alone = self._predicate(own[0] if len(own) == 1 else And(own)) if own else EVERY_INTERVAL
        if not rest:
            return alone, None
        memory = self._with_facts(rest[0] if len(rest) == 1 else And(rest))
        used = {column.name for column in columns_of(memory)}
        return alone, RowCondition(
            self.variable,
            canonical_text(tree, names_are_text=True),
            replace(self.read, tree=memory),
            tree,
            tuple((text, item) for text, item in self.items.items() if text in used),
            tuple(self.items.items()),
            tuple(self.facts.items()),
            tuple(self.lengths.items()),
        )

    def _is_of_row(self, node: Node) -> bool:
        """Whether a part reads the row itself, and rows before it, alone."""
        names = [column.name for column in columns_of(node)]
        return all(name in self.items and self._is_own(self.items[name]) for name in names)

    def _is_own(self, item: RowItem) -> bool:
        """Whether an item is a value of the current row, or of one so many before it."""
        if item.function != "LAST" or item.column is None or item.offset or item.shift > 0:
            return False
        if item.expression is not None:
            return False
        return item.variable is None or self.variable in self.members(item.variable)

    def _predicate(self, node: Node) -> Predicate:
        """A part that reads the row alone, as a predicate of rows."""
        tree = _mapped(node, self._as_column)
        columns = tuple(dict.fromkeys(column.name for column in columns_of(tree)))
        read = self.read
        return Predicate(canonical_text(tree), None, tree, read.source, read.offset, columns)

    def _as_column(self, node: Node) -> Node | None:
        if not isinstance(node, Column):
            return None
        item = self.items[node.name]
        column = Column(str(item.column), node.span)
        return Previous(column, -item.shift, node.span) if item.shift else column

    def _with_facts(self, node: Node) -> Node:
        """The tree in which what is true or false of the row alone is read as columns.

        Where NULL is as good as false, one says whether a part is true; else, another whether it is not.
        """
        if isinstance(node, And | Or):
            return replace(node, operands=tuple(map(self._with_facts, node.operands)))
        if isinstance(node, _TRUTHS) and self._is_of_row(node):
            return self._fact(node)

        def changed(part: Node) -> Node | None:
            if not isinstance(part, _TRUTHS) or not self._is_of_row(part):
                return None
            branches = (self._fact(part), Literal(True)), (self._fact(Not(part)), Literal(False))
            return Case(branches, Literal(None), part.span)

        return _mapped(node, changed)

    def _fact(self, node: Node) -> Column:
        predicate = self._predicate(node)
        name = f"{self.variable}: {predicate}"
        self.facts[name] = predicate
        return Column(name, node.span)


def _conjuncts(node: Node) -> Iterator[Node]:
    if not isinstance(node, And):
        yield node
        return
    for operand in node.operands:
        yield from _conjuncts(operand)


def _mapped(node: Node, change: Callable[[Node], Node | None]) -> Node:
    """A tree in which parts are changed, from the top; below what is changed nothing is."""
    changed = change(node)
    if changed is not None:
        return changed

    def mapped(value: Any) -> Any:
        if isinstance(value, _NODES):
            return _mapped(value, change)
        if isinstance(value, tuple):
            return tuple(map(mapped, value))
        return value

    values = {each.name: mapped(getattr(node, each.name)) for each in fields(node)}
    return replace(node, **values)
