"""Hostile query texts: each is a query or a QueryError of bounded size, soon, and nothing else.

Texts are made of the grammar and of the tests' own queries, cut, repeated, nested and mixed with
what breaks parsers.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import piestream as ps
from tests.attacks.workers import AttackError, main

_TESTS = Path(__file__).parents[1]
#: No message is longer, whatever the text.
_MESSAGE = 100_000

_HOSTILE = [
    "1e999999",
    "1e5000",
    "-1e400",
    "0x1F",
    "1e",
    "1e+",
    ".5",
    "5.",
    "00000",
    "99999999999999999999999999",
    "1_000",
    "''",
    "''''",
    "'",
    '"',
    '""',
    '"a""b"',
    "`",
    "``a``",
    "@@",
    "@x",
    ":x",
    "::DOUBLE",
    "x::INT",
    "{}",
    "{:}",
    "x{:}:DOUBLE",
    "[]",
    "[1]",
    "x[0]",
    "x.y.z",
    "?",
    "$1",
    "$$a$$",
    "${env:HOME}",
    "%s",
    "\\",
    "\\'",
    "\x00",
    "/*",
    "*/",
    "--",
    "/*/",
    "#",
    "é",
    "日本",
    "😀",
    "\u202e",
    "\ufeff",
    ";",
    "|",
    "||",
    "&&",
    "&",
    "^",
    "~",
    "!~",
    "!~*",
    "<=>",
    "<>",
    "!=",
    "==",
    "=>",
    "->",
    "->>",
    "<<",
    ">>",
    "..",
    "...",
    "(",
    ")",
    ",",
    ",,",
    "NULL",
    "TRUE",
    "FALSE",
    "NAN",
    "INF",
    "CURRENT_DATE",
    "INTERVAL",
    "DATE",
    "TIMESTAMP",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "AS",
    "IN",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "AND",
    "OR",
    "NOT",
    "IS",
    "DISTINCT",
    "FROM",
    "ESCAPE",
    "OVER",
    "EXISTS",
    "ANY",
    "ALL",
    "SELECT",
    "UNION",
    "WITH",
    "LATERAL",
    "UNNEST",
    "PREV",
    "DEFINE",
    "PATTERN",
    "WITHIN",
    "RETURN",
    "EMIT",
    "ON",
    "COMPLETION",
    "BOTH",
    "MAX",
    "GAP",
    "PARTITION",
    "BY",
    "ORDER",
    "UNIT",
    "AT",
    "LEAST",
    "MOST",
    "EVENTS",
    "before",
    "meets",
    "overlaps",
    "during",
    "starts",
    "finishes",
    "equals",
    "followed-by",
    "after",
    "contains",
    "before;meets",
    "a",
    "b",
    "s",
    "d",
    "ts",
    "te",
    "a.ts",
    "b.te",
    "COUNT(*)",
    "AVG(a.x)",
    "SUM(",
    "RELATION(a,b)",
    "DURATION(a)",
    "5",
    "s",
    "5",
    "minutes",
    "1e5000",
    "s",
    "0",
    "-1",
    "1.5",
    "µs",
]
_WRAPS = (
    "({})", "NOT {}", "-{}", "+{}", "ABS({})", "FLOOR({})", "SQRT({})", "x BETWEEN 1 AND {}",
    "{} BETWEEN 1 AND 2", "CASE {} WHEN 1 THEN 2 ELSE 3 END", "CASE WHEN {} THEN 1 END", "{}::DOUBLE",
    "CAST({} AS DOUBLE)", "NULLIF({}, 1)", "COALESCE({}, 1)", "GREATEST({}, 1)", "{} IS DISTINCT FROM 1",
    "x IN ({})", "{} + 1", "1 / {}", "{} OR TRUE", "{} AND x > 1", "PREV({})", "{} LIKE 'a'", "'{}'",
)  # fmt: skip
_PREDICATES = ("x > 1", "x", "1", "a", "s = 'v'", "x / 10 = 0.3", "PREV(x) < x", "x IS NULL")


@cache
def _queries() -> tuple[str, ...]:
    files = sorted([*_TESTS.glob("cases/*/query.sql"), *_TESTS.glob("queries/**/*.sql")])
    return tuple(file.read_text("utf-8") for file in files)


def text_of(seed: int) -> str:
    """The text of a seed."""
    draw = random.Random(seed)
    if draw.random() < 0.4:
        return _around_a_predicate(draw)
    text = draw.choice(_queries())
    words = text.split(draw.choice([" ", " ", ",", "\n"]))
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        place = draw.randrange(len(words) + 1)
        kind = draw.random()
        if kind < 0.35:
            words.insert(place, draw.choice(_HOSTILE))
        elif kind < 0.5:
            del words[place : place + draw.choice([1, 1, 2, 10])]
        elif kind < 0.65 and words:
            words[place % len(words)] = draw.choice(_HOSTILE)
        elif kind < 0.8:
            words[place:place] = words[draw.randrange(len(words) + 1) :][: draw.randrange(20)]
        elif kind < 0.9:
            words[place:place] = [draw.choice(_HOSTILE)] * draw.choice([3, 50, 3000, 20_000])
        else:
            draw.shuffle(words)
    return draw.choice([" ", " ", "\n", ",", ""]).join(words)


def _around_a_predicate(draw: random.Random) -> str:
    predicate = draw.choice(_PREDICATES)
    for _ in range(draw.choice([1, 2, 3, 6])):
        wrap = draw.choice(_WRAPS)
        if draw.random() < 0.1:
            wrap = wrap.replace("1", draw.choice(_HOSTILE), 1)
        for _ in range(draw.choice([1, 1, 2, 10, 20, 100, 3000])):
            predicate = wrap.replace("{}", predicate)
            if len(predicate) > 200_000:
                break
    within = draw.choice(["9", "9 s", "1e999999", "1e5000", "0", "-1", "5 fortnights"])
    at_least = draw.choice(["", "", " AT LEAST 5 s", " AT LEAST 1e5000", " BETWEEN 1 AND 1e400"])
    return f"FROM s ORDER BY t DEFINE a AS {predicate}{at_least} PATTERN a WITHIN {within}"


def one(seed: int) -> str:
    """Read a text; what comes back is a query that its own text says again, or a QueryError."""
    text = text_of(seed)
    try:
        query = ps.query(text)
    except ps.QueryError as error:
        if len(str(error)) > _MESSAGE + 10 * min(len(text), _MESSAGE):
            raise AttackError(f"a message of {len(str(error)):,} characters") from None
        return "QueryError"
    if ps.query(str(query)) != query:
        raise AttackError(f"the canonical text says something else: {str(query)[:1000]}")
    return "query"


if __name__ == "__main__":
    main("tests.attacks.texts", one)
