"""Inequality joins of tables of intervals in DuckDB: what is done today without an engine for this.

It sees the whole stream at once, so it has no latency to speak of; what is compared is the work. The
intervals are derived outside of SQL, which is quicker than gaps and islands in it. What DuckDB makes of
a join depends on how it is written, so there are several plans, of which the quickest counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.peers.forms import Tables, tables
from experiments.peers.parts.interval_rows import interval_rows
from experiments.peers.parts.interval_sql import (
    OPEN,
    SIDES,
    any_of,
    join_order,
    numbered,
    widened,
)
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Pattern, Result
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["KEYS", "ORDERS", "duckdb_query", "matcher"]

#: How joins are ordered: by DuckDB's planner; as the constraints are written; the same, each step a CTE
#: that is materialised, so that every join is one of two tables.
ORDERS = ("planner", "written", "materialised")
#: How a partitioned stream is joined: on the key, by its hash; or by the inequalities alone, as partitions
#: lie apart in time. (``prefer_range_joins``, which has both, fails in 2.0 where a table is small:
#: *Unimplemented join type for merge join*.)
KEYS = ("hash", "none")

_GROUPS = (
    Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS,
    Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY,
    Relation.DURING | Relation.FINISHES | Relation.OVERLAPPED_BY,
)


def duckdb_query(
    pattern: Pattern, emit: str = "completion", *, keyed: bool = False, materialised: bool = False
) -> str:
    """The SQL text over tables ``s0``, ``s1``, … of intervals: a row for each match.

    ``emit`` is ``"completion"`` (all intervals have ended; what people write) or ``"trigger"``
    (each pair decided at its earliest, open ends included; what piestream reports). Each join has
    what its alternatives have in common and the window as plain inequalities, which the planner can
    use: an OR alone makes it try every combination.

    >>> print(duckdb_query(Pattern(2, ((0, 1, Relation.MEETS),), window=9)))  # doctest: +ELLIPSIS
    SELECT report, ts0, ts1 FROM (SELECT greatest(valid0, valid1) AS report, ...
    """
    n = pattern.n_symbols
    reports = [f"valid{symbol}" for symbol in range(n)]
    if emit == "trigger":
        reports += [_decision(c) for c in pattern.constraints]
    starts = ", ".join(f"ts{symbol}" for symbol in range(n))
    first = _extreme("least", [f"ts{symbol}" for symbol in range(n)])
    steps = list(_joins(pattern, keyed))
    with_steps = ""
    if materialised and steps:
        with_steps = "WITH " + ",\n".join(
            f"j{at} AS MATERIALIZED (SELECT * FROM {f'j{at - 1}' if at else _named(0)} {join})"
            for at, join in enumerate(steps)
        )
        source = f"j{len(steps) - 1}"
    else:
        source = "\n".join([_named(0), *steps])
    return (
        f"{with_steps}\nSELECT report, {starts} FROM (SELECT {_extreme('greatest', reports)} AS report, "
        f"{first} AS first_ts, {starts} FROM {source})\n"
        f"WHERE report < {OPEN} AND report - first_ts <= {pattern.window}"
    ).lstrip()


def _named(symbol: int) -> str:
    """The table of a symbol, its columns with the symbol's number."""
    columns = ", ".join(
        f"{name}{symbol}" for name in ("k", "ts", "te", "next_ts", "last_te", "valid")
    )
    return f"s{symbol} AS s{symbol}({columns})"


def _joins(pattern: Pattern, keyed: bool) -> Iterator[str]:
    """A join for each symbol after the first."""
    for new, constraints in join_order(pattern):
        conditions = [text for c in constraints for text in _join_conditions(c)]
        for x, y, _ in constraints:
            conditions += [
                f"ts{x} <= ts{y} + {pattern.window}",
                f"ts{y} <= ts{x} + {pattern.window}",
            ]
        if keyed:
            other = next(s for s in constraints[0][:2] if s != new)
            conditions.insert(0, f"k{other} = k{new}")
        yield f"JOIN {_named(new)} ON " + "\n  AND ".join(conditions)


def _extreme(function: str, values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"{function}({', '.join(values)})"


def _join_conditions(constraint: tuple[int, int, Relation]) -> list[str]:
    x, y, relations = constraint
    conditions = [numbered(any_of(relations, f"s{x}", f"s{y}"), x, y)]
    for of_x, of_y, sign in comparisons(widened(relations)):
        conditions.append(f"{SIDES[of_x]}{x} {sign} {SIDES[of_y]}{y}")
    return conditions


def _decision(constraint: tuple[int, int, Relation]) -> str:
    """When a pair that satisfies its constraint was decided: at the third of its endpoints.

    At the later start already, if the relations of a complete prefix group are all allowed.
    """
    x, y, relations = constraint
    later = f"greatest(ts{x}, ts{y})"
    third = f"greatest({later}, least(te{x}, te{y}))"
    early = Relation(0)
    for group in _GROUPS:
        if relations & group == group:
            early |= group
    if not early:
        return third
    return (
        f"CASE WHEN {numbered(any_of(early, f's{x}', f's{y}'), x, y)} THEN {later} ELSE {third} END"
    )


def matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    emit: str = "completion",
    order: str = "planner",
    key: str = "none",
    threads: int = 1,
) -> Matcher:
    """The query of :func:`duckdb_query` in DuckDB, by one plan."""
    import duckdb

    for what, chosen, known in (("emit", emit, ("completion", "trigger")), ("order", order, ORDERS),
                                ("key", key, KEYS)):  # fmt: skip
        if chosen not in known:
            raise ValueError(f"{what} is {chosen!r}; it must be one of {', '.join(known)}")
    text = duckdb_query(pattern, emit, keyed=key != "none", materialised=order == "materialised")
    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(threads)}")
    if order == "written":
        connection.execute("SET disabled_optimizers = 'join_order'")

    def match(given: Tables) -> Result:
        trigger = emit == "trigger"
        for symbol, rows in enumerate(interval_rows(given, pattern, open_too=trigger)):
            if not trigger:
                rows = rows.with_columns(valid="te")
            connection.register("arrived", rows.to_arrow())
            connection.execute(f"CREATE OR REPLACE TEMP TABLE s{symbol} AS FROM arrived")
        plan = order if key == "none" else f"{order}, key: {key}"
        if not keep:
            counted = connection.execute(f"SELECT count(*) FROM ({text})").fetchone()
            nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
            return Result(nothing, int(counted[0]), {"events": given.events}, plan=plan)
        columns = connection.execute(text + "\nORDER BY ALL").fetchnumpy()
        matches = np.column_stack([np.asarray(c, dtype=np.int64) for c in columns.values()])
        return Result(matches, len(matches), {"events": given.events}, plan=plan)

    return Matcher(match, tables(pattern))
