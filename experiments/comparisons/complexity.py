"""Complexity: work and time against symbols, events, window and density, with fitted exponents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments.baselines.pattern import Pattern
from experiments.cells import Sweep
from experiments.experiment import (
    Experiment,
    curves,
    exponent,
    grown,
    pivot,
    select,
    stopped_text,
    table,
    thousands,
)
from experiments.measure import Row, Rows, Size
from experiments.peers import Case, title
from experiments.streams import (
    BEFORE_OVERLAPS,
    SEED,
    STARTS_BEFORE_OVERLAPS,
    chain,
    synthetic,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEERS = ("piestream-detector", "tpstream", "piestream-paper", "iseq")

#: What the paper says of the time of its method (3.4), for the whole stream; its n is constraints.
PAPER = {
    ("symbols", "chain"): "1",
    ("events", "chain"): "1",
    ("window", "chain"): "0",
    ("density", "chain"): "0",
    ("window", "before"): "1",
    ("density", "before"): "–",
    ("events", "before"): "1",
    ("window", "rare before"): "1",
}

#: And of its space: O(n²W) without before and after, O(n²W²) with them.
SPACE = {
    ("symbols", "chain"): "2",
    ("events", "chain"): "0",
    ("window", "chain"): "1",
    ("window", "before"): "2",
    ("events", "before"): "0",
    ("window", "rare before"): "2",
}


def _of(kind: str, window: int, symbols: int = 8) -> Pattern:
    if kind == "chain":
        return chain(symbols, window)
    if kind == "before":
        return Pattern(3, BEFORE_OVERLAPS, window)
    return Pattern(4, STARTS_BEFORE_OVERLAPS, window)


def rows(size: Size) -> Iterator[Row]:
    """A row a sweep, point and peer."""
    events = size.of(2_000, 20_000, 500_000)

    def points(sweep: str, kind: str, cases: Iterable[tuple[float, Case]]) -> Iterator[Row]:
        running = Sweep(size)
        for x, case in cases:
            yield from running.compared(case, PEERS, sweep=sweep, pattern=kind, x=x, seed=SEED)

    yield from points("symbols", "chain", (
        (n, synthetic(chain(n), events))
        for n in size.of((3, 4), (4, 6, 8, 12, 16), (4, 6, 8, 12, 16, 20, 24))
    ))  # fmt: skip
    for kind in ("chain", "before"):
        yield from points("events", kind, (
            (times * events, synthetic(_of(kind, 2_000), times * events))
            for times in size.of((1, 2), (1, 2, 4), (1, 2, 4, 8))
        ))  # fmt: skip
    for kind in ("chain", "before", "rare before"):
        yield from points("window", kind, (
            (window, synthetic(_of(kind, window), events))
            for window in size.of((500, 1_000), (500, 2_000, 8_000),
                                  (500, 1_000, 2_000, 4_000, 8_000, 16_000))
        ))  # fmt: skip
    for kind in ("chain", "before"):
        yield from points("density", kind, (
            _dense(kind, factor, events)
            for factor in size.of((1, 2), (1, 2, 4), (1, 2, 4, 8))
        ))  # fmt: skip


def _dense(kind: str, factor: int, events: int) -> tuple[float, Case]:
    """Runs a thousand events, and a stream of as many."""
    situation, gap = (80 // factor, 800 // factor), (80 // factor, 400 // factor)
    mean = (sum(situation) + sum(gap)) / 2
    case = synthetic(_of(kind, 4_000), events, situation=situation, gap=gap)
    return round(1000 / mean, 2), case


def fitted(rows: Rows, value: str) -> Rows:
    """The exponents: a row a sweep, pattern and peer."""
    told = []
    for sweep, kind in dict.fromkeys((row["sweep"], row["pattern"]) for row in rows):
        for peer in PEERS:
            here = select(rows, sweep=sweep, pattern=kind, peer=peer)
            power = exponent([row["x"] for row in here], [row.get(value, 0) for row in here])
            told.append({"sweep": sweep, "pattern": kind, "peer": peer, "power": power})
    return told


def tables(rows: Rows) -> str:
    """Exponents of work and time, of the output, and the paper's bounds."""
    work, time, held, output = (
        fitted(rows, value) for value in ("work", "cpu_s", "peak_stored", "matches")
    )
    lines = []
    for sweep, kind in dict.fromkeys((row["sweep"], row["pattern"]) for row in rows):
        cells = []
        for peer in PEERS:
            fits = [select(told, sweep=sweep, pattern=kind, peer=peer)[0]["power"]
                    for told in (work, time, held)]  # fmt: skip
            cells.append(" / ".join("–" if power is None else f"{power:.2f}" for power in fits))
        out = select(output, sweep=sweep, pattern=kind, peer=PEERS[0])[0]["power"]
        bounds = [told.get((sweep, kind), "–") for told in (PAPER, SPACE)]
        lines.append([f"{sweep}, {kind}", *cells, "–" if out is None else f"{out:.2f}",
                      " / ".join(bounds)])  # fmt: skip
    exponents = table(
        [
            "against, pattern",
            *(title(peer) for peer in PEERS),
            "matches",
            "the paper's bounds, time / space",
        ],
        lines,
    )
    points = pivot(rows, ["sweep", "pattern", "x"], "work", show=thousands)
    return (
        "Fitted exponents, of counted work / of CPU time / of items held at most (it grows like x "
        "to this power):\n\n" + exponents
        + "\n\nThe counted work itself (piestream: candidates of extension and visits of reach; "
        "the others: probes, automaton steps, pairs, partial results):\n\n" + points
        + "\n\nCPU milliseconds:\n\n" + pivot(rows, ["sweep", "pattern", "x"])
        + "\n\n" + grown(rows, ["sweep", "pattern", "x"])
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Beside the paper's bounds."""
    work, held, output = (fitted(rows, value) for value in ("work", "peak_stored", "matches"))

    def power(told: Rows, sweep: str, kind: str, peer: str) -> str:
        value = select(told, sweep=sweep, pattern=kind, peer=peer)[0]["power"]
        return "–" if value is None else f"{value:.2f}"

    mine = PEERS[0]
    return (
        "**What it means.** The paper bounds a round of its method without before/after by O(n) "
        "and with it by O(nW), leaving out the size of the output, and its space by O(n²W) and "
        "O(n²W²). piestream's work should follow runs, pairs and matches: against the window "
        f"its counted work on the chain grows with exponent {power(work, 'window', 'chain', mine)} "
        f"(output {power(output, 'window', 'chain', mine)}; TPStream "
        f"{power(work, 'window', 'chain', 'tpstream')}, because its buffers are longer; the paper's "
        f"method {power(work, 'window', 'chain', 'piestream-paper')}); on *A before B overlaps C* "
        f"with {power(work, 'window', 'before', mine)}, beside the output's "
        f"{power(output, 'window', 'before', mine)}; where *before* has few partners that can be "
        f"completed (*rare before*) with {power(work, 'window', 'rare before', mine)} beside "
        f"TPStream's {power(work, 'window', 'rare before', 'tpstream')}, ISEQ's "
        f"{power(work, 'window', 'rare before', 'iseq')} and the paper's "
        f"{power(work, 'window', 'rare before', 'piestream-paper')}. "
        "Against symbols piestream's counted work grows faster than n, because the output does: a "
        "match of n symbols is n words, and matches grow with exponent "
        f"{power(output, 'symbols', 'chain', mine)} besides. "
        "Events: all are linear. Density: runs come thicker, so that each counts; the paper's "
        "method steps its automata at every event anyway, which hides it. Space: against the window "
        f"the items held on *A before B overlaps C* grow with {power(held, 'window', 'before', mine)} "
        "in piestream (intervals) and with "
        f"{power(held, 'window', 'before', 'piestream-paper')} in the paper's method (pairs), "
        f"whose bound is 2.{stopped_text(rows, ['sweep', 'pattern', 'x'])}\n\n"
        "**Where we lose.** In exponents: against symbols the paper's method counts "
        f"{power(work, 'symbols', 'chain', 'piestream-paper')} where piestream counts "
        f"{power(work, 'symbols', 'chain', mine)}, since automaton steps at every event are nearly "
        "all of its work here and these are linear. (piestream's counter leaves "
        "the steps of its own automata out: compare growth, not totals.) An "
        "exponent is no factor: where work is small, the fixed cost for "
        "reading bits decides, and time grows less than work. Exponents of output-bound cases "
        "cannot differ between methods."
    )


def draw(rows: Rows, figure: Figure) -> None:
    """Work over each of the sweeps."""
    cases = list(dict.fromkeys((row["sweep"], row["pattern"]) for row in rows))
    pictures = figure.subplots(2, -(-len(cases) // 2), squeeze=False).ravel()
    for axes, (sweep, kind) in zip(pictures, cases, strict=False):
        curves(axes, select(rows, sweep=sweep, pattern=kind), "x", "work")
        axes.set(title=f"{kind}, against {sweep}")
        points = sorted({row["x"] for row in select(rows, sweep=sweep, pattern=kind)})
        axes.set_xticks(points, [f"{x:g}" for x in points])
        axes.minorticks_off()
    for axes in pictures[len(cases) :]:
        axes.set_axis_off()
    pictures[0].set_ylabel("counted work")
    figure.legend(*pictures[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)


EXPERIMENT = Experiment(
    "complexity",
    "Complexity",
    "How do work and time grow with symbols, events, window and density?",
    "Synthetic booleans. *chain*: Fig. 4's (8 symbols where these do not vary); *before*: A before "
    "B overlaps C; *rare before*: A starts B before C overlaps D. Work is what each method counts "
    "of itself, whatever the clock says; exponents are slopes of a line through log work (or log "
    "time) over log x. Density: runs of a symbol in a thousand events.",
    rows,
    tables,
    meaning,
    draw,
    (11.0, 5.2),
)
