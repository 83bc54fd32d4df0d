"""The same in Polars: run lengths and ``join_where``; a match's report is the last of its ends."""

from __future__ import annotations

import numpy as np
import polars as pl

from experiments.peers.parts.interval_sql import NEVER, OPEN, SIDES, any_of, join_order, widened
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Ints, Pattern, Result, one_partition
from experiments.peers.peer import Matcher
from piestream.relations import Relation

__all__ = ["matcher"]


def matcher(pattern: Pattern, *, keep: bool = True) -> Matcher:
    """Gaps and islands, joined by inequalities; its own form of a stream is a frame."""
    everyone = range(pattern.n_symbols)
    joins = [(new, _inequalities(constraints, pattern.window), _alternatives(constraints))
             for new, constraints in join_order(pattern)]  # fmt: skip

    def load(times: Ints, masks: Ints) -> pl.DataFrame:
        times, masks = one_partition(times, masks)
        return pl.DataFrame({"t": times, "mask": masks})

    def match(frame: pl.DataFrame) -> Result:
        joined = _islands(frame, pattern, 0)
        for new, inequalities, alternatives in joins:
            joined = joined.join_where(_islands(frame, pattern, new), *inequalities)
            # join_where takes conjunctions only, so the alternatives are a filter after it.
            joined = joined.filter(*alternatives)
        found = joined.select(
            pl.max_horizontal(f"te{symbol}" for symbol in everyone).alias("report"),
            *(f"ts{symbol}" for symbol in everyone),
        ).filter(
            pl.col("report") - pl.min_horizontal(f"ts{symbol}" for symbol in everyone)
            <= pattern.window
        )
        counters = {"events": frame.height}
        if not keep:
            nothing = np.empty((0, 1 + pattern.n_symbols), dtype=np.int64)
            return Result(nothing, found.select(pl.len()).collect().item(), counters)
        matches = found.sort(pl.all()).collect().to_numpy().astype(np.int64, copy=False)
        return Result(matches, len(matches), counters)

    return Matcher(match, load)


def _islands(frame: pl.DataFrame, pattern: Pattern, symbol: int) -> pl.LazyFrame:
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
            pl.col("t").shift(1).fill_null(NEVER).alias(f"last{symbol}"),
            "holds",
        )
        .filter("holds", te.is_not_null(), te - ts >= pattern.at_least[symbol])
        .drop("holds")
    )
    most = pattern.at_most[symbol]
    return runs if most is None else runs.filter(te - ts <= most)


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
        text = any_of(relations, "#x", "#y")
        for side, symbol in (("#x", x), ("#y", y)):
            for column, name in (
                ("next_ts", "next"),
                ("last_te", "last"),
                ("ts", "ts"),
                ("te", "te"),
            ):
                text = text.replace(f"{side}.{column}", f"{name}{symbol}")
        found.append(pl.sql_expr(text))
    return found
