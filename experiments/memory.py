"""Memory beside time: what each method holds while it runs, in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from time import process_time
from typing import TYPE_CHECKING

from experiments.baselines import BASELINES
from experiments.baselines.pattern import Pattern
from experiments.experiment import Experiment, curves, milliseconds, one, select, table, thousands
from experiments.measure import Row, Rows, Size, peak_growth
from experiments.peers import DETECTOR, Case, title
from experiments.streams import BEFORE_OVERLAPS, SEED, chain, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (DETECTOR, "tpstream", "piestream-paper", "iseq")
_PIECES = 100


def case_of(kind: str, events: int) -> Case:
    """A case by name: a process of its own makes its own."""
    if kind == "chain":
        return synthetic(chain(24), events)
    return synthetic(Pattern(3, BEFORE_OVERLAPS, 100_000), events)


def _only_run(case: Case, peer: str) -> Row:
    """Run, keeping no matches; what was counted."""
    if peer == DETECTOR:
        counters = case.detect(pieces=_PIECES, keep=False).counters
        return {"held": counters["peak_intervals"], "state_bytes": counters["peak_bytes"]}
    result = BASELINES[peer].run(case.pattern, case.times, case.masks, keep=False)
    return {"held": result.counters["peak_stored"]}


def measured(kind: str, peer: str, events: int) -> Row:
    """Memory and time of one run, after a short one that loads what has to be loaded."""
    case = case_of(kind, events)
    few = Case(case.pattern, case.times[:1_000], case.masks[:1_000])
    case.bits, few.bits  # noqa: B018  made beforehand, as the peers' masks are
    _only_run(few, peer)
    told: Row = {}
    grown = peak_growth(lambda: told.update(_only_run(case, peer)))
    before = process_time()
    _only_run(case, peer)
    return {**told, "peak_growth_bytes": grown, "cpu_s": process_time() - before}


def rows(size: Size) -> Iterator[Row]:
    """A row a pattern and peer, each from a new process."""
    kinds = size.of(("before",), ("before", "chain"), ("before", "chain"))
    for kind in kinds:
        lengths = size.of((3_000,), (100_000,), (200_000, 1_000_000, 5_000_000))
        for events in lengths:
            for peer in PEERS:
                told: Row = {"pattern": kind, "peer": peer, "events": events, "seed": SEED}
                if size is Size.TINY:
                    yield {**told, **measured(kind, peer, events)}
                    continue
                # A server that has everything loaded forks a fresh process for each.
                server = multiprocessing.get_context("forkserver")
                server.set_forkserver_preload([__name__])
                with server.Pool(1) as pool:
                    yield {**told, **pool.apply(measured, (kind, peer, events))}


def _megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 2**20:.1f}"


def tables(rows: Rows) -> str:
    """What is held."""
    head = ["pattern", "events", "method", "items held", "own count of state, MB", "RSS grew by, MB",
            "CPU ms"]  # fmt: skip
    return table(
        head,
        [
            [row["pattern"], f"{row['events']:,}", title(row["peer"]), thousands(row["held"]),
             _megabytes(row.get("state_bytes")), _megabytes(row["peak_growth_bytes"]),
             milliseconds(row["cpu_s"])]
            for row in rows
        ],
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Intervals against pairs."""
    told = []
    for kind in dict.fromkeys(row["pattern"] for row in rows):
        most = max(row["events"] for row in select(rows, pattern=kind))
        here = select(rows, pattern=kind, events=most)
        mine = one(here, "held", peer=DETECTOR)
        paper = one(here, "held", peer="piestream-paper")
        least = min(here, key=lambda row: row["peak_growth_bytes"] or 0)
        told.append(
            f"*{kind}*: the paper's method holds {paper / max(mine, 1):.0f} times as many items as "
            f"piestream; the least memory is taken by {title(least['peer'])} "
            f"({_megabytes(least['peak_growth_bytes'])} MB; piestream "
            f"{_megabytes(one(here, 'peak_growth_bytes', peer=DETECTOR))} MB)"
        )
    return (
        f"**What it means.** {'; '.join(told)}.\n\n"
        "**Where we lose.** TPStream and ISEQ hold nothing but two or four words an interval, and "
        "are the smallest. piestream holds for each interval its place in the rings, its partners "
        "and what they offer: it trades a constant number of words an interval for never searching "
        "a buffer. Its own count of state in use is the smaller part of what the process grew by; the rest "
        "is room: arrays for a piece's bits and matches, which the peers, who only count "
        "theirs, do not have, and room to grow."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars, or lines if there are several lengths."""
    kinds = list(dict.fromkeys(row["pattern"] for row in rows))
    pictures = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, kind in zip(pictures, kinds, strict=True):
        here = select(rows, pattern=kind)
        if len({row["events"] for row in here}) > 1:
            curves(axes, here, "events", "peak_growth_bytes", scale=2**-20)
            axes.set_xlabel("events")
            axes.legend()
        else:
            axes.bar([title(row["peer"]).replace(", ", ",\n").replace(" with", "\nwith")
                      for row in here],
                     [max(row["peak_growth_bytes"] or 0, 2**14) / 2**20 for row in here],
                     color=["#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd"])  # fmt: skip
            axes.set_yscale("log")
            axes.tick_params(axis="x", labelsize=7)
        axes.set(title=kind, ylabel="RSS grew by, MB")


EXPERIMENT = Experiment(
    "memory",
    "Memory",
    "How much does each method hold?",
    "Each method in a new process, matches counted and not kept: the most that the process held in "
    "RAM during the run beyond what it held before (VmHWM; Python's own tracer does not see "
    "compiled loops), and the method's own count. *before*: A before B overlaps C, W = 100,000; "
    "*chain*: Fig. 4's chain of 24 symbols. piestream's detector takes the stream in 100 pieces; "
    "its own count is looked at between two of them.",
    rows,
    tables,
    meaning,
    draw,
    (9.0, 3.4),
)
