"""The tokenizer of queries and predicates: words, names, numbers, strings, signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from piestream.expressions.diagnostics import Diagnostic, Span

__all__ = [
    "RESERVED",
    "Kind",
    "Token",
    "is_plain_name",
    "quoted",
    "tokenize",
    "with_leaves",
    "without_comments",
]


class Kind(Enum):
    """What a token is."""

    WORD = "word"  # a keyword or a name
    QUOTED = "quoted name"  # always a name
    NUMBER = "number"
    STRING = "string"
    SIGN = "sign"
    PARAMETER = "parameter"  # :limit
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``text`` is its meaning (a quoted name without its quotes)."""

    kind: Kind
    text: str
    span: Span
    value: object = None  # that a parameter stands for

    @property
    def upper(self) -> str:
        """The word in capitals if it can be a keyword, else the empty string."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    def is_sign(self, *signs: str) -> bool:
        """Whether this is one of these signs."""
        return self.kind is Kind.SIGN and self.text in signs


#: Words that are names only when they are quoted.
RESERVED = frozenset(
    [
        "FROM",
        "WITH",
        "PARTITION",
        "ORDER",
        "BY",
        "DEFINE",
        "PATTERN",
        "WITHIN",
        "WHERE",
        "EMIT",
        "RETURN",
        "AS",
        "AND",
        "OR",
        "NOT",
        "AT",
        "BETWEEN",
    ]
)

_TOKEN = re.compile(
    r"""
    (?P<space>[\s\ufeff]+)  # a byte order mark begins files that Windows has written
  | (?P<comment>--[^\n]*|/\*.*?(?:\*/|(?P<open_comment>\Z)))
  | (?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<word>[^\W\d]\w*)
  | (?P<quoted>"(?:[^"]|"")*(?:"|(?P<open_quoted>\Z)))
  | (?P<string>'(?:[^']|'')*(?:'|(?P<open_string>\Z)))
  | (?P<typeset>[“”„][^“”„]*[“”]?|[‘’‚][^‘’‚]*[‘’]?)
  | (?P<parameter>:[^\W\d]\w*)
  | (?P<sign><=|>=|<>|!=|==|\|\||::|>>|<<|->|.)
    """,
    re.VERBOSE | re.DOTALL,
)


_QUOTES = "write 'text' for a text, and \"name\" for a name"


def tokenize(text: str) -> tuple[list[Token], list[Diagnostic]]:
    """The tokens of a text, closed by an END, and what is wrong with them.

    >>> [token.text for token in tokenize('DEFINE "my sym" AS x >= 8 -- fast')[0]]
    ['DEFINE', 'my sym', 'AS', 'x', '>=', '8', '']
    """
    tokens: list[Token] = []
    diagnostics: list[Diagnostic] = []
    for match in _TOKEN.finditer(text):
        group = match.lastgroup
        span = Span(match.start(), match.end())
        opened = Span(span.start, span.start + 1)
        if match["comment"] is not None:
            if match["open_comment"] is not None:
                diagnostics.append(
                    Diagnostic(opened, "this comment is never closed", "close it with */")
                )
        elif match["quoted"] is not None:
            if match["open_quoted"] is not None:
                diagnostics.append(Diagnostic(opened, 'this quoted name is never closed with "'))
            name = match["quoted"][1:].removesuffix('"').replace('""', '"')
            if not name:
                diagnostics.append(Diagnostic(span, "a name cannot be empty"))
            if "\0" in name:
                diagnostics.append(Diagnostic(span, "a name cannot hold the character U+0000"))
            tokens.append(Token(Kind.QUOTED, name, span))
        elif match["string"] is not None:
            if match["open_string"] is not None:
                diagnostics.append(Diagnostic(opened, "this string is never closed with '"))
            value = match["string"][1:].removesuffix("'").replace("''", "'")
            tokens.append(Token(Kind.STRING, value, span))
        elif group == "typeset":
            diagnostics.append(Diagnostic(opened, f"{match[0][0]} does not quote", _QUOTES))
            tokens.append(Token(Kind.STRING, match[0].strip("“”„‘’‚"), span))
        elif group == "number":
            tokens.append(Token(Kind.NUMBER, match[0], span))
        elif group == "word":
            tokens.append(Token(Kind.WORD, match[0], span))
        elif group == "parameter":
            tokens.append(Token(Kind.PARAMETER, match[0], span))
        elif group == "sign":
            tokens.append(Token(Kind.SIGN, match[0], span))
    end = len(text.rstrip())
    tokens.append(Token(Kind.END, "", Span(end, end + 1)))
    return tokens, diagnostics


def without_comments(text: str) -> str:
    """The text with comments blanked out, every other character in its place."""

    def blank(match: re.Match[str]) -> str:
        if match["comment"] is None:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return _TOKEN.sub(blank, text)


def with_leaves(tokens: list[Token], leaves: Sequence[Token]) -> list[Token]:
    """Tokens, where each leaf takes the place of all those that it covers.

    >>> leaf = Token(Kind.WORD, "a.ts", Span(0, 4))
    >>> [token.text for token in with_leaves(tokenize("a.ts > 5")[0], [leaf])]
    ['a.ts', '>', '5', '']
    """
    found: list[Token] = []
    rest = list(leaves)
    for token in tokens:
        while rest and token.span.start >= rest[0].span.end:
            rest.pop(0)
        if not rest or token.span.start < rest[0].span.start:
            found.append(token)
        elif token.span.start == rest[0].span.start:
            found.append(rest[0])
    return found


_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def is_plain_name(name: str) -> bool:
    """Whether a name needs no quotes."""
    return bool(_PLAIN_NAME.fullmatch(name)) and name.upper() not in RESERVED


def quoted(name: str) -> str:
    """A name in quotes."""
    return '"' + name.replace('"', '""') + '"'
