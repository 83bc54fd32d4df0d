"""The end of a stream that ends: what its state still holds, as a bounded frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from piestream.language.model import Query
from piestream.spark.bound_frames import bound_frames
from piestream.spark.bounded import result_batches
from piestream.spark.codec.rows import WireTime
from piestream.spark.frames import by_input
from piestream.spark.state import restore_state
from piestream.spark.worker_plan import WorkerPlan

__all__ = ["flush"]


def flush(query: Query, frames: Any, checkpoint: str) -> Any:
    """The rows that a stopped streaming query would still give if its stream had ended.

    A watermark moves only with new rows, so that after the last of them the rows within the
    lateness keep waiting. This reads the query's checkpoint and gives the matches that they
    complete, as a bounded frame with the same columns. It changes nothing: a query that is started
    again gives these rows itself when its watermark gets there. Of a row pattern, the partitions end.

    ``frames`` is the streaming frame that the query ran over, or any frame with its columns; for
    several streams they are given by their names.
    """
    bound = bound_frames(query, by_input(query, frames))
    plan = bound.plan("first", WireTime())
    states = bound.frame.sparkSession.read.format("statestore").load(checkpoint)
    states = states.selectExpr("value.groupState.state AS state").where("state IS NOT NULL")
    latest = states.mapInArrow(_LatestTimes(plan.worker), "latest bigint")
    latest = latest.selectExpr("max(latest)").first()[0]
    if latest is None:
        states, latest = states.limit(0), 0
    task = _FlushTask(plan.worker, latest)
    return plan.decoded(states.mapInArrow(task, plan.worker.result.ddl))


@dataclass(frozen=True)
class _LatestTimes:
    """The largest time that each state has seen."""

    plan: WorkerPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            states = batch.column(0).to_pylist()
            times = [restore_state(self.plan, state, None).latest for state in states]
            yield pa.record_batch({"latest": pa.array(times, pa.int64())})


@dataclass(frozen=True)
class _FlushTask:
    """The rows that each state gives at the end, when all have got to the ``latest`` time."""

    plan: WorkerPlan
    latest: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result_batches(self.plan.result, self._results(batches))

    def _results(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        for batch in batches:
            for state in batch.column(0).to_pylist():
                stream = restore_state(self.plan, state, None)
                stream.observe_time(self.latest)
                yield stream.finish()
