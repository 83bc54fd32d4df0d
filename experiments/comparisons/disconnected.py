"""TPStream's disconnected patterns over growing windows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from experiments.harness.conclusions import agreement, growth, standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import curves, legend_below, time_curves
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import (
    by_input,
    duration,
    memory_table,
    pivot,
    select,
    thousands,
    time_tables,
)
from experiments.peers import BITS, prepared, title
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, SEED, STARTS_BEFORE_OVERLAPS, synthetic

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
)
#: Who is also run without writing matches down.
COUNTED = ("tpstream", "iseq")
PATTERNS = {
    "A before B overlaps C": (3, BEFORE_OVERLAPS),
    "A starts B before C overlaps D": (4, STARTS_BEFORE_OVERLAPS),
}


def rows(size: Size) -> Iterator[Row]:
    """A row a pattern, window, form of the input and method."""
    events = size.of(3_000, 100_000, 5_000_000)
    windows = size.of((500, 2_000), (500, 5_000, 20_000, 100_000),
                      (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000))  # fmt: skip
    for name, (symbols, constraints) in PATTERNS.items():
        sweep = Sweep(size)
        for window in windows:
            case = synthetic(Pattern(symbols, constraints, window), events)
            for row in sweep.compared(case, METHODS, pattern=name, window=window, seed=SEED):
                if row["peer"] in COUNTED and row["input"] == BITS and row.get("cold_cpu_s"):
                    counting = partial(prepared, keep=False)
                    only = isolated(counting, case, row["peer"], size=size)
                    row |= {"counting_cpu_s": only.get("cpu_s"),
                            "counting_cold_cpu_s": only.get("cold_cpu_s")}  # fmt: skip
                yield row


def tables(rows: Rows) -> str:
    """Time, memory, what is held, matches."""
    index = ["pattern", "window"]
    bits = select(rows, input=BITS)
    return "\n\n".join([
        f"{rows[0]['events']:,} events.",
        time_tables(rows, index),
        memory_table(rows, index),
        "The most items held at one time (intervals; for PieStream's algorithm also pairs and "
        "partial results), input: *packed bits*:\n\n"
        + pivot(bits, index, lambda row: thousands(row["peak_stored"]), measured="peak_stored"),
        "Matches:\n\n"
        + pivot(select(bits, peer="piestream"), index, lambda row: thousands(row["matches"])),
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Who is quicker, how time grows with the window, and what a match costs."""
    fits = [
        f"*{pattern}*: {growth(select(rows, pattern=pattern), 'window')}" for pattern in PATTERNS
    ]
    return "\n\n".join([
        standing(rows, ["pattern", "window"]),
        f"**Growth.** Time grows with the window to this power. {'. '.join(fits)}.",
        f"**A match.** {_of_a_match(rows)}",
        f"**Agreement.** {agreement(rows, ['pattern', 'window'])}",
    ])  # fmt: skip


def _of_a_match(rows: Rows) -> str:
    """What a match of the first pattern costs in the widest window, and what of it is writing."""
    widest = max(row["window"] for row in rows)
    pattern = next(iter(PATTERNS))
    texts = []
    for row in select(rows, pattern=pattern, window=widest, input=BITS):
        seconds, kind = row.get("cpu_s"), ""
        counting = row.get("counting_cpu_s")
        if not seconds:
            seconds, kind, counting = row.get("cold_cpu_s"), "cold ", row.get("counting_cold_cpu_s")
        if not seconds or not row.get("matches"):
            continue
        text = f"{title(row['peer'])} {kind}{duration(seconds / row['matches'])}"
        if counting:
            text += f" ({duration(counting / row['matches'])} if it only counts them)"
        texts.append(text)
    return (
        f"CPU time over the number of matches, *{pattern}* at a window of {widest:,}, input *{BITS}*: "
        f"{', '.join(texts) or 'none was measured'}. All methods write every match: piestream's "
        "detector a row of six words, the others one of four."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Time for each form of the input above, items held below."""
    forms = by_input(rows)
    panels = figure.subplots(len(forms) + 1, len(PATTERNS), sharex=True, squeeze=False)
    for column, pattern in enumerate(PATTERNS):
        for line, (form, found) in enumerate(forms):
            axes = panels[line, column]
            time_curves(axes, select(found, pattern=pattern), "window", log_x=True)
            axes.set_title(f"{pattern}, {form}")
            axes.set_ylabel("CPU ms")
        axes = panels[-1, column]
        curves(axes, select(rows, pattern=pattern, input=BITS), "window", "peak_stored", log_x=True)
        axes.set(xlabel="window, s", ylabel="items held at most", title=f"{pattern}, {BITS}")
    legend_below(figure, 3)


def headline(rows: Rows) -> dict[str, Rows]:
    """The widest window."""
    widest = max(row["window"] for row in rows)
    return {
        f"{pattern}, W = {widest:,}": select(rows, pattern=pattern, window=widest)
        for pattern in PATTERNS
    }


EXPERIMENT = Experiment(
    "disconnected",
    "TPStream, Fig. 5c, and the dissertation's Fig. 5.9: disconnected patterns",
    "What does a wide window cost when parts of a pattern are far apart in time? The papers find "
    "TPStream up to 14 times faster than ISEQ at 100,000 s.",
    "Synthetic booleans; *A before B overlaps C* (the paper) and *A starts B before C overlaps D* "
    "(the dissertation), windows from 500 to 100,000 s. The papers had 300 and 100 million events; "
    "`--full` has 5 million: beyond, the matches of the first pattern alone fill the memory.",
    rows,
    tables,
    conclusions,
    draw,
    (9.5, 9.0),
    headline=headline,
    methods=METHODS,
)
