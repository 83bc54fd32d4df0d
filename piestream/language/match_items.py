"""What an expression on a match reads: items of RETURN and lengths of time, in the place of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from piestream.expressions.diagnostics import Span, did_you_mean
from piestream.expressions.durations import Duration
from piestream.expressions.parameters import values_of
from piestream.expressions.reading import ALLOWED_FUNCTIONS, BEFORE_BRACKETS
from piestream.expressions.syntax import Node, columns_of
from piestream.expressions.tokens import Kind, Token
from piestream.language.cursor import Cursor
from piestream.language.lengths import begins_length, take_length
from piestream.language.parts import MatchItem, Where
from piestream.language.printer import item_text
from piestream.language.returns import FUNCTIONS, Names, bare_name_fault, read_item

__all__ = ["MatchText", "read_items"]


@dataclass(frozen=True, slots=True)
class MatchText:
    """The text of an expression on a match, whose items and lengths of time have been read."""

    place: Span
    leaves: Sequence[Token]  # the items and lengths, in the text
    parameters: dict[str, Any]
    items: tuple[MatchItem, ...]
    lengths: tuple[tuple[str, Duration], ...]
    names: Names

    def of(self, text: str) -> str:
        """The expression, of the whole text."""
        return text[self.place.start : self.place.end]

    def check_names(self, tree: Node, cursor: Cursor) -> bool:
        """Whether all names are of items or lengths; those that are not are reported."""
        known = {item.alias for item in self.items} | {text for text, _ in self.lengths}
        others = [column for column in columns_of(tree) if column.name not in known]
        for column in others:
            start = self.place.start
            span = Span(column.span.start + start, column.span.end + start)
            cursor.report(span, *bare_name_fault(column.name, self.names))
        return not others


def read_items(cursor: Cursor, names: Names, spans: dict[Where, Span]) -> MatchText | None:
    """The items of the expression that a cursor has; faults go to the cursor's list."""
    before = len(cursor.diagnostics)
    leaves = _Leaves(names, spans)
    place = cursor.span()
    others: list[Token] = []
    while not cursor.at_end:
        others += leaves.read(cursor)
    if len(cursor.diagnostics) > before:
        return None
    moved = [
        replace(token, span=Span(token.span.start - place.start, token.span.end - place.start))
        for token in leaves.tokens
    ]
    items, lengths = tuple(leaves.items.values()), tuple(leaves.lengths.items())
    return MatchText(place, moved, values_of(others), items, lengths, names)


@dataclass(slots=True)
class _Leaves:
    """The items and lengths of time of an expression, as they come up."""

    names: Names
    spans: dict[Where, Span]
    tokens: list[Token] = field(default_factory=list)  # each in the place of what it was read from
    items: dict[str, MatchItem] = field(default_factory=dict)
    lengths: dict[str, Duration] = field(default_factory=dict)

    def read(self, cursor: Cursor) -> list[Token]:
        """Read an item or a length of time where one comes next, else the token that does."""
        start = cursor.position
        before = len(self.tokens)
        self._read_next(cursor)
        return cursor.tokens[start : cursor.position] if len(self.tokens) == before else []

    def _read_next(self, cursor: Cursor) -> None:
        token, after = cursor.peek(), cursor.peek(1)
        before = cursor.tokens[cursor.position - 1] if cursor.position else None
        is_name = token.kind is Kind.QUOTED or token.kind is Kind.WORD
        if is_name and after.is_sign("("):
            self._read_call(cursor)
        elif is_name and after.is_sign(".") and not (before and before.is_sign(".")):
            self._read_item(cursor, 3)
        elif begins_length(cursor):
            found = take_length(cursor, self.names.clause)
            if found is not None:
                length, span = found
                self.lengths[str(length)] = length
                self.tokens.append(Token(Kind.WORD, str(length), span))
        else:
            cursor.take()

    def _read_call(self, cursor: Cursor) -> None:
        function = cursor.peek()
        name = function.text.upper()
        if name in BEFORE_BRACKETS and name not in (*FUNCTIONS, "PREV"):
            cursor.take()  # its operands are read one by one
            return
        near = did_you_mean(name, ALLOWED_FUNCTIONS)
        if name == "PREV":
            near = "a condition on a match sees the values at its report"
        if near is None or name in FUNCTIONS or did_you_mean(name, FUNCTIONS):
            self._read_item(cursor, _call_length(cursor))
            return
        cursor.report(function, f"{self.names.clause} has no function {function.text}", near)
        cursor.position += _call_length(cursor)

    def _read_item(self, cursor: Cursor, count: int) -> None:
        """Read so many tokens as an item of RETURN."""
        tokens = cursor.tokens[cursor.position : cursor.position + count]
        end = cursor.peek(len(tokens))
        cursor.position += len(tokens)
        before = len(cursor.diagnostics)
        places: dict[Where, Span] = {}
        item = read_item(Cursor(tokens, end.span, cursor.diagnostics), places, self.names)
        if item is None or len(cursor.diagnostics) > before:
            return
        text = item_text(item)
        span = tokens[0].span.joined(tokens[-1].span)
        self.items.setdefault(text, replace(item, alias=text))
        self.spans.setdefault((self.names.clause.lower(), text), span)
        self.spans.setdefault(("column", text), next(iter(places.values()), span))
        self.tokens.append(Token(Kind.WORD, text, span))


def _call_length(cursor: Cursor) -> int:
    """How many tokens a call has, up to the bracket that closes it."""
    depth = 0
    for count, token in enumerate(cursor.tokens[cursor.position :], 1):
        depth += token.is_sign("(") - token.is_sign(")")
        if token.is_sign(")") and not depth:
            return count
    return len(cursor.tokens) - cursor.position
