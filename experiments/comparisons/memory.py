"""Memory beside time: what each method holds while it runs, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from experiments.harness.conclusions import ended
from experiments.harness.experiment import Experiment
from experiments.harness.figures import curves, legend_below
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import LOOK
from experiments.harness.tables import (
    megabytes,
    memory_table,
    part,
    pivot,
    select,
    thousands,
    time_tables,
)
from experiments.peers import BITS, OURS, PEERS, Matcher, Result, prepared, title
from experiments.peers.forms import EVENTS
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, SEED, Case, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (OURS, "tpstream", "piestream-paper", "iseq")


def case_of(kind: str, events: int) -> Case:
    """A case by name."""
    if kind == "chain":
        return synthetic(Pattern.chain(24), events)
    return synthetic(Pattern(3, BEFORE_OVERLAPS, 100_000), events)


def counting(case: Case, peer: str) -> Callable[[], Result]:
    """A run that keeps no matches; of piestream in pieces, all of one length.

    The others take one event after another: to derive all changes beforehand would hold them all.
    """
    if peer == OURS:
        return prepared(case, peer, keep=False, piece=LOOK)
    match = PEERS[peer].prepare(case.pattern, keep=False).match
    matcher = Matcher(match, EVENTS)
    matcher.over(*case.head(1_000).bits)()
    return matcher.over(*case.bits)


def _held(result: Result) -> Row:
    counters = result.counters
    row: Row = {"held": counters["peak_stored"], "matches": result.count}
    return row | ({"state_bytes": counters["peak_bytes"]} if "peak_bytes" in counters else {})


def rows(size: Size) -> Iterator[Row]:
    """A row a pattern, length of stream and method."""
    for kind in size.of(("before",), ("before", "chain"), ("before", "chain")):
        over: dict[str, str] = {}
        for events in size.of((3_000, 6_000), (20_000, 100_000), (200_000, 1_000_000, 5_000_000)):
            case = case_of(kind, events)
            for peer in METHODS:
                row: Row = {"pattern": kind, "peer": peer, "input": BITS, "events": events,
                            "seed": SEED}  # fmt: skip
                if peer in over:
                    row["skipped"] = over[peer]
                else:
                    row |= isolated(counting, case, peer, size=size, describe=_held)
                if "over" in row:
                    over[peer] = row["over"]
                yield row


def tables(rows: Rows) -> str:
    """What is held."""
    index = ["pattern", "events"]
    return "\n\n".join([
        memory_table(rows, index, "matches counted and not kept"),
        "Items held at most (intervals; for PieStream's algorithm also pairs and partial results), "
        "input: *packed bits*:\n\n"
        + pivot(rows, index, lambda row: thousands(row["held"]), measured="held"),
        "piestream's own count of its state, MB:\n\n"
        + pivot(select(rows, peer=OURS), index, lambda row: megabytes(row["state_bytes"]),
                measured="state_bytes"),
        time_tables(rows, index),
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Who takes least, and what grows with the stream."""
    texts = []
    for kind in dict.fromkeys(row["pattern"] for row in rows):
        lengths = sorted({row["events"] for row in select(rows, pattern=kind)})
        most = select(rows, pattern=kind, events=lengths[-1])
        measured = [row for row in most if row.get("peak_growth_bytes") is not None]
        if not measured:
            continue
        ranked = sorted(measured, key=lambda row: row["peak_growth_bytes"])
        order = ", ".join(
            f"{title(row['peer'])} {megabytes(row['peak_growth_bytes'])} MB "
            f"({part(row['held'])} items)"
            for row in ranked
        )
        texts.append(
            f"*{kind}* at {lengths[-1]:,} events, the least first: {order}.{_grown(rows, kind, lengths)}"
        )
    return "**Memory.** " + " ".join(texts) + ended(rows, ["pattern", "events"])


def _grown(rows: Rows, kind: str, lengths: list[int]) -> str:
    """How many times the items held at the longest stream are those of the one before it."""
    if len(lengths) < 2:
        return ""
    ratios = []
    for peer in METHODS:
        before, after = (
            next(
                (row.get("held") for row in select(rows, pattern=kind, events=events, peer=peer)),
                None,
            )
            for events in lengths[-2:]
        )
        if before and after:
            ratios.append(f"{title(peer)} {after / before:.2f}×")
    longer = lengths[-1] / lengths[-2]
    return f" From {lengths[-2]:,} events on, {longer:g}× as many hold: {', '.join(ratios)}."


def draw(rows: Rows, figure: Figure) -> None:
    """Lines over the length of the stream."""
    kinds = list(dict.fromkeys(row["pattern"] for row in rows))
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        here = select(rows, pattern=kind)
        curves(axes, here, "events", "peak_growth_bytes", log_x=True, scale=2**-20)
        axes.set(title=kind, xlabel="events", ylabel="MB beyond the input")
    legend_below(figure)


EXPERIMENT = Experiment(
    "memory",
    "Memory",
    "How much does each method hold?",
    "Matches counted and not kept: the most that the process held in RAM during the run beyond what "
    "it held before (VmHWM; Python's own tracer does not see compiled loops), and the method's own "
    "count, as the stream gets longer. *before*: A before B overlaps C, W = 100,000; "
    "*chain*: Fig. 4's chain of 24 symbols. piestream takes the stream in "
    f"pieces of {LOOK:,} events, which are as many seconds, however long the stream is; its own count is "
    "looked at between two of them. The others take one event after another.",
    rows,
    tables,
    conclusions,
    draw,
    (9.0, 3.4),
    methods=METHODS,
)
