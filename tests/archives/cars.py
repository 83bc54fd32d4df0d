"""Rows of cars of which one brakes for a while, archives of them, and what is read of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import piestream as ps
from piestream.archives.run import ArchiveRun
from piestream.archives.source import source_of
from piestream.language.options import FileOptions

__all__ = ["BRAKING", "assert_same", "car_rows", "lake_of", "n_read"]

BRAKING = """
    FROM cars PARTITION BY car ORDER BY ts
    DEFINE b AS braking, s AS speed > 60 PATTERN b during; overlaps; meets; before s
    WITHIN 300
"""


def car_rows(n: int = 40_000, cars: int = 4) -> pl.DataFrame:
    draw = np.random.default_rng(1)
    ts = np.arange(n)
    return pl.DataFrame(
        {
            "ts": ts,
            "car": ts % cars,
            "speed": draw.normal(60, 5, n).round(2),
            "braking": (ts >= 20_000) & (ts < 20_040),
        }
    )


def lake_of(path: Path, rows: pl.DataFrame, key: str | None = "car", **settings: Any) -> ps.Archive:
    settings = {"page_rows": 100, "file_rows": 2000, **settings}
    lake = ps.archive(path, time="ts", key=key, **settings)
    lake.append(rows)
    return lake


def n_read(query: ps.Query, lake: ps.Archive) -> int:
    """How many rows are read for a query."""
    work = ArchiveRun(query, source_of(lake), FileOptions())
    for _ in work.results():
        pass
    return work.read_rows


def assert_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert found.schema == expected.schema
    assert found.sort(found.columns).equals(expected.sort(expected.columns))
