"""The end of a stream that ends: what its state still holds, as a bounded frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from piestream.language.model import Query
from piestream.spark.bounded import as_batches
from piestream.spark.state import opened_state
from piestream.spark.worker_plan import Plan, planned

__all__ = ["flush"]


def flush(query: Query, frame: Any, checkpoint: str) -> Any:
    """The rows that a stopped streaming query would still give if its stream had ended.

    A watermark moves only with new rows, so that after the last of them the rows within the
    lateness keep waiting. This reads the query's checkpoint and gives what they make known, as a
    bounded frame with the same columns. It changes nothing: a query that is started again gives
    these rows itself when its watermark gets there.

    ``frame`` is the streaming frame that the query ran over, or any frame with its columns.
    """
    plan, _, read = planned(query, frame).plan("first", (1, 0))
    states = frame.sparkSession.read.format("statestore").load(checkpoint)
    states = states.selectExpr("value.groupState.state AS state").where("state IS NOT NULL")
    latest = states.mapInArrow(_Latest(plan), "latest bigint").selectExpr("max(latest)").first()[0]
    if latest is None:
        return states.limit(0).mapInArrow(_Last(plan, 0), plan.outgoing.ddl).selectExpr(*read)
    return states.mapInArrow(_Last(plan, latest), plan.outgoing.ddl).selectExpr(*read)


@dataclass(frozen=True)
class _Latest:
    """The largest time that each state has seen."""

    plan: Plan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            times = [opened_state(self.plan, s, None).latest for s in batch.column(0).to_pylist()]
            yield pa.record_batch({"latest": pa.array(times, pa.int64())})


@dataclass(frozen=True)
class _Last:
    """The rows that each state gives at the end."""

    plan: Plan
    latest: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return as_batches(self.plan.outgoing, self.found(batches))

    def found(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        for batch in batches:
            for kept in batch.column(0).to_pylist():
                stream = opened_state(self.plan, kept, None)
                stream.observe_time(self.latest)
                yield stream.finish()
