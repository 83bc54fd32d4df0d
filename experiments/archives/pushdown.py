"""A situation in an archive, beside what Polars and DuckDB find of it by the bounds that Parquet keeps.

These find the rows of the rarer symbol; a situation has more: what lies around these rows, and whether it
is a run of the other symbol. To find it they read all rows, or are told where to read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import duckdb
import polars as pl

import piestream as ps
from experiments.archives.common import archived, drives, least_cost, reading_of, shown

__all__ = ["main"]

_QUERY = (
    "FROM s ORDER BY ts DEFINE b AS brake > 8, f AS speed > 66 "
    "PATTERN b before; overlaps f WITHIN 20 RETURN b.ts, f.ts"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--page-rows", type=int, default=1 << 14)
    parser.add_argument("--every", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    size = parser.parse_args(arguments)
    query = ps.query(_QUERY)
    part = min(size.rows, 1 << 22)
    frames = (
        drives(part, size.page_rows, size.every, seed, seed * part)
        for seed in range(size.rows // part)
    )
    with archived(frames, size.page_rows) as lake, duckdb.connect() as base:
        paths = [str(path) for path in lake.files]
        files = f"read_parquet({paths})"
        ways: dict[str, Callable[[], object]] = {
            "piestream: the situations": lambda: query.run(lake),
            "Polars: rows of the rarer symbol": lambda: (
                pl.scan_parquet(paths, glob=False)
                .filter(pl.col("brake") > 8)
                .select("ts")
                .collect()
            ),
            "DuckDB: rows of the rarer symbol": lambda: base.sql(
                f"SELECT ts FROM {files} WHERE brake > 8"
            ).pl(),
            "Polars reads the columns, piestream the situations": lambda: query.run(
                pl.scan_parquet(paths, glob=False).select("ts", "speed", "brake").collect()
            ),
        }
        costs = least_cost(ways, size.times)
        read = reading_of(query, lake)
        print(f"{lake.rows:,} rows in {read.all_pages:,} pages; {len(query.run(lake))} situations")
        print(f"pages read: {read.pages}; bytes: {read.bytes:,} of {read.all_bytes:,}")
    print(
        shown(
            [
                {"way": name, "CPU, ms": f"{1e3 * cpu:.1f}", "time, ms": f"{1e3 * wall:.1f}"}
                for name, (cpu, wall) in costs.items()
            ]
        )
    )


if __name__ == "__main__":
    main()
