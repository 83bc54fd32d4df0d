"""The state of a bucket: a stream of the partitions that are hashed to it, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from piestream.engine.snapshot import restore, snapshot
from piestream.engine.stream import Stream
from piestream.errors import StateError
from piestream.spark.clock import EventClock, clamped
from piestream.spark.metrics import KIND, metric_rows
from piestream.spark.worker_plan import WorkerPlan

__all__ = ["STATE", "VERSION", "BucketStep", "restore_state"]

#: One column of bytes: Spark refuses a changed schema at a restart, so the version is in the bytes.
STATE = "state binary"

_HEADER = struct.Struct("<8sHI")  # magic, version, number of buckets (0: one state a key)
_MAGIC = b"PIESPARK"
VERSION = 1

#: The latest timeout that Spark takes.
_NEVER = 1 << 62


@dataclass(frozen=True)
class BucketStep:
    """The function that Spark calls for each bucket that has rows, or whose timeout has come."""

    plan: WorkerPlan
    clock: EventClock
    buckets: int  # 0: one state a key

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        stream = self._stream(state)
        before = stream.progress
        wires = [_wire_columns(frame) for frame in frames if len(frame)]
        watermark = int(state.getCurrentWatermarkMs())
        seen = self.clock.latest_seen(watermark)
        found = self.plan.process_unordered(stream, wires, seen)
        state_bytes = self._store(stream, state, watermark)
        columns = {column.name: column.to_numpy() for column in self.plan.result.encode(found)}
        metrics = metric_rows(columns, before, stream.progress, state_bytes)
        if len(found):
            yield pd.DataFrame({KIND: 0, **columns})
        if metrics is not None:
            yield metrics

    def _stream(self, state: Any) -> Stream:
        """The stream of a bucket, as the micro-batch before left it."""
        if not state.exists:
            return self.plan.opened(lateness=self.clock.lateness, on_late="drop")
        stream = restore_state(self.plan, bytes(state.get[0]), self.buckets)
        before, now = (stream.lateness, stream.ties), (self.clock.lateness, self.plan.ties)
        if before != now:  # Spark's watermark was made with the lateness from before
            raise StateError(
                "the checkpoint was written with a lateness of {} ticks and ties={!r}, and the "
                "query now runs with {} and {!r}: ".format(*before, *now)
                + "run it as it was, or start a new checkpoint"
            )
        return stream

    def _store(self, stream: Stream, state: Any, watermark: int) -> int:
        """Store the stream, and set the timeout at which it has something to do; gives its size."""
        if not self.buckets and stream.is_empty:
            state.remove()  # buckets are few, but the number of keys has no bound
            return 0
        stored = _HEADER.pack(_MAGIC, VERSION, self.buckets) + snapshot(stream)
        state.update((stored,))
        timeout = self._timeout(stream)
        if timeout is not None:
            state.setTimeoutTimestamp(max(timeout, watermark + 1))  # which must lie ahead
        return len(stored)

    def _timeout(self, stream: Stream) -> int | None:
        """The timeout of a bucket without rows; Spark calls when its watermark is later."""
        deadline = stream.next_deadline
        if deadline is None:
            return None
        watermark = self.clock.watermark_at(clamped(deadline + self.clock.lateness))
        return watermark - 1 if watermark < _NEVER else None


def restore_state(plan: WorkerPlan, stored: bytes, buckets: int | None) -> Stream:
    """The stream of a stored state; ``buckets`` None takes any number of them."""
    if len(stored) < _HEADER.size or not stored.startswith(_MAGIC):
        raise StateError("these bytes are not the state of a piestream bucket")
    _, version, stored_buckets = _HEADER.unpack_from(stored)
    if version != VERSION:
        raise StateError(
            f"the checkpoint holds states of version {version}; this piestream reads version "
            f"{VERSION}: go on with the piestream that wrote it, or start a new checkpoint"
        )
    if buckets is not None and stored_buckets != buckets:
        raise StateError(
            f"the checkpoint was written with {_as_option(stored_buckets)}, and the query now runs "
            f"with {_as_option(buckets)}: run it as it was, or start a new checkpoint"
        )
    return restore(plan.binding, stored[_HEADER.size :])


def _as_option(buckets: int) -> str:
    return f"buckets={buckets}" if buckets else "partitioning='key'"


def _wire_columns(frame: pd.DataFrame) -> pl.DataFrame:
    """The wire columns of a pandas frame, without the columns that it is grouped by."""
    columns = []
    for name in frame.columns:
        if name[0] == "g":
            continue
        values = frame[name]
        if values.dtype.kind in "if":
            columns.append(pl.Series(name, values.to_numpy()))
        else:
            columns.append(pl.Series(name, pa.Array.from_pandas(values)))
    return pl.DataFrame(columns)
