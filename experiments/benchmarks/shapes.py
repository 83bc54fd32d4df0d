"""Stars, trees, cycles, ranges, durations, aggregates."""

from __future__ import annotations

from collections.abc import Iterator

import piestream as ps
from experiments.benchmarks.common import measured, running, shown, span
from experiments.harness.experiment import Experiment
from experiments.harness.measure import Row, Rows, Size
from experiments.peers.pattern import NEIGHBOURS, Pattern
from experiments.streams import SEED, booleans, query_of
from piestream.relations import Relation

_COLUMNS = ("pattern", "n", "events", "matches", "wall_s", "cpu_s", "cold_cpu_s", "events_per_s",
            "times_yardstick")  # fmt: skip
_R = Relation
_FIRST = ((0, 1, NEIGHBOURS), (1, 2, NEIGHBOURS), (2, 3, NEIGHBOURS))


def queries() -> dict[str, tuple[int, ps.Query]]:
    """The number of symbols, and the query."""
    leaves = [(0, leaf, NEIGHBOURS) for leaf in range(1, 8)]
    tree = [((leaf - 1) // 2, leaf, NEIGHBOURS) for leaf in range(1, 8)]
    closed = (*_FIRST, (0, 3, _R.BEFORE | _R.MEETS | _R.OVERLAPS))
    ranges = ((0, 1, _R.MEETS | _R.OVERLAPS), (1, 2, _R.FOLLOWED_BY), (2, 3, _R.BEFORE),
              (0, 3, _R.BEFORE))  # fmt: skip
    lasting = (
        (0, 1, _R.OVERLAPS | _R.CONTAINS | _R.MEETS),
        (1, 2, _R.OVERLAPS | _R.DURING | _R.MEETS),
        (2, 3, NEIGHBOURS),
    )
    found = {
        "star": Pattern(4, tuple(leaves[:3]), 10_000),
        "wide star": Pattern(8, tuple(leaves), 10_000),
        "tree": Pattern(8, tuple(tree), 10_000),
        "cycle": Pattern(4, closed, 10_000),
        "with before": Pattern(4, ranges, 1_000),
        "durations": Pattern(4, lasting, 10_000, (60, 0, 20, 0), (None, 40, None, None)),
        "aggregates": Pattern(4, _FIRST, 10_000),
    }
    returns = {"aggregates": "COUNT(a1) AS n, DURATION(a2) AS d, RELATION(a1, a2) AS r"}
    return {
        name: (pattern.n_symbols, query_of(pattern, returns=returns.get(name, "a1.ts")))
        for name, pattern in found.items()
    }


def rows(size: Size) -> Iterator[Row]:
    """A row a pattern."""
    events = size.of(2_000, 200_000, 1_000_000)
    for name, (n, query) in queries().items():
        frame = booleans(n, events, SEED)
        yield measured(running, query, frame, size=size, events=events, yardstick=frame,
                       pattern=name, n=n)  # fmt: skip


def conclusions(rows: Rows) -> str:
    """The quickest and the slowest."""
    rates = {row["pattern"]: row["events_per_s"] / 1e6 for row in rows if "events_per_s" in row}
    slowest, quickest = (pick(rates, key=lambda name: rates[name]) for pick in (min, max))
    return (
        f"**Rates.** {span(list(rates.values()), ' M')} events a CPU second: the slowest is *{slowest}*, "
        f"the quickest *{quickest}*."
    )


EXPERIMENT = Experiment(
    "shapes",
    "Shapes of patterns",
    "What do stars, trees, cycles, ranges, durations and aggregates cost?",
    "Synthetic booleans; the relations of Fig. 4's chain where nothing else is said. *cycle*: its chain "
    "of four, closed by before, meets or overlaps; *with before*: followed-by and before in a cycle, "
    "W = 1,000; *durations*: AT LEAST 60, AT MOST 40, AT LEAST 20.",
    rows,
    shown(_COLUMNS),
    conclusions,
)
