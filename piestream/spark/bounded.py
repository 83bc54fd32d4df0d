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

from piestream.engine.combined import refuse_closing
from piestream.language.model import Query
from piestream.language.options import AtEnd, SparkBoundedOptions
from piestream.spark.bound_frames import BoundEvents, BoundFrames, BoundInputs, bound_frames
from piestream.spark.codec.rows import ResultCodec, WireTime
from piestream.spark.slices import Slices, cut_slices
from piestream.spark.worker_plan import WorkerPlan, sql_functions

__all__ = ["BoundedTask", "result_batches", "run_bounded"]

#: Rows processed at a time: more than a micro-batch of Arrow, to amortise, and little to hold.
_ROWS = 1 << 18


def run_bounded(query: Query, frames: Any, options: SparkBoundedOptions) -> Any:
    """Every match in a bounded Spark frame, as a Spark frame.

    ``frames`` are those of several streams by their names: their rows are sorted together.
    """
    bound = bound_frames(query, frames)
    plan = bound.plan(options.ties, WireTime())
    if options.at_end == "close":
        refuse_closing(query)
    # The order of a frame is that of its Spark partitions and of the rows in them.
    numbered = "monotonically_increasing_id() AS row_number"
    is_ordered = options.ties != "error" or isinstance(bound, BoundInputs)

    def of_time(ticks: str) -> list[str]:
        return [f"{ticks} AS time", *([numbered] if is_ordered else [])]

    rows = bound.wire_rows(plan, of_time)
    order = ["time", *plan.worker.order_columns, *(["row_number"] if is_ordered else [])]
    cut = _slices(query, bound, options.slices)
    if cut is not None:
        rows = _by_slice(rows, cut)
        order.insert(0, "slice")
    else:
        if plan.worker.has_gaps:
            # An open run ends by MAX GAP if any partition has a row that is late enough.
            latest = sql_functions(bound.frame).broadcast(bound.latest(plan))
            rows = rows.crossJoin(latest)
        if query.partition_by:
            tasks = int(bound.frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
            rows = rows.repartition(min(options.buckets, tasks), *plan.worker.key_columns)
        else:
            rows = rows.repartition(1)
    task = BoundedTask(plan.worker, cut, options.at_end)
    return plan.decoded(rows.sortWithinPartitions(*order).mapInArrow(task, plan.worker.result.ddl))


def _slices(query: Query, bound: BoundFrames, count: int | None) -> Slices | None:
    """How one stream without partitions is cut, if that is asked for."""
    if count is None or count <= 1 or query.partition_by:
        return None
    if not isinstance(bound, BoundEvents):
        raise query.fault(
            ("source",),
            "only one stream of events can be processed in slices of time",
            "leave slices out",
        )
    if query.rows is not None:
        message = (
            "a row pattern cannot be processed in slices of time: where it begins is found in order"
        )
        raise query.fault(("pattern",), message, "leave slices out")
    times = bound.frame.selectExpr(f"{bound.time_sql()} AS t")
    return cut_slices(bound.binding, times, count)


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
        stream = self.plan.opened(lateness=0, closable=at_end == "close")
        for chunk in chunks:
            if "latest" in chunk.columns:
                latest = int(chunk["latest"][0])
            yield self.plan.process(stream, chunk)
        if self.plan.has_gaps and latest is not None:
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
