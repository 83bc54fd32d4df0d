"""What the benchmarks share: a query's run as a measurement, and words for what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl

import piestream as ps
from experiments import engine
from experiments.harness.isolation import isolated
from experiments.harness.measure import Row, Rows, Size
from experiments.harness.tables import column_table
from experiments.streams import SEED

__all__ = ["EXPLAINED", "counted", "measured", "running", "shown", "span"]

EXPLAINED = (
    "Seconds of CPU time, warm (`cpu s`) and cold (`cold cpu s`); `times yardstick`: warm CPU time "
    "over that of one pass of NumPy's `sum` over the columns that the query reads, in the same process."
)


def running(query: ps.Query, frame: pl.DataFrame, threads: int = 1) -> Callable[[], pl.DataFrame]:
    """A run of a query over a frame."""
    engine.warm_adaption()
    query.run(frame.head(1_000), threads=threads)
    return partial(query.run, frame, threads=threads)


def counted(found: Any) -> Row:
    """A frame of matches, or their number."""
    return {"matches": found if isinstance(found, int) else len(found)}


def measured(
    prepare: Callable[..., Callable[[], Any]],
    *given: Any,
    size: Size,
    events: int,
    yardstick: pl.DataFrame | None = None,
    describe: Callable[[Any], Row] = counted,
    **about: Any,
) -> Row:
    """A row of some work on so many events."""
    row: Row = {**about, "events": events, "seed": SEED}
    row |= isolated(prepare, *given, size=size, describe=describe, yardstick=yardstick)
    seconds = row.get("cpu_s") or row.get("cold_cpu_s")
    if seconds:
        row["events_per_s"] = events / seconds
    return row


def shown(columns: Sequence[str]) -> Callable[[Rows], str]:
    """The tables of an experiment that is a table of these columns."""
    return lambda rows: f"{EXPLAINED}\n\n{column_table(columns, rows)}"


def span(values: Sequence[float], unit: str = "") -> str:
    """From the least to the most of some values.

    >>> span([1.0, 2.5]), span([3.0], "×")
    ('1 to 2.5', '3×')
    """
    least, most = min(values), max(values)
    return f"{least:.3g}{unit}" if least == most else f"{least:.3g}{unit} to {most:.3g}{unit}"
