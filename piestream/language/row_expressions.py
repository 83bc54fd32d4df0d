"""Expressions of one row of a match, in the place of a column: ``SUM(A.price * A.volume)``."""

from __future__ import annotations

from dataclasses import replace

from piestream.expressions.diagnostics import Diagnostic, Span, did_you_mean
from piestream.expressions.keywords import is_name
from piestream.expressions.parameters import values_of
from piestream.expressions.tokens import Kind, Token
from piestream.expressions.values import ValueExpression
from piestream.language.aggregates import AGGREGATES
from piestream.language.cursor import Cursor

__all__ = ["read_row_expression"]

#: What reads other rows.
_OF_ROWS = ("PREV", "NEXT", "CLASSIFIER", "MATCH_NUMBER", "RUNNING", "FINAL", *AGGREGATES)


def read_row_expression(
    cursor: Cursor, text: str, variables: tuple[str, ...], prefixes: tuple[str, ...], function: str
) -> tuple[str | None, ValueExpression] | None:
    """The variable of whose rows a function takes an expression, and the expression.

    Faults go to the cursor's list.
    """
    before = len(cursor.diagnostics)
    whole = cursor.span()
    leaves: list[Token] = []
    others: list[Token] = []
    named: dict[str | None, Token] = {}
    while not cursor.at_end:
        token, after = cursor.peek(), cursor.peek(1)
        if token.upper in _OF_ROWS and (after.is_sign("(") or token.upper in ("RUNNING", "FINAL")):
            message = f"{token.upper} inside {function} reads other rows than {function} does"
            cursor.report(token, message, f"{function} takes an expression of one row")
            return None
        is_column = token.kind is Kind.QUOTED or (
            token.kind is Kind.WORD and is_name([*cursor.tokens, cursor.end], cursor.position)
        )
        if not is_column or after.is_sign("("):
            others.append(cursor.take())
            continue
        variable = None
        cursor.take()
        if after.is_sign("."):
            cursor.take()
            column = cursor.take_name("a column")
            if column is None:
                return None
            if token.text not in variables and token.text not in prefixes:
                hint = did_you_mean(token.text, variables)
                cursor.report(token, f"{token.text} is not a variable of the pattern", hint)
                return None
            variable = token.text if token.text in variables else None
            token = replace(column, span=token.span.joined(column.span))
        named.setdefault(variable, token)
        leaves.append(Token(Kind.WORD, token.text, token.span))
    if len(named) > 1:
        *_, last = named.values()
        listed = " and ".join("any variable" if name is None else name for name in named)
        cursor.report(
            last, f"{function} takes an expression of one row, not of rows of {listed}",
            "write the variable before each column",
        )  # fmt: skip
    if not named:
        cursor.report(whole, f"{function} takes an expression that reads a column")
    if len(cursor.diagnostics) > before:
        return None
    moved = [replace(t, span=_moved(t.span, -whole.start)) for t in leaves]
    expression, faults = ValueExpression.read(
        text[whole.start : whole.end], text, whole.start, moved, values_of(others)
    )
    cursor.diagnostics.extend(Diagnostic(f.span or whole, f.message, f.hint) for f in faults)
    if expression is None:
        return None
    return next(iter(named)), expression


def _moved(span: Span, by: int) -> Span:
    return Span(span.start + by, span.end + by)
