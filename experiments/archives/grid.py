"""What queries cost by how often their rarest symbol occurs, and how well the way is chosen.

Each query is worked on in three ways: pages are selected; all is scanned; and as the archive decides. The
*regret* is the cost of the way that it takes, the decision included, over that of the better one. Costs are
CPU seconds, the least of several runs that take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import piestream as ps
from experiments.archives.common import archived, drives, least_cost, reading_of, run_as, shown

__all__ = ["main"]

_QUERY = (
    "FROM s ORDER BY ts DEFINE b AS brake > 8, f AS speed > 66 "
    "PATTERN b before; overlaps f WITHIN {window} RETURN AVG(f.heat) AS heat, b.ts"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each share of pages with a situation and each window."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--page-rows", type=int, default=1000)
    parser.add_argument("--every", type=int, nargs="+", default=[1000, 200, 50, 20, 10, 5, 3, 2, 1])
    parser.add_argument("--windows", type=int, nargs="+", default=[20, 4000])
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
                        "window": window,
                        "pages read": f"{read.pages} of {read.all_pages}",
                        "bytes of a scan / bytes": f"{read.all_bytes / max(1, read.bytes):.1f}",
                        "selects, ms": f"{1e3 * cost['selects']:.0f}",
                        "scans, ms": f"{1e3 * cost['scans']:.0f}",
                        "decides, ms": f"{1e3 * cost['decides']:.0f}",
                        "decides / scans": f"{cost['decides'] / cost['scans']:.2f}",
                        "regret": f"{cost['decides'] / min(cost['selects'], cost['scans']):.2f}",
                    }
                )
    print(shown(table))


if __name__ == "__main__":
    main()
