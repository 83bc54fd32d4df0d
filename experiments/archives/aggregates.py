"""Aggregates of an archive from its statistics, beside a scan by Polars and by DuckDB."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import duckdb
import polars as pl

from experiments.archives.common import archived, drives, least_cost, shown

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each aggregate takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rows", type=int, default=10_000_000, help="100 million take a minute or two"
    )
    parser.add_argument("--page-rows", type=int, default=1 << 14)
    parser.add_argument("--times", type=int, default=5)
    size = parser.parse_args(arguments)
    part = min(size.rows, 1 << 22)
    count = -(-size.rows // part)
    rows = drives(part, size.page_rows, 100)
    frames = (rows.with_columns(ts=pl.col("ts") + number * part) for number in range(count))
    table = []
    with archived(frames, size.page_rows) as lake, duckdb.connect() as base:
        first, last = lake.rows // 7, lake.rows * 6 // 7
        paths = [str(path) for path in lake.files]
        inside = pl.col("ts").is_between(first, last, closed="left")
        cases = {
            "average between two times": (None, pl.lit(True), "TRUE"),
            "the same where pages decide": ("heat > -1e9", pl.col("heat") > -1e9, "heat > -1e9"),
            "the same where all but one page in a hundred decide": (
                "brake > 8",
                pl.col("brake") > 8,
                "brake > 8",
            ),
        }
        for name, (where, expression, text) in cases.items():
            condition = inside & expression
            ways: dict[str, Callable[[], object]] = {
                "archive": lambda where=where: lake.aggregate(  # type: ignore[misc]
                    "AVG(speed)", "COUNT(*)", where=where, between=(first, last)
                ),
                "Polars": lambda condition=condition: (  # type: ignore[misc]
                    pl.scan_parquet(paths, glob=False)
                    .filter(condition)
                    .select(pl.col("speed").mean(), pl.len())
                    .collect()
                ),
                "DuckDB": lambda text=text: base.sql(  # type: ignore[misc]
                    f"SELECT AVG(speed), COUNT(*) FROM read_parquet({paths}) "
                    f"WHERE ts >= {first} AND ts < {last} AND {text}"
                ).pl(),
            }
            costs = least_cost(ways, size.times)
            table.append(
                {"aggregate": name}
                | {f"{way}, ms": f"{1e3 * wall:.1f}" for way, (_, wall) in costs.items()}
            )
        print(f"{lake.rows:,} rows in {len(lake.pages):,} pages")
    print(shown(table))


if __name__ == "__main__":
    main()
