"""TPStream's adaption: a stream whose frequencies change twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING, Any

from experiments.comparisons.plans import (
    ADAPTING,
    FIRST,
    OWN,
    QUERIES,
    chosen,
    described,
    forced,
    ours,
)
from experiments.harness.conclusions import EVEN, factor, ratio
from experiments.harness.experiment import Experiment
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import (
    markdown_table,
    megabytes,
    select,
    thousands,
    times_of,
    why_not,
)
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How often A, B and C occur in proportion, one phase after the other.
RATIOS = ((1, 1, 1), (1, 50, 50), (50, 1, 50))


#: The sum of the best forced plans of the phases, each run by itself.
OPTIMUM = "TPStream, best plan of each phase"


def rows(size: Size) -> Iterator[Row]:
    """A row a way to plan; and the phases by themselves, whose best plans add up to the optimum."""
    length = size.of(2_000, 50_000, 300_000)
    window = size.of(500, 1_000, 10_000)
    phases = tuple((at * length, ratios) for at, ratios in enumerate(RATIOS))
    pattern = Pattern(3, QUERIES["Q3: A before B, A before C, B before C"], window)
    case = synthetic(pattern, 3 * length, phases=phases)
    about: Row = {"events": 3 * length, "window": window, "seed": SEED}

    def measured(*prepare: Any) -> Row:
        return isolated(*prepare, False, size=size, describe=described)

    yield {**about, "plan": ADAPTING, **measured(chosen, case, {"alpha": 0.01, "threshold": 0.2})}
    yield {**about, "plan": FIRST, **measured(chosen, case, {"alpha": 0.0})}
    yield {**about, "plan": OWN, **measured(ours, case, None)}
    optimum: list[Row] = []
    for phase, (first, _) in enumerate(phases):
        part = case.between(first, first + length)
        runs = [measured(forced, part, "constraints", ranks) for ranks in permutations(range(3))]
        best = min(runs, key=lambda row: row.get("cold_cpu_s", 1e9))
        optimum.append(best)
        yield {**about, "plan": f"phase {phase + 1}, best forced plan", **best, "plans": 0}
    row: Row = {**about, "plan": OPTIMUM, "plans": len(phases) - 1}
    for value in ("cold_cpu_s", "cpu_s", "work", "matches"):
        parts = [best.get(value) for best in optimum]
        if None not in parts:
            row[value] = sum(parts)
    yield row


def tables(rows: Rows) -> str:
    """All of them."""
    head = ["plan", "CPU ms, warm / cold", "MB beyond the input", "steps of search", "matches",
            "new plans"]  # fmt: skip
    return "Input: *packed bits*.\n\n" + markdown_table(head, [
        [row["plan"], times_of(row) if "work" in row else why_not(row),
         megabytes(row.get("peak_growth_bytes")), thousands(row.get("work")),
         thousands(row.get("matches")), row.get("plans", "–")] for row in rows
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Each way to plan against the optimum, and piestream against the others."""
    named = {plan: select(rows, plan=plan)[0] for plan in (OPTIMUM, ADAPTING, FIRST, OWN)}
    texts = []
    for plan in (ADAPTING, FIRST, OWN):
        compared = ratio(named[plan], named[OPTIMUM])
        if compared:
            texts.append(f"{plan} {compared[0]:.2f}×{'' if compared[1] else ' (cold)'}")
    losses = []
    for plan in (OPTIMUM, ADAPTING, FIRST):
        compared = ratio(named[plan], named[OWN])
        if compared and compared[0] < 1 / EVEN:
            losses.append(f"{plan} (by {factor(1 / compared[0])})")
    return (
        "**Against the sum of the best plans of the phases** (the papers: 1.02 and 1.00 for adapting): "
        f"{', '.join(texts) or 'not measured'}. The sum leaves out matches that span two phases, so no "
        f"one run can quite reach it.\n\n**Where piestream loses.** To {', '.join(losses) or 'none'}."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars of warm times, or of cold ones where some way has no other."""
    axes = figure.subplots()
    shown = [row for row in rows if not row["plan"].startswith("phase")][::-1]
    kind = "cpu_s" if all(row.get("cpu_s") for row in shown) else "cold_cpu_s"
    axes.barh([row["plan"] for row in shown], [1000 * row.get(kind, 0) for row in shown],
              color=["#d62728" if row["plan"] == OWN else "#1f77b4" for row in shown])  # fmt: skip
    axes.set(xlabel=f"CPU ms, {'warm' if kind == 'cpu_s' else 'cold'}")
    axes.grid(False, axis="y")


EXPERIMENT = Experiment(
    "adaption",
    "TPStream, Fig. 8b: adaption",
    "What does a plan cost that follows changing frequencies?",
    "A before B, A before C, B before C on a stream in which A, B and C occur in the proportions "
    "1:1:1, then 1:50:50, then 50:1:50; smoothing 0.01, threshold 0.2; matches are only counted. The "
    "optimum: each phase by itself with the best of the six forced orders. (The papers had 300 "
    "million events and W = 10,000; on this stream that is some ten thousand million matches, so "
    "`--full` has the window and 900,000 events.)",
    rows,
    tables,
    conclusions,
    draw,
    (7.5, 2.4),
)
