"""TPStream's plan quality: forced evaluation orders against the ones that are chosen."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.harness.conclusions import EVEN, factor, ratio
from experiments.harness.experiment import Experiment
from experiments.harness.figures import few_ticks, legend_below
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import work_of
from experiments.harness.tables import (
    markdown_table,
    megabytes,
    select,
    thousands,
    times_of,
    why_not,
)
from experiments.peers import OURS, Result, prepared
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, Case, synthetic
from piestream.relations import Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_R = Relation
QUERIES: Mapping[str, tuple[tuple[int, int, Relation], ...]] = {
    "Q1: A overlaps B, A overlaps C, B starts C": (
        (0, 1, _R.OVERLAPS),
        (0, 2, _R.OVERLAPS),
        (1, 2, _R.STARTS),
    ),
    "Q2: A overlaps B, A before C, B overlaps C": (
        (0, 1, _R.OVERLAPS),
        (0, 2, _R.BEFORE),
        (1, 2, _R.OVERLAPS),
    ),
    "Q3: A before B, A before C, B before C": (
        (0, 1, _R.BEFORE),
        (0, 2, _R.BEFORE),
        (1, 2, _R.BEFORE),
    ),
}


#: The plans that the systems choose by themselves.
FIRST, ADAPTING, OWN = "TPStream, first plan", "TPStream, adapting", "piestream, adapting"
#: And how the names of plans begin with an order forced upon each of them.
THEIRS, FORCED_OURS = "TPStream, ", "piestream, "
#: D comes after rare A, many B and some C: an order that begins with B tries all of them.
SKEWED = "Q4, skewed: A overlaps B, B overlaps C, A, B, C before D"
_SKEW = (
    (0, 1, _R.OVERLAPS | _R.CONTAINS),
    (1, 2, _R.OVERLAPS),
    (0, 3, _R.BEFORE),
    (1, 3, _R.BEFORE),
    (2, 3, _R.BEFORE),
)
_GAPS = ((2_000, 6_000), (5, 15), (200, 600), (10, 50))
_LENGTHS = ((50, 150), (5, 15), (5, 15), (10, 50))
#: A, B, C and D one after another: ranges in cycles, for which no order is best whatever the stream.
#: One of A, B and C is rare, one frequent, one between: to begin with the frequent one is to try all.
_IN_TURN = tuple((x, y, _R.BEFORE) for x in range(4) for y in range(x + 1, 4))
_RARE, _SOME, _MANY = (40_000, 60_000), (700, 1_300), (40, 80)
IN_TURN: Mapping[str, tuple[tuple[int, int], ...]] = {
    "Q5, rare A: A before B before C before D": (_RARE, _MANY, _SOME),
    "Q5, rare B: A before B before C before D": (_MANY, _RARE, _SOME),
    "Q5, rare C: A before B before C before D": (_SOME, _MANY, _RARE),
}
#: The queries for which every order is forced upon both systems.
FORCED = (SKEWED, *IN_TURN)


#: Events in a piece of piestream's: between two of them it may plan anew.
_PIECE = 25_600


def forced(case: Case, how: str, order: tuple[int, ...], keep: bool = True) -> Callable[[], Result]:
    """TPStream, corrected, with an order forced upon it: of the constraints, or of the symbols.

    The planner keeps the selectivities that it is given: it joins in the
    given order wherever there is a choice.
    """
    shares = np.zeros((case.pattern.n_symbols, case.pattern.n_symbols))
    if how == "constraints":
        for rank, (x, y, _) in zip(order, case.pattern.constraints, strict=True):
            shares[x, y] = shares[y, x] = 10.0 ** (rank - len(order))
    else:
        weight = {symbol: 10.0 ** (2 * rank - 9) for rank, symbol in enumerate(order)}
        for x, y, _ in case.pattern.constraints:
            shares[x, y] = shares[y, x] = weight[x] * weight[y]
    return prepared(case, "tpstream", alpha=0.0, shares=shares, keep=keep)


def chosen(case: Case, options: dict[str, Any], keep: bool = True) -> Callable[[], Result]:
    """TPStream, corrected, planning by itself."""
    return prepared(case, "tpstream", keep=keep, **options)


def ours(case: Case, order: tuple[int, ...] | None, keep: bool = True) -> Callable[[], Result]:
    """piestream in pieces, as a session gives them, planning by itself or with a forced order."""
    return prepared(case, OURS, piece=_PIECE, order=order, keep=keep)


def described(result: Result) -> Row:
    """What a run found, its steps, and how often it made a new plan."""
    return {"matches": result.count, "work": work_of(result),
            "plans": result.counters.get("plans", 0)}  # fmt: skip


def rows(size: Size) -> Iterator[Row]:
    """A row a query and plan."""
    events = size.of(2_000, 25_000, 1_000_000)
    window = size.of(500, 5_000, 5_000)
    for query, constraints in QUERIES.items():
        case = synthetic(Pattern(3, constraints, window), events)
        about: Row = {"query": query, "events": events, "window": window, "seed": SEED}
        pairs = ("AB", "AC", "BC")
        for ranks in permutations(range(3)):
            order = " ".join(pairs[ranks.index(place)] for place in range(3))
            yield {**about, "plan": THEIRS + order, "order": order,
                   **isolated(forced, case, "constraints", ranks, size=size, describe=described)}  # fmt: skip
        yield from _by_themselves(case, about, size)
    events = size.of(20_000, 200_000, 1_000_000)
    case = synthetic(Pattern(4, _SKEW, 10_000), events, gap=_GAPS, situation=_LENGTHS)
    about = {"query": SKEWED, "events": events, "window": 10_000, "seed": SEED}
    yield from _every_order(case, about, size)
    events = size.of(100_000, 500_000, 5_000_000)
    for query, gaps in IN_TURN.items():
        pattern = Pattern(4, _IN_TURN, 5_000)
        case = synthetic(pattern, events, gap=(*gaps, (50, 90)), situation=(5, 15))
        about = {"query": query, "events": events, "window": 5_000, "seed": SEED}
        yield from _every_order(case, about, size)


def _every_order(case: Case, about: Row, size: Size) -> Iterator[Row]:
    """Both systems with every order of A, B and C, and by themselves."""
    for first in permutations(range(3)):
        order = " ".join("ABC"[symbol] for symbol in first)
        yield {**about, "plan": THEIRS + order, "order": order,
               **isolated(forced, case, "symbols", (*first, 3), size=size, describe=described)}  # fmt: skip
    yield from _by_themselves(case, about, size)
    for first in permutations(range(3)):
        order = " ".join("ABC"[symbol] for symbol in first)
        yield {**about, "plan": FORCED_OURS + order, "order": order,
               **isolated(ours, case, (*first, 3), size=size, describe=described)}  # fmt: skip


def _by_themselves(case: Case, about: Row, size: Size) -> Iterator[Row]:
    for plan, options in ((FIRST, {"alpha": 0.0}), (ADAPTING, {})):
        yield {**about, "plan": plan,
               **isolated(chosen, case, options, size=size, describe=described)}  # fmt: skip
    yield {**about, "plan": OWN, **isolated(ours, case, None, size=size, describe=described)}


def forced_orders(rows: Rows, system: str) -> Rows:
    """The runs of a system with an order forced upon it."""
    return [row for row in rows if "order" in row and row["plan"].startswith(system)]


def tables(rows: Rows) -> str:
    """All plans; where orders are forced upon both systems, theirs beside each other."""
    few = [row for row in rows if row["query"] in QUERIES]
    cases = [query for query in FORCED if select(rows, query=query)]
    lines = []
    for label, theirs, mine in _pairs_of_plans():
        cells = []
        for query in cases:
            for plan in (theirs, mine):
                found = select(rows, query=query, plan=plan)
                cells.append(_time_and_work(found[0]) if found else "–")
        lines.append([label, *cells])
    systems = [f"{query.split(':')[0]}, {system}" for query in cases
               for system in ("TPStream", "piestream")]  # fmt: skip
    counts = "; ".join(
        f"{query}: {select(rows, query=query)[0]['events']:,} events, "
        f"{thousands(select(rows, query=query, plan=OWN)[0].get('matches'))} matches"
        for query in cases
    )
    head = [
        "query",
        "plan",
        "CPU ms, warm / cold",
        "MB beyond the input",
        "steps of search",
        "matches",
    ]
    return "\n\n".join([
        "Input: *packed bits*.",
        markdown_table(head, [
            [row["query"], row["plan"], times_of(row) if "work" in row else why_not(row),
             megabytes(row.get("peak_growth_bytes")), thousands(row.get("work")),
             thousands(row.get("matches"))] for row in few
        ]),
        f"CPU ms, warm / cold (steps of search), with each order forced, and as chosen: {counts}.",
        markdown_table(["order", *systems], lines),
    ])  # fmt: skip


def _pairs_of_plans() -> Iterator[tuple[str, str, str]]:
    """What a line is called, and TPStream's and piestream's plan in it."""
    for first in permutations("ABC"):
        order = " ".join(first)
        yield order, THEIRS + order, FORCED_OURS + order
    yield "first plan", FIRST, ""
    yield "adapting", ADAPTING, OWN


def _time_and_work(row: Row) -> str:
    return f"{times_of(row)} ({thousands(row['work'])})" if "work" in row else why_not(row)


def conclusions(rows: Rows) -> str:
    """What each system chooses among its own orders, and which one is quicker."""
    chosen, against, losses = [], [], []
    for query in (*QUERIES, *FORCED):
        here = select(rows, query=query)
        name = query.split(":")[0]
        mine, theirs = (select(here, plan=plan)[0] for plan in (OWN, ADAPTING))
        compared = ratio(theirs, mine)
        if compared:
            against.append(f"{name} {factor(compared[0])}{'' if compared[1] else ' (cold)'}")
            if compared[0] < 1 / EVEN:
                losses.append(f"{name} by {factor(1 / compared[0])}")
        for system, plans in ((THEIRS, (FIRST, ADAPTING)), (FORCED_OURS, (OWN,))):
            text = _among(here, system, plans)
            if text:
                chosen.append(f"{name}: {text}")
    return (
        "**Chosen among their own orders** (steps of search over those of the best forced order): "
        f"{'; '.join(chosen)}.\n\n"
        f"**piestream against TPStream, both adapting.** TPStream's time over piestream's: "
        f"{', '.join(against) or 'not measured'}. piestream loses in: {', '.join(losses) or 'none'}."
    )


def _among(rows: Rows, system: str, plans: tuple[str, ...]) -> str:
    """The rank of what a system chooses among the orders that can be forced upon it."""
    orders = sorted(row["work"] for row in forced_orders(rows, system) if "work" in row)
    if not orders or not orders[0]:
        return ""
    texts = [
        f"{row['plan']} {factor(row['work'] / orders[0])}"
        for plan in plans
        for row in select(rows, plan=plan)
        if "work" in row
    ]
    return (
        f"{', '.join(texts)}; of {len(orders)} forced orders the median "
        f"{factor(statistics.median(orders) / orders[0])}, the worst {factor(orders[-1] / orders[0])}"
    )


_COLOURS = {"TPStream, order forced": "#aec7e8", "TPStream, by itself": "#1f77b4",
            "piestream, order forced": "#ff9896", "piestream, by itself": "#d62728"}  # fmt: skip


def draw(rows: Rows, figure: Figure) -> None:
    """Steps of search of each plan, a panel a query."""
    queries = [query for query in (*QUERIES, *FORCED) if select(rows, query=query)]
    panels = figure.subplots(2, -(-len(queries) // 2), squeeze=False).ravel()
    for axes, query in zip(panels, queries, strict=False):
        here = [row for row in select(rows, query=query) if row.get("work")][::-1]
        for place, row in enumerate(here):
            system = "TPStream" if row["plan"].startswith("TPStream") else "piestream"
            kind = f"{system}, {'order forced' if 'order' in row else 'by itself'}"
            axes.plot([row["work"]], [place], "o" if "order" in row else "D", linestyle="",
                      color=_COLOURS[kind], markersize=6, label=kind)  # fmt: skip
        axes.set_yticks(range(len(here)), [row.get("order", row["plan"]) for row in here])
        axes.tick_params(axis="y", labelsize=7)
        axes.set(xscale="log", xlabel="steps of search", title=query.split(":")[0])
        axes.margins(x=0.15)
        few_ticks(axes.xaxis, *axes.get_xlim())
    for axes in panels[len(queries) :]:
        axes.set_axis_off()
    legend_below(figure)


EXPERIMENT = Experiment(
    "plans",
    "TPStream, Fig. 8a: plan quality",
    "Does the cost model choose good evaluation orders, and what does a bad one cost?",
    "The papers' three queries on synthetic booleans, and two more. TPStream (corrected) with each of the six "
    "orders of preference among the three constraints forced upon it, with the order it chooses "
    "itself at first, and adapting; piestream as it plans by itself. (Orders are one for "
    "each new interval's symbol, as in the dissertation, so a forced preference stands for three.) "
    "Q4: four symbols of very different frequencies; both systems also with each order of A, B and "
    "C forced upon them. Q5: the same where every pair is *before*, on three streams that differ in "
    "which of A, B and C is rare (every 50,000 s), frequent (every 70 s) and between (1,000 s).",
    rows,
    tables,
    conclusions,
    draw,
    (14.0, 6.5),
)
