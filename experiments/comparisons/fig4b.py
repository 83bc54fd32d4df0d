"""PieStream, Fig. 4b: processing time against the number of events."""

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
)


def rows(size: Size) -> Iterator[Row]:
    """A row a number of symbols, number of events and peer."""
    most = size.of(3, 6, 7)
    for n in size.of((4,), (4, 12), (4, 8, 12, 16, 18)):
        sweep = Sweep(size)
        for power in range(3, most + 1):
            peers = (*PEERS, "java") if java_there() else PEERS
            case = synthetic(chain(n), 10**power)
            yield from sweep.compared(case, peers, n=n, length=10**power, seed=SEED)


def tables(rows: Rows) -> str:
    """Events a CPU second, and memory."""
    return (
        "Events per CPU second:\n\n"
        + pivot(rows, ["n", "length"], "events_per_s", show=thousands)
        + "\n\n" + grown(rows, ["n", "length"])
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Exponents."""
    told = []
    for n in dict.fromkeys(row["n"] for row in rows):
        powers = []
        for peer in dict.fromkeys(row["peer"] for row in rows):
            # Below that the fixed cost of a call is most of the time.
            points = [
                r for r in select(rows, peer=peer, n=n) if r.get("cpu_s") and r["length"] > 5e3
            ]
            power = exponent([r["length"] for r in points], [r["cpu_s"] for r in points])
            if power is not None:
                powers.append(f"{title(peer)} {power:g}")
        told.append(f"n = {n}: {', '.join(powers)}" if powers else f"n = {n}: too few points")
    return (
        "**What it means.** All methods are linear in the number of events; they differ in the "
        "factor. Fitted exponents of time over events, from 10,000 events on: "
        f"{'; '.join(told)}. A thousand events take piestream's whole query the fixed cost of a "
        f"call, of which the peers, which are handed arrays, have little. {_held(rows)}"
        f"{stopped_text(rows, ['n', 'length'])}\n\n"
        + lost_text(
            rows,
            ["n", "length"],
            "That is the fixed cost of taking a frame in and handing one back, a fraction of a "
            "millisecond, on streams of a few thousand events; the detector alone is ahead there.",
        )
    )


def _held(rows: Rows) -> str:
    """What piestream holds on streams that are longer than the window."""
    longest = max(row["length"] for row in rows)
    told = [
        f"n = {row['n']}: {row['peak_stored']:,} at {row['length']:,} events"
        for row in select(rows, peer="piestream-detector")
        if row["length"] in (longest // 10, longest) and "peak_stored" in row
    ]
    return f"The most intervals held by piestream: {'; '.join(told)}."


def draw(rows: Rows, figure: Figure) -> None:
    """A picture a number of symbols."""
    numbers = list(dict.fromkeys(row["n"] for row in rows))
    pictures = figure.subplots(1, len(numbers), squeeze=False, sharey=True)[0]
    for axes, n in zip(pictures, numbers, strict=True):
        curves(axes, select(rows, n=n), "length", scale=1000)
        axes.set(xlabel="events", title=f"{n} symbols")
    pictures[0].set_ylabel("CPU ms")
    handles = pictures[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)


def headline(rows: Rows) -> dict[str, Rows]:
    """Most symbols, most events."""
    n, length = max(row["n"] for row in rows), max(row["length"] for row in rows)
    return {f"{n} symbols, {length:,} events": select(rows, n=n, length=length)}


EXPERIMENT = Experiment(
    "fig4b",
    "PieStream, Fig. 4b: 1,000 to 10,000,000 events",
    "How does processing time grow with the stream? The paper finds both systems linear, TPStream "
    "ahead below 12 symbols and PieStream beyond.",
    "The stream and the chain of Fig. 4a; `--full` goes to 10,000,000 events.",
    rows,
    tables,
    meaning,
    draw,
    headline=headline,
)
