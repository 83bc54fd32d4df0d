"""What a condition costs: the time of a query that has it beside that of the same query without it.

``python -m experiments.conditions``. The stream has a partition for each thousand rows; in it, three predicates hold for
runs of some rows. Both queries of a case are run in turns, and the quickest run of each counts, on one thread.
"""

from __future__ import annotations

import os

# One thread: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import argparse
from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import cost_of, shown
from experiments.streams import SEED

__all__ = ["main"]

_QUERY = (
    "FROM events PARTITION BY k ORDER BY ts DEFINE a AS a, b AS b, c AS c{define} "
    "PATTERN a overlaps; before b{pattern} WITHIN 60 {after} RETURN a.ts, b.ts"
)
#: What stands behind the definition of c, in the pattern, and behind the window.
_CASES = {
    "NOT (c during a)": ("", " AND NOT (c during a)", ""),
    "NOT (c after b AND c.ts - b.te <= 10)": ("", " AND NOT (c after b AND c.ts - b.te <= 10)", ""),
    "NOT (c after a AND c before b)": ("", " AND NOT (c after a AND c before b)", ""),
    "NOT (c intersects a), c BRIDGING 3": (" BRIDGING 3", " AND NOT (c intersects a)", ""),
    "a distance": ("", " AND b.ts - a.te <= 10", ""),
    "ONCE PER b": ("", "", "ONCE PER b"),
}


def stream(rows: int) -> pl.DataFrame:
    """Three predicates, each of which changes at one row in nine."""
    draw = np.random.default_rng(SEED)
    held = {name: np.cumsum(draw.random(rows) < 1 / 9) % 2 == 1 for name in "abc"}
    return pl.DataFrame({"k": np.arange(rows) // 1000, "ts": np.arange(rows), **held})


def _query(define: str = "", pattern: str = "", after: str = "") -> ps.Query:
    text = _QUERY.format(define=define, pattern=pattern, after=after)
    if "c" not in pattern:
        text = text.replace(", c AS c", "")
    return ps.query(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5, help="runs of each query")
    chosen = parser.parse_args(arguments)
    events = stream(chosen.rows)
    without, table = _query(), []
    for case, parts in _CASES.items():
        having = _query(*parts)
        seconds: dict[ps.Query, list[float]] = {without: [], having: []}
        for query in seconds:
            query.run(events.head(2000), threads=1)  # the code is loaded
        for _ in range(chosen.times):
            for query, costs in seconds.items():
                costs.append(cost_of(partial(query.run, events, threads=1))[0])
        table.append(
            {
                "condition": case,
                "matches": f"{len(having.run(events, threads=1)):,}",
                "us/row": f"{min(seconds[having]) / chosen.rows * 1e6:.3f}",
                "without": f"{min(seconds[without]) / chosen.rows * 1e6:.3f}",
                "times": f"{min(seconds[having]) / min(seconds[without]):.2f}",
            }
        )
    print(shown(table))


if __name__ == "__main__":
    main()
