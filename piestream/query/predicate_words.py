"""Words in a predicate: which are names, and where sqlglot stumbled."""

from __future__ import annotations

from typing import Any

from piestream.query.faults import Finding, Span
from piestream.query.tokens import Kind, Token, quoted

__all__ = ["DATES", "EXPRESSION_WORDS", "TIMESTAMPS", "syntax_fault", "with_names_quoted"]

#: Words that mean something inside an expression; every other word is the name of a column.
EXPRESSION_WORDS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "ILIKE",
        "BETWEEN",
        "IS",
        "NULL",
        "TRUE",
        "FALSE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "ESCAPE",
        "DISTINCT",
        "FROM",
        "AS",
        "SYMMETRIC",
        "COLLATE",
        "DIV",
        "XOR",
        "SELECT",
        "ANY",
        "ALL",
        "EXISTS",
    ]
)

DATES = frozenset({"DATE"})
TIMESTAMPS = frozenset({"TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPTZ", "TIMESTAMPLTZ", "DATETIME"})


def with_names_quoted(text: str, tokens: list[Token]) -> tuple[str, list[int]]:
    """The text with every column name quoted, and for each character its place before.

    sqlglot reserves words of many dialects (``lateral``, ``user``, ``current_date``); here they
    are columns like any other.
    """
    pieces: list[str] = []
    places: list[int] = []
    position = 0
    for index, token in enumerate(tokens[:-1]):
        if token.kind is not Kind.WORD or not _is_name(tokens, index):
            continue
        pieces.append(text[position : token.span.start])
        places.extend(range(position, token.span.start))
        name = quoted(token.text)
        pieces.append(name)
        places.extend(
            min(max(token.span.start + i - 1, token.span.start), token.span.end - 1)
            for i in range(len(name))
        )
        position = token.span.end
    pieces.append(text[position:])
    places.extend(range(position, len(text) + 1))
    return "".join(pieces), places


def _is_name(tokens: list[Token], index: int) -> bool:
    token, after = tokens[index], tokens[index + 1]
    before = tokens[index - 1] if index else None
    if before is not None and before.is_sign("."):
        return True
    if token.upper in EXPRESSION_WORDS or after.is_sign("("):
        return False
    if after.kind is Kind.STRING and token.upper in (DATES | TIMESTAMPS | {"INTERVAL"}):
        return False
    if before is None:
        return True
    if before.is_sign("::") or before.upper == "AS":
        return False
    opens_extract = (
        before.is_sign("(") and index >= 2 and tokens[index - 2].upper in ("EXTRACT", "TRIM")
    )
    return not (opens_extract and (after.upper == "FROM" or after.kind is Kind.STRING))


def syntax_fault(error: Any, sql: str, places: list[int], whole: Span) -> Finding:
    details = getattr(error, "errors", None) or [{}]
    first = details[0]
    line, column, word = first.get("line"), first.get("col"), first.get("highlight") or ""
    description = str(first.get("description") or error).split("\n")[0].rstrip(".")
    if line is None or column is None:
        return Finding(whole, f"this is not a predicate: {description}")
    line_start = sum(len(part) + 1 for part in sql.split("\n")[: line - 1])
    end = min(line_start + column, len(sql))
    start = max(end - len(word), 0)
    span = Span(places[start], places[max(end - 1, start)] + 1)
    shown = word.strip('"')
    if "Unexpected token" in description:
        hint = "conditions are joined by AND and OR" if shown in ("&&", "&") else None
        return Finding(span, f"{shown} does not belong here", hint)
    if description.startswith("Required keyword") or "No expression" in description:
        return Finding(span, f"something is missing after {shown}")
    if description.startswith("Expecting )"):
        return Finding(span, "a bracket is not closed: ) is missing")
    return Finding(span, f"this is not a predicate: {description[0].lower()}{description[1:]}")
