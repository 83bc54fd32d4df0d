"""Bounded Spark frames: the detector over buckets of partitions, sorted by time in the JVM.

Each task takes its buckets one after the other, each in order of time and a batch of rows at a
time, so that memory is bounded by what lives in the query's window, also where one partition is
larger than memory (the JVM's sort spills to disk).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from piestream.query.model import Query
from piestream.spark.clock import time_sql
from piestream.spark.crossing import Outgoing, key_sql
from piestream.spark.plan import BUCKETS, Plan, planned, sql_functions
from piestream.spark.slices import Slices, sliced
from piestream.stream import Stream, Ties

__all__ = ["run_bounded"]

#: Rows worked on at a time: more than a micro-batch of Arrow, to amortise, and little to hold.
_ROWS = 1 << 17


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
    order = ["bucket", "time"]
    source = frame
    if ties != "error":
        # A frame has no order but that of its Spark partitions and of the rows in them.
        columns.append("monotonically_increasing_id() AS place")
        order.append("place")
    cut: Slices | None = None
    if query.partition_by:
        keys = [key_sql(name, bound.types[name]) for name in query.partition_by]
        columns.append(f"CAST(pmod(xxhash64({', '.join(keys)}), {buckets}) AS INT) AS bucket")
    elif slices is not None and slices > 1:
        cut = sliced(binding, bound.types, frame, slices)
    else:
        columns.append("0 AS bucket")
    if query.max_gap is not None and cut is None:
        # A silence at the end of a partition is over if any partition has a later event.
        latest = source.selectExpr(f"max({time_sql(binding, bound.types)}) AS latest")
        source = source.crossJoin(sql_functions(frame).broadcast(latest))
        columns.append("latest")
    rows = source.selectExpr(*columns)
    if cut is not None:
        rows = rows.selectExpr("*", f"{cut.bucket_sql} AS bucket")
    count = _tasks(frame, len(cut.starts) if cut is not None else buckets, bool(query.partition_by))
    rows = _placed(rows, count, cut is None and not query.partition_by)
    worker = Worker(plan, cut)
    found = rows.sortWithinPartitions(*order).mapInArrow(worker, plan.outgoing.ddl)
    return found.selectExpr(*read)


def _tasks(frame: Any, most: int, by_key: bool) -> int:
    if not by_key:
        return most
    return min(most, int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))


def _placed(rows: Any, count: int, single: bool) -> Any:
    """The rows with whole buckets in each Spark partition, in order of the buckets."""
    if single:
        return rows.repartition(1)
    if hasattr(rows, "repartitionById"):  # from Spark 4.1 on
        return rows.repartitionById(count, sql_functions(rows).expr(f"bucket % {count}"))
    return rows.repartition(count, "bucket")


@dataclass(frozen=True)
class Worker:
    """The function that a task maps over its batches of rows, sorted by bucket and time."""

    plan: Plan
    slices: Slices | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return as_batches(self.plan.outgoing, self.results(_chunks(batches)))

    def results(self, chunks: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """The result rows of chunks of plain rows."""
        stream: Stream | None = None
        bucket = -1
        latest = 0
        for chunk in chunks:
            for part in _by_bucket(chunk):
                number = int(part["bucket"][0])
                if stream is None or number != bucket:
                    if stream is not None:
                        yield self.kept(bucket, self.last(stream, bucket, latest))
                    stream, bucket = self.opened(), number
                latest = int(part["latest"][0]) if "latest" in part.columns else 0
                rows = self.plan.incoming.narrow(part)
                yield self.kept(bucket, stream.take_narrow(rows))
        if stream is not None:
            yield self.kept(bucket, self.last(stream, bucket, latest))

    def opened(self) -> Stream:
        """A stream over rows in order of time."""
        return Stream(self.plan.binding, ties=self.plan.ties, lateness=0)

    def last(self, stream: Stream, bucket: int, latest: int) -> pl.DataFrame:
        """The last rows of a bucket: of what waited, and of silences that are over."""
        if self.slices is not None:
            latest = self.slices.end_of(bucket)
        if self.plan.query.max_gap is not None:
            stream.latest = max(stream.latest, latest)
        return stream.finish()

    def kept(self, bucket: int, found: pl.DataFrame) -> pl.DataFrame:
        """Without the rows that belong to the slice before."""
        return found if self.slices is None else self.slices.kept(self.plan.binding, bucket, found)


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


def _by_bucket(chunk: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The parts of a chunk that are of one bucket, which come one after the other."""
    buckets = chunk["bucket"].to_numpy()
    edges = np.flatnonzero(np.diff(buckets)) + 1
    starts = [0, *edges.tolist()]
    ends = [*edges.tolist(), len(buckets)]
    for start, end in zip(starts, ends, strict=True):
        yield chunk.slice(start, end - start)


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

