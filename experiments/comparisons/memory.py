"""Memory beside time: what each method holds while it runs, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from experiments.baselines.pattern import Pattern, Result
from experiments.cells import apart
from experiments.experiment import (
    Experiment,
    curves,
    grown,
    megabytes,
    one,
    pivot,
    select,
    stopped_text,
    thousands,
)
from experiments.measure import Row, Rows, Size
from experiments.peers import DETECTOR, Case, prepared, title
from experiments.streams import BEFORE_OVERLAPS, SEED, chain, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (DETECTOR, "tpstream", "piestream-paper", "iseq")
_PIECES = 100


def case_of(kind: str, events: int) -> Case:
    """A case by name."""
    if kind == "chain":
        return synthetic(chain(24), events)
    return synthetic(Pattern(3, BEFORE_OVERLAPS, 100_000), events)


def only_counting(case: Case, peer: str) -> Callable[[], Result]:
    """A run that keeps no matches; of the detector in pieces."""
    prepared(case, peer)
    if peer == DETECTOR:
        return partial(case.detect, pieces=_PIECES, keep=False)
    return partial(case.run, peer, keep=False)


def _held(result: Result) -> Row:
    told = result.counters
    if "peak_bytes" in told:
        return {"held": told["peak_intervals"], "state_bytes": told["peak_bytes"]}
    return {"held": told["peak_stored"]}


def rows(size: Size) -> Iterator[Row]:
    """A row a pattern and peer."""
    for kind in size.of(("before",), ("before", "chain"), ("before", "chain")):
        over: dict[str, str] = {}
        for events in size.of((3_000,), (20_000, 100_000), (200_000, 1_000_000, 5_000_000)):
            case = case_of(kind, events)
            for peer in PEERS:
                row: Row = {"pattern": kind, "peer": peer, "events": events, "seed": SEED}
                if peer in over:
                    row["skipped"] = over[peer]
                else:
                    row |= apart(only_counting, case, peer, size=size, told=_held)
                if "over" in row:
                    over[peer] = row["over"]
                yield row


def tables(rows: Rows) -> str:
    """What is held."""
    return "\n\n".join([
        grown(rows, ["pattern", "events"]).replace(", matches included", ", matches only counted"),
        "Items held at most (intervals; for the paper's method also pairs and partial "
        "results):\n\n" + pivot(rows, ["pattern", "events"], "held", show=thousands),
        "piestream's own count of its state, MB:\n\n" + pivot(
            select(rows, peer=DETECTOR), ["pattern", "events"], "state_bytes", show=megabytes),
        "CPU milliseconds:\n\n" + pivot(rows, ["pattern", "events"]),
    ])  # fmt: skip


def meaning(rows: Rows) -> str:
    """Intervals against pairs."""
    told = []
    for kind in dict.fromkeys(row["pattern"] for row in rows):
        most = max(row["events"] for row in select(rows, pattern=kind))
        here = select(rows, pattern=kind, events=most)
        mine = one(here, "held", peer=DETECTOR)
        paper = one(here, "held", peer="piestream-paper")
        least = min(here, key=lambda row: row.get("peak_growth_bytes") or 1e99)
        held = f"{paper / max(mine, 1):.0f} times as many items" if paper and mine else "too much"
        told.append(
            f"*{kind}*: the paper's method holds {held}, measured against "
            f"piestream; the least memory is taken by {title(least['peer'])} "
            f"({megabytes(least.get('peak_growth_bytes'))} MB; piestream "
            f"{megabytes(one(here, 'peak_growth_bytes', peer=DETECTOR))} MB)"
        )
    return (
        f"**What it means.** {'; '.join(told)}. Beyond the first windows, growth with the stream "
        f"would be a leak.{stopped_text(rows, ['pattern', 'events'])}\n\n"
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
                     [max(row.get("peak_growth_bytes") or 0, 2**14) / 2**20 for row in here],
                     color=["#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd"])  # fmt: skip
            axes.set_yscale("log")
            axes.tick_params(axis="x", labelsize=7)
        axes.set(title=kind, ylabel="RSS grew by, MB")


EXPERIMENT = Experiment(
    "memory",
    "Memory",
    "How much does each method hold?",
    "Matches counted and not kept: the most that the process held in RAM during the run beyond what "
    "it held before (VmHWM; Python's own tracer does not see compiled loops), and the method's own "
    "count, as the stream gets longer. *before*: A before B overlaps C, W = 100,000; "
    "*chain*: Fig. 4's chain of 24 symbols. piestream's detector takes the stream in 100 pieces; "
    "its own count is looked at between two of them.",
    rows,
    tables,
    meaning,
    draw,
    (9.0, 3.4),
)
