"""What ISEQ's own experiments share (DEBS 2011, sections 4.2 to 4.6): the load, the methods, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import piestream as ps
from experiments import engine
from experiments.harness.conclusions import ended, factor, ratio
from experiments.harness.figures import curves, legend_below, time_curves
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import (
    about_input,
    markdown_table,
    megabytes,
    one,
    part,
    pivot,
    select,
    thousands,
    times_of,
)
from experiments.peers import BITS, FRAME, INPUTS, OURS, Result, title
from experiments.peers.iseq_rows import arrivals, matcher
from experiments.peers.parts.restrictions import comparisons
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, interval_events
from piestream.relations import ALLEN, Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "METHODS",
    "TYPES",
    "WINDOW",
    "Load",
    "conclusions",
    "draw",
    "headline",
    "sweep",
    "tables",
]

#: The window is 30 s, in milliseconds; there are 20 types.
WINDOW, TYPES = 30_000, 20

#: The forms of ISEQ by the names of methods, with naive first: the others are held against it.
_FORMS = {
    "iseq-naive": "naive",
    "iseq-ordered": "ordered",
    "iseq-indexed": "indexed",
    "iseq": "ibp",
}
METHODS = (OURS, *_FORMS)


@dataclass(frozen=True)
class Load:
    """A query over a stream: a chain of as many types, of which so many tenths compare their ends.

    ``interval`` is the mean length of an interval in windows, ``density`` how many have their middle
    within a window.
    """

    length: int = 10
    tenths: int = 5
    interval: float = 1 / 10
    density: int = 200
    windows: int = 8

    @property
    def endpoints(self) -> list[str]:
        """``ts`` or ``te`` of each type, mixed evenly."""
        ends = [(at + 1) * self.tenths // 10 - at * self.tenths // 10 for at in range(self.length)]
        return ["te" if end else "ts" for end in ends]

    @property
    def pattern(self) -> Pattern:
        """The chain as sets of relations between neighbours."""
        of = self.endpoints
        pairs = ((at, at + 1, _less(of[at], of[at + 1])) for at in range(self.length - 1))
        return Pattern(self.length, tuple(pairs), WINDOW)

    @property
    def query(self) -> ps.Query:
        """The same as a user writes it, of whole intervals."""
        names = [f"e{at}" for at in range(self.length)]
        ends = [f"{name}.{which}" for name, which in zip(names, self.endpoints, strict=True)]
        return ps.query(
            "FROM ev FROM ts TO te DEFINE "
            + ", ".join(f"{name} AS type = {at}" for at, name in enumerate(names))
            + f" PATTERN {' < '.join(ends)} WITHIN {WINDOW} RETURN "
            + ", ".join(f"{name}.ts" for name in names)
        )

    @property
    def frame(self) -> pl.DataFrame:
        """The intervals of all types."""
        events = self.density * self.windows
        return interval_events(events, TYPES, WINDOW / self.density, WINDOW * self.interval, SEED)

    def rows(self, frame: pl.DataFrame, *, punctuated: bool) -> np.ndarray:
        """What ISEQ reads: types that the query does not name move the clock only."""
        types = frame["type"].to_numpy()
        symbols = np.where(types < self.length, types, -1)
        return arrivals(
            symbols, *(frame[c].to_numpy() for c in ("ts", "te")), punctuated=punctuated
        )


def _less(of_x: str, of_y: str) -> Relation:
    """The relations that ``x.of_x < y.of_y`` allows."""
    ends = int(of_x == "te"), int(of_y == "te")
    allowed = Relation(0)
    for relation in ALLEN:
        if (*ends, "<") in comparisons(relation):
            allowed |= relation
    return allowed


def _prepared(load: Load, peer: str, form: str) -> Callable[[], Result]:
    """A run of a method, its code loaded.

    On a raw frame what ISEQ reads is made of it inside the clock.
    """
    frame, punctuated = load.frame, peer == "iseq"
    if peer == OURS:
        engine.warm_adaption()
        query = load.query
        query.run(frame.head(200))
        return lambda: _counted(query.run(frame, threads=1))
    match = matcher(load.pattern, _FORMS[peer])
    match(load.rows(frame.head(100), punctuated=punctuated))
    if form == FRAME:
        return lambda: match(load.rows(frame, punctuated=punctuated))
    return partial(match, load.rows(frame, punctuated=punctuated))


def _counted(found: pl.DataFrame) -> Result:
    return Result(found, found.height)


def _described(peer: str, result: Result) -> Row:
    row: Row = {"matches": result.count}
    if peer != OURS:
        row |= {key: result.counters[key] for key in ("peak_stored", "probes", "dropped")}
        row["dropped"] += result.counters["dropped_starts"] + result.counters["cascaded"]
    return row


def sweep(size: Size, x: str, loads: Iterable[tuple[str | int, Load]]) -> Iterator[Row]:
    """A row a load, form of the input and method; who was over a limit is not run on what comes later.

    piestream reads whole intervals from a frame; there is no form of them that is packed for it.
    """
    over: dict[str, str] = {}
    for value, load in loads:
        for form, peer in product(INPUTS, METHODS):
            if peer == OURS and form != FRAME:
                continue
            row: Row = {x: value, "peer": peer, "input": form, "seed": SEED, "windows": load.windows,
                        "events": load.windows * load.density}  # fmt: skip
            if peer in over:
                row["skipped"] = over[peer]
            else:
                describe = partial(_described, peer)
                row |= isolated(_prepared, load, peer, form, size=size, describe=describe)
            if "over" in row:
                over[peer] = row["over"]
            yield row


def tables(x: str, rows: Rows) -> str:
    """Times, memory, what is held, what is looked at, and the matches."""
    theirs = [row for row in select(rows, input=BITS) if row["peer"] != OURS]
    on_frame = select(rows, input=FRAME)
    lines = [
        (part(value), thousands(one(rows, "events", **{x: value})), *_of_first(rows, x, value))
        for value in dict.fromkeys(row[x] for row in rows)
    ]
    return "\n\n".join([
        markdown_table([x, "intervals", "matches"], lines),
        f"CPU milliseconds, warm / cold, {about_input(FRAME)}:\n\n" + pivot(on_frame, [x], times_of),
        "CPU milliseconds, warm / cold, of rows in order of arrival that were made before:\n\n"
        + pivot(theirs, [x], times_of),
        "Megabytes of RAM taken beyond the input, matches included, "
        f"{about_input(FRAME)}:\n\n"
        + pivot(on_frame, [x], lambda row: megabytes(row["peak_growth_bytes"]),
                measured="peak_growth_bytes"),
        "ISEQ: the most intervals and begin punctuations held at one time; entries looked at:\n\n"
        + pivot(theirs, [x], lambda row: f"{row['peak_stored']:,}; {thousands(row['probes'])}",
                measured="probes"),
    ])  # fmt: skip


def _of_first(rows: Rows, x: str, value: object) -> Sequence[str]:
    return [next(thousands(r["matches"]) for r in rows if r[x] == value and "matches" in r)]


def conclusions(x: str, rows: Rows, paper: str) -> str:
    """What each form saves against naive, beside what the paper says, and where piestream stands."""
    saved = []
    for peer in list(_FORMS)[1:]:
        cpu, held = _saved(select(rows, input=BITS), x, peer)
        saved.append(
            f"{title(peer)}: {cpu or 'not measured'}; held at most {held or 'not counted'}"
        )
    return "\n\n".join([
        f"**The paper.** {paper}",
        f"**Less than naive** by {x}, of rows that were made before, CPU time in per cent (below 0: "
        f"more): {'. '.join(saved)}.",
        f"**piestream beside them.** {_beside(select(rows, input=FRAME), x)}{ended(rows, [x])}",
        f"**Agreement.** {_agreement(rows, x)}",
    ])  # fmt: skip


def _saved(rows: Rows, x: str, peer: str) -> tuple[str, str]:
    """By how many per cent a form takes less time and holds less than naive does, by case."""
    times, held = [], []
    for row in select(rows, peer=peer):
        naive = select(rows, peer="iseq-naive", **{x: row[x]})[0]
        compared = ratio(row, naive)
        if compared:
            times.append(f"{part(row[x])} {100 * (1 - compared[0]):.0f}")
        if naive.get("peak_stored") and row.get("peak_stored"):
            held.append(100 * (1 - row["peak_stored"] / naive["peak_stored"]))
    text = f"{min(held):.0f} to {max(held):.0f} per cent less" if held else ""
    return ", ".join(times), text


def _beside(rows: Rows, x: str) -> str:
    """The time of each form over piestream's."""
    texts = []
    for peer in _FORMS:
        compared = [
            (found[0], row[x])
            for row in select(rows, peer=peer)
            if (found := ratio(row, select(rows, peer=OURS, **{x: row[x]})[0]))
        ]
        if compared:
            (least, at_least), (most, at_most) = min(compared), max(compared)
            texts.append(
                f"{title(peer)} {factor(least)} ({x} = {part(at_least)}) to {factor(most)} "
                f"({x} = {part(at_most)})"
            )
    return (
        "CPU time over piestream's; both read a frame, piestream gives one and ISEQ numbers: "
        f"{'; '.join(texts) or 'not measured'}."
    )


def _agreement(rows: Rows, x: str) -> str:
    """Whether all methods count alike: whole intervals are known at their ends by all of them."""
    counts: dict[object, set[int]] = {}
    for row in rows:
        if "matches" in row:
            counts.setdefault(row[x], set()).add(row["matches"])
    differ = [part(value) for value, found in counts.items() if len(found) > 1]
    if differ:
        return f"**Numbers of matches differ** at {x} = {', '.join(differ)}."
    return "All methods find equally many matches in every case."


def draw(x: str, rows: Rows, figure: Figure) -> None:
    """Time and what is held."""
    places = {value: at for at, value in enumerate(dict.fromkeys(row[x] for row in rows))}
    placed = [{**row, "at": places[row[x]]} for row in rows]
    time, held = figure.subplots(1, 2)
    time_curves(time, select(placed, input=FRAME), "at")
    curves(held, select(placed, input=BITS), "at", "peak_stored", log_y=False)
    for axes in (time, held):
        axes.set_xticks(list(places.values()), [part(value) for value in places], fontsize=7)
        axes.set_xlabel(x)
    time.set_ylabel("CPU ms")
    held.set_ylabel("intervals and punctuations held at most")
    legend_below(figure)


def headline(x: str, rows: Rows) -> dict[str, Rows]:
    """The last case."""
    last = rows[-1][x]
    return {f"{x} {part(last)}": select(rows, **{x: last})}
