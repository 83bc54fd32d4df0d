"""PieStream, Fig. 4a: processing time against the number of symbols in a chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.harness.conclusions import agreement, growth, standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import curves, legend_below, time_curves
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import (
    by_input,
    memory_table,
    pivot,
    select,
    thousands,
    time_tables,
)
from experiments.peers import BITS
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    "piestream",
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    "piestream-paper-changes",
    "iseq",
    "duckdb",
    "polars",
    "siddhi",
    "java",
)


def rows(size: Size) -> Iterator[Row]:
    """A row a number of symbols, form of the input and method."""
    events = size.of(2_000, 30_000, 1_000_000)
    sweep = Sweep(size)
    for n in size.of((3, 4), (4, 8, 12, 16, 18, 24), (4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)):
        yield from sweep.compared(synthetic(Pattern.chain(n), events), METHODS, n=n, seed=SEED)


def tables(rows: Rows) -> str:
    """Times, memory, and what was held."""
    held = [row for row in select(rows, input=BITS) if row.get("peak_stored") or "over" in row]
    return "\n\n".join([
        f"{rows[0]['events']:,} events, by the number of symbols n.",
        time_tables(rows, ["n"]),
        memory_table(rows, ["n"]),
        "The most intervals, pairs and partial results held at one time (piestream: intervals), "
        "input: *packed bits*:\n\n"
        + pivot(held, ["n"], lambda row: thousands(row["peak_stored"]), measured="peak_stored"),
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Who is quicker, how time grows, and whether all count alike."""
    return "\n\n".join([
        standing(rows, ["n"]),
        f"**Growth.** Time grows with the number of symbols to this power: {growth(rows, 'n')}.",
        f"**Agreement.** {agreement(rows, ['n'])}",
    ])  # fmt: skip


def draw(rows: Rows, figure: Figure) -> None:
    """Time for each form of the input, and memory."""
    panels = figure.subplots(1, 3)
    for axes, (form, found) in zip(panels, by_input(rows), strict=False):
        time_curves(axes, found, "n")
        axes.set(xlabel="symbols", title=f"time, {form}")
    panels[0].set_ylabel(f"CPU ms for {rows[0]['events']:,} events")
    curves(panels[2], select(rows, input=BITS), "n", "peak_growth_bytes", scale=2**-20)
    panels[2].set(xlabel="symbols", ylabel="MB beyond the input", title=f"memory, {BITS}")
    legend_below(figure)


def headline(rows: Rows) -> dict[str, Rows]:
    """Most symbols."""
    most = max(row["n"] for row in rows)
    return {f"{most} symbols": select(rows, n=most)}


EXPERIMENT = Experiment(
    "fig4a",
    "PieStream, Fig. 4a: 4 to 24 symbols",
    "How does processing time grow with the number of symbols? The paper finds PieStream "
    "quasilinear and TPStream exponential, failing beyond 16.",
    "Synthetic booleans (situations 10–100 s, gaps 10–50 s, one event a second); a chain of n "
    "symbols with meets, overlaps, overlapped-by, starts, started-by and contains between "
    "neighbours; WITHIN 10,000.",
    rows,
    tables,
    conclusions,
    draw,
    (11.0, 4.6),
    headline=headline,
    methods=METHODS,
)
