"""PieStream's case study: LNG rollovers, and false alarms of before against followed-by."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

import piestream as ps
from experiments.harness.conclusions import standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import described
from experiments.harness.tables import (
    markdown_table,
    megabytes,
    select,
    thousands,
    times_of,
    why_not,
)
from experiments.peers import INPUTS, Result, prepared, title
from experiments.peers.pattern import Ints, Pattern
from experiments.streams import SEED, Case, rollover, rollover_truth

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    "piestream",
    "tpstream",
    "piestream-paper",
    "piestream-paper-changes",
    "iseq",
    "duckdb",
    "polars",
)
_PREDICATES = {
    "A": "SOBOR > 0 AND BOR < 50",
    "B": "BOR > 100",
    "C": "SOBOR < 0 AND BOR < 50 AND BOR > 0",
    "D": "DD < 1",
}


def query(then: str, source: str = "tank") -> ps.Query:
    """The paper's query, with ``followed-by`` or with ``before``.

    >>> [symbol.name for symbol in query("before").symbols]
    ['A', 'B', 'C', 'D']
    """
    defined = ", ".join(f"{name} AS {text}" for name, text in _PREDICATES.items())
    return ps.query(
        f"FROM {source} ORDER BY ts DEFINE {defined} PATTERN A {then} B AND B {then} C "
        "AND B during;starts;overlaps D AND D overlaps;finished-by;contains C "
        f"AND A {then};meets;overlaps D WITHIN 10000 RETURN A.ts, B.ts, C.ts, D.ts"
    )


def true_alarms(starts: Ints, truth: pl.DataFrame) -> tuple[int, int]:
    """Of matches (starts of A, B, C, D): how many are of a planted rollover, and of how many rollovers.

    Such a match has the rise of this very surge as its A, and its fall as its C.
    """
    onset, peak, settled = (truth[name].to_numpy() for name in ("onset", "peak", "settled"))
    right, found = 0, set()
    for a, b, c, _ in starts.tolist():
        at = int(np.searchsorted(onset, b, side="right")) - 1
        # Noise never turns a rise into a fall, so A begins with the onset, within a moment.
        if at >= 0 and onset[at] - 5 <= a <= peak[at] and b <= peak[at] + 5 and c <= settled[at]:
            right += 1
            found.add(at)
    return right, len(found)


def _alarms(
    truth: pl.DataFrame, case: Case, peer: str, form: str, size: Size, found: Result
) -> Row:
    """How many alarms there are, and how many are right."""
    starts = found.matches[:, 1:]
    right, rollovers = true_alarms(starts, truth)
    return {**described(case, peer, form, size, found), "true": right, "found": rollovers,
            "false": len(starts) - right}  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a form of the query, form of the input and method."""
    days, planted = size.of((2, 3), (20, 19), (100, 95))
    frame = rollover(days=days, seed=SEED, rollovers=planted)
    truth = rollover_truth(days=days, seed=SEED, rollovers=planted)
    for then in ("followed-by", "before"):
        rollover_query = query(then)
        case = Case(
            Pattern.of(rollover_query),
            frame,
            tuple(_PREDICATES.values()),
            explicit_query=rollover_query,
        )
        for form in INPUTS:
            for peer in METHODS:
                yield {"then": then, "peer": peer, "input": form, "events": frame.height,
                       "days": days, "planted": planted, "seed": SEED,
                       **isolated(prepared, case, peer, form, size=size,
                                  describe=partial(_alarms, truth, case, peer, form, size))}  # fmt: skip


def tables(rows: Rows) -> str:
    """Alarms, time and memory."""
    lines = []
    for row in rows:
        first = [row["then"], row["input"], title(row["peer"])]
        if "matches" not in row:
            lines.append([*first, *[why_not(row)] * 6])
            continue
        share = row["false"] / max(row["matches"], 1)
        lines.append([*first, row["matches"], f"{row['found']} of {row['planted']}",
                      f"{row['false']} ({share:.0%})", times_of(row),
                      megabytes(row.get("peak_growth_bytes")),
                      thousands(row.get("peak_stored") or None)])  # fmt: skip
    head = ["relation", "input", "method", "alarms", "rollovers found", "false alarms",
            "CPU ms, warm / cold", "MB beyond the input", "items held at most"]  # fmt: skip
    about = f"{rows[0]['days']} days, {rows[0]['events']:,} readings:\n\n"
    return about + markdown_table(head, lines)


def conclusions(rows: Rows) -> str:
    """False alarms, which methods cannot express the precise relation, and which are quicker."""
    alarms = []
    for then in ("followed-by", "before"):
        counts = {(row["matches"], row["false"], row["found"])
                  for row in select(rows, then=then) if "matches" in row}  # fmt: skip
        texts = [
            f"{matches} alarms, {false} of them false ({false / max(matches, 1):.0%}), "
            f"{found} of {rows[0]['planted']} rollovers found"
            for matches, false, found in sorted(counts)
        ]
        agreed = "all methods that answer" if len(counts) == 1 else "**the methods differ**"
        alarms.append(f"`{then}`: {'; '.join(texts)} ({agreed})")
    refused = dict.fromkeys(title(row["peer"]) for row in rows if "refused" in row)
    cannot = f" Cannot express `followed-by`: {', '.join(refused)}." if refused else ""
    return "\n\n".join([
        f"**Alarms.** {'. '.join(alarms)}.{cannot}",
        standing(rows, ["then"]),
    ])  # fmt: skip


def draw(rows: Rows, figure: Figure) -> None:
    """True and false alarms."""
    axes = figure.subplots()
    relations = ("followed-by", "before")
    shown = [select(rows, then=then, peer="piestream")[0] for then in relations]
    axes.barh(relations, [row["true"] for row in shown], color="#2ca02c", label="true")
    axes.barh(relations, [row["false"] for row in shown], left=[row["true"] for row in shown],
              color="#d62728", label="false")  # fmt: skip
    axes.set(xlabel="alarms")
    axes.grid(False, axis="y")
    legend_below(figure)


def headline(rows: Rows) -> dict[str, Rows]:
    """Both relations."""
    return {then: select(rows, then=then) for then in ("followed-by", "before")}


EXPERIMENT = Experiment(
    "rollover",
    "LNG rollover: false alarms of before and followed-by",
    "How many false alarms does `before` raise where `followed-by` raises none?",
    "A tank with planted rollovers, precursors, aftershocks and look-alikes, one reading a second "
    "(`experiments.streams.rollover`); the paper's query with either relation. An alarm is true "
    "if its A and C are the rise and the fall of a planted rollover's own surge. The generator plants "
    "precursors and aftershocks so that the share of false alarms of `before` is the published one; "
    "what is measured is that the precise relation removes them and loses nothing. The raw frame has "
    "three columns of floating-point numbers, on which each row takes six comparisons.",
    rows,
    tables,
    conclusions,
    draw,
    (7.0, 2.4),
    headline=headline,
    methods=METHODS,
)
