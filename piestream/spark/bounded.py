"""Bounded Spark frames: one stream of many partitions a task, sorted by time in the JVM.

Each task processes its rows in order of time and some at a time, so that memory is bounded by what
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

from piestream.engine.stream import Stream
from piestream.language.model import Query
from piestream.language.options import AtEnd, SparkBoundedOptions
from piestream.spark.clock import ticks_sql
from piestream.spark.codec.rows import ResultCodec, WireTime
from piestream.spark.slices import Slices, cut_slices
from piestream.spark.worker_plan import BoundFrame, WorkerPlan, sql_functions

__all__ = ["BoundedTask", "result_batches", "run_bounded"]

#: Rows processed at a time: more than a micro-batch of Arrow, to amortise, and little to hold.
_ROWS = 1 << 18


def run_bounded(query: Query, frame: Any, options: SparkBoundedOptions) -> Any:
    """Every match in a bounded Spark frame, as a Spark frame."""
    bound = BoundFrame(query, frame)
    plan = bound.plan(options.ties, WireTime())
    time = ticks_sql(bound.binding, bound.types)
    columns = [*plan.encode, f"{time} AS time"]
    order = ["time"]
    source = frame
    if options.ties != "error":
        # The order of a frame is that of its Spark partitions and of the rows in them.
        columns.append("monotonically_increasing_id() AS row_number")
        order.append("row_number")
    cut: Slices | None = None
    if not query.partition_by and options.slices is not None and options.slices > 1:
        cut = cut_slices(bound.binding, frame.selectExpr(f"{time} AS t"), options.slices)
    elif query.streams[0].max_gap is not None:
        # An open run ends by MAX GAP if any partition has an event that is late enough.
        latest = source.selectExpr(f"max({time}) AS latest")
        source = source.crossJoin(sql_functions(frame).broadcast(latest))
        columns.append("latest")
    rows = source.selectExpr(*columns)
    if cut is not None:
        rows = _by_slice(rows, cut)
        order.insert(0, "slice")
    elif query.partition_by:
        tasks = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        rows = rows.repartition(min(options.buckets, tasks), *plan.worker.input.key_columns)
    else:
        rows = rows.repartition(1)
    task = BoundedTask(plan.worker, cut, options.at_end)
    return plan.decoded(rows.sortWithinPartitions(*order).mapInArrow(task, plan.worker.result.ddl))


def _by_slice(rows: Any, cut: Slices) -> Any:
    """The rows of each slice that reads them, a slice in one Spark partition."""
    count = len(cut.starts)
    rows = rows.selectExpr("*", f"{cut.slice_sql} AS slice")
    if hasattr(rows, "repartitionById"):  # from Spark 4.1 on: a task for each slice
        return rows.repartitionById(count, sql_functions(rows).col("slice"))
    return rows.repartition(count, "slice")


@dataclass(frozen=True)
class BoundedTask:
    """The function that a task maps over its batches of rows, sorted by slice and time."""

    plan: WorkerPlan
    slices: Slices | None = None
    at_end: AtEnd = "open"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result_batches(self.plan.result, self.results(_chunks(batches)))

    def results(self, chunks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The result rows of chunks of wire columns."""
        if self.slices is None:
            yield from self._stream_results(chunks, at_end=self.at_end)
            return
        for number, group in groupby(_parts_of_slices(chunks), key=itemgetter(0)):
            parts = (part for _, part in group)
            at_end: AtEnd = self.at_end if number + 1 == len(self.slices.starts) else "open"
            for found in self._stream_results(parts, self.slices.latest_in(number), at_end):
                yield self.slices.owned(self.plan.binding, number, found)

    def _stream_results(
        self, chunks: Iterable[pl.DataFrame], latest: int | None = None, at_end: AtEnd = "open"
    ) -> Iterator[pl.DataFrame]:
        """The result rows of one stream in order of time, which elsewhere has got to ``latest``."""
        closable = at_end == "close"
        stream = Stream(self.plan.binding, ties=self.plan.ties, lateness=0, closable=closable)
        for chunk in chunks:
            if "latest" in chunk.columns:
                latest = int(chunk["latest"][0])
            yield stream.process_projected(self.plan.input.decode(chunk))
        if self.plan.query.streams[0].max_gap is not None and latest is not None:
            stream.observe_time(latest)
        yield stream.finish(at_end)


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


def _parts_of_slices(chunks: Iterable[pl.DataFrame]) -> Iterator[tuple[int, pl.DataFrame]]:
    """The number of a slice and rows of it, for each slice in each chunk; slices are in order."""
    for chunk in chunks:
        numbers = chunk["slice"].to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in pairwise(edges):
            yield int(numbers[start]), chunk.slice(start, end - start)


def result_batches(codec: ResultCodec, frames: Iterable[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
    """Result rows as `mapInArrow` gives them to Spark."""
    for found in frames:
        if len(found):
            wire = codec.encode(found).to_arrow()
            schema = pa.schema([_with_small_offsets(field) for field in wire.schema])
            yield from wire.cast(schema).to_batches()


def _with_small_offsets(field: pa.Field) -> pa.Field:
    """Spark wants strings with 32-bit offsets."""
    if pa.types.is_large_string(field.type) or pa.types.is_string_view(field.type):
        return pa.field(field.name, pa.string())
    if pa.types.is_large_binary(field.type) or pa.types.is_binary_view(field.type):
        return pa.field(field.name, pa.binary())
    return field
