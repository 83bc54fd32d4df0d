"""Which words of a predicate are keywords, and which are names of columns."""

from __future__ import annotations

from piestream.expressions.tokens import Kind, Token, quoted

__all__ = ["DATES", "EXPRESSION_WORDS", "TIMESTAMPS", "is_name", "with_names_quoted"]

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
    """The text with every name of a column or parameter quoted, and for each character its place.

    sqlglot reserves words of many dialects (``lateral``, ``user``, ``current_date``); here they
    are columns like any other. A leaf, which stands for another text, is a column whatever it is
    called.
    """
    pieces: list[str] = []
    places: list[int] = []
    position = 0
    for index, token in enumerate(tokens[:-1]):
        is_word = token.kind is Kind.WORD
        is_leaf = is_word and text[token.span.start : token.span.end] != token.text
        is_named = is_leaf or token.kind is Kind.PARAMETER or (is_word and is_name(tokens, index))
        if not is_named:
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


def is_name(tokens: list[Token], index: int) -> bool:
    """Whether a word of an expression is the name of a column; a token follows it."""
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
