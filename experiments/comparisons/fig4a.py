"""PieStream, Fig. 4a: processing time against the number of symbols in a chain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.cells import Sweep
from experiments.experiment import (
    Experiment,
    curves,
    exponent,
    grown,
    lost_text,
    one,
    pivot,
    select,
    stopped_text,
    thousands,
)
from experiments.measure import Row, Rows, Size
from experiments.peers import title
from experiments.streams import SEED, chain, java_there, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (
    "piestream",
    "piestream-detector",
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    "piestream-paper-spared",
    "iseq",
    "duckdb",
    "polars",
)


def rows(size: Size) -> Iterator[Row]:
    """A row a number of symbols and peer."""
    events = size.of(2_000, 30_000, 1_000_000)
    sweep = Sweep(size)
    for n in size.of((3, 4), (4, 8, 12, 16, 18, 24), (4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24)):
        case = synthetic(chain(n), events)
        peers = (*PEERS, "java") if java_there() else PEERS
        yield from sweep.compared(case, peers, n=n, seed=SEED)


def tables(rows: Rows) -> str:
    """CPU time, memory, and what was held."""
    held = [row for row in rows if row["peer"] not in ("piestream", "duckdb", "polars", "java")]
    return (
        f"CPU milliseconds for {rows[0]['events']:,} events, by the number of symbols n:\n\n"
        + pivot(rows, ["n"])
        + "\n\n" + grown(rows, ["n"])
        + "\n\nThe most intervals, pairs and partial results held at one time (piestream: "
        "intervals):\n\n"
        + pivot(held, ["n"], "peak_stored", show=thousands)
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Growth, factors, and who stopped."""
    last = max(row["n"] for row in select(rows, peer="piestream"))
    mine = one(rows, "cpu_s", peer="piestream", n=last)
    factors = [
        f"{title(row['peer'])} {row['cpu_s'] / mine:.0f}×"
        for row in select(rows, n=last)
        if row.get("cpu_s") and row["peer"] not in ("piestream", "piestream-detector")
    ]
    powers = []
    for peer in dict.fromkeys(row["peer"] for row in rows):
        points = [row for row in select(rows, peer=peer) if row.get("cpu_s")]
        power = exponent([row["n"] for row in points], [row["cpu_s"] for row in points])
        if power is not None:
            powers.append(f"{title(peer)} n^{power:g}")
    agreement = _agreement(rows)
    found = one(rows, "matches", peer="piestream", n=last)
    text = (
        f"**What it means.** At n = {last}, measured against piestream's whole query, the CPU time "
        f"of the others is: {', '.join(factors)}. Fitted growth of time: {', '.join(powers)}. "
        f"Matches grow with n too, to {found:,}. {agreement} TPStream's blow-up is in its powersets over open situations only: as "
        "published it is exponential, corrected it is not, and its cost is binary searches in "
        "buffers that span the window. The paper's own method pays for stepping an automaton a "
        "relation at every event, and for storing partial results."
    )
    text += stopped_text(rows, ["n"])
    return (
        text
        + "\n\n"
        + lost_text(rows, ["n"], "At so few events the fixed cost of a frame in and out decides.")
    )


def _agreement(rows: Rows) -> str:
    """Whether methods that report at the same instants count alike."""
    fewer = 0
    for n in {row["n"] for row in rows}:
        early: set[int] = set()
        complete: set[int] = set()
        for row in select(rows, n=n):
            if "matches" in row and row["peer"] != "java":
                at_end = row["peer"] in ("iseq", "duckdb", "polars")
                (complete if at_end else early).add(row["matches"])
        if len(early) > 1 or len(complete) > 1:
            return f"**Methods disagree on their number at n = {n}.**"
        if early and complete:
            fewer = max(fewer, early.pop() - complete.pop())
    return (
        "All methods that report early find the same number, and so do those that report at "
        f"completion (at most {fewer} fewer: not complete in time, or at all)."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Time, and what is held."""
    left, right = figure.subplots(1, 2)
    curves(left, rows, "n", log_x=False, scale=1000)
    left.set(xlabel="symbols", ylabel="CPU ms", title=f"{rows[0]['events']:,} events, W = 10,000")
    curves(right, rows, "n", "peak_growth_bytes", log_x=False, scale=2**-20)
    right.set(xlabel="symbols", ylabel="MB beyond the input", title="memory")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)


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
    "neighbours; WITHIN 10,000. SQL and ISEQ report when a match is complete, "
    "the others earlier.",
    rows,
    tables,
    meaning,
    draw,
    (9.0, 4.4),
    headline=headline,
)
