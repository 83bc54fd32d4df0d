"""Filters, windows and row patterns over one stream, as chapter 4 of M. Körber's dissertation has them.

``python -m experiments.operators``. Its stream has a time and six values in [0, 1), uniformly distributed. There
a filter lets events pass that are far from the origin, a window is summed at every event, and a pattern finds
two events, not more than a window apart, whose first values differ little. Its subject is the graphics processor
beside the cores of the machine; there is none here, so that what is measured is how the cost depends on the
selectivity and on the window, on one thread. A filter here gives the runs of events that pass.
"""

from __future__ import annotations

import os

# One thread: Polars reads this when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import cost_of, rows_and_times, shown
from experiments.streams import SEED

__all__ = ["main"]

_VALUES = 6
_DISTANCE = " + ".join(f"POWER(x{number}, 2)" for number in range(1, _VALUES + 1))


def stream(rows: int) -> pl.DataFrame:
    """The synthetic stream."""
    draw = np.random.default_rng(SEED)
    values = {f"x{number}": draw.random(rows) for number in range(1, _VALUES + 1)}
    return pl.DataFrame({"ts": np.arange(rows), **values})


def _filters(events: pl.DataFrame) -> Iterator[tuple[str, str, ps.Query, int]]:
    """Ever fewer events pass."""
    squares = sum(events[f"x{number}"] ** 2 for number in range(1, _VALUES + 1))
    for exponent in range(6):
        least = squares.quantile(1 - 10.0**-exponent)  # type: ignore[union-attr]
        query = ps.query(
            f"FROM events ORDER BY ts DEFINE far AS {_DISTANCE} >= :least PATTERN far WITHIN 1 "
            "RETURN far.ts",
            least=least,
        )
        yield "filter", f"{10.0**-exponent:g} of all pass", query, len(events)


def _windows(events: pl.DataFrame) -> Iterator[tuple[str, str, ps.Query, int]]:
    """Ever longer windows, summed at every event."""
    for length in (2**12, 2**14, 2**16, 2**18, 1_000_000):
        query = ps.query(
            f"FROM events ORDER BY ts DEFINE high AS SUM(x1) OVER {length} EVENTS > "
            f"{0.502 * length} PATTERN high WITHIN 1 RETURN high.ts"
        )
        yield "window", f"{length:,} events", query, len(events)


def _patterns(events: pl.DataFrame) -> Iterator[tuple[str, str, ps.Query, int]]:
    """Partial matches that stay open for ever longer windows."""
    for exponent in range(6, 13, 2):
        query = ps.query(
            "FROM events MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(A.ts) AS a, LAST(B.ts) AS b "
            f"AFTER MATCH SKIP TO NEXT ROW PATTERN (A X*? B) WITHIN {2**exponent} "
            "DEFINE B AS ABS(B.x1 - A.x1) <= 0.0000001)"
        )
        yield "pattern", f"{2**exponent:,} events", query, len(events) // 100


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each case."""
    n, times = rows_and_times(
        __doc__, arguments, 2_000_000, "of patterns a hundredth of them", times=2
    )
    events = stream(n)
    table = []
    for cases in (_filters, _windows, _patterns):
        for operator, case, query, rows in cases(events):
            own = events.head(rows)
            found = query.run(own.head(1000), threads=1)  # the code is loaded
            seconds = float("inf")
            for _ in range(times):
                seconds = min(seconds, cost_of(partial(query.run, own, threads=1))[0])
            found = query.run(own, threads=1)
            table.append(
                {
                    "operator": operator,
                    "case": case,
                    "rows/s": f"{rows / max(seconds, 1e-9):,.0f}",
                    "results": f"{len(found):,}",
                }
            )
    print(shown(table))


if __name__ == "__main__":
    main()
