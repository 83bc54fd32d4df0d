"""Streaming Spark frames: one state and one call of the detector a bucket and micro-batch."""

from __future__ import annotations

from typing import Any

from piestream.adapters.binding import lateness_ticks
from piestream.language.model import Query
from piestream.language.options import Partitioning, SparkStreamOptions
from piestream.spark.clock import EventClock, time_sql
from piestream.spark.codec.rows import key_sql
from piestream.spark.metrics import KIND, observed
from piestream.spark.state import STATE, BucketStep
from piestream.spark.worker_plan import Bound, planned, sql_functions

__all__ = ["run_streaming"]

_DELAY = "spark.watermarkDelayMs"  # where Spark notes a watermark in a column's metadata


def run_streaming(query: Query, frame: Any, options: SparkStreamOptions) -> Any:
    """Every match in a streaming Spark frame, as a streaming frame that appends.

    ``lateness`` is how far rows may be out of order; a frame with a watermark on the time column
    keeps that. ``partitioning="key"`` keeps a state for each key rather than for each of a number
    of ``buckets``. ``metrics`` names the metrics that appear in the query's progress.
    """
    buckets, partitioning = options.buckets, options.partitioning
    bound = planned(query, frame)
    binding = bound.binding
    own_delay = bound.metadata[binding.time.name].get(_DELAY)
    ticks = _lateness(bound, options.lateness, own_delay)
    clock = EventClock.of(binding, ticks, own_delay)
    plan, send, read = bound.plan(options.ties, clock.crossing)
    rows, groups = _watermarked(bound, clock, send, buckets, partitioning, own_delay is not None)
    step = BucketStep(plan, clock, buckets if partitioning == "bucket" else 0)
    found = rows.groupBy(*groups).applyInPandasWithState(
        step, f"{KIND} int, {plan.outgoing.ddl}", STATE, "append", "EventTimeTimeout"
    )
    found = found.observe(options.metrics, *observed(sql_functions(frame)))
    return found.where(f"{KIND} = 0").selectExpr(*read)


def _lateness(bound: Bound, lateness: Any, own_delay: int | None) -> int:
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


def _watermarked(
    bound: Bound,
    clock: EventClock,
    send: list[str],
    buckets: int,
    partitioning: Partitioning,
    has_watermark: bool,
) -> tuple[Any, list[str]]:
    """The plain columns of events under a watermark, and the columns to group by."""
    binding, types = bound.binding, bound.types
    keys = [key_sql(name, types[name]) for name in bound.query.partition_by]
    if partitioning == "key" and keys:
        groups = [f"{key} AS g{number}" for number, key in enumerate(keys)]
    else:
        number = f"pmod(xxhash64({', '.join(keys)}), {buckets})" if keys else "0"
        groups = [f"CAST({number} AS INT) AS g0"]
    time = clock.crossing_sql(time_sql(binding, types, clock.within))
    event = f"timestamp_micros({clock.event_sql(time)})"
    if has_watermark:
        event = "`" + binding.time.name.replace("`", "``") + "`"
    rows = bound.frame.selectExpr(*send, *groups, f"{time} AS time", f"{event} AS event")
    if not has_watermark:
        rows = rows.withWatermark("event", f"{clock.delay} milliseconds")
    # The timestamp itself would cross to pandas, slowly and as nanoseconds. Spark's late filter
    # compares the column that is marked as the watermark's; all rows pass it (see EventClock).
    of = sql_functions(bound.frame)
    mark = {_DELAY: clock.delay}
    names = [name for name in rows.columns if name not in ("time", "event")]
    marked = [of.col(name) for name in names]
    if clock.fine:
        marked += [of.col("time"), of.expr(clock.late_sql("time")).alias("late", metadata=mark)]
    else:
        marked.append(of.col("time").alias("time", metadata=mark))
    return rows.select(*marked), [f"g{number}" for number in range(len(groups))]
