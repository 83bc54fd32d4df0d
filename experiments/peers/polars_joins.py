"""Inequality joins of the same tables of intervals in Polars: ``join_where``, and a filter behind it.

A match's report is the last of its ends. There are several plans, of which the quickest counts.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.peers.forms import Tables, tables
from experiments.peers.parts.interval_rows import interval_rows
from experiments.peers.parts.interval_sql import SIDES, any_of, join_order, numbered, widened
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Pattern, Result
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["KEYS", "ORDERS", "matcher"]

#: Joins as the constraints are written; or from the symbol that has the fewest intervals on.
ORDERS = ("written", "rarest first")
#: Of a partitioned stream: on the key too; or by the inequalities alone, as partitions lie apart in time.
KEYS = ("equal", "none")


def matcher(
    pattern: Pattern, *, keep: bool = True, order: str = "written", key: str = "none"
) -> Matcher:
    """The joins by one plan."""
    for what, chosen, known in (("order", order, ORDERS), ("key", key, KEYS)):
        if chosen not in known:
            raise ValueError(f"{what} is {chosen!r}; it must be one of {', '.join(known)}")
    everyone = range(pattern.n_symbols)
    plan = order if key == "none" else f"{order}, key: {key}"

    def match(given: Tables) -> Result:
        rows = interval_rows(given, pattern)
        first = min(everyone, key=lambda symbol: rows[symbol].height) if order != "written" else 0
        joined = _named(rows[first], first)
        for new, constraints in join_order(pattern, first):
            conditions = _inequalities(constraints, pattern.window)
            if key == "equal":
                other = next(s for s in constraints[0][:2] if s != new)
                conditions.append(pl.col(f"k{other}") == pl.col(f"k{new}"))
            joined = joined.join_where(_named(rows[new], new), *conditions)
            # join_where takes conjunctions only, so the alternatives are a filter after it.
            joined = joined.filter(*_alternatives(constraints))
        found = joined.select(
            pl.max_horizontal(f"te{symbol}" for symbol in everyone).alias("report"),
            *(f"ts{symbol}" for symbol in everyone),
        ).filter(
            pl.col("report") - pl.min_horizontal(f"ts{symbol}" for symbol in everyone)
            <= pattern.window
        )
        counters = {"events": given.events}
        if not keep:
            nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
            count = found.select(pl.len()).collect().item()
            return Result(nothing, count, counters, plan=plan)
        matches = found.sort(pl.all()).collect().to_numpy().astype(np.int64, copy=False)
        return Result(matches, len(matches), counters, plan=plan)

    return Matcher(match, tables(pattern))


def _named(rows: pl.DataFrame, symbol: int) -> pl.LazyFrame:
    """The table of a symbol, its columns with the symbol's number."""
    return rows.lazy().drop("valid").rename(lambda name: f"{name}{symbol}")


def _inequalities(constraints: list[tuple[int, int, Relation]], window: int) -> list[pl.Expr]:
    """What the alternatives of each constraint have in common, and the window."""
    found: list[pl.Expr] = []
    for x, y, relations in constraints:
        found += [
            pl.col(f"ts{x}") <= pl.col(f"ts{y}") + window,
            pl.col(f"ts{y}") <= pl.col(f"ts{x}") + window,
        ]
        for of_x, of_y, sign in comparisons(widened(relations)):
            left, right = pl.col(f"{SIDES[of_x]}{x}"), pl.col(f"{SIDES[of_y]}{y}")
            found.append(
                {
                    "<": left < right,
                    ">": left > right,
                    "<=": left <= right,
                    ">=": left >= right,
                    "=": left == right,
                }[sign]
            )
    return found


def _alternatives(constraints: list[tuple[int, int, Relation]]) -> list[pl.Expr]:
    """The alternatives of each constraint, or-ed."""
    found = []
    for x, y, relations in constraints:
        text = any_of(relations, f"s{x}", f"s{y}")
        found.append(pl.sql_expr(numbered(text, x, y)))
    return found
