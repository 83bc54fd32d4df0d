"""What is done today without an engine for this: gaps and islands and inequality joins in DuckDB.

It sees the whole stream at once, so it has no latency to speak of; what is compared is the work.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from experiments.peers.parts.interval_sql import (
    NEVER,
    OPEN,
    SIDES,
    any_of,
    join_order,
    widened,
)
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Ints, Pattern, Result, one_partition
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["duckdb_query", "matcher"]

_GROUPS = (
    Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS,
    Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY,
    Relation.DURING | Relation.FINISHES | Relation.OVERLAPPED_BY,
)


def duckdb_query(pattern: Pattern, emit: str = "completion", shared: bool = True) -> str:
    """The SQL text over a table ``stream(t, mask)``: a row for each match.

    ``emit`` is ``"completion"`` (all intervals have ended; what people write) or ``"trigger"``
    (each pair decided at its earliest, open ends included; what piestream reports). ``shared``
    adds to each join what its alternatives have in common and the window, as plain inequalities
    that the planner can use: an OR alone makes it try every combination.

    >>> print(duckdb_query(Pattern(2, ((0, 1, Relation.MEETS),), window=9)))  # doctest: +ELLIPSIS
    WITH s0 AS (...
    """
    n = pattern.n_symbols
    symbols = ",\n".join(_islands(pattern, symbol, emit) for symbol in range(n))
    joins = "\n".join(_joins(pattern, shared))
    starts = ", ".join(f"s{symbol}.ts AS ts{symbol}" for symbol in range(n))
    first = _extreme("least", [f"s{symbol}.ts" for symbol in range(n)])
    reports = [f"s{symbol}.valid" for symbol in range(n)]
    if emit == "trigger":
        reports += [_decision(c) for c in pattern.constraints]
    return (
        f"WITH {symbols},\nfound AS (\nSELECT {_extreme('greatest', reports)} AS report, "
        f"{first} AS first_ts, {starts}\nFROM s0\n{joins}\n)\n"
        f"SELECT * EXCLUDE (first_ts) FROM found\n"
        f"WHERE report < {OPEN} AND report - first_ts <= {pattern.window}"
    )


def _joins(pattern: Pattern, shared: bool) -> Iterator[str]:
    """A join for each symbol after the first."""
    for new, constraints in join_order(pattern):
        conditions = [text for c in constraints for text in _join_conditions(c, shared)]
        if shared:
            for x, y, _ in constraints:
                conditions += [
                    f"s{x}.ts <= s{y}.ts + {pattern.window}",
                    f"s{y}.ts <= s{x}.ts + {pattern.window}",
                ]
        yield f"JOIN s{new} ON " + "\n  AND ".join(conditions)


def _extreme(function: str, values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"{function}({', '.join(values)})"


def _islands(pattern: Pattern, symbol: int, emit: str) -> str:
    """Gaps and islands: where the truth changes, and the time of the next change."""
    least, most = pattern.at_least[symbol], pattern.at_most[symbol]
    valid = "te"
    if emit == "trigger" and most is None:
        valid = "ts"
        if least:  # the first row at which the run is known to have lasted long enough
            valid = (
                f"CASE WHEN te - ts < {least} THEN NULL ELSE "
                f"coalesce((SELECT min(t) FROM stream WHERE t >= ts + {least}), {OPEN}) END"
            )
    kept = [f"te - ts >= {least}" if least else "true"]
    if most is not None:
        kept.append(f"te - ts <= {most}")
    if emit == "completion":
        kept.append(f"te < {OPEN}")
    return f"""s{symbol} AS (
  SELECT ts, te, next_ts, last_te, {valid} AS valid FROM (
    SELECT t AS ts, coalesce(lead(t) OVER w, {OPEN}) AS te,
      coalesce(lead(t, 2) OVER w, {OPEN}) AS next_ts, coalesce(t_before, {NEVER}) AS last_te,
      holds
    FROM (
      SELECT t, holds, lag(t) OVER (ORDER BY t) AS t_before FROM (
        SELECT t, holds, lag(holds, 1, false) OVER (ORDER BY t) AS held
        FROM (SELECT t, (mask >> {symbol}) & 1 = 1 AS holds FROM stream)
      ) WHERE holds <> held
    ) WINDOW w AS (ORDER BY t)
  ) WHERE holds AND {" AND ".join(kept)}
)"""


def _join_conditions(constraint: tuple[int, int, Relation], shared: bool) -> list[str]:
    x, y, relations = constraint
    conditions = [any_of(relations, f"s{x}", f"s{y}")]
    if shared:
        for of_x, of_y, sign in comparisons(widened(relations)):
            conditions.append(f"s{x}.{SIDES[of_x]} {sign} s{y}.{SIDES[of_y]}")
    return conditions


def _decision(constraint: tuple[int, int, Relation]) -> str:
    """When a pair that satisfies its constraint was decided: at the third of its endpoints.

    At the later start already, if the relations of a complete prefix group are all allowed.
    """
    x, y, relations = constraint
    later = f"greatest(s{x}.ts, s{y}.ts)"
    third = f"greatest({later}, least(s{x}.te, s{y}.te))"
    early = Relation(0)
    for group in _GROUPS:
        if relations & group == group:
            early |= group
    if not early:
        return third
    return f"CASE WHEN {any_of(early, f's{x}', f's{y}')} THEN {later} ELSE {third} END"


def matcher(
    pattern: Pattern,
    *,
    keep: bool = True,
    emit: str = "completion",
    shared: bool = True,
    threads: int = 1,
) -> Matcher:
    """The query of :func:`duckdb_query` in DuckDB; its own form of a stream is a table."""
    import duckdb

    if emit not in ("completion", "trigger"):
        raise ValueError(f"emit is {emit!r}; it must be 'completion' or 'trigger'")
    text = duckdb_query(pattern, emit, shared)
    connection = duckdb.connect()
    connection.execute(f"SET threads = {int(threads)}")

    def load(times: Ints, masks: Ints) -> int:
        times, masks = one_partition(times, masks)
        connection.register("arrived", pl.DataFrame({"t": times, "mask": masks}).to_arrow())
        connection.execute("CREATE OR REPLACE TABLE stream AS SELECT * FROM arrived")
        return len(times)

    def match(events: int) -> Result:
        if not keep:
            counted = connection.execute(f"SELECT count(*) FROM ({text})").fetchone()
            nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
            return Result(nothing, int(counted[0]), {"events": events})
        columns = connection.execute(text + "\nORDER BY ALL").fetchnumpy()
        matches = np.column_stack([np.asarray(c, dtype=np.int64) for c in columns.values()])
        return Result(matches, len(matches), {"events": events})

    return Matcher(match, load)
