"""Wall-clock latency against the rate at which events fall due: measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from experiments.baselines.pattern import Pattern
from experiments.cells import apart
from experiments.experiment import STYLES, Experiment, select, table, thousands
from experiments.measure import Row, Rows, Size
from experiments.paced import FRAMES, NOTHING, SESSION, feeding
from experiments.peers import DETECTOR, title
from experiments.streams import BEFORE_OVERLAPS, SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = (NOTHING, SESSION, FRAMES, DETECTOR,
         "tpstream", "tpstream-published", "piestream-paper", "iseq")  # fmt: skip
_NAMES = {
    NOTHING: "no method at all",
    SESSION: "piestream, `push` an event",
    FRAMES: "piestream, `push` what waits",
}
#: A method that gets through less than this share of what is due cannot keep up.
_KEPT = 0.9
#: Events behind those that count: the longest situation, and then some.
_TAIL = 150


def _name(peer: str) -> str:
    return _NAMES.get(peer) or title(peer)


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
        for peer in PEERS:
            row = apart(feeding, case, peer, rate, before, events, runs,
                        size=size, told=dict, once=True)  # fmt: skip
            yield {"rate": rate, "events": events, "window": window, "seed": SEED, "peer": peer,
                   **row}  # fmt: skip


def keeps_up(row: Row) -> bool:
    """Whether a method got through its events about as fast as they fell due.

    >>> keeps_up({"rate": 1000, "achieved": 999.0}), keeps_up({"rate": 1000, "achieved": 500.0})
    (True, False)
    """
    return bool(row.get("achieved", 0.0) >= _KEPT * row["rate"])


def _seconds(value: float) -> str:
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")):
        if value * factor >= 1 or unit == "ns":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError


def _cell(row: Row) -> str:
    """Median and 99th percentile; or how many events a second it gets through."""
    if "achieved" not in row:
        return f"> {row['over']}" if "over" in row else "failed"
    if not keeps_up(row):
        return f"({thousands(row['achieved'])}/s)"
    return f"{_seconds(row['p50'])} / {_seconds(row['p99'])}" if "p50" in row else "no match"


def tables(rows: Rows) -> str:
    """Latencies, by rate."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    lines = []
    for rate in dict.fromkeys(row["rate"] for row in rows):
        here = {row["peer"]: row for row in select(rows, rate=rate)}
        counted = here.get("tpstream", {})
        lines.append([f"{rate:,}", f"{counted.get('events', 0):,}", thousands(counted.get("matches")),
                      f"{counted.get('deciding', 0):,}", *(_cell(here[peer]) for peer in peers)])  # fmt: skip
    return (
        "Latency of a match, median / 99th percentile, by the clock on the wall; in brackets, the "
        "events a second that a method gets through, where it cannot keep up (the latency then "
        "grows for as long as that goes on):\n\n"
        + table(
            ["events/s", "events", "matches", "deciding events", *(_name(peer) for peer in peers)],
            lines,
        )
    )


def meaning(rows: Rows) -> str:
    """Who waits, who is slow, and where each is full."""
    lowest = min(row["rate"] for row in rows)
    slow = {row["peer"]: row for row in select(rows, rate=lowest) if "p50" in row}
    told = []
    if "iseq" in slow:
        waited = slow["iseq"]["p50"] * lowest
        told.append(
            f"At {lowest:,} events a second ISEQ's median match is out "
            f"{_seconds(slow['iseq']['p50'])} after the event that decides it was due: it waits "
            f"for {waited:.0f} events, the end of the last interval. (By that count, not measured, "
            f"it would be {waited:.0f} s at one event a second; the papers measured about 35.) "
            "The others report at the deciding event, and theirs is the time that this event takes."
        )
    full = [f"{_name(peer)} {thousands(best)}" for peer, best in _most(rows).items()]
    told.append(f"The most events a second that each got through: {', '.join(full)}.")
    told.append(
        "A deciding event completes a match with every A of the window, so that one event in two "
        "hundred has some thousand matches to write and the others have none: the median match is "
        "out when all of its event are. Events that fall due meanwhile wait, and count as late "
        "from when they were due."
    )
    return f"**What it means.** {' '.join(told)}\n\n**Where we lose.** {_lost(rows)}"


def _most(rows: Rows) -> dict[str, float]:
    """The most events a second that each method got through."""
    most: dict[str, float] = {}
    for row in rows:
        if "achieved" in row and row["peer"] != NOTHING:
            most[row["peer"]] = max(most.get(row["peer"], 0.0), row["achieved"])
    return most


def _lost(rows: Rows) -> str:
    """At which rates whose median is below ours; for the compiled loop, and for the session."""
    told = []
    for ours in (DETECTOR, SESSION):
        quicker = []
        for row in rows:
            mine = select(rows, rate=row["rate"], peer=ours)
            if row["peer"] in (NOTHING, SESSION, FRAMES, DETECTOR) or not mine or "p50" not in row:
                continue
            if keeps_up(row) and (not keeps_up(mine[0]) or row["p50"] < mine[0].get("p50", 0.0)):
                quicker.append((row["peer"], row["rate"]))
        peers = dict.fromkeys(peer for peer, _ in quicker)
        text = "; ".join(
            f"{title(peer)} at {', '.join(f'{rate:,}' for p, rate in quicker if p == peer)} events/s"
            for peer in peers
        )
        told.append(f"Median below that of *{_name(ours)}*: {text or 'none'}.")
    return " ".join(told) + (
        " A single event through the Python API costs microseconds, and every match becomes a "
        "mapping; the peers' loops are handed their events in memory and write words, and have no "
        "entry from Python that could be compared. *piestream, detector* is the engine in such a "
        "loop. A consumer that pushes a frame of whatever waits keeps up longer, and pays with the "
        "latency of a frame."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Latency over rate: median and 99th percentile."""
    colours = {NOTHING: "#bbbbbb", SESSION: STYLES["piestream"][0], FRAMES: "#e377c2"}
    pictures = figure.subplots(1, 2, sharey=True)
    percentiles = (("p50", "median"), ("p99", "99th percentile"))
    for axes, (which, name) in zip(pictures, percentiles, strict=True):
        for peer in dict.fromkeys(row["peer"] for row in rows):
            here = [row for row in select(rows, peer=peer) if keeps_up(row) and which in row]
            axes.plot([row["rate"] for row in here], [row[which] for row in here],
                      color=colours.get(peer) or STYLES[peer][0], marker="o", markersize=3,
                      label=_name(peer))  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="events due a second", title=name)
        axes.grid(True, linewidth=0.4, alpha=0.5)
    pictures[0].set_ylabel("latency of a match, s")
    figure.legend(*pictures[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


EXPERIMENT = Experiment(
    "rates",
    "TPStream, Fig. 7b and 7c: wall-clock latency",
    "How long after it could be known is a match received, at which rate of events?",
    "*A before B overlaps C* on synthetic booleans, W = 100,000. Every event has an instant, by the "
    "clock on the wall, at which it is due; a method gets it then, or as soon as it is done with "
    "those before. Latency: from the instant at which the event was due that decides a match (the "
    "earliest at which it can be known) to that at which the match is out. Time in the queue is in "
    "it, whoever is slow. 100,000 events come before, at once, so that the window is full; the "
    "better of two runs counts (the machine is shared; *no method at all* shows what is its own: "
    "there every event counts). TPStream, PieStream's paper, ISEQ and *piestream, detector* run in "
    "compiled loops that wait for each event in memory; reading the clock takes about 20 ns an "
    "event of it. The two others go through Python: `Session.push` with one event after another, or "
    "with a frame where more than 64 wait.",
    rows,
    tables,
    meaning,
    draw,
    (9.0, 4.6),
)
