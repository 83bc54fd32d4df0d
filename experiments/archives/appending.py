"""How many rows a second an archive takes, and what statistics and filters have of that."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

import polars as pl

import piestream as ps
from experiments.archives.common import drives, least_cost, shown

__all__ = ["main"]


def _append(rows: pl.DataFrame, page_rows: int, has_filters: bool, key: str | None) -> None:
    """Append rows to a new archive, with filters or without."""
    with tempfile.TemporaryDirectory() as folder:
        lake = ps.archive(Path(folder, "lake"), time="ts", key=key, page_rows=page_rows)
        if has_filters:
            lake.append(rows)
            return
        with patch("piestream.archives.store.page_filters", lambda *_: pl.DataFrame()):
            lake.append(rows)


def _write(rows: pl.DataFrame, page_rows: int) -> None:
    """Write rows as a Parquet file, and no more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        rows.write_parquet(path, row_group_size=page_rows, compression="zstd", statistics="full")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each kind of rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1 << 21)
    parser.add_argument("--page-rows", type=int, default=1 << 14)
    parser.add_argument("--times", type=int, default=3)
    size = parser.parse_args(arguments)
    numbers = drives(size.rows, size.page_rows, 100).drop("kind")
    ids = pl.Series("id", range(size.rows)) % (1 << 16)
    cases = {
        "four columns of numbers": (numbers, None),
        "and a key of 20 texts": (drives(size.rows, size.page_rows, 100), "kind"),
        "and a key of 65,536 numbers": (numbers.with_columns(ids), "id"),
        "and a column of 65,536 texts": (numbers.with_columns(ids.cast(pl.String)), None),
    }
    table = []
    for name, (rows, key) in cases.items():
        ways: dict[str, Callable[[], object]] = {
            "Parquet alone": partial(_write, rows, size.page_rows),
            "without filters": partial(_append, rows, size.page_rows, False, key),
            "with filters": partial(_append, rows, size.page_rows, True, key),
        }
        costs = least_cost(ways, size.times)
        table.append(
            {"rows": name} | {way: f"{size.rows / wall / 1e6:.1f} million" for way, (_, wall) in costs.items()}
        )  # fmt: skip
    print(shown(table))


if __name__ == "__main__":
    main()
