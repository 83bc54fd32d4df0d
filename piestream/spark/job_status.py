"""The status of a streaming query, from what Spark tells of its micro-batches."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from piestream.language.model import Query
from piestream.monitoring.files import name_of
from piestream.monitoring.publisher import Publisher
from piestream.monitoring.status import Condition, Instant, Status
from piestream.spark.metrics import METRICS

__all__ = ["LAST_MATCH", "how_it_ended", "publish", "with_last_match"]

#: The name of the observed match, and of its only column.
LAST_MATCH = "piestream_last_match"
#: The sums of a micro-batch; the other metrics are what its buckets hold.
_ADDED = METRICS[:4]
#: Micro-batches come less often than the events of a session.
_RATE_SECONDS = 60.0


def publish(
    running: Any, path: str | Path, query: Query, *, metrics: str = "piestream"
) -> Publisher:
    """Write how a streaming query goes to a file, about once a second, until it ends.

    ``running`` is what ``writeStream.start()`` gave for a frame of ``query.run``, and ``metrics`` the
    name that ``run`` was given for them. ``piestream watch`` reads the file. What it gives can be told
    to ``stop("closed")`` before the query ends.
    """
    progress = _Progress(running, name_of(path), query, metrics)
    publisher = Publisher(path, progress.read, _RATE_SECONDS)
    publisher.start()
    return publisher


def with_last_match(found: Any) -> Any:
    """Result rows of which a micro-batch tells the latest, as JSON."""
    from pyspark.sql import functions

    time_column = next(n for n in ("detected_at", "completed_at") if n in found.columns)
    row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    return found.observe(
        LAST_MATCH, functions.expr(f"max_by({row}, `{time_column}`)").alias("match")
    )


def how_it_ended(running: Any) -> tuple[Condition, str | None]:
    """Whether a streaming query is running, closed or failed, and why."""
    if running.isActive:
        return "running", None
    failure = running.exception()
    if failure is None:
        return "closed", None
    return "failed", (str(failure).splitlines() or [type(failure).__name__])[0]


class _Progress:
    """Adds up what the micro-batches of a streaming query tell."""

    def __init__(self, running: Any, name: str, query: Query, metrics: str) -> None:
        self._running, self._name, self._query, self._metrics = running, name, query, metrics
        self._added: Counter[str] = Counter(dict.fromkeys((*_ADDED, "batches"), 0))
        self._held: dict[str, float] = {}
        self._watermark: Instant | None = None
        self._matches: tuple[dict[str, Any], ...] = ()
        self._noted = -1

    def read(self) -> Status:
        """The status as of the latest micro-batch."""
        condition, fault = how_it_ended(self._running)
        for progress in self._running.recentProgress:
            if progress.batchId > self._noted:
                self._noted = progress.batchId
                self._note(progress)
        now = time.time()
        return Status(
            name=self._name,
            kind="Spark job",
            condition=condition,
            query=str(self._query),
            numbers={**self._added, **self._held},
            updated=now,
            measured=now,
            process=os.getpid(),
            watermark=self._watermark,
            last_matches=self._matches,
            fault=fault,
        )

    def _note(self, progress: Any) -> None:
        observed = progress.observedMetrics
        if self._metrics not in observed:
            return
        metrics = observed[self._metrics].asDict()
        operator = progress.stateOperators[0]
        self._added.update({name: metrics[name] for name in _ADDED}, batches=1)
        self._added["late"] += operator.numRowsDroppedByWatermark
        self._held = {
            "waiting": metrics["waiting"],
            "partitions": metrics["partitions"],
            "state_bytes": operator.memoryUsedBytes,
            "batch_seconds": progress.durationMs.get("triggerExecution", 0) / 1000,
        }
        self._watermark = _moment(progress.eventTime.get("watermark")) or self._watermark
        match = observed[LAST_MATCH]["match"] if LAST_MATCH in observed else None
        if match is not None:
            self._matches = (*self._matches, json.loads(match))[-5:]


def _moment(text: str | None) -> Instant | None:
    """A watermark of Spark; None for that of integers without a unit, and before the first row."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:  # of a year that is none: integers without a unit lie there
        return None
    seconds = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    return Instant(str(moment), seconds=seconds) if seconds > 0 else None
