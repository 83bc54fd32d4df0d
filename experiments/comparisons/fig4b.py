"""PieStream, Fig. 4b: processing time against the number of events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.harness.conclusions import growth, standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below, time_curves
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import (
    about_input,
    by_input,
    memory_table,
    pivot,
    select,
    thousands,
    time_tables,
)
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
    "java",
)
#: Fits begin here: below, what a call costs whatever its input is a large part of the time.
_FITTED_FROM = 10_000


def rows(size: Size) -> Iterator[Row]:
    """A row a number of symbols, number of events, form of the input and method."""
    most = size.of(3, 6, 7)
    for n in size.of((4,), (4, 12), (4, 8, 12, 16, 18)):
        sweep = Sweep(size)
        for power in range(3, most + 1):
            case = synthetic(Pattern.chain(n), 10**power)
            yield from sweep.compared(case, METHODS, n=n, length=10**power, seed=SEED)


def tables(rows: Rows) -> str:
    """Events a CPU second, times, and memory."""
    rates = [
        f"Events per CPU second (warm, else cold), {about_input(form)}:\n\n"
        + pivot(found, ["n", "length"], lambda row: thousands(row["events_per_s"]),
                measured="events_per_s")
        for form, found in by_input(rows)
    ]  # fmt: skip
    index = ["n", "length"]
    return "\n\n".join([*rates, time_tables(rows, index), memory_table(rows, index)])


def conclusions(rows: Rows) -> str:
    """Who is quicker, and how time grows."""
    fits = [
        f"n = {n}: {growth(select(rows, n=n), 'length', _FITTED_FROM)}"
        for n in dict.fromkeys(row["n"] for row in rows)
    ]
    return "\n\n".join([
        standing(rows, ["n", "length"]),
        f"**Growth.** Time grows with the number of events, from {_FITTED_FROM:,} on, to this power: "
        f"{'. '.join(fits)}.",
        f"**Held.** {_held(rows)}",
    ])  # fmt: skip


def _held(rows: Rows) -> str:
    """What piestream holds as the stream gets longer than the window."""
    longest = max(row["length"] for row in rows)
    texts = [
        f"n = {row['n']}: {row['peak_stored']:,} at {row['length']:,} events"
        for row in select(rows, peer="piestream")
        if row["length"] in (longest // 10, longest) and row.get("peak_stored")
    ]
    return f"The most intervals held by piestream: {'; '.join(texts) or 'not counted'}."


def draw(rows: Rows, figure: Figure) -> None:
    """A column a number of symbols, a line a form of the input."""
    numbers = list(dict.fromkeys(row["n"] for row in rows))
    forms = by_input(rows)
    panels = figure.subplots(len(forms), len(numbers), squeeze=False, sharey=True, sharex=True)
    for line, (form, found) in zip(panels, forms, strict=True):
        for axes, n in zip(line, numbers, strict=True):
            time_curves(axes, select(found, n=n), "length", log_x=True)
            axes.set_title(f"{n} symbols, {form}")
        line[0].set_ylabel("CPU ms")
    for axes in panels[-1]:
        axes.set_xlabel("events")
    legend_below(figure)


def headline(rows: Rows) -> dict[str, Rows]:
    """Most symbols, most events."""
    n, length = max(row["n"] for row in rows), max(row["length"] for row in rows)
    return {f"{n} symbols, {length:,} events": select(rows, n=n, length=length)}


EXPERIMENT = Experiment(
    "fig4b",
    "PieStream, Fig. 4b: 1,000 to 10,000,000 events",
    "How does processing time grow with the stream? The paper finds both systems linear, TPStream "
    "ahead below 12 symbols and PieStream beyond.",
    "The stream and the chain of Fig. 4a.",
    rows,
    tables,
    conclusions,
    draw,
    (11.0, 6.0),
    headline=headline,
    methods=METHODS,
)
