"""Archives to measure on, and what is measured of a query over one."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import piestream as ps
from piestream.archives import costs
from piestream.archives.pages import Pages
from piestream.archives.run import ArchiveRun
from piestream.archives.source import source_of
from piestream.language.options import AtEnd, FileOptions

__all__ = [
    "Reading", "archived", "cost_of", "drives", "forced", "least_cost", "reading_of", "rows_and_times",
    "run_as", "shown",
]  # fmt: skip


def rows_and_times(
    description: str | None,
    arguments: Sequence[str] | None,
    rows: int,
    of_rows: str,
    times: int,
) -> tuple[int, int]:
    """The options ``--rows`` and ``--times`` of a program, which are these where they are left out.

    >>> rows_and_times(None, ["--rows", "7"], 100, "of prices", 3)
    (7, 3)
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows, help=of_rows)
    parser.add_argument(
        "--times", type=int, default=times, help="runs of each, of which the quickest counts"
    )
    chosen = parser.parse_args(arguments)
    return chosen.rows, chosen.times


def drives(rows: int, page_rows: int, every: int, seed: int = 0, first: int = 0) -> pl.DataFrame:
    """Rows of a drive, from the row ``first`` on: in the middle of some pages something brakes.

    It does so for three rows of every so many-th page. Speed is noise around a slow wave, heat a slow walk, ``kind`` one of twenty names.
    """
    draw = np.random.default_rng(seed)
    ts = np.arange(first, first + rows)
    page, place = ts // page_rows, ts % page_rows
    middle = page_rows // 2
    braking = (page % every == every // 2) & (place >= middle) & (place < middle + 3)
    return pl.DataFrame(
        {
            "ts": ts,
            "speed": (60 + 8 * np.sin(ts / 5e4) + draw.normal(0, 5, rows)).round(2),
            "heat": np.cumsum(draw.normal(0, 0.01, rows)).round(3),
            "brake": np.where(braking, 9.0, draw.random(rows)).round(3),
            "kind": pl.Series(draw.integers(0, 20, rows)).cast(pl.String),
        }
    )


@contextmanager
def archived(
    frames: Sequence[pl.DataFrame] | Iterator[pl.DataFrame], page_rows: int, **settings: Any
) -> Iterator[ps.Archive]:
    """Frames as an archive that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"time": "ts", "file_rows": max(page_rows, 1 << 20), **settings}
        lake = ps.archive(Path(folder, "lake"), page_rows=page_rows, **settings)
        for frame in frames:
            lake.append(frame)
        yield lake


@contextmanager
def forced(is_selecting: bool | None) -> Iterator[None]:
    """Let queries select pages whatever that costs, or never; None: as they decide."""
    before = costs.LEAST_ROWS, costs.MOST_COST
    if is_selecting is not None:
        costs.LEAST_ROWS, costs.MOST_COST = (0, 1e9) if is_selecting else (1 << 62, 0.0)
    try:
        yield
    finally:
        costs.LEAST_ROWS, costs.MOST_COST = before


def run_as(
    query: ps.Query, lake: ps.Archive, is_selecting: bool | None, at_end: AtEnd = "open"
) -> None:
    """Run a query on one thread, as `forced` says."""
    with forced(is_selecting):
        query.run(lake, threads=1, at_end=at_end)


@dataclass(frozen=True)
class Reading:
    """What is read for one query, beside all of its columns."""

    pages: int
    all_pages: int
    bytes: int
    all_bytes: int
    decoded: np.ndarray[Any, np.dtype[np.bool_]]  # of each page, whether something of it is


def reading_of(query: ps.Query, lake: ps.Archive) -> Reading:
    """What is read where pages are selected."""
    with forced(True):
        work = ArchiveRun(query, source_of(lake), FileOptions())
        list(work.results())
    decoder = work.plan.decoder
    sizes = _column_bytes(lake.pages, decoder.columns)
    return Reading(
        int(decoder.decoded.any(axis=1).sum()),
        len(lake.pages),
        int(sizes[decoder.decoded].sum()),
        int(sizes.sum()),
        np.asarray(decoder.decoded.any(axis=1)),
    )


def _column_bytes(pages: Pages, columns: Sequence[str]) -> Any:
    """The bytes of each page's columns on the disk."""
    found = []
    for path in pages.paths:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            sizes = {
                group.column(c).path_in_schema: group.column(c).total_compressed_size
                for c in range(group.num_columns)
            }
            found.append([sizes[name] for name in columns])
    return np.array(found)


def cost_of(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall-clock seconds of one run."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def least_cost(ways: dict[str, Callable[[], object]], times: int) -> dict[str, tuple[float, float]]:
    """The least CPU and wall-clock seconds of each way, in runs that take turns."""
    found = {name: (float("inf"), float("inf")) for name in ways}
    for work in ways.values():
        work()  # what is compiled, and what is looked up once, is there
    named = list(ways.items())
    for number in range(times):  # in another order each time: a scan leaves the caches full
        first = number % len(named)
        for name, work in named[first:] + named[:first]:
            known, one = found[name], cost_of(work)
            found[name] = (min(known[0], one[0]), min(known[1], one[1]))
    return found


def shown(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as a table of text."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row[name]) for name in names) + " |" for row in rows]
    return "\n".join(lines)
