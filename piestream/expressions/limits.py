"""How long, deep and large a text may be. What is beyond is refused before anything is built of it.

sqlglot and the three back ends descend into nested expressions by recursion: the limits keep that
far from Python's own limit, whoever calls. Some forms mention an operand more than once when they
are translated (``NULLIF``, ``BETWEEN``, a divisor), so that nesting them multiplies sizes: these are
bounded too.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import pairwise
from typing import TypeVar

from piestream.expressions.diagnostics import Diagnostic
from piestream.expressions.tokens import Kind, Token

__all__ = [
    "MOST_CHARACTERS",
    "MOST_LEVELS",
    "MOST_NODES",
    "MOST_WRITTEN",
    "TOO_DEEP",
    "TOO_LARGE",
    "is_too_large",
    "length_fault",
    "nesting_fault",
    "token_fault",
]

T = TypeVar("T")

#: Characters of a query or of a predicate.
MOST_CHARACTERS = 100_000
#: Tokens of a query or of a predicate.
MOST_TOKENS = 20_000
#: Characters of a number.
MOST_DIGITS = 400
#: Brackets, CASEs and signs that may be open around a part of a predicate.
MOST_NESTED = 30
_FOREIGN_CALL = 5
#: Operations that may stand inside each other; a run of ANDs or ORs is one.
MOST_LEVELS = 100
#: Operations of a predicate as often as a translation mentions them, besides some for each.
MOST_NODES = 20_000
#: Characters of a predicate translated to Python or Spark SQL.
MOST_WRITTEN = 2_000_000

TOO_DEEP = "this predicate is nested too deeply"
TOO_LARGE = "this predicate becomes too large when it is translated"


def length_fault(text: str, what: str) -> Diagnostic | None:
    """What is wrong if a text is too long to be read."""
    if len(text) <= MOST_CHARACTERS:
        return None
    message = f"{what} has at most {MOST_CHARACTERS:,} characters, this has {len(text):,}"
    return Diagnostic(None, message)


def token_fault(tokens: Sequence[Token], what: str) -> Diagnostic | None:
    """What is wrong if a text has too many tokens, or a number in it too many digits."""
    if len(tokens) > MOST_TOKENS:
        message = f"{what} has at most {MOST_TOKENS:,} words, numbers and signs"
        return Diagnostic(tokens[MOST_TOKENS].span, message)
    for token in tokens:
        if token.kind is Kind.NUMBER and len(token.text) > MOST_DIGITS:
            return Diagnostic(token.span, f"a number has at most {MOST_DIGITS} characters")
    return None


def is_too_large(
    root: T, operands: Callable[[T], Sequence[T]], mentions: Callable[[T], int] = lambda _: 1
) -> bool:
    """Whether a tree in which nodes are shared becomes too large where every mention is written out.

    ``mentions`` says how often the translation of a node mentions its operands.
    """
    sizes: dict[int, int] = {}
    pending = [root]
    while pending:
        node = pending[-1]
        below = operands(node)
        missing = [child for child in below if id(child) not in sizes]
        if missing and id(node) not in sizes:
            pending += missing
        else:
            pending.pop()
            sizes[id(node)] = 1 + mentions(node) * sum(sizes[id(child)] for child in below)
    return sizes[id(root)] > MOST_NODES + 8 * len(sizes)


def nesting_fault(tokens: Sequence[Token], functions: Container[str]) -> Diagnostic | None:
    """What is wrong if brackets, CASEs and signs before operands are nested too deeply.

    A bracket after a word that is none of the ``functions`` counts for several: sqlglot reads what
    may be a type with parameters (``DATE(DATE(...``) twice, and again inside.
    """
    open_around: list[int] = []  # signs before each bracket or CASE that is open
    signs = depth = 0
    for before, token in pairwise([None, *tokens]):
        assert token is not None
        word = before.upper if before is not None else ""
        if token.is_sign("(") and word and word not in functions:
            signs += _FOREIGN_CALL - 1
        if token.is_sign("(", "[", "{") or token.upper == "CASE":
            open_around.append(signs)
            depth, signs = depth + signs + 1, 0
        elif token.is_sign(")", "]", "}") or token.upper == "END":
            depth -= open_around.pop() + 1 if open_around else 0
            signs = 0
        elif token.upper in _BEFORE_OPERANDS or token.kind is Kind.SIGN:
            signs += 1
        else:
            signs = 0
        if depth + signs > MOST_NESTED:
            return Diagnostic(token.span, TOO_DEEP, f"at most {MOST_NESTED} brackets deep")
    return None


#: Words after which an operand follows that sqlglot reads by descending.
_BEFORE_OPERANDS = frozenset(
    ["NOT", "ANY", "ALL", "SOME", "EXISTS", "DISTINCT", "INTERVAL", "PRIOR", "SELECT"]
)
