"""What queries cost by how often their rarest symbol occurs, and how well the way is chosen.

Each query is worked on in three ways: pages are selected; all is scanned; and as the archive decides. The
*regret* is the cost of the way that it takes, the decision included, over that of the better one. Costs are
CPU seconds, the least of several runs that take turns.

A second table has queries of which only rows tell how much has to be read: with UNTIL, EMIT ON BOTH, and
partitions that may end behind a match. Some of them a trial shows to need all rows, others few.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import archived, drives, least_cost, reading_of, run_as, shown
from piestream.language.options import AtEnd

__all__ = ["main"]

_QUERY = (
    "FROM s ORDER BY ts DEFINE b AS brake > 8, f AS speed > 66 "
    "PATTERN b before; overlaps f WITHIN {window} RETURN AVG(f.heat) AS heat, b.ts"
)


_UNSURE = (
    "FROM s {keys}ORDER BY ts DEFINE b AS brake > 8, f AS {f} "
    "PATTERN b {relations} f WITHIN 20 {emit} RETURN AVG(f.heat) AS heat, b.ts"
)
_NEVER = "speed > 66 UNTIL speed < -999"
#: Queries of which only rows tell how much is read: the symbol, keys, EMIT, and what happens at the end.
_UNSURE_CASES: dict[str, tuple[str, str, str, AtEnd]] = {
    "UNTIL": ("speed > 66 UNTIL speed < 50", "", "", "open"),
    "EMIT ON BOTH": ("speed > 66", "", "EMIT ON BOTH", "open"),
    "both, which end soon": ("speed > 66 UNTIL speed < 50", "", "EMIT ON BOTH", "open"),
    "both, which never end": (_NEVER, "", "EMIT ON BOTH", "open"),
    "the same by key": (_NEVER, "car", "EMIT ON BOTH", "open"),
    "both, of a run without end": ("heat > -99", "", "EMIT ON BOTH", "open"),
    "at_end=close": ("speed > 66", "", "", "close"),
    "by two keys": ("speed > 66", "car, lane", "", "close"),
    "by two keys with UNTIL": ("speed > 66 UNTIL speed < 50", "car, lane", "", "close"),
    "partitions end behind matches": ("speed > 66", "trip, lane", "", "close"),
    "the same, both, which never end": (_NEVER, "trip, lane", "EMIT ON BOTH", "close"),
}


def _with_keys(rows: pl.DataFrame, page_rows: int, every: int) -> pl.DataFrame:
    """With keys, of which a trip ends soon after something has braked."""
    draw = np.random.default_rng(1)
    place = pl.col("ts") + page_rows // 2 - 10
    return rows.with_columns(
        car=pl.Series(draw.integers(0, 8, len(rows))),
        lane=pl.col("ts") // 50 % 3,
        trip=place // (page_rows * every),
    )


def _unsure(every: int, rows: int, page_rows: int, times: int) -> list[dict[str, object]]:
    """A line for each query of which only rows tell how much is read."""
    table: list[dict[str, object]] = []
    frame = _with_keys(drives(rows, page_rows, every), page_rows, every)
    with archived([frame], page_rows) as lake:
        for name, (f, keys, emit, at_end) in _UNSURE_CASES.items():
            by = f"PARTITION BY {keys} " if keys else ""
            relations = "during" if f.startswith("heat") else "before; overlaps"
            query = ps.query(_UNSURE.format(keys=by, f=f, relations=relations, emit=emit))
            ways: dict[str, Callable[[], object]] = {
                way: partial(run_as, query, lake, is_selecting, at_end=at_end)
                for way, is_selecting in (("scans", False), ("decides", None))
            }
            cost = {way: least[0] for way, least in least_cost(ways, times).items()}
            table.append(
                {
                    "query": name,
                    "one page in": every,
                    **{way: f"{1e3 * seconds:.0f} ms" for way, seconds in cost.items()},
                    "decides / scans": f"{cost['decides'] / cost['scans']:.2f}",
                }
            )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each share of pages with a situation and each window."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--page-rows", type=int, default=1000)
    parser.add_argument("--every", type=int, nargs="+", default=[1000, 200, 50, 20, 10, 5, 1])
    parser.add_argument("--windows", type=int, nargs="+", default=[20, 4000])
    parser.add_argument("--unsure-rows", type=int, default=4_000_000)
    parser.add_argument("--unsure-every", type=int, nargs="+", default=[200, 20, 5])
    parser.add_argument("--times", type=int, default=3)
    size = parser.parse_args(arguments)
    table = []
    for every in size.every:
        rows = drives(size.rows, size.page_rows, every)
        with archived([rows], size.page_rows) as lake:
            for window in size.windows:
                query = ps.query(_QUERY.format(window=window))
                ways: dict[str, Callable[[], object]] = {
                    name: partial(run_as, query, lake, way)
                    for name, way in (("selects", True), ("scans", False), ("decides", None))
                }
                cost = {name: least[0] for name, least in least_cost(ways, size.times).items()}
                read = reading_of(query, lake)
                table.append(
                    {
                        "one page in": every,
                        "window, rows": window,
                        "pages selected": f"{read.pages:,}",
                        "bytes of a scan / bytes": f"{read.all_bytes / max(1, read.bytes):.1f}",
                        **{name: f"{1e3 * seconds:.0f} ms" for name, seconds in cost.items()},
                        "decides / scans": f"{cost['decides'] / cost['scans']:.2f}",
                        "regret": f"{cost['decides'] / min(cost['selects'], cost['scans']):.2f}",
                    }
                )
    print(shown(table))
    print()
    unsure = [
        line
        for every in size.unsure_every
        for line in _unsure(every, size.unsure_rows, size.page_rows, size.times)
    ]
    print(shown(unsure))


if __name__ == "__main__":
    main()
