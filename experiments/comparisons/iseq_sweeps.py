"""What ISEQ's own experiments share (DEBS 2011, sections 4.2 to 4.6): the load, the methods, the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import piestream as ps
from experiments.harness.conclusions import ended, factor, ratio
from experiments.harness.figures import curves, legend_below, time_curves
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import (
    markdown_table,
    megabytes,
    one,
    part,
    pivot,
    select,
    thousands,
    times_of,
)
from experiments.peers import OURS, Result, title
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

    def rows(self, *, punctuated: bool) -> np.ndarray:
        """What ISEQ reads: types that the query does not name move the clock only."""
        frame = self.frame
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


def _prepared(load: Load, peer: str) -> Callable[[], Result]:
    """A run of a method, its code loaded."""
    if peer == OURS:
        query, frame = load.query, load.frame
        query.run(frame.head(200))
        return lambda: _counted(query.run(frame))
    match = matcher(load.pattern, _FORMS[peer])
    rows = load.rows(punctuated=peer == "iseq")
    match(rows[:100])
    return partial(match, rows)


def _counted(found: pl.DataFrame) -> Result:
    return Result(found, found.height)


def _described(peer: str, result: Result) -> Row:
    row: Row = {"matches": result.count}
    if peer != OURS:
        row |= {key: result.counters[key] for key in ("peak_stored", "probes", "dropped")}
        row["dropped"] += result.counters["dropped_starts"] + result.counters["cascaded"]
    return row


def sweep(size: Size, x: str, loads: Iterable[tuple[str | int, Load]]) -> Iterator[Row]:
    """A row a load and method; who was over a limit is not run on what comes later."""
    over: dict[str, str] = {}
    for value, load in loads:
        for peer in METHODS:
            row: Row = {x: value, "peer": peer, "seed": SEED, "windows": load.windows,
                        "events": load.windows * load.density}  # fmt: skip
            if peer in over:
                row["skipped"] = over[peer]
            else:
                describe = partial(_described, peer)
                row |= isolated(_prepared, load, peer, size=size, describe=describe)
            if "over" in row:
                over[peer] = row["over"]
            yield row


def tables(x: str, rows: Rows) -> str:
    """Times, memory, what is held, what is looked at, and the matches."""
    theirs = [row for row in rows if row["peer"] != OURS]
    lines = [
        (part(value), thousands(one(rows, "events", **{x: value})), *_of_first(rows, x, value))
        for value in dict.fromkeys(row[x] for row in rows)
    ]
    return "\n\n".join([
        markdown_table([x, "intervals", "matches"], lines),
        "CPU milliseconds, warm / cold:\n\n" + pivot(rows, [x], times_of),
        "Megabytes of RAM taken beyond the input, matches included:\n\n"
        + pivot(rows, [x], lambda row: megabytes(row["peak_growth_bytes"]),
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
        cpu, held = _saved(rows, x, peer)
        saved.append(
            f"{title(peer)}: {cpu or 'not measured'}; held at most {held or 'not counted'}"
        )
    return "\n\n".join([
        f"**The paper.** {paper}",
        f"**Less than naive** by {x}, CPU time in per cent (below 0: more): {'. '.join(saved)}.",
        f"**piestream beside them.** {_beside(rows, x)}{ended(rows, [x])}",
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
        "CPU time over piestream's, which reads a frame and gives one, where ISEQ reads prepared rows "
        f"and writes numbers: {'; '.join(texts) or 'not measured'}."
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
    time_curves(time, placed, "at")
    curves(held, placed, "at", "peak_stored", log_y=False)
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
