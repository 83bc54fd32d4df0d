"""RETURN: what a match puts into its row, as it is or calculated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from piestream.expressions.diagnostics import Diagnostic, Span
from piestream.expressions.reading import BEFORE_BRACKETS
from piestream.expressions.tokens import Kind, Token, tokenize
from piestream.expressions.values import ValueExpression
from piestream.language.cursor import Cursor, depths
from piestream.language.match_items import read_items
from piestream.language.parts import Calculated, Return, Where
from piestream.language.returns import FUNCTIONS, Names, read_item

__all__ = ["calculation_of_text", "read_returns"]

#: What calculates, between two values.
_OPERATORS = ("+", "-", "*", "/", "%", "||", "::", "=", "<", ">", "<=", ">=", "<>", "!=")
_WORDS = frozenset({"IS", "IN", "LIKE", "ILIKE", "BETWEEN"})
#: Functions of values, with their operands in brackets; those of events stand in predicates.
_VALUE_FUNCTIONS = BEFORE_BRACKETS - {*FUNCTIONS, "PREV"}


def read_returns(
    cursor: Cursor, text: str, spans: dict[Where, Span], names: Names
) -> list[tuple[Return, Span | None]]:
    """The items of a RETURN clause with their places; faults go to the cursor's list."""
    if cursor.at_end:
        cursor.report(cursor.peek(), "RETURN is empty", "leave it out, or write RETURN a.ts, a.te")
        return []
    found: list[tuple[Return, Span | None]] = []
    for item in cursor.split(","):
        if not item.tokens:
            cursor.report(item.end, "an item is missing here")
            continue
        place = item.span()
        read: Return | None
        if _is_calculation(item.tokens):
            read = _read_named(item, text, spans, names)
        else:
            read = read_item(item, spans, names)
        if read is not None:
            found.append((read, place))
    return found


def _is_calculation(tokens: Sequence[Token]) -> bool:
    """Whether an item is more than one of what a match gives."""
    if len(tokens) > 2 and tokens[-2].upper == "AS":
        tokens = tokens[:-2]
    first, *others = tokens
    if not others:
        return False
    if first.is_sign("(", "-", "+") or first.kind in (Kind.NUMBER, Kind.STRING, Kind.PARAMETER):
        return True
    if first.upper in ("CASE", "NOT"):
        return True
    if first.upper in _VALUE_FUNCTIONS and others[0].is_sign("("):
        return True
    outside = [token for token, depth in zip(tokens, depths(tokens), strict=True) if not depth]
    return any(token.is_sign(*_OPERATORS) or token.upper in _WORDS for token in outside[1:])


def _read_named(item: Cursor, text: str, spans: dict[Where, Span], names: Names) -> Return | None:
    """A calculation with its name."""
    tokens = item.tokens
    if len(tokens) < 3 or tokens[-2].upper != "AS":
        item.report(item.span(), "a calculation needs a name", "write MAX(a.x) - MIN(a.x) AS rise")
        return None
    named = Cursor([tokens[-1]], item.end.span, item.diagnostics)
    alias = named.take_name("the name of a column")
    if alias is None:
        return None
    inner = Cursor(tokens[:-2], tokens[-2].span, item.diagnostics)
    return _read(inner, text, spans, names, alias.text)


def _read(
    cursor: Cursor, text: str, spans: dict[Where, Span], names: Names, alias: str
) -> Return | None:
    found = read_items(cursor, names, spans)
    if found is None:
        return None
    expression, faults = ValueExpression.read(
        found.of(text), text, found.place.start, found.leaves, found.parameters, names.clause
    )
    cursor.diagnostics.extend(
        Diagnostic(fault.span or found.place, fault.message, fault.hint) for fault in faults
    )
    if expression is None or not found.check_names(expression.tree, cursor):
        return None
    if not found.items:
        cursor.report(found.place, "this is the same for every match", "leave it out")
        return None
    if expression.only_name is not None and not found.lengths:
        return replace(found.items[0], alias=alias)
    return Calculated(expression, found.items, found.lengths, alias)


def calculation_of_text(
    text: str, names: Names, alias: str
) -> tuple[Return | None, list[Diagnostic]]:
    """The item of a text of its own, and what is wrong with it.

    >>> calculation_of_text("MAX(s.x)-MIN(s.x)", Names(["s"]), "rise")[0].expression
    ValueExpression(text='MAX(s.x) - MIN(s.x)')
    """
    tokens, diagnostics = tokenize(text)
    if diagnostics:
        return None, diagnostics
    cursor = Cursor(tokens[:-1], tokens[-1].span, diagnostics)
    if cursor.at_end:
        cursor.report(cursor.peek(), f"there is nothing to give as {alias}")
        return None, diagnostics
    return _read(cursor, text, {}, names, alias), diagnostics
