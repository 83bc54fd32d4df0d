"""Wall-clock latency against the rate of events: a model from measured times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from experiments.baselines.pattern import Pattern, Result
from experiments.cells import apart
from experiments.experiment import STYLES, Experiment, megabytes, one, select, table
from experiments.measure import Row, Rows, Size
from experiments.peers import Case, prepared, title
from experiments.streams import BEFORE_OVERLAPS, SEED, synthetic
from piestream.joins.layout import ROW_TIME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SESSION = "piestream-session"
PEERS = ("piestream-detector", "tpstream", "tpstream-published", "piestream-paper", "iseq")
RATES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def _name(peer: str) -> str:
    return "piestream, one push an event" if peer == SESSION else title(peer)


def _pushed(case: Case, events: int) -> Row:
    """A session that is given one event after another: CPU time an event, and its percentiles."""
    session = case.query.open()
    columns = case.frame.columns
    pushes = [dict(zip(columns, row, strict=True)) for row in case.frame.head(events).iter_rows()]
    first, rest = pushes[: events // 5], pushes[events // 5 :]
    for event in first:
        session.push(event)
    walls = []
    before = process_time()
    for event in rest:
        begin = perf_counter()
        session.push(event)
        walls.append(perf_counter() - begin)
    used = (process_time() - before) / len(rest)
    return {"cpu_event": used, "wall_p50": float(np.quantile(walls, 0.5)),
            "wall_p99": float(np.quantile(walls, 0.99)), "peer": SESSION}  # fmt: skip


def _pushing(case: Case, events: int) -> Callable[[], Row]:
    return partial(_pushed, case, events)


def _told(case: Case, result: Result) -> Row:
    """How many events after the earliest possible one the mean match is reported."""
    starts = [f"s{at}" for at in range(case.pattern.n_symbols)]
    first = pl.DataFrame(case.run("tpstream").matches, schema=["first", *starts])
    found = result.matches[:, -1 - len(starts) :] if len(result.matches) else first.to_numpy()[:0]
    reports = result.matches[:, ROW_TIME if result.matches.shape[1] > 1 + len(starts) else 0]
    theirs = pl.DataFrame(found[:, 1:], schema=starts).with_columns(pl.Series("report", reports))
    both = first.join(theirs, on=starts)
    waited = (both["report"] - both["first"]).mean()
    return {"waited": float(waited or 0.0)}  # type: ignore[arg-type]


def rows(size: Size) -> Iterator[Row]:
    """A row a window and peer: seconds of CPU an event, and events waited for."""
    events = size.of(2_000, 50_000, 1_000_000)
    for window in size.of((1_000,), (1_000, 100_000), (1_000, 10_000, 100_000)):
        case = synthetic(Pattern(3, BEFORE_OVERLAPS, window), events)
        told: Row = {"window": window, "events": events, "seed": SEED}
        measured = apart(_pushing, case, size.of(500, 10_000, 100_000), size=size, told=dict)
        yield {**told, **measured, "waited": 0.0}
        for peer in PEERS:
            row = apart(prepared, case, peer, size=size, told=partial(_told, case))
            if "cpu_s" in row:
                yield {**told, "peer": peer, "cpu_event": row["cpu_s"] / events, **row}


def latency(row: Row, rate: float) -> float | None:
    """Seconds from when a match could be known to when it is; None if a method cannot keep up.

    Event latency: the events that it waits for, at this rate. Processing latency: a queue with
    even service and random arrivals (M/D/1).

    >>> latency({"cpu_event": 1e-3, "waited": 30.0}, 10) > 3, latency({"cpu_event": 1e-3}, 1000)
    (True, None)
    """
    busy = rate * row["cpu_event"]
    if busy >= 1:
        return None
    return float(row["waited"] / rate + row["cpu_event"] * (1 + busy / (2 * (1 - busy))))


def _seconds(value: float | None) -> str:
    if value is None:
        return "cannot keep up"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")):
        if value * factor >= 1 or unit == "ns":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError


def tables(rows: Rows) -> str:
    """Measured, and the model."""
    measured = table(
        ["method", "window", "CPU an event", "events waited for", "MB beyond input"],
        [[_name(r["peer"]), f"{r['window']:,}", _seconds(r["cpu_event"]), f"{r['waited']:.1f}",
          megabytes(r.get("peak_growth_bytes"))]
         for r in rows],
    )  # fmt: skip
    widest = max(row["window"] for row in rows)
    here = select(rows, window=widest)
    model = table(
        ["events/s", *(_name(row["peer"]) for row in here)],
        [[f"{rate:,}", *(_seconds(latency(row, rate)) for row in here)] for rate in RATES],
    )
    return f"Measured:\n\n{measured}\n\nMean latency by the model, W = {widest:,}:\n\n{model}"


def meaning(rows: Rows) -> str:
    """Who waits and who is slow."""
    widest = max(row["window"] for row in rows)
    iseq = one(rows, "waited", peer="iseq", window=widest)
    pushed = select(rows, peer=SESSION, window=widest)[0]
    quickest = min(
        (row for row in select(rows, window=widest) if row["peer"] != SESSION),
        key=lambda row: row["cpu_event"],
    )
    return (
        "**What it means.** At low rates latency is the waiting for events: ISEQ learns of a match "
        f"{iseq:.0f} events after it could be known, at one event a second {iseq:.0f} s (the "
        "papers measured about 35 s), the others at once. At high rates it is the time that "
        f"events take. A single `push` through the Python API takes {_seconds(pushed['cpu_event'])} "
        f"of CPU (wall-clock median {_seconds(pushed['wall_p50'])}, 99th percentile "
        f"{_seconds(pushed['wall_p99'])} on a shared machine), so that from "
        f"{1 / pushed['cpu_event']:,.0f} events a second on, events have to be pushed in frames; "
        "the other columns are such loops.\n\n"
        f"**Where we lose.** One event at a time costs the way through Python, which compiled peers "
        f"do not go. The least CPU an event in a loop at this window is that of "
        f"{_name(quickest['peer'])} ({_seconds(quickest['cpu_event'])}); this pattern's output "
        "grows with the window, see the disconnected patterns. The model takes "
        "service to be even; a match's events are slower than others."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Latency over rate."""
    axes = figure.subplots()
    widest = max(row["window"] for row in rows)
    rates = np.logspace(0, 7.5, 200)
    for row in select(rows, window=widest):
        values = [latency(row, rate) for rate in rates]
        colour, _ = STYLES.get(row["peer"], STYLES["piestream"])
        axes.plot(rates, [np.nan if v is None else v for v in values], color=colour,
                  label=_name(row["peer"]))  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="events a second", ylabel="mean latency, s",
             title=f"A before B overlaps C, W = {widest:,}")  # fmt: skip
    axes.grid(True, linewidth=0.4, alpha=0.5)
    axes.legend()


EXPERIMENT = Experiment(
    "rates",
    "TPStream, Fig. 7b and 7c: wall-clock latency",
    "How long after it could be known is a match received, at which rate of events?",
    "*A before B overlaps C* on synthetic booleans. Measured: CPU time an event, and how many "
    "events after the earliest possible one each method reports. Latency at a rate is then "
    "computed, not measured: events waited for over the rate, plus the mean time in a queue with "
    "even service times and random arrivals.",
    rows,
    tables,
    meaning,
    draw,
    (7.5, 4.2),
)
