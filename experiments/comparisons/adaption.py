"""TPStream's adaption: a stream whose frequencies change twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

from experiments.baselines import BASELINES
from experiments.baselines.pattern import Pattern, Result
from experiments.cells import apart
from experiments.experiment import Experiment, megabytes, milliseconds, one, table, thousands
from experiments.measure import Row, Rows, Size
from experiments.peers import DETECTOR, Case, prepared
from experiments.plans import QUERIES, run_forced
from experiments.streams import SEED, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How often A, B and C occur in proportion, one phase after the other.
RATIOS = ((1, 1, 1), (1, 50, 50), (50, 1, 50))


def planned(case: Case, **options: float) -> Callable[[], Result]:
    """TPStream, corrected, planning in a way; its matches are only counted."""
    run = BASELINES["tpstream"].run
    return partial(run, case.pattern, case.times, case.masks, keep=False, **options)


def adapting(case: Case) -> Callable[[], Result]:
    """TPStream with the papers' smoothing and threshold."""
    return planned(case, alpha=0.01, threshold=0.2)


def unchanging(case: Case) -> Callable[[], Result]:
    """TPStream with the plan it begins with."""
    return planned(case, alpha=0.0)


def ours(case: Case) -> Callable[[], Result]:
    """piestream's detector, given pieces as `Query.run` gives them; matches are only counted."""
    prepared(case, DETECTOR)
    return partial(case.detect, pieces=1 + len(case.times) // 25_000, keep=False)


def _told(result: Result) -> Row:
    told = result.counters
    work = told["steps"] + told["visits"] if "visits" in told else told["probes"]
    return {"matches": result.count, "plans": told.get("plans", 0), "work": work}


def _forced(result: tuple[int, int]) -> Row:
    return {"matches": result[0], "work": result[1]}


def forced(case: Case, ranks: tuple[int, ...]) -> Callable[[], tuple[int, int]]:
    """TPStream with a forced order, only counting."""
    return partial(run_forced, case, ranks, False)


def rows(size: Size) -> Iterator[Row]:
    """A row a way to plan; and the phases by themselves, whose best plans add up to the optimum."""
    length = size.of(2_000, 50_000, 300_000)
    window = size.of(500, 1_000, 10_000)
    phases = tuple((at * length, ratios) for at, ratios in enumerate(RATIOS))
    pattern = Pattern(3, QUERIES["Q3: A before B, A before C, B before C"], window)
    case = synthetic(pattern, 3 * length, phases=phases)
    told: Row = {"events": 3 * length, "window": window, "seed": SEED}
    for plan, way in (("TPStream, adapting", adapting), ("TPStream, first plan", unchanging),
                      ("piestream, detector", ours)):  # fmt: skip
        yield {**told, "plan": plan, **apart(way, case, size=size, told=_told)}
    optimum = {"cpu_s": 0.0, "work": 0, "matches": 0}
    for phase, (first, _) in enumerate(phases):
        part = Case(pattern, case.times[first : first + length], case.masks[first : first + length])
        runs = [
            apart(forced, part, ranks, size=size, told=_forced) for ranks in permutations(range(3))
        ]
        best, worst = (pick(runs, key=lambda row: row.get("cpu_s", 1e9)) for pick in (min, max))
        yield {**told, "plan": f"phase {phase + 1}, best forced plan", "plans": 0, **best,
               "worst_s": worst.get("cpu_s")}  # fmt: skip
        for key in optimum:
            optimum[key] += best.get(key, 0)
    yield {**told, "plan": "TPStream, best plan of each phase", "plans": 2, **optimum}


def tables(rows: Rows) -> str:
    """All of them."""
    return table(
        ["plan", "CPU ms", "MB beyond input", "steps of search", "matches", "new plans"],
        [[row["plan"], milliseconds(row["cpu_s"]), megabytes(row.get("peak_growth_bytes")),
          thousands(row["work"]), thousands(row["matches"]), row["plans"]]
         for row in rows if "matches" in row],
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Adapting against the optimum, and ours."""
    best = one(rows, "cpu_s", plan="TPStream, best plan of each phase")
    adapting = one(rows, "cpu_s", plan="TPStream, adapting")
    first = one(rows, "cpu_s", plan="TPStream, first plan")
    mine = one(rows, "cpu_s", plan="piestream, detector")
    return (
        f"**What it means.** Adapting takes {adapting / best:.2f}× the sum of the best plans of the "
        f"phases (the papers: 1.02 and 1.00), never adapting {first / best:.2f}×. piestream "
        f"takes {mine / best:.2f}×: it orders its search by a survey of what is alive, and holds no "
        "partial matches that a new order would have to rebuild. The sum leaves out matches that "
        "span two phases, so it is a little less than any one run can reach.\n\n"
        "**Where we lose.** "
        + (
            "Here: this query is nearly all output, and what remains is the cost of a match."
            if mine > min(best, adapting, first)
            else "Not here."
        )
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Bars."""
    axes = figure.subplots()
    shown = [row for row in rows if not row["plan"].startswith("phase")][::-1]
    axes.barh([row["plan"] for row in shown], [1000 * row["cpu_s"] for row in shown],
              color=["#ff7f0e" if "piestream" in row["plan"] else "#1f77b4" for row in shown])  # fmt: skip
    axes.set(xlabel="CPU ms")


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
    meaning,
    draw,
    (7.5, 2.4),
)
