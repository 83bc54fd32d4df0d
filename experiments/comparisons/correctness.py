"""Correctness counts: what each method misses, invents, repeats or reports late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import or_
from random import Random
from typing import TYPE_CHECKING, Any

import piestream as ps
from experiments.comparisons.futures import earliest
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import markdown_table, part
from experiments.peers import OURS, PEERS, title
from experiments.peers.pattern import Pattern
from experiments.peers.piestream import on_frame
from experiments.streams import SEED, of_bits, restless
from piestream.relations import ALLEN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LITERAL: Mapping[str, Any] = {"ends_first": False, "open_end": "now", "unrelated_only": False,
                               "deduplicate": False}  # fmt: skip

_PUBLISHED = "tpstream-published"
#: What is counted: a name, a method and its options.
READINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    title(OURS): (OURS, {}),
    "TPStream, as printed": (_PUBLISHED, _LITERAL),
    "… but open ends unknown": (_PUBLISHED, {**_LITERAL, "open_end": "unknown"}),
    "… but ends before starts": (_PUBLISHED, {**_LITERAL, "ends_first": True}),
    "… but both": (_PUBLISHED, {"unrelated_only": False, "deduplicate": False}),
    "… both, unrelated subsets": (_PUBLISHED, {"deduplicate": False}),
    "… both, unrelated, each once": (_PUBLISHED, {}),
    **{
        title(peer): (peer, {})
        for peer in ("tpstream", "piestream-paper", "iseq", "duckdb-trigger")
    },
}
#: The reading that the other experiments call *as published*.
AS_PUBLISHED = "… both, unrelated, each once"
_FAULTS = ("missing", "false", "repeated", "late")


def _pattern(rng: Random) -> Pattern:
    """A connected pattern: a random tree of one to four relations each, sometimes a cycle."""
    symbols = rng.choice((2, 3, 3, 4))
    pairs = [(rng.randrange(y), y) for y in range(1, symbols)]
    if symbols > 2 and (0, symbols - 1) not in pairs and rng.random() < 0.4:
        pairs.append((0, symbols - 1))
    constraints = []
    for x, y in pairs:
        at = rng.choice((3, 6, 9))  # a complete prefix group, now and then
        group = [ALLEN[k] for k in range(at - 1, at + 2)] if rng.random() < 0.3 else []
        chosen = rng.sample(ALLEN, rng.choice((1, 1, 2, 4)))
        constraints.append((x, y, reduce(or_, [*group, *chosen])))
    return Pattern(symbols, tuple(constraints), 1_000_000)


def rows(size: Size) -> Iterator[Row]:
    """A row a reading, over all cases."""
    cases = size.of(12, 120, 1_000)
    counts = {reading: Counter[str]() for reading in READINGS}
    for number in range(cases):
        rng = Random(SEED + number)
        case = of_bits(_pattern(rng), *restless(4, 40, SEED + number))
        optimum = earliest(case.pattern, *case.bits)
        for reading, (peer, options) in READINGS.items():
            if peer == "duckdb-trigger" and number >= cases // 4:
                continue  # a connection and a plan a case: a quarter of them will do
            try:
                if peer == OURS:
                    result = on_frame(case)()
                else:
                    result = PEERS[peer].run(case.pattern, *case.bits, **options)
                found = result.matches.tolist()
            except ps.QueryError:
                found = []  # piestream refuses patterns that nothing can satisfy
            counts[reading].update(_faults(optimum, found))
            counts[reading]["cases"] += 1
    for reading, (peer, _) in READINGS.items():
        kinds = ("cases", "true", *_FAULTS)
        yield {"reading": reading, "peer": peer, "seed": SEED,
               **{kind: counts[reading][kind] for kind in kinds}}  # fmt: skip


def _faults(optimum: Mapping[tuple[int, ...], int], found: list[list[int]]) -> Counter[str]:
    reports: dict[tuple[int, ...], int] = {}
    for report, *starts in found:
        reports.setdefault(tuple(starts), report)
    return Counter(
        true=len(optimum),
        missing=len(optimum.keys() - reports.keys()),
        # Reported before it was certain counts as false: it could have come out otherwise.
        false=sum(s not in optimum or t < optimum[s] for s, t in reports.items()),
        repeated=len(found) - len(reports),
        late=sum(s in optimum and t > optimum[s] for s, t in reports.items()),
    )


def tables(rows: Rows) -> str:
    """The counts."""
    return markdown_table(
        ["method", "cases", "true matches", *_FAULTS],
        [[row["reading"], *(part(row[kind]) for kind in ("cases", "true", *_FAULTS))]
         for row in rows],
    )  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Which methods are exact, which are late, and the faults of each reading."""
    exact = [row["reading"] for row in rows if not any(row[fault] for fault in _FAULTS[:3])]
    on_time = [row["reading"] for row in rows if row["reading"] in exact and not row["late"]]
    wrong = [
        f"{row['reading']}: "
        + ", ".join(
            f"{row[fault] / max(row['true'], 1):.1%} {fault}" for fault in _FAULTS if row[fault]
        )
        for row in rows
        if row["reading"] not in on_time
    ]
    return (
        "**Exact** (nothing missing, false or repeated; what is reported before it is certain counts "
        f"as false): {'; '.join(exact) or 'none'}.\n\n"
        f"**Exact and always at the earliest instant**: {'; '.join(on_time) or 'none'}.\n\n"
        f"**Faults, of the true matches.** {'; '.join(wrong) or 'None'}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Stacked bars."""
    axes = figure.subplots()
    readings = [row["reading"] for row in rows][::-1]
    left = [0.0] * len(rows)
    for kind, colour in zip(_FAULTS, ("#d62728", "#ff7f0e", "#9467bd", "#c7c7c7"), strict=True):
        widths = [100 * row[kind] / max(row["true"], 1) for row in rows][::-1]
        axes.barh(readings, widths, left=left, color=colour, label=kind)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set(xlabel="per 100 true matches")
    axes.grid(False, axis="y")
    legend_below(figure)


EXPERIMENT = Experiment(
    "correctness",
    "Correctness counts",
    "What does each method miss, invent, repeat or report late? PieStream's paper says that "
    "TPStream has false positives, without numbers.",
    "Random patterns of two to four symbols, trees and cycles, sets of relations, on short "
    "restless streams; every method against brute force over all combinations and futures "
    "(`experiments/comparisons/futures.py`). The readings of TPStream's pseudo-code go from its letter to that "
    f"which the other experiments call *as published* (*{AS_PUBLISHED}*).",
    rows,
    tables,
    conclusions,
    draw,
)
