"""Stars, trees, cycles, ranges and durations."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import piestream as ps
from benchmarks.measure import Row, Scale, Yardstick, compared
from benchmarks.streams import NEIGHBOURS, pattern_of, seed
from piestream.generators import booleans

TITLE = "Stars and mixed patterns"
COLUMNS = ("pattern", "n", "events", "matches", "wall_s", "cpu_s", "events_per_s",
           "ratio_to_yardstick")  # fmt: skip


def patterns() -> dict[str, tuple[int, ps.Query]]:
    """The number of symbols, and the query."""
    star4 = [f"a1 {NEIGHBOURS} a{leaf}" for leaf in (2, 3, 4)]
    star8 = [f"a1 {NEIGHBOURS} a{leaf}" for leaf in range(2, 9)]
    tree8 = [f"a{leaf // 2} {NEIGHBOURS} a{leaf}" for leaf in range(2, 9)]
    cycle = [f"a{k} {NEIGHBOURS} a{k % 4 + 1}" for k in (1, 2, 3)] + ["a1 before;meets;overlaps a4"]
    mixed = ["a1 meets;overlaps a2", "a2 followed-by a3", "a3 before a4", "a1 before a4"]
    short = "RETURN a1.ts"
    lasting = ps.query(
        "FROM s ORDER BY ts DEFINE a1 AS a1 AT LEAST 60, a2 AS a2 AT MOST 40, "
        "a3 AS a3 AT LEAST 20, a4 AS a4 PATTERN a1 overlaps;contains;meets a2 "
        f"AND a2 overlaps;during;meets a3 AND a3 {NEIGHBOURS} a4 WITHIN 10000 {short}"
    )
    return {
        "star": (4, pattern_of(4, star4, 10_000, returns="a1.ts")),
        "wide star": (8, pattern_of(8, star8, 10_000, returns="a1.ts")),
        "tree": (8, pattern_of(8, tree8, 10_000, returns="a1.ts")),
        "cycle": (4, pattern_of(4, cycle, 10_000, returns="a1.ts")),
        "with before": (4, pattern_of(4, mixed, 1_000, returns="a1.ts")),
        "durations": (4, lasting),
        "aggregates": (4, pattern_of(
            4, [f"a{k} {NEIGHBOURS} a{k + 1}" for k in (1, 2, 3)], 10_000,
            returns="COUNT(a1) AS n, DURATION(a2) AS d, RELATION(a1, a2) AS r")),
    }  # fmt: skip


def rows(scale: Scale) -> Iterator[Row]:
    """One row a pattern."""
    events = scale.of(2_000, 200_000, 1_000_000)
    for name, (n, query) in patterns().items():
        frame = booleans(n, events, seed)
        work = partial(query.run, frame)
        yield compared(work, scale, events, Yardstick(frame), pattern=name, n=n)
