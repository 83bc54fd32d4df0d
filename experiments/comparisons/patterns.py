"""TPStream's five query patterns with 4 to 10 symbols."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING

from experiments.harness.conclusions import standing
from experiments.harness.experiment import Experiment
from experiments.harness.figures import legend_below, time_curves
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.sweep import Sweep
from experiments.harness.tables import by_input, memory_table, select, time_tables
from experiments.peers.pattern import Pattern
from experiments.streams import SEED, synthetic
from piestream.relations import ALLEN, Relation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = (
    "piestream",
    "tpstream",
    "tpstream-published",
    "piestream-paper",
    "iseq",
    "duckdb",
    "polars",
    "siddhi",
    "flink",
)
KINDS = ("equal", "meets", "chain", "star", "combined")
_WIDE = Relation.BEFORE | Relation.AFTER


def pattern_of(kind: str, n: int, draw: int) -> Pattern:
    """One of the papers' patterns; relations are drawn at random where the pattern says so.

    At most two of them are before or after: with more, the number of matches is the product of
    what the window holds, and the output alone decides.

    >>> len(pattern_of("combined", 6, 0).constraints)
    5
    """
    rng = Random(f"{kind} {n} {draw}")
    fixed = {"equal": Relation.EQUALS, "meets": Relation.MEETS}.get(kind)
    chained = {"star": 1, "combined": n // 2}.get(kind, n)
    constraints, wide = [], 0
    for y in range(1, n):
        relation = fixed or rng.choice(ALLEN)
        while relation & _WIDE and wide == 2:
            relation = rng.choice(ALLEN)
        wide += bool(relation & _WIDE)
        constraints.append((y - 1 if y < chained else 0, y, relation))
    return Pattern(n, tuple(constraints), 2_000)


def rows(size: Size) -> Iterator[Row]:
    """A row a kind, number of symbols, draw, form of the input and method."""
    events = size.of(2_000, 10_000, 500_000)
    for kind in KINDS:
        draws = 1 if kind in ("equal", "meets") else size.of(1, 4, 10)
        for n in size.of((4,), (4, 7, 10), (4, 5, 6, 7, 8, 9, 10)):
            for draw in range(draws):
                case = synthetic(pattern_of(kind, n, draw), events)
                # Draws are not ordered by what they take: a sweep of its own for each.
                yield from Sweep(size).compared(case, METHODS, kind=kind, n=n, draw=draw, seed=SEED)


def over_draws(rows: Rows, of: Callable[[Iterable[float]], float] = statistics.median) -> Rows:
    """One row for all draws: the median of each value, or what ``of`` makes of them."""
    keys = ("kind", "n", "peer", "input")
    found = []
    for case in dict.fromkeys(tuple(row[key] for key in keys) for row in rows):
        here = select(rows, **dict(zip(keys, case, strict=True)))
        row: Row = dict(zip(keys, case, strict=True))
        for value in ("cpu_s", "cold_cpu_s", "peak_growth_bytes"):
            values = [row[value] for row in here if row.get(value) is not None]
            # A kind of run that some draw has not says nothing about all of them.
            row[value] = of(values) if len(values) == len(here) else None
        stopped = [each for each in here if "over" in each][:1]
        found.append(row | {key: each[key] for each in stopped for key in ("over", "over_s")
                            if key in each})  # fmt: skip
    return found


def tables(rows: Rows) -> str:
    """Medians and the slowest."""
    medians = over_draws(rows)
    return "\n\n".join([
        f"{rows[0]['events']:,} events. Medians over the draws.",
        time_tables(medians, ["kind", "n"]),
        memory_table(medians, ["kind", "n"]),
        "The slowest draw.",
        time_tables(over_draws(rows, max), ["kind", "n"]),
    ])  # fmt: skip


def conclusions(rows: Rows) -> str:
    """Who is quicker, and how much there was to find."""
    counts = [row["matches"] for row in rows if "matches" in row]
    return "\n\n".join([
        "Of medians over the draws:",
        standing(over_draws(rows), ["kind", "n"]),
        f"**Matches.** The median number over all patterns is {statistics.median(counts):g}; "
        f"{sum(not count for count in counts)} of {len(counts)} runs find none.",
    ])  # fmt: skip


def draw(rows: Rows, figure: Figure) -> None:
    """A column a kind, a line a form of the input."""
    forms = by_input(over_draws(rows))
    panels = figure.subplots(len(forms), len(KINDS), sharey=True, sharex=True, squeeze=False)
    for line, (form, found) in zip(panels, forms, strict=True):
        for axes, kind in zip(line, KINDS, strict=True):
            time_curves(axes, select(found, kind=kind), "n")
            axes.set_title(f"{kind}, {form}")
        line[0].set_ylabel("CPU ms, median over draws")
    for axes in panels[-1]:
        axes.set_xlabel("symbols")
    legend_below(figure, 5)


def headline(rows: Rows) -> dict[str, Rows]:
    """Most symbols, medians."""
    medians = over_draws(rows)
    most = max(row["n"] for row in medians)
    return {f"{kind}, {most} symbols": select(medians, kind=kind, n=most) for kind in KINDS}


EXPERIMENT = Experiment(
    "patterns",
    "TPStream, Fig. 6: five query patterns",
    "How does time grow with the number of symbols for chains of equals and meets, random chains, "
    "stars, and both combined?",
    "Synthetic booleans, W = 2,000; relations drawn at random (at most two of before and after in "
    "a pattern), the same draws for all methods.",
    rows,
    tables,
    conclusions,
    draw,
    (11.0, 5.6),
    headline=headline,
    methods=METHODS,
)
