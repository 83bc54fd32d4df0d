"""A stream whose rates change: every fixed join order, and the one that adapts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import polars as pl

import piestream as ps
from experiments import engine
from experiments.benchmarks.common import span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size, Yardstick
from experiments.harness.provenance import load
from experiments.harness.tables import column_table, select
from experiments.streams import SEED, booleans

_COLUMNS = ("phase", "order", "events", "matches", "steps", "cpu_s", "times_best", "steps_times_best",
            "planning_share", "beyond_replayed", "times_yardstick")  # fmt: skip

#: How often a, b and c occur in proportion, one phase after the other.
RATIOS = ((1, 1, 1), (1, 50, 50), (50, 1, 50))
ADAPTIVE = "adaptive"
#: The orders that the adaptive run took, put in by hand between the same pushes.
REPLAYED = "replayed"
QUERY = (
    "FROM s ORDER BY ts DEFINE a AS a, b AS b, c AS c "
    "PATTERN a before b AND a before c AND b before c WITHIN 10000 RETURN a.ts"
)
#: Rows pushed at a time: between two pushes the order may change.
_PUSHED = 1 << 14


def rows(size: Size) -> Iterator[Row]:
    """A row a phase and order."""
    engine.warm_adaption()
    parts = _stream(*size.of((2_000, 4_000), (20_000, 200_000), (100_000, 3_000_000)))
    pushes = [list(part.iter_slices(_PUSHED)) for part in parts]
    adaptive = engine.bind_query(ps.query(QUERY), parts[0].schema)
    bindings = {ADAPTIVE: adaptive, **engine.every_order(adaptive)}
    runs: dict[str, list[list[engine.PhaseRun]]] = {}
    for _ in range(size.of(1, 3, 5)):  # in turns, so that noise falls on all
        for order, binding in bindings.items():
            runs.setdefault(order, []).append(engine.run_in_session(binding, pushes))
        taken = engine.orders_taken(adaptive, (rows for phase in pushes for rows in phase))
        replayed = engine.run_in_session(adaptive, pushes, taken)
        runs.setdefault(REPLAYED, []).append(replayed)
    for number, ratios in enumerate(RATIOS):
        yield from _phase(number, ":".join(map(str, ratios)), parts[number], runs)


def _stream(first: int, others: int) -> list[pl.DataFrame]:
    """One stream, cut where its rates change; the first phase, full of matches, is short."""
    starts = [0, *accumulate([first, others, others])]
    phases = list(zip(starts, RATIOS, strict=False))
    frame = booleans(3, starts[-1], SEED, situation=(5, 20), gap=(20, 100), phases=phases)
    frame = frame.rename({"a1": "a", "a2": "b", "a3": "c"})
    return [frame[start:end] for start, end in pairwise(starts)]


def _phase(
    number: int, name: str, part: pl.DataFrame, runs: dict[str, list[list[engine.PhaseRun]]]
) -> Iterator[Row]:
    """The best run of each order in one phase."""
    yardstick = Yardstick(part)
    for _ in range(5):
        yardstick.measure()
    best = {
        order: min((run[number] for run in found), key=lambda phase: phase.cpu)
        for order, found in runs.items()
    }
    fixed = [phase for order, phase in best.items() if order not in (ADAPTIVE, REPLAYED)]
    least_cpu, least_steps = min(p.cpu for p in fixed), min(p.steps for p in fixed)
    for order, phase in best.items():
        extra: dict[str, Any] = {}
        if order == ADAPTIVE:
            extra["beyond_replayed"] = phase.cpu / best[REPLAYED].cpu - 1
        yield {
            "phase": name,
            "order": order,
            "events": len(part),
            "matches": phase.matches,
            "steps": phase.steps,
            "cpu_s": phase.cpu,
            "times_best": phase.cpu / least_cpu,
            "steps_times_best": phase.steps / max(least_steps, 1),
            "planning_share": phase.planning / phase.cpu,
            **extra,
            **yardstick.row(phase.cpu),
            "seed": SEED,
            "load": load(),
        }


def tables(rows: Rows) -> str:
    """All of them."""
    return column_table(_COLUMNS, rows)


def conclusions(rows: Rows) -> str:
    """The adaptive order against the best and the worst fixed one of each phase."""
    adaptive = select(rows, order=ADAPTIVE)
    worst = [
        max(row["times_best"] for row in select(rows, phase=row["phase"])
            if row["order"] not in (ADAPTIVE, REPLAYED))
        for row in adaptive
    ]  # fmt: skip
    return (
        "**Adapting** takes "
        f"{_times(adaptive, 'times_best')} the CPU time of the best fixed order of each phase and "
        f"{_times(adaptive, 'steps_times_best')} its steps; "
        f"the worst fixed order takes {span(worst, '×')}. Looking at the live state and ordering anew is "
        f"{span([100 * row['planning_share'] for row in adaptive], ' %')} of the time."
    )


def _times(rows: Rows, value: str) -> str:
    return ", ".join(f"{row[value]:.3g}×" for row in rows)


EXPERIMENT = Experiment(
    "join_orders",
    "Rates that change: every join order, and the one that adapts",
    "What is a join order worth that follows the live state?",
    "*a before b, a before c, b before c*, where a, b and c occur 1:1:1, then 1:50:50, then 50:1:50; one "
    "session comes through all phases, one row a phase and order. A fixed order is a ranking of the "
    "symbols and of the constraints. `steps` are the candidates looked at, whatever the clock says; "
    "`planning share` is the CPU time of looking at the live state and ordering anew; the order "
    "*replayed* is that of the adaptive run, put in by hand between the same pushes. The best of "
    "several runs in turns.",
    rows,
    tables,
    conclusions,
)
