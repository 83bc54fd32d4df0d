"""What is done today without an engine for this: SQL in DuckDB, joins in Polars. Batch only.

Both find the intervals of each symbol as gaps and islands and join them by inequalities. They see
the whole stream at once, so they have no latency to speak of; what is compared is the work.

Row-pattern SQL (``MATCH_RECOGNIZE``) would be a third way, for patterns that a row-wise regular
expression can say. None of the engines installed here has it: DuckDB 2.0 does not parse it and
Polars' SQL says that it is not implemented (:func:`row_pattern_engines` asks them).
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import polars as pl

from experiments.baselines.allen import OPEN
from experiments.baselines.pattern import Ints, Pattern, Result, one_partition
from experiments.baselines.restrictions import comparisons
from piestream.relations import Relation, inverse

__all__ = ["duckdb_query", "row_pattern_engines", "run_duckdb", "run_polars"]

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

_GROUPS = (
    Relation.OVERLAPS | Relation.FINISHED_BY | Relation.CONTAINS,
    Relation.STARTS | Relation.EQUALS | Relation.STARTED_BY,
    Relation.DURING | Relation.FINISHES | Relation.OVERLAPPED_BY,
)
_SIDES = ("ts", "te")
#: Earlier than every time, for the end of a run that has none before it.
_NEVER = np.iinfo(np.int64).min


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
    ctes = [_islands(pattern, symbol, emit) for symbol in range(n)]
    joins, bound = ["FROM s0"], {0}
    rest = list(pattern.constraints)
    while len(bound) < n:
        x, y, _ = next(c for c in rest if len({c[0], c[1]} & bound) == 1)
        new = y if x in bound else x
        bound.add(new)
        here = [c for c in rest if {c[0], c[1]} <= bound]
        rest = [c for c in rest if c not in here]
        conditions = [condition for c in here for condition in _join_conditions(c, shared)]
        if shared:
            for x, y, _ in here:
                conditions += [
                    f"s{x}.ts <= s{y}.ts + {pattern.window}",
                    f"s{y}.ts <= s{x}.ts + {pattern.window}",
                ]
        joins.append(f"JOIN s{new} ON " + "\n  AND ".join(conditions))
    starts = ", ".join(f"s{symbol}.ts AS ts{symbol}" for symbol in range(n))
    first = _extreme("least", [f"s{symbol}.ts" for symbol in range(n)])
    reports = [f"s{symbol}.valid" for symbol in range(n)]
    if emit == "trigger":
        reports += [_decision(c) for c in pattern.constraints]
    body = "\n".join(joins)
    return (
        "WITH " + ",\n".join(ctes) + f",\nfound AS (\nSELECT {_extreme('greatest', reports)} AS "
        f"report, {first} AS first_ts, {starts}\n{body}\n)\n"
        f"SELECT * EXCLUDE (first_ts) FROM found\n"
        f"WHERE report < {OPEN} AND report - first_ts <= {pattern.window}"
    )


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
      coalesce(lead(t, 2) OVER w, {OPEN}) AS next_ts, coalesce(t_before, {_NEVER}) AS last_te,
      holds
    FROM (
      SELECT t, holds, lag(t) OVER (ORDER BY t) AS t_before FROM (
        SELECT t, holds, lag(holds, 1, false) OVER (ORDER BY t) AS held
        FROM (SELECT t, (mask >> {symbol}) & 1 = 1 AS holds FROM stream)
      ) WHERE holds <> held
    ) WINDOW w AS (ORDER BY t)
  ) WHERE holds AND {" AND ".join(kept)}
)"""


def _any_of(relations: Relation, x: str, y: str) -> str:
    """The alternatives of a constraint, or-ed."""
    parts = [
        "(" + CONDITIONS[relation].format(x=x, y=y) + ")"
        for relation in Relation
        if relation & relations
    ]
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(parts) + ")"


def _join_conditions(constraint: tuple[int, int, Relation], shared: bool) -> list[str]:
    x, y, relations = constraint
    conditions = [_any_of(relations, f"s{x}", f"s{y}")]
    if shared:
        for of_x, of_y, sign in comparisons(_widened(relations)):
            conditions.append(f"s{x}.{_SIDES[of_x]} {sign} s{y}.{_SIDES[of_y]}")
    return conditions


def _widened(relations: Relation) -> Relation:
    """The Allen relations that include a set: followed-by is a kind of before."""
    if relations & Relation.FOLLOWED_BY:
        relations |= Relation.BEFORE
    if relations & Relation.FOLLOWS:
        relations |= Relation.AFTER
    return relations


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
    return f"CASE WHEN {_any_of(early, f's{x}', f's{y}')} THEN {later} ELSE {third} END"


def run_duckdb(
    pattern: Pattern,
    times: Ints,
    masks: Ints,
    *,
    keep: bool = True,
    emit: str = "completion",
    shared: bool = True,
    threads: int = 1,
) -> Result:
    """Run the query of :func:`duckdb_query` in DuckDB, on one thread unless told otherwise."""
    import duckdb

    _check_emit(emit)
    times, masks = one_partition(times, masks)
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {int(threads)}")
        connection.register("arrived", pl.DataFrame({"t": times, "mask": masks}).to_arrow())
        connection.execute("CREATE TABLE stream AS SELECT * FROM arrived")
        text = duckdb_query(pattern, emit, shared)
        begin = perf_counter()
        if keep:
            columns = connection.execute(text + "\nORDER BY ALL").fetchnumpy()
            matches = np.column_stack([np.asarray(c, dtype=np.int64) for c in columns.values()])
            count = len(matches)
        else:
            matches = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
            (count,) = connection.execute(f"SELECT count(*) FROM ({text})").fetchone() or (0,)
        seconds = perf_counter() - begin
    return Result(matches, int(count), {"events": len(times)}, seconds)


def run_polars(pattern: Pattern, times: Ints, masks: Ints, *, keep: bool = True) -> Result:
    """Run lengths and ``join_where`` in Polars; a match's report is the last of its ends."""
    times, masks = one_partition(times, masks)
    frame = pl.DataFrame({"t": times, "mask": masks})
    begin = perf_counter()
    islands = [_polars_islands(frame, pattern, symbol) for symbol in range(pattern.n_symbols)]
    joined, bound = islands[0], {0}
    rest = list(pattern.constraints)
    while len(bound) < pattern.n_symbols:
        x, y, _ = next(c for c in rest if len({c[0], c[1]} & bound) == 1)
        new = y if x in bound else x
        bound.add(new)
        here = [c for c in rest if {c[0], c[1]} <= bound]
        rest = [c for c in rest if c not in here]
        inequalities: list[pl.Expr] = []
        for x, y, relations in here:
            inequalities += [
                pl.col(f"ts{x}") <= pl.col(f"ts{y}") + pattern.window,
                pl.col(f"ts{y}") <= pl.col(f"ts{x}") + pattern.window,
            ]
            for of_x, of_y, sign in comparisons(_widened(relations)):
                left, right = pl.col(f"{_SIDES[of_x]}{x}"), pl.col(f"{_SIDES[of_y]}{y}")
                inequalities += {
                    "<": [left < right],
                    ">": [left > right],
                    "<=": [left <= right],
                    ">=": [left >= right],
                    "=": [left == right],
                }[sign]
        joined = joined.join_where(islands[new], *inequalities)
        # join_where takes conjunctions only, so the alternatives are a filter after it.
        for x, y, relations in here:
            joined = joined.filter(_polars_any_of(relations, x, y))
    everyone = range(pattern.n_symbols)
    found = joined.select(
        pl.max_horizontal(f"te{symbol}" for symbol in everyone).alias("report"),
        *(f"ts{symbol}" for symbol in everyone),
    ).filter(
        pl.col("report") - pl.min_horizontal(f"ts{symbol}" for symbol in everyone) <= pattern.window
    )
    if keep:
        result = found.sort(pl.all()).collect()
        matches = result.to_numpy().astype(np.int64, copy=False)
        count = len(matches)
    else:
        matches = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
        count = found.select(pl.len()).collect().item()
    return Result(matches, count, {"events": len(times)}, perf_counter() - begin)


def _polars_islands(frame: pl.DataFrame, pattern: Pattern, symbol: int) -> pl.LazyFrame:
    """The runs of one bit that have ended and keep their duration."""
    ts, te = pl.col(f"ts{symbol}"), pl.col(f"te{symbol}")
    runs = (
        frame.lazy()
        .select("t", holds=(pl.col("mask") // (1 << symbol)) % 2 == 1)
        .filter(pl.col("holds") != pl.col("holds").shift(1, fill_value=False))
        .select(
            pl.col("t").alias(f"ts{symbol}"),
            pl.col("t").shift(-1).alias(f"te{symbol}"),
            pl.col("t").shift(-2).fill_null(OPEN).alias(f"next{symbol}"),
            pl.col("t").shift(1).fill_null(_NEVER).alias(f"last{symbol}"),
            "holds",
        )
        .filter("holds", te.is_not_null(), te - ts >= pattern.at_least[symbol])
        .drop("holds")
    )
    most = pattern.at_most[symbol]
    return runs if most is None else runs.filter(te - ts <= most)


def _polars_any_of(relations: Relation, x: int, y: int) -> pl.Expr:
    text = _any_of(relations, "#x", "#y")
    for side, symbol in (("#x", x), ("#y", y)):
        for column, short in (("next_ts", "next"), ("last_te", "last"), ("ts", "ts"), ("te", "te")):
            text = text.replace(f"{side}.{column}", f"{short}{symbol}")
    return pl.sql_expr(text)


def row_pattern_engines() -> dict[str, bool]:
    """Which of the engines installed here run ``MATCH_RECOGNIZE``."""
    import duckdb

    text = (
        "SELECT * FROM stream MATCH_RECOGNIZE (ORDER BY t MEASURES FIRST(a.t) AS ts "
        "PATTERN (a+) DEFINE a AS mask = 1)"
    )
    stream = pl.DataFrame({"t": [1, 2], "mask": [1, 0]})
    offered = {}
    with duckdb.connect() as connection:
        connection.register("stream", stream.to_arrow())
        try:
            connection.execute(text)
            offered["duckdb"] = True
        except duckdb.Error:
            offered["duckdb"] = False
    try:
        pl.SQLContext(stream=stream).execute(text, eager=True)
        offered["polars"] = True
    except pl.exceptions.PolarsError:
        offered["polars"] = False
    return offered


def _check_emit(emit: str) -> None:
    if emit not in ("completion", "trigger"):
        raise ValueError(f"emit is {emit!r}; it must be 'completion' or 'trigger'")
