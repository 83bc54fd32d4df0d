"""Relations of intervals as SQL over their endpoints, for the methods that join tables of intervals.

Row-pattern SQL (``MATCH_RECOGNIZE``) would be another way, for patterns that a row-wise regular
expression can say. None of the engines installed here has it (:func:`row_pattern_engines` asks them).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.peers.parts.allen import OPEN
from experiments.peers.pattern import Pattern
from piestream.relations import Relation, inverse

__all__ = [
    "CONDITIONS",
    "NEVER",
    "OPEN",
    "SIDES",
    "any_of",
    "join_order",
    "numbered",
    "row_pattern_engines",
    "widened",
]

#: The columns of an interval's endpoints.
SIDES = ("ts", "te")
#: Earlier than every time, for the end of a run that has none before it.
NEVER = np.iinfo(np.int64).min

#: Endpoint conditions of each relation of {x} to {y}. An open end is later than everything, so
#: two open ends look equal: such pairs have no decision yet and fall out there.
CONDITIONS = {
    Relation.BEFORE: "{x}.te < {y}.ts",
    Relation.MEETS: "{x}.te = {y}.ts",
    Relation.OVERLAPS: "{x}.ts < {y}.ts AND {y}.ts < {x}.te AND {x}.te < {y}.te",
    Relation.FINISHED_BY: "{x}.ts < {y}.ts AND {x}.te = {y}.te",
    Relation.CONTAINS: "{x}.ts < {y}.ts AND {y}.te < {x}.te",
    Relation.STARTS: "{x}.ts = {y}.ts AND {x}.te < {y}.te",
    Relation.EQUALS: "{x}.ts = {y}.ts AND {x}.te = {y}.te",
    # The immediate successor: no other run of x or of y touches the gap.
    Relation.FOLLOWED_BY: "{x}.te < {y}.ts AND {x}.next_ts >= {y}.ts AND {y}.last_te <= {x}.te",
}
for _relation in tuple(CONDITIONS):
    if inverse(_relation) not in CONDITIONS:
        CONDITIONS[inverse(_relation)] = CONDITIONS[_relation].format(x="{y}", y="{x}")


def any_of(relations: Relation, x: str, y: str) -> str:
    """The alternatives of a constraint, or-ed."""
    parts = [
        "(" + CONDITIONS[relation].format(x=x, y=y) + ")"
        for relation in Relation
        if relation & relations
    ]
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(parts) + ")"


def widened(relations: Relation) -> Relation:
    """The Allen relations that include a set: followed-by is a kind of before."""
    if relations & Relation.FOLLOWED_BY:
        relations |= Relation.BEFORE
    if relations & Relation.FOLLOWS:
        relations |= Relation.AFTER
    return relations


def numbered(text: str, *symbols: int) -> str:
    """Columns of the symbols' tables as columns that have the symbol's number.

    >>> numbered("s0.te < s1.next_ts", 0, 1)
    'te0 < next_ts1'
    """
    for symbol in symbols:
        for name in ("next_ts", "last_te", *SIDES):
            text = text.replace(f"s{symbol}.{name}", f"{name}{symbol}")
    return text


def join_order(
    pattern: Pattern, first: int = 0
) -> list[tuple[int, list[tuple[int, int, Relation]]]]:
    """The symbols other than the first, each with the constraints to symbols joined before it.

    >>> chain = Pattern(3, ((1, 2, Relation.MEETS), (0, 1, Relation.MEETS)), 9)
    >>> [(symbol, len(constraints)) for symbol, constraints in join_order(chain)]
    [(1, 1), (2, 1)]
    """
    joined = {first}
    rest = list(pattern.constraints)
    steps = []
    while len(joined) < pattern.n_symbols:
        x, y, _ = next(c for c in rest if len({c[0], c[1]} & joined) == 1)
        new = y if x in joined else x
        joined.add(new)
        steps.append((new, [c for c in rest if {c[0], c[1]} <= joined]))
        rest = [c for c in rest if not {c[0], c[1]} <= joined]
    return steps


def row_pattern_engines() -> dict[str, bool]:
    """Which of the engines installed here run ``MATCH_RECOGNIZE``."""
    import duckdb

    text = (
        "SELECT * FROM stream MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(a.t) AS ts "
        "PATTERN (a+) DEFINE a AS mask = 1)"
    )
    stream = pl.DataFrame({"t": [1, 2], "mask": [1, 0]})
    available = {}
    with duckdb.connect() as connection:
        connection.register("stream", stream.to_arrow())
        try:
            connection.execute(text)
            available["duckdb"] = True
        except duckdb.Error:
            available["duckdb"] = False
    try:
        pl.SQLContext(stream=stream).execute(text, eager=True)
        available["polars"] = True
    except pl.exceptions.PolarsError:
        available["polars"] = False
    return available
