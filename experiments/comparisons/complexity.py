"""Complexity: work and time against symbols, events, window and density, with fitted exponents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments.harness.conclusions import ended, exponent
from experiments.harness.experiment import Experiment
from experiments.harness.figures import curves, legend_below
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import (
    markdown_table,
    memory_table,
    pivot,
    select,
    thousands,
    time_tables,
)
from experiments.peers import BITS, FRAME, title
from experiments.peers.pattern import Pattern
from experiments.streams import BEFORE_OVERLAPS, SEED, STARTS_BEFORE_OVERLAPS, Case, synthetic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("piestream", "tpstream", "piestream-paper", "iseq")

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
        return Pattern.chain(symbols, window)
    if kind == "before":
        return Pattern(3, BEFORE_OVERLAPS, window)
    return Pattern(4, STARTS_BEFORE_OVERLAPS, window)


def rows(size: Size) -> Iterator[Row]:
    """A row a sweep, point and peer."""
    events = size.of(2_000, 20_000, 500_000)

    def points(sweep: str, kind: str, cases: Iterable[tuple[float, Case]]) -> Iterator[Row]:
        running = Sweep(size)
        for x, case in cases:
            yield from running.compared(case, METHODS, sweep=sweep, pattern=kind, x=x, seed=SEED)

    yield from points("symbols", "chain", (
        (n, synthetic(Pattern.chain(n), events))
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


def fitted(rows: Rows, value: str) -> dict[tuple[str, str, str], float | None]:
    """The exponents of a value, by sweep, pattern and method."""
    found = {}
    for sweep, kind, peer in dict.fromkeys(
        (row["sweep"], row["pattern"], row["peer"]) for row in rows
    ):
        here = select(rows, sweep=sweep, pattern=kind, peer=peer)
        found[sweep, kind, peer] = exponent(
            [row["x"] for row in here], [row.get(value) for row in here]
        )
    return found


def _power(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def tables(rows: Rows) -> str:
    """Exponents of work, time, items and output, the paper's bounds, and the counts themselves."""
    index = ["sweep", "pattern", "x"]
    bits = select(rows, input=BITS)
    values = ("work", "cpu_s", "peak_stored", "matches")
    fits = {value: fitted(bits, value) for value in values}
    on_frame = fitted(select(rows, input=FRAME), "cpu_s")
    lines = []
    for sweep, kind in dict.fromkeys((row["sweep"], row["pattern"]) for row in rows):
        cells = [
            " / ".join(
                _power(fit.get((sweep, kind, peer)))
                for fit in (*(fits[value] for value in values[:3]), on_frame)
            )
            for peer in METHODS
        ]
        bounds = " / ".join(bound.get((sweep, kind), "–") for bound in (PAPER, SPACE))
        lines.append([
            f"{sweep}, {kind}", *cells, _power(fits["matches"][sweep, kind, METHODS[0]]), bounds
        ])  # fmt: skip
    head = ["sweep, pattern", *map(title, METHODS), "matches",
            "the paper's bounds of time / space"]  # fmt: skip
    return "\n\n".join([
        "Fitted exponents, input *packed bits*, of counted work / of warm CPU time / of items held at most "
        "(it grows like x to this power) / of warm CPU time, input *raw frame*:\n\n"
        + markdown_table(head, lines),
        "The counted work itself (piestream: candidates of extension and bounds propagated; the "
        "others: probes, automaton steps, pairs, partial results), input: *packed bits*:\n\n"
        + pivot(bits, index, lambda row: thousands(row["work"]), measured="work"),
        time_tables(rows, index),
        memory_table(rows, index),
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Where piestream's work grows faster than its output, and where another method's grows slower."""
    bits = select(rows, input=BITS)
    work, output = fitted(bits, "work"), fitted(bits, "matches")
    within: list[str] = []
    beyond: list[str] = []
    slower: list[str] = []
    for sweep, kind in dict.fromkeys((row["sweep"], row["pattern"]) for row in rows):
        mine, matches = (fit[sweep, kind, METHODS[0]] for fit in (work, output))
        if mine is None:
            continue
        bound = max(matches or 0.0, 1.0 if sweep in ("events", "symbols") else 0.0)
        text = f"{kind} against {sweep} (work {mine:.2f}, matches {_power(matches)})"
        (beyond if mine > bound + _NOISE else within).append(text)
        quicker = {
            peer: power
            for peer in METHODS[1:]
            if (power := work.get((sweep, kind, peer))) is not None and power < mine - _NOISE
        }
        slower += [
            f"{title(peer)} on {kind} against {sweep} ({power:.2f} against {mine:.2f})"
            for peer, power in quicker.items()
        ]
    return (
        "**Growth of piestream's work.** Not faster than its output (and than the input, where that "
        f"grows): {'; '.join(within) or 'nowhere'}. Faster: {'; '.join(beyond) or 'nowhere'}.\n\n"
        f"**Where the work of another method grows slower.** {'; '.join(slower) or 'Nowhere'}. "
        "An exponent is no factor: piestream's counter leaves the steps of its automata out, and "
        f"those of the others count what each says of itself.{ended(rows, ['sweep', 'pattern', 'x'])}"
    )


#: Exponents that differ by less than this are the same.
_NOISE = 0.05


def draw(rows: Rows, figure: Figure) -> None:
    """Work over each of the sweeps."""
    cases = list(dict.fromkeys((row["sweep"], row["pattern"]) for row in rows))
    panels = figure.subplots(2, -(-len(cases) // 2), squeeze=False)
    for axes, (sweep, kind) in zip(panels.ravel(), cases, strict=False):
        curves(axes, select(rows, input=BITS, sweep=sweep, pattern=kind), "x", "work", log_x=True)
        axes.set(title=f"{kind}", xlabel=_AXES[sweep])
    for axes in panels.ravel()[len(cases) :]:
        axes.set_axis_off()
    for line in panels:
        line[0].set_ylabel("counted work")
    legend_below(figure)


_AXES = {"symbols": "symbols", "events": "events", "window": "window, s",
         "density": "runs a symbol in 1,000 events"}  # fmt: skip


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
    conclusions,
    draw,
    (11.0, 5.2),
    methods=METHODS,
)
