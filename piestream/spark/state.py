"""The state of a bucket: a stream of the partitions that are hashed into it, as bytes."""

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
from piestream.spark.clock import EventClock, bounded
from piestream.spark.metrics import KIND, statistics_frame
from piestream.spark.worker_plan import Plan

__all__ = ["STATE", "BucketStep", "opened_state"]

#: One column of bytes: Spark refuses a changed schema at a restart, so the version is in the bytes.
STATE = "state binary"

_HEAD = struct.Struct("<8sHI")  # magic, version, number of buckets (0: one state a key)
_MAGIC = b"PIESPARK"
VERSION = 1

#: The latest timeout that Spark takes.
_NEVER = 1 << 62


@dataclass(frozen=True)
class BucketStep:
    """The function that Spark calls for each bucket that has rows, or whose time has come."""

    plan: Plan
    clock: EventClock
    buckets: int  # 0: one state a key

    def __call__(
        self, key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: Any
    ) -> Iterator[pd.DataFrame]:
        stream = self.opened(state)
        before = stream.progress
        parts = [self.plan.incoming.narrow(_columns(frame)) for frame in frames if len(frame)]
        if not parts:
            parts = [stream.project(pl.DataFrame(schema=dict(self.plan.binding.schema)))]
        rows = parts[0] if len(parts) == 1 else pl.concat(parts)
        watermark = int(state.getCurrentWatermarkMs())
        found = stream.process_unordered(rows, self.clock.seen(watermark))
        held = self.store(stream, state, watermark)
        plain = _pandas(self.plan.outgoing.plain(found))
        counts = statistics_frame(plain, before, stream, held)
        if len(found):
            yield pd.DataFrame({KIND: 0, **plain})
        if counts is not None:
            yield counts

    def opened(self, state: Any) -> Stream:
        """The stream of a bucket, as it was left."""
        if not state.exists:
            lateness = self.clock.lateness
            return Stream(self.plan.binding, ties=self.plan.ties, lateness=lateness, on_late="drop")
        stream = opened_state(self.plan, bytes(state.get[0]), self.buckets)
        before, now = (stream.lateness, stream.ties), (self.clock.lateness, self.plan.ties)
        if before != now:  # Spark's watermark was made with the lateness from before
            raise StateError(
                "the checkpoint was written with a lateness of {} ticks and ties={!r}, and the "
                "query now runs with {} and {!r}: ".format(*before, *now)
                + "run it as it was, or start a new checkpoint"
            )
        return stream

    def store(self, stream: Stream, state: Any, watermark: int) -> int:
        """Keep the stream, and have Spark call again when its time has come."""
        if not self.buckets and stream.is_empty:
            state.remove()  # there is no end of keys, but of buckets
            return 0
        kept = _HEAD.pack(_MAGIC, VERSION, self.buckets) + snapshot(stream)
        state.update((kept,))
        due = self.due(stream)
        if due is not None:
            # Spark calls when its watermark is later than the timeout, which must lie ahead.
            state.setTimeoutTimestamp(max(due - 1, watermark + 1))
        return len(kept)

    def due(self, stream: Stream) -> int | None:
        """The watermark of Spark at which a quiet bucket has something to do."""
        deadline = stream.next_deadline
        if deadline is None:
            return None
        due = self.clock.due(bounded(deadline + self.clock.lateness))
        return due if due < _NEVER else None


def opened_state(plan: Plan, kept: bytes, buckets: int | None) -> Stream:
    """The stream in a stored state; ``buckets`` None takes any number of them."""
    if len(kept) < _HEAD.size or not kept.startswith(_MAGIC):
        raise StateError("these bytes are not the state of a piestream bucket")
    _, version, stored = _HEAD.unpack_from(kept)
    if version != VERSION:
        raise StateError(
            f"the checkpoint holds states of version {version}; this piestream reads version "
            f"{VERSION}: go on with the piestream that wrote it, or start a new checkpoint"
        )
    if buckets is not None and stored != buckets:
        raise StateError(
            f"the checkpoint was written with {_spoken(stored)}, and the query now runs with "
            f"{_spoken(buckets)}: run it as it was, or start a new checkpoint"
        )
    return restore(plan.binding, kept[_HEAD.size :])


def _spoken(buckets: int) -> str:
    return f"buckets={buckets}" if buckets else "partitioning='key'"


def _columns(frame: pd.DataFrame) -> pl.DataFrame:
    """The plain columns of a pandas frame, without its groups."""
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


def _pandas(plain: pl.DataFrame) -> dict[str, Any]:
    return {column.name: column.to_numpy() for column in plain}
