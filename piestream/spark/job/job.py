"""A streaming job: a query from a source to a sink, with progress and a clean stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from piestream.language.model import Query
from piestream.spark.job.checkpoint import begun, check_record
from piestream.spark.job.connectors import KAFKA_HINT, Connector

__all__ = ["Job", "progress_line", "run_job"]

#: How long a stop waits for the micro-batch that is running.
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """What a streaming job does."""

    query: Query
    source: Connector
    sink: Connector
    checkpoint: str
    schema: str | None = None
    select: tuple[str, ...] = ()
    available_now: bool = False
    every: str | None = None  # the pace of micro-batches, such as '5 seconds'
    rest: Connector | None = None  # where what the end of the stream makes known is written
    options: Mapping[str, Any] = field(default_factory=dict)  # of run_streaming


def run_job(spark: Any, job: Job, say: Callable[[str], None] | None = None) -> None:
    """Run a job until its source ends, it is told to stop, or it fails."""
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    frame = _opened(spark, job)
    found = job.query.run(frame, **job.options)
    check_record(spark, job.checkpoint, begun(job.query, frame, dict(job.options)))
    with _explained(job.sink):
        running = job.sink.start(found, job.checkpoint, _pace(job))
    stopped = threading.Event()
    with _signals(stopped, say):
        _follow(running, stopped, say)
    failure = running.exception()
    if failure is not None:
        raise failure
    if job.rest is not None and not stopped.is_set():
        from piestream.spark.flush import flush

        job.rest.append(flush(job.query, frame, job.checkpoint))


def _opened(spark: Any, job: Job) -> Any:
    with _explained(job.source):
        frame = job.source.stream(spark, job.schema)
    return frame.selectExpr(*job.select) if job.select else frame


@contextmanager
def _explained(end: Connector) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if end.kind == "kafka" and "Failed to find data source" in str(error):
            raise ValueError(KAFKA_HINT) from None
        raise


def _pace(job: Job) -> dict[str, Any]:
    if job.available_now:
        return {"availableNow": True}
    return {"processingTime": job.every or "0 seconds"}


def _follow(running: Any, stopped: threading.Event, say: Callable[[str], None]) -> None:
    """Tell the progress of a query until it ends or is to stop."""
    told = -1
    while running.isActive and not stopped.is_set():
        stopped.wait(_LOOK_SECONDS)
        told = _tell(running, told, say)
    if running.isActive:
        limit = time.monotonic() + _PATIENCE_SECONDS
        while running.isActive and running.status["isTriggerActive"] and time.monotonic() < limit:
            time.sleep(_LOOK_SECONDS / 4)
        running.stop()
    _tell(running, told, say)


def _tell(running: Any, told: int, say: Callable[[str], None]) -> int:
    for progress in running.recentProgress:
        if progress.batchId > told:
            told = progress.batchId
            if "piestream" in progress.observedMetrics:
                say(progress_line(progress))
    return told


def progress_line(progress: Any) -> str:
    """A micro-batch in a line: rows, speed, watermark, state, late rows, matches."""
    counted = progress.observedMetrics["piestream"]
    operator = progress.stateOperators[0]
    late = counted["late"] + operator.numRowsDroppedByWatermark
    parts = [
        f"batch {progress.batchId}",
        f"{progress.numInputRows:,} rows",
        f"{progress.processedRowsPerSecond or 0:,.0f} rows/s",
        f"watermark {progress.eventTime.get('watermark', '-')}",
        f"state {operator.memoryUsedBytes / 1e6:,.1f} MB in {operator.numRowsTotal:,} buckets",
        f"{late:,} late",
        f"{counted['matches']:,} matches",
    ]
    return " | ".join(parts)


@contextmanager
def _signals(stopped: threading.Event, say: Callable[[str], None]) -> Any:
    """A first signal lets the micro-batch end; Spark's checkpoint makes a second one safe too."""

    def stop(number: int, _: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        say("stopping after this micro-batch; once more to stop at once")
        stopped.set()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
