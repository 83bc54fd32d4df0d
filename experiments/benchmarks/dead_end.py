"""A chain whose last symbol never occurs, against the cost of its intervals and pairs alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import polars as pl

import piestream as ps
from experiments import engine
from experiments.benchmarks.common import measured, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, booleans, query_of

_COLUMNS = ("n", "events", "matches", "wall_s", "cpu_s", "cold_cpu_s", "pairs_only_s", "times_pairs",
            "events_per_s", "times_yardstick")  # fmt: skip


def through(query: ps.Query, frame: pl.DataFrame, pairs_only: bool) -> Callable[[], int]:
    """The engine over a frame; with ``pairs_only`` it extends nothing."""
    binding = engine.bind_query(query, frame.schema)
    if pairs_only:
        binding = engine.pairs_only(binding)
    engine.run_whole(binding, frame.head(1_000))
    return partial(engine.run_whole, binding, frame)


def rows(size: Size) -> Iterator[Row]:
    """A row a number of symbols."""
    events = size.of(2_000, 200_000, 1_000_000)
    for n in size.of((4,), (4, 24), (4, 8, 12, 16, 24)):
        frame = booleans(n, events, SEED).with_columns(pl.lit(False).alias(f"a{n}"))
        query = query_of(Pattern.chain(n), returns="a1.ts")
        base, row = (
            measured(
                through, query, frame, pairs_only, size=size, events=events, yardstick=frame, n=n
            )
            for pairs_only in (True, False)
        )
        row["pairs_only_s"] = base.get("cpu_s")
        if base.get("cpu_s") and row.get("cpu_s"):
            row["times_pairs"] = row["cpu_s"] / base["cpu_s"]
        yield row


def conclusions(rows: Rows) -> str:
    """How much more than intervals and pairs it costs."""
    times = [row["times_pairs"] for row in rows if row.get("times_pairs")]
    matches = sum(row.get("matches", 0) for row in rows)
    return (
        f"**A dead end** has {matches} matches and costs {span(times, '×')} of finding its intervals and "
        "entering its pairs alone."
    )


EXPERIMENT = Experiment(
    "dead_end",
    "A last symbol that never occurs",
    "What is the search for matches worth that cannot be completed?",
    "Fig. 4's chain. `pairs only s` is the same engine on the same columns with the same constraints, "
    "automata and index, whose compiled query has nothing to extend: it finds every interval and "
    "enters every pair, once. (The sum of the queries of single pairs would count intervals twice.)",
    rows,
    shown(_COLUMNS),
    conclusions,
)
