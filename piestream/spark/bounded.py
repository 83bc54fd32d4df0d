"""Bounded Spark frames: one stream of many partitions a task, sorted by time in the JVM.

Each task takes its rows in order of time and some at a time, so that memory is bounded by what
lives in the query's window, also where one partition is larger than memory (the JVM's sort spills
to disk). The order is of one 64-bit column, which Spark sorts by radix.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from piestream.compiled.layout import INT64_MIN
from piestream.engine.projection import TIME
from piestream.engine.stream import Stream, Ties
from piestream.language.model import Query
from piestream.spark.clock import time_sql
from piestream.spark.codec.rows import Outgoing
from piestream.spark.slices import Slices, sliced
from piestream.spark.worker_plan import BUCKETS, Plan, planned, sql_functions

__all__ = ["run_bounded"]

#: Rows worked on at a time: more than a micro-batch of Arrow, to amortise, and little to hold.
_ROWS = 1 << 18


def run_bounded(
    query: Query,
    frame: Any,
    *,
    ties: Ties = "error",
    buckets: int = BUCKETS,
    slices: int | None = None,
) -> Any:
    """Every match in a bounded Spark frame, as a Spark frame."""
    bound = planned(query, frame)
    binding = bound.binding
    plan, send, read = bound.plan(ties, (1, 0))
    columns = [*send, f"{time_sql(binding, bound.types)} AS time"]
    order = ["time"]
    source = frame
    if ties != "error":
        # A frame has no order but that of its Spark partitions and of the rows in them.
        columns.append("monotonically_increasing_id() AS place")
        order.append("place")
    cut: Slices | None = None
    if not query.partition_by and slices is not None and slices > 1:
        cut = sliced(binding, bound.types, frame, slices)
    elif query.max_gap is not None:
        # A silence at the end of a partition is over if any partition has a later event.
        latest = source.selectExpr(f"max({time_sql(binding, bound.types)}) AS latest")
        source = source.crossJoin(sql_functions(frame).broadcast(latest))
        columns.append("latest")
    rows = source.selectExpr(*columns)
    if cut is not None:
        rows = _by_slice(rows, cut)
        order.insert(0, "slice")
    elif query.partition_by:
        tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        rows = rows.repartition(min(buckets, tasks), *plan.incoming.key_columns)
    else:
        rows = rows.repartition(1)
    found = rows.sortWithinPartitions(*order).mapInArrow(Worker(plan, cut), plan.outgoing.ddl)
    return found.selectExpr(*read)


def _by_slice(rows: Any, cut: Slices) -> Any:
    """The rows of each slice that reads them, a slice in one Spark partition."""
    count = len(cut.starts)
    rows = rows.selectExpr("*", f"{cut.slice_sql} AS slice")
    if hasattr(rows, "repartitionById"):  # from Spark 4.1 on: a task for each slice
        return rows.repartitionById(count, sql_functions(rows).col("slice"))
    return rows.repartition(count, "slice")


@dataclass(frozen=True)
class Worker:
    """The function that a task maps over its batches of rows, sorted by slice and time."""

    plan: Plan
    slices: Slices | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return as_batches(self.plan.outgoing, self.results(_chunks(batches)))

    def results(self, chunks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The result rows of chunks of plain rows."""
        if self.slices is None:
            yield from self.of_stream(chunks)
            return
        for number, parts in groupby(_of_slices(chunks), key=itemgetter(0)):
            for found in self.of_stream((part for _, part in parts), self.slices.end_of(number)):
                yield self.slices.kept(self.plan.binding, number, found)

    def of_stream(
        self, chunks: Iterable[pl.DataFrame], latest: int = INT64_MIN
    ) -> Iterator[pl.DataFrame]:
        """The result rows of one stream in order of time, whose silences are over by ``latest``."""
        stream = Stream(self.plan.binding, ties=self.plan.ties, lateness=0)
        for chunk in chunks:
            if "latest" in chunk.columns:
                latest = int(chunk["latest"][0])
            rows = self.plan.incoming.narrow(chunk)
            stream.projection.check_times(rows[TIME])
            yield stream.take_narrow(rows)
        if self.plan.query.max_gap is not None:
            stream.latest = max(stream.latest, latest)
        yield stream.finish()


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Batches put together to a good size."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS:
            yield _frame(held)
            held, rows = [], 0
    if rows:
        yield _frame(held)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame.rechunk()


def _of_slices(chunks: Iterable[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
    """The parts of chunks that are of one slice, which come one after the other."""
    for chunk in chunks:
        numbers = chunk["slice"].to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(edges):
            yield int(numbers[start]), chunk.slice(start, end - start)


def as_batches(outgoing: Outgoing, frames: Iterable[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
    """Result rows as Spark wants them."""
    for found in frames:
        if len(found):
            plain = outgoing.plain(found).to_arrow()
            schema = pa.schema([_small(field) for field in plain.schema])
            yield from plain.cast(schema).to_batches()


def _small(field: pa.Field) -> pa.Field:
    """Spark wants strings with 32-bit offsets."""
    if pa.types.is_large_string(field.type) or pa.types.is_string_view(field.type):
        return pa.field(field.name, pa.string())
    if pa.types.is_large_binary(field.type) or pa.types.is_binary_view(field.type):
        return pa.field(field.name, pa.binary())
    return field
