"""Where TPStream's powersets explode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below, ticks_at
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import markdown_table, select, thousands
from experiments.peers import PEERS
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Lengths of gaps against situations of 10–100 s: how many symbols are open at a time.
GAPS = {"gaps 100–300 s": (100, 300), "gaps 10–50 s (the papers')": (10, 50),
        "gaps 2–10 s": (2, 10)}  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a share of open symbols and number of symbols."""
    events = size.of(500, 2_000, 20_000)
    most = size.of(20_000, 3_000_000, 300_000_000)
    for name, gap in GAPS.items():
        for n in size.of((4, 6), (4, 6, 8, 10, 12, 14, 16), tuple(range(4, 25, 2))):
            case = synthetic(Pattern.chain(n), events, gap=gap)
            share = float(np.mean([(case.bits[1] >> at & 1).mean() for at in range(n)]))
            published, fixed = (
                PEERS[peer].run(case.pattern, *case.bits, keep=False)
                for peer in ("tpstream-published", "tpstream")
            )
            intervals = max(published.counters["intervals"], 1)
            yield {
                "gaps": name, "n": n, "events": events, "seed": SEED, "open": share,
                "subsets": published.counters["subsets"],
                "subsets_an_interval": published.counters["subsets"] / intervals,
                "calls_an_interval": fixed.counters["matcher_calls"] / intervals,
                "matches": published.count,
            }  # fmt: skip
            if published.counters["subsets"] > most:
                break


def _base(points: Rows) -> float | None:
    """What one symbol more multiplies the subsets by."""
    kept = [row for row in points if row["n"] >= 6 and row["subsets"]]
    if len(kept) < 2:
        return None
    slope = np.polyfit([row["n"] for row in kept],
                       np.log([row["subsets_an_interval"] for row in kept]), 1)[0]  # fmt: skip
    return float(np.exp(slope))


def tables(rows: Rows) -> str:
    """Subsets an interval."""
    head = ["gaps", "share open", "symbols", "subsets an interval, as published",
            "matcher calls an interval, corrected"]  # fmt: skip
    return markdown_table(
        head,
        [[row["gaps"], f"{row['open']:.0%}", row["n"], thousands(round(row["subsets_an_interval"], 1)),
          f"{row['calls_an_interval']:.2f}"] for row in rows],
    )  # fmt: skip


def conclusions(rows: Rows) -> str:
    """What a symbol more multiplies the subsets by, against the share of time that one is open."""
    texts = []
    for gaps in dict.fromkeys(row["gaps"] for row in rows):
        here = select(rows, gaps=gaps)
        base = _base(here)
        share = float(np.mean([row["open"] for row in here]))
        most = max(row["calls_an_interval"] for row in here)
        texts.append(
            f"{gaps}: "
            + (
                "too few points"
                if base is None
                else f"measured {base:.2f}, expected {1 + share:.2f}"
            )
            + f"; the corrected form calls its matcher at most {most:.2f} times an interval"
        )
    return (
        "**Subsets.** For each interval that ends, the published matcher goes through every subset "
        "of the other open symbols: if each is open for a share p of the time, a symbol more "
        f"multiplies the subsets by 1 + p on average. {'. '.join(texts)}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Subsets over symbols."""
    axes = figure.subplots()
    for gaps in dict.fromkeys(row["gaps"] for row in rows):
        here = select(rows, gaps=gaps)
        axes.plot([row["n"] for row in here], [row["subsets_an_interval"] for row in here], "o-",
                  label=f"subsets, as published, {gaps}")  # fmt: skip
    papers = select(rows, gaps=list(GAPS)[1])
    axes.plot([row["n"] for row in papers], [row["calls_an_interval"] for row in papers], "s--",
              color="black", label="matcher calls, corrected, the papers' gaps")  # fmt: skip
    axes.set(yscale="log", xlabel="symbols", ylabel="an interval")
    ticks_at(axes, sorted({row["n"] for row in rows}))
    legend_below(figure, 2)


EXPERIMENT = Experiment(
    "powersets",
    "Where TPStream's powersets explode",
    "On what does the exponential growth of TPStream's published matcher depend?",
    "Fig. 4's chain with gaps of three lengths, so that symbols are open for a small, the "
    "papers', and a large share of the time; the published matcher's subsets are counted.",
    rows,
    tables,
    conclusions,
    draw,
    (7.0, 4.0),
    rooms=("relations.py",),
)
