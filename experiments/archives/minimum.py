"""How many pages are read, beside the least that any method must read that knows the same statistics.

Of a page the statistics tell how many rows it has, its first and last time, and of each column bounds, the
number of missing values, the sum, and which values a Bloom filter lets pass. None of these changes when the
values of its columns change places. So a page *must be read* if some rearrangement of its values, that of
the times and keys excepted, gives the query another result: a method that did not read it could not tell the
two archives apart. Rearrangements that are tried: in reverse, sorted up and down, and random ones. A page
that must be read, but for which none of those shows it, is counted as one that need not be: the ratio that
is printed is never below the true one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

import piestream as ps
from experiments.archives.common import archived, drives, reading_of, shown

__all__ = ["QUERIES", "main", "needed_pages"]

_HEAD = "FROM s ORDER BY ts DEFINE b AS brake > 8, "
#: By what each is about.
QUERIES = {
    "two symbols, no value": f"{_HEAD} f AS speed > 60 PATTERN b before; overlaps f WITHIN 20",
    "with a value": f"{_HEAD} f AS speed > 60 PATTERN b before; overlaps f WITHIN 20 "
    "RETURN AVG(f.heat) AS heat, b.ts",
    "window of several pages": f"{_HEAD} f AS speed > 78 PATTERN b before f WITHIN 1200",
    "maximum of a run that is long": f"{_HEAD} f AS heat > -99 PATTERN b during f WITHIN 100000 "
    "RETURN MAX(f.speed) AS top",
    "count, sum, mean of whole numbers, last": f"{_HEAD} f AS heat > -99 PATTERN b during f "
    "WITHIN 100000 RETURN COUNT(f) AS n, SUM(f.gear) AS total, AVG(f.gear) AS mean, LAST(f.speed) AS v",
    "average of floats": f"{_HEAD} f AS heat > -99 PATTERN b during f WITHIN 100000 "
    "RETURN AVG(f.speed) AS mean",
    "row pattern": "FROM s MATCH_RECOGNIZE (ORDER BY ts MEASURES FIRST(B.ts) AS b, LAST(F.ts) AS f "
    "PATTERN (B+ X{0,5} F) WITHIN 20 DEFINE B AS brake > 8, F AS speed > 66)",
}  # fmt: skip


def needed_pages(query: ps.Query, rows: pl.DataFrame, page_rows: int, tries: int) -> list[bool]:
    """Whether each page must be read."""
    expected = query.run(rows)
    found = []
    for first in range(0, len(rows), page_rows):
        page = rows[first : first + page_rows]
        found.append(
            any(
                not query.run(pl.concat([rows[:first], other, rows[first + page_rows :]])).equals(
                    expected
                )
                for other in _rearranged(page, tries, first)
            )
        )
    return found


def _rearranged(page: pl.DataFrame, tries: int, seed: int) -> Iterator[pl.DataFrame]:
    """The page with the values of its columns in other places."""
    draw = np.random.default_rng(seed)
    names = [name for name in page.columns if name != "ts"]
    time = page["ts"]
    yield page.select(names).reverse().insert_column(0, time)
    for descending in (False, True):
        columns = [page[name].sort(descending=descending) for name in names]
        yield pl.DataFrame([time, *columns])
    for _ in range(tries):
        columns = [page[name].gather(draw.permutation(len(page))) for name in names]
        yield pl.DataFrame([time, *columns])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the pages that are read of each query, beside the least."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--page-rows", type=int, default=500)
    parser.add_argument("--every", type=int, default=50, help="pages between two situations")
    parser.add_argument("--tries", type=int, default=4)
    size = parser.parse_args(arguments)
    rows = drives(size.pages * size.page_rows, size.page_rows, size.every)
    rows = rows.with_columns(gear=1 + pl.col("ts") * 7919 % 6)
    table = []
    with archived([rows], size.page_rows) as lake:
        for name, text in QUERIES.items():
            query = ps.query(text)
            read = reading_of(query, lake)
            needed = np.array(needed_pages(query, rows, size.page_rows, size.tries))
            assert not (needed & ~read.decoded).any(), f"{name}: a page that is needed is not read"
            table.append(
                {
                    "query": name,
                    "matches": len(query.run(rows)),
                    "pages": read.all_pages,
                    "must be read": int(needed.sum()),
                    "read": read.pages,
                    "ratio": f"{read.pages / max(1, needed.sum()):.2f}",
                }
            )
    print(shown(table))


if __name__ == "__main__":
    main()
