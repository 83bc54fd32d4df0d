"""Wall-clock latency against the rate at which events fall due: measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.comparisons.paced import FRAMES, NOTHING, SESSION, feeding
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import (
    duration,
    markdown_table,
    part,
    select,
    thousands,
    why_not,
)
from experiments.peers import OURS, PEERS, Reports, title
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (NOTHING, SESSION, FRAMES, OURS,
           "tpstream", "tpstream-published", "piestream-paper", "iseq")  # fmt: skip
#: What is no line of the table of methods: its title, and colour and mark in the figure.
_OTHERS = {
    NOTHING: ("no method", ("#bbbbbb", ".")),
    SESSION: ("piestream, `push` of one event", ("#ff7f0e", "s")),
    FRAMES: ("piestream, `push` of all events due", ("#e377c2", "h")),
}
#: A method that gets through less than this share of what is due cannot keep up.
_KEPT = 0.9
#: Events behind those that count: the longest situation, and then some.
_TAIL = 150


def _name(peer: str) -> str:
    return _OTHERS[peer][0] if peer in _OTHERS else title(peer)


def rows(size: Size) -> Iterator[Row]:
    """A row a rate and method."""
    before = size.of(1_000, 100_000, 100_000)
    window = size.of(1_000, 100_000, 100_000)
    rates = size.of((20_000, 10_000_000), (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
                    (100, 1_000, 10_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000))  # fmt: skip
    seconds, most, runs = size.of((0.05, 1_000, 1), (0.5, 100_000, 2), (2.5, 1_000_000, 2))
    for rate in rates:
        events = int(min(rate * seconds, most))
        case = synthetic(Pattern(3, BEFORE_OVERLAPS, window), before + events + _TAIL)
        for peer in METHODS:
            row = isolated(feeding, case, peer, rate, before, events, runs,
                        size=size, describe=dict, once=True)  # fmt: skip
            yield {"rate": rate, "events": events, "window": window, "seed": SEED, "peer": peer,
                   **row}  # fmt: skip


def keeps_up(row: Row) -> bool:
    """Whether a method got through its events about as fast as they fell due.

    >>> keeps_up({"rate": 1000, "achieved": 999.0}), keeps_up({"rate": 1000, "achieved": 500.0})
    (True, False)
    """
    return bool(row.get("achieved", 0.0) >= _KEPT * row["rate"])


def _cell(row: Row) -> str:
    """Median and 99th percentile; or how many events a second it gets through."""
    if "achieved" not in row:
        return why_not(row)
    if not keeps_up(row):
        return f"({thousands(row['achieved'])}/s)"
    return f"{duration(row['p50'])} / {duration(row['p99'])}" if "p50" in row else "no match"


def tables(rows: Rows) -> str:
    """Latencies, by rate."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    lines = []
    for rate in dict.fromkeys(row["rate"] for row in rows):
        here = {row["peer"]: row for row in select(rows, rate=rate)}
        counted = here.get("tpstream", {})
        lines.append([part(rate), part(here[peers[0]]["events"]), thousands(counted.get("matches")),
                      part(counted.get("deciding", 0)), *(_cell(here[peer]) for peer in peers)])  # fmt: skip
    head = ["events/s", "events", "matches", "deciding events", *map(_name, peers)]
    return (
        "Latency of a match, median / 99th percentile, wall-clock time; in brackets, the events a "
        "second that a method gets through, where it cannot keep up (the latency then grows for as "
        "long as that goes on). Input: *packed bits* in memory for the compiled loops, rows of a raw "
        "frame for `push`:\n\n" + markdown_table(head, lines)
    )


def conclusions(rows: Rows) -> str:
    """The rates with which each keeps up, the cost of waiting for an end, and the lowest median."""
    most = {
        row["peer"]: max(r["achieved"] for r in select(rows, peer=row["peer"]) if "achieved" in r)
        for row in rows
        if "achieved" in row and row["peer"] != NOTHING
    }
    reached = ", ".join(f"{_name(peer)} {thousands(rate)}" for peer, rate in most.items())
    return "\n\n".join([
        f"**Rate.** The most events a second that each got through: {reached}.",
        f"**Waiting for the end.** {_waiting(rows)}",
        f"**Lowest median.** {_lowest(rows)}",
        f"**Where piestream loses.** {_lost(rows, OURS)} {_lost(rows, SESSION)}",
    ])  # fmt: skip


def _waiting(rows: Rows) -> str:
    """How many events pass before the methods report that do so at completion."""
    lowest = min(row["rate"] for row in rows)
    texts = [
        f"at {lowest:,} events a second the median match of {title(row['peer'])} is out "
        f"{duration(row['p50'])} after the event that decides it was due, {row['p50'] * lowest:.0f} "
        "events later"
        for row in select(rows, rate=lowest)
        if row["peer"] in PEERS
        and PEERS[row["peer"]].reports is Reports.COMPLETION
        and "p50" in row
    ]
    return ("; ".join(texts) or "Not measured") + "."


def _lowest(rows: Rows) -> str:
    texts = []
    for rate in dict.fromkeys(row["rate"] for row in rows):
        here = [row for row in select(rows, rate=rate)
                if row["peer"] != NOTHING and keeps_up(row) and "p50" in row]  # fmt: skip
        if here:
            best = min(here, key=lambda row: row["p50"])
            texts.append(f"{rate:,}/s: {_name(best['peer'])} ({duration(best['p50'])})")
        else:
            texts.append(f"{rate:,}/s: no method keeps up")
    return "; ".join(texts) + "."


def _lost(rows: Rows, ours: str) -> str:
    """At which rates another method's median is below ours."""
    quicker: dict[str, list[str]] = {}
    for row in rows:
        mine = select(rows, rate=row["rate"], peer=ours)
        if row["peer"] in (*_OTHERS, OURS) or not mine or "p50" not in row or not keeps_up(row):
            continue
        if not keeps_up(mine[0]) or row["p50"] < mine[0].get("p50", 0.0):
            quicker.setdefault(row["peer"], []).append(f"{row['rate']:,}")
    text = "; ".join(f"{title(peer)} at {', '.join(rates)}/s" for peer, rates in quicker.items())
    return f"Median below that of *{_name(ours)}*: {text or 'none'}."


def draw(rows: Rows, figure: Figure) -> None:
    """Latency over rate: median and 99th percentile."""
    panels = figure.subplots(1, 2, sharey=True)
    percentiles = (("p50", "median"), ("p99", "99th percentile"))
    for axes, (which, name) in zip(panels, percentiles, strict=True):
        for peer in dict.fromkeys(row["peer"] for row in rows):
            here = [row for row in select(rows, peer=peer) if keeps_up(row) and which in row]
            colour, marker = _OTHERS[peer][1] if peer in _OTHERS else PEERS[peer].style
            axes.plot([row["rate"] for row in here], [row[which] for row in here],
                      color=colour, marker=marker, label=_name(peer).replace("`", ""))  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="events due a second", title=name)
    panels[0].set_ylabel("latency of a match, s")
    legend_below(figure)


EXPERIMENT = Experiment(
    "rates",
    "TPStream, Fig. 7b and 7c: wall-clock latency",
    "How long after it could be known is a match received, at which rate of events?",
    "*A before B overlaps C* on synthetic booleans, W = 100,000. Every event has an instant of "
    "wall-clock time at which it is due; a method gets it then, or as soon as it is done with those "
    "before. Latency: from the instant at which the event was due that decides a match (the earliest "
    "at which it can be known) to that at which the match is out, time in the queue included. "
    "100,000 events come before, at once, so that the window is full. A deciding event completes a "
    "match with every A of the window, so the median match is out when all those of its event are. "
    "The better of two runs counts; *no method* shows what the machine and the clock add by themselves "
    "(there every event counts). TPStream, PieStream's algorithm, ISEQ and *piestream* run in compiled "
    "loops that wait for each event in memory; reading the clock takes about 20 ns an event of it. The "
    "two others go through Python: `Session.push` with one event after another, or with a frame where "
    "more than 64 are due; every match becomes a mapping.",
    rows,
    tables,
    conclusions,
    draw,
    (9.5, 5.0),
    methods=METHODS,
)
