"""A streaming job: a query from its sources to a sink, with progress and a clean stop."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from piestream.language.model import Query
from piestream.language.options import SparkStreamOptions
from piestream.monitoring.files import check_place
from piestream.spark.job.checkpoint import check_record, job_record
from piestream.spark.job.connectors import Connector
from piestream.spark.job.sources import Source, with_hint
from piestream.spark.job_status import how_it_ended, publish, with_last_match
from piestream.spark.streaming import run_streaming

__all__ = ["Job", "progress_line", "run_job"]

#: How long a stop waits for the micro-batch that is running.
_STOP_SECONDS = 60.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """What a streaming job does."""

    query: Query
    sources: Mapping[str, Source]  # by the names of the streams
    sink: Connector
    checkpoint: str
    available_now: bool = False
    every: str | None = None  # the interval of micro-batches, such as '5 seconds'
    rest: Connector | None = None  # the sink of what `flush` gives at the end of the stream
    status: str | None = None  # the file that tells how it goes
    options: SparkStreamOptions = field(default_factory=SparkStreamOptions)


def run_job(spark: Any, job: Job, log: Callable[[str], None] | None = None) -> None:
    """Run a job until its sources end, a signal stops it, or it fails.

    ``log`` gets a line for each micro-batch; by default it goes to stderr.
    """
    log = log or (lambda line: print(line, file=sys.stderr, flush=True))
    frames = _frames(spark, job)
    found = run_streaming(job.query, frames, job.options)
    check_record(spark, job.checkpoint, job_record(job.query, frames, job.options))
    if job.status is not None:
        check_place(Path(job.status))
        found = with_last_match(found)
    with with_hint(job.sink):
        running = job.sink.start(found, job.checkpoint, _trigger(job))
    stopped = threading.Event()
    with _signals(stopped, log), _status(job, running):
        _follow(running, stopped, log)
    failure = running.exception()
    if failure is not None:
        raise failure
    if job.rest is not None and not stopped.is_set():
        from piestream.spark.stream_end import flush

        job.rest.append(flush(job.query, frames, job.checkpoint))


@contextmanager
def _status(job: Job, running: Any) -> Iterator[None]:
    """While it is entered, the status of a job is written, if it is asked for."""
    if job.status is None:
        yield
        return
    published = publish(running, job.status, job.query, metrics=job.options.metrics)
    try:
        yield
    finally:
        condition, fault = how_it_ended(running)
        published.stop("closed" if condition == "running" else condition, fault)


def _frames(spark: Any, job: Job) -> Any:
    """The streaming frame of each stream by its name, or that of the only one of events."""
    frames = {name: source.frame(spark) for name, source in job.sources.items()}
    return frames if job.query.is_combined else next(iter(frames.values()))


def _trigger(job: Job) -> dict[str, Any]:
    if job.available_now:
        return {"availableNow": True}
    return {"processingTime": job.every or "0 seconds"}


def _follow(running: Any, stopped: threading.Event, log: Callable[[str], None]) -> None:
    """Log the progress of a query until it ends or is to stop."""
    logged = -1
    while running.isActive and not stopped.is_set():
        stopped.wait(_POLL_SECONDS)
        logged = _log_progress(running, logged, log)
    if running.isActive:
        limit = time.monotonic() + _STOP_SECONDS
        while running.isActive and running.status["isTriggerActive"] and time.monotonic() < limit:
            time.sleep(_POLL_SECONDS / 4)
        running.stop()
    _log_progress(running, logged, log)


def _log_progress(running: Any, logged: int, log: Callable[[str], None]) -> int:
    """Log the micro-batches after this one; gives the last."""
    for progress in running.recentProgress:
        if progress.batchId > logged:
            logged = progress.batchId
            if "piestream" in progress.observedMetrics:
                log(progress_line(progress))
    return logged


def progress_line(progress: Any) -> str:
    """A micro-batch in a line: rows, speed, watermark, state, late rows, matches."""
    metrics = progress.observedMetrics["piestream"]
    operator = progress.stateOperators[0]
    late = metrics["late"] + operator.numRowsDroppedByWatermark
    parts = [
        f"batch {progress.batchId}",
        f"{progress.numInputRows:,} rows",
        f"{progress.processedRowsPerSecond or 0:,.0f} rows/s",
        f"watermark {progress.eventTime.get('watermark', '-')}",
        f"state {operator.memoryUsedBytes / 1e6:,.1f} MB in {operator.numRowsTotal:,} buckets",
        f"{late:,} late",
        f"{metrics['matches']:,} matches",
    ]
    return " | ".join(parts)


@contextmanager
def _signals(stopped: threading.Event, log: Callable[[str], None]) -> Any:
    """A first signal lets the micro-batch end; Spark's checkpoint makes a second one safe too."""

    def stop(number: int, _: Any) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        log("stopping after this micro-batch; once more to stop at once")
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
