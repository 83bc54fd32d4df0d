"""Complexity: work and time against symbols, events, window and density, with fitted exponents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from experiments.baselines.pattern import Pattern
from experiments.experiment import Experiment, curves, exponent, pivot, select, table, thousands
from experiments.measure import Row, Rows, Size
from experiments.peers import compared, title
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

#: What the paper says of its method (3.4), for the whole stream; its n is constraints.
PAPER = {
    ("symbols", "chain"): "n",
    ("events", "chain"): "1",
    ("window", "chain"): "0",
    ("density", "chain"): "0",
    ("window", "before"): "1",
    ("density", "before"): "–",
    ("events", "before"): "1",
    ("window", "rare before"): "1",
}


def _of(kind: str, window: int, symbols: int = 8) -> Pattern:
    if kind == "chain":
        return chain(symbols, window)
    if kind == "before":
        return Pattern(3, BEFORE_OVERLAPS, window)
    return Pattern(4, STARTS_BEFORE_OVERLAPS, window)


def rows(size: Size) -> Iterator[Row]:
    """A row a sweep, point and peer."""
    events = size.of(2_000, 20_000, 1_000_000)

    def point(sweep: str, kind: str, x: float, pattern: Pattern, n: int, **shape: Any) -> Rows:
        case = synthetic(pattern, n, **shape)
        return compared(case, PEERS, size, sweep=sweep, pattern=kind, x=x, seed=SEED)

    for n in size.of((3, 4), (4, 6, 8, 12, 16), (4, 6, 8, 12, 16, 20, 24)):
        yield from point("symbols", "chain", n, chain(n), events)
    for kind in ("chain", "before"):
        for times in size.of((1, 2), (1, 2, 4), (1, 2, 4, 8)):
            yield from point("events", kind, times * events, _of(kind, 2_000), times * events)
    for kind in ("chain", "before", "rare before"):
        for window in size.of((500, 1_000), (500, 2_000, 8_000), (500, 1_000, 2_000, 4_000,
                                                                 8_000, 16_000)):  # fmt: skip
            yield from point("window", kind, window, _of(kind, window), events)
    for kind in ("chain", "before"):
        for factor in size.of((1, 2), (1, 2, 4), (1, 2, 4, 8)):
            # Lengths in events; runs a thousand events, so x is what grows.
            situation, gap = (80 // factor, 800 // factor), (80 // factor, 400 // factor)
            mean = (sum(situation) + sum(gap)) / 2
            yield from point("density", kind, round(1000 / mean, 2), _of(kind, 4_000), events,
                             situation=situation, gap=gap)  # fmt: skip


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
    work, time, output = (fitted(rows, value) for value in ("work", "cpu_s", "matches"))
    lines = []
    for sweep, kind in dict.fromkeys((row["sweep"], row["pattern"]) for row in rows):
        cells = []
        for peer in PEERS:
            both = [select(told, sweep=sweep, pattern=kind, peer=peer)[0]["power"]
                    for told in (work, time)]  # fmt: skip
            cells.append(" / ".join("–" if power is None else f"{power:.2f}" for power in both))
        out = select(output, sweep=sweep, pattern=kind, peer=PEERS[0])[0]["power"]
        bound = PAPER.get((sweep, kind), "–")
        lines.append([f"{sweep}, {kind}", *cells, "–" if out is None else f"{out:.2f}",
                      "1" if bound == "n" else bound])  # fmt: skip
    exponents = table(
        ["against, pattern", *(title(peer) for peer in PEERS), "matches", "the paper's bound"], lines
    )
    points = pivot(rows, ["sweep", "pattern", "x"], "work", show=thousands)
    return (
        "Fitted exponents, of counted work / of CPU time (work or time grows like x to this "
        "power):\n\n" + exponents
        + "\n\nThe counted work itself (piestream: candidates of extension and visits of reach; "
        "the others: probes, automaton steps, pairs, partial results):\n\n" + points
    )  # fmt: skip


def meaning(rows: Rows) -> str:
    """Beside the paper's bounds."""
    work, output = fitted(rows, "work"), fitted(rows, "matches")

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
        "method steps its automata at every event anyway, which hides it.\n\n"
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
