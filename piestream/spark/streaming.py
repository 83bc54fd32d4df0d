"""Streaming Spark frames: one state and one call of the detector a bucket and micro-batch."""

from __future__ import annotations

from typing import Any

from piestream.adapters.binding import lateness_ticks
from piestream.expressions.backends import spark_text
from piestream.language.model import Query
from piestream.language.options import Partitioning, SparkStreamOptions
from piestream.spark.bound_frames import BoundFrames, bound_frames
from piestream.spark.clock import WATERMARK_DELAY, EventClock
from piestream.spark.metrics import KIND, metric_sums
from piestream.spark.state import STATE, BucketStep
from piestream.spark.worker_plan import FramePlan, sql_functions

__all__ = ["run_streaming"]


def run_streaming(query: Query, frames: Any, options: SparkStreamOptions) -> Any:
    """Every match in a streaming Spark frame, as a streaming frame that appends.

    ``frames`` are those of several streams by their names: their rows go through one state, under
    one watermark. ``lateness`` is how far rows may be out of order; a single frame with a watermark
    on the time column keeps that. ``partitioning="key"`` keeps a state for each key rather than for
    each of a number of ``buckets``. ``metrics`` names the metrics that appear in the query's
    progress.
    """
    buckets, partitioning = options.buckets, options.partitioning
    bound = bound_frames(query, frames)
    own_delay = bound.own_delay
    clock = EventClock.of(bound.binding, _lateness(bound, options.lateness, own_delay), own_delay)
    plan = bound.plan(options.ties, clock.wire_time)
    groups = _group_sql(bound, buckets, partitioning)
    rows = _watermarked(bound, plan, clock, groups)
    step = BucketStep(plan.worker, clock, buckets if partitioning == "bucket" else 0)
    found = rows.groupBy(*(f"g{number}" for number in range(len(groups)))).applyInPandasWithState(
        step, f"{KIND} int, {plan.worker.result.ddl}", STATE, "append", "EventTimeTimeout"
    )
    found = found.observe(options.metrics, *metric_sums(sql_functions(bound.frame)))
    return plan.decoded(found.where(f"{KIND} = 0"))


def _lateness(bound: BoundFrames, lateness: Any, own_delay: int | None) -> int:
    """The lateness in ticks."""
    binding = bound.binding
    if own_delay is None:
        return lateness_ticks(binding, 0 if lateness is None else lateness)
    if lateness is not None:
        raise ValueError(
            f"the frame has a watermark on {binding.time.name} already: leave lateness out, "
            "or leave withWatermark to piestream"
        )
    per_tick = binding.time.nanoseconds_per_tick
    assert per_tick is not None  # Spark has watermarks on timestamps alone
    return own_delay * 1_000_000 // per_tick


def _group_sql(bound: BoundFrames, buckets: int, partitioning: Partitioning) -> list[str]:
    """The columns ``g0, g1, …`` to group by: the bucket, or the key."""
    keys = bound.keys
    if partitioning == "key" and keys:
        return [f"{key} AS g{number}" for number, key in enumerate(keys)]
    bucket = f"pmod(xxhash64({', '.join(keys)}), {buckets})" if keys else "0"
    return [f"CAST({bucket} AS INT) AS g0"]


def _watermarked(bound: BoundFrames, plan: FramePlan, clock: EventClock, groups: list[str]) -> Any:
    """The wire columns of rows under a watermark."""
    has_watermark = bound.own_delay is not None

    def of_time(ticks: str) -> list[str]:
        time = clock.wire_sql(ticks)
        event = f"timestamp_micros({clock.event_time_sql(time)})"
        if has_watermark:
            event = spark_text.column(bound.binding.time.name)
        return [*groups, f"{time} AS time", f"{event} AS event"]

    rows = bound.wire_rows(plan, of_time, clock.max_tick)
    if not has_watermark:
        rows = rows.withWatermark("event", f"{clock.delay} milliseconds")
    # The timestamp itself would go through pandas, slowly and as nanoseconds. Spark's late filter
    # compares the column that is marked as the watermark's; all rows pass it (see EventClock).
    functions = sql_functions(bound.frame)
    mark = {WATERMARK_DELAY: clock.delay}
    marked = [functions.col(name) for name in rows.columns if name not in ("time", "event")]
    if clock.is_fine:
        filtered = functions.expr(clock.filtered_sql("time"))
        marked += [functions.col("time"), filtered.alias("late", metadata=mark)]
    else:
        marked.append(functions.col("time").alias("time", metadata=mark))
    return rows.select(*marked)
