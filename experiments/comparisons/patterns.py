"""TPStream's five query patterns with 4 to 10 symbols."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from experiments.baselines.pattern import Pattern
from experiments.cells import Sweep
from experiments.experiment import (
    Experiment,
    curves,
    grown,
    lost_text,
    one,
    pivot,
    select,
    stopped_text,
)
from experiments.measure import Row, Rows, Size
from experiments.peers import title
from experiments.streams import SEED, synthetic
from piestream.relations import ALLEN, Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (
    "piestream",
    "piestream-detector",
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    "iseq",
)
KINDS = ("equal", "meets", "chain", "star", "combined")
_WIDE = Relation.BEFORE | Relation.AFTER


def pattern_of(kind: str, n: int, draw: int) -> Pattern:
    """One of the papers' patterns; relations are drawn at random where the pattern says so.

    At most two of them are before or after: with more, the number of matches is the product of
    what the window holds, and the output alone decides.

    >>> len(pattern_of("combined", 6, 0).constraints)
    5
    """
    rng = Random(f"{kind} {n} {draw}")
    fixed = {"equal": Relation.EQUALS, "meets": Relation.MEETS}.get(kind)
    chained = {"star": 1, "combined": n // 2}.get(kind, n)
    constraints, wide = [], 0
    for y in range(1, n):
        relation = fixed or rng.choice(ALLEN)
        while relation & _WIDE and wide == 2:
            relation = rng.choice(ALLEN)
        wide += bool(relation & _WIDE)
        constraints.append((y - 1 if y < chained else 0, y, relation))
    return Pattern(n, tuple(constraints), 2_000)


def rows(size: Size) -> Iterator[Row]:
    """A row a kind, number of symbols, draw and peer."""
    events = size.of(2_000, 10_000, 500_000)
    for kind in KINDS:
        draws = 1 if kind in ("equal", "meets") else size.of(1, 4, 10)
        for n in size.of((4,), (4, 7, 10), (4, 5, 6, 7, 8, 9, 10)):
            for draw in range(draws):
                case = synthetic(pattern_of(kind, n, draw), events)
                # Draws are not ordered by what they take: a sweep of its own for each.
                yield from Sweep(size).compared(case, PEERS, kind=kind, n=n, draw=draw, seed=SEED)


def _medians(rows: Rows) -> Rows:
    """The median over the draws."""
    cases = dict.fromkeys((row["kind"], row["n"], row["peer"]) for row in rows if "cpu_s" in row)
    told = []
    for kind, n, peer in cases:
        here = select(rows, kind=kind, n=n, peer=peer)
        times = [row["cpu_s"] for row in here if "cpu_s" in row]
        sizes = [
            row["peak_growth_bytes"] for row in here if row.get("peak_growth_bytes") is not None
        ]
        told.append({"kind": kind, "n": n, "peer": peer, "cpu_s": statistics.median(times),
                     "most": max(times),
                     "peak_growth_bytes": statistics.median(sizes) if sizes else None})  # fmt: skip
    return told


def tables(rows: Rows) -> str:
    """Medians and the worst."""
    told = _medians(rows)
    return (
        f"Median CPU milliseconds over the draws, {rows[0]['events']:,} events:\n\n"
        + pivot(told, ["kind", "n"])
        + "\n\nThe slowest draw:\n\n"
        + pivot(told, ["kind", "n"], "most")
        + "\n\nThe median of memory. " + grown(told, ["kind", "n"])
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Factors at most symbols."""
    told = _medians(rows)
    most = max(row["n"] for row in told)
    factors = []
    for kind in KINDS:
        mine = one(told, "cpu_s", kind=kind, n=most, peer="piestream-detector")
        others = [
            f"{title(row['peer'])} {row['cpu_s'] / mine:.1f}×"
            for row in select(told, kind=kind, n=most)
            if row["peer"] not in ("piestream", "piestream-detector") and mine
        ]
        factors.append(f"{kind}: {', '.join(others)}")
    return (
        f"**What it means.** Median time with {most} symbols against piestream's detector: "
        f"{'; '.join(factors)}. The median number of matches is {_output(rows)}: such patterns of "
        "rare relations have few, so this is mostly the time for deriving intervals and "
        f"failing; TPStream as published still goes through its subsets.{stopped_text(rows, ['kind', 'n', 'draw'])}\n\n"
        + lost_text(
            told,
            ["kind", "n"],
            f"With {rows[0]['events']:,} events the whole query's fixed cost of a call, a "
            "fraction of a millisecond, is most of its time: compare the "
            "detector.",
        )
    )


def _output(rows: Rows) -> str:
    return f"{statistics.median(row['matches'] for row in rows if 'matches' in row):g}"


def draw(rows: Rows, figure: Figure) -> None:
    """A picture a kind."""
    pictures = figure.subplots(1, len(KINDS), sharey=True)
    told = _medians(rows)
    for axes, kind in zip(pictures, KINDS, strict=True):
        curves(axes, select(told, kind=kind), "n", log_x=False, scale=1000)
        axes.set(title=kind, xlabel="symbols")
    pictures[0].set_ylabel("CPU ms, median over draws")
    handles = pictures[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3)


def headline(rows: Rows) -> dict[str, Rows]:
    """Most symbols, medians."""
    told = _medians(rows)
    most = max(row["n"] for row in told)
    return {f"{kind}, {most} symbols": select(told, kind=kind, n=most) for kind in KINDS}


EXPERIMENT = Experiment(
    "patterns",
    "TPStream, Fig. 6: five query patterns",
    "How does time grow with the number of symbols for chains of equals and meets, random chains, "
    "stars, and both combined?",
    "Synthetic booleans, W = 2,000; relations drawn at random (at most two of before and after in "
    "a pattern), the same draws for all methods.",
    rows,
    tables,
    meaning,
    draw,
    (10.0, 3.8),
    headline=headline,
)
