"""The status of a stream in this process: of a session, or of a run over files."""

from __future__ import annotations

import math
import os
import time
from dataclasses import asdict
from datetime import date, datetime
from datetime import time as time_of_day
from typing import Any

import polars as pl

from piestream.compiled.constants import INT64_MIN
from piestream.engine.statistics import Statistics
from piestream.engine.stream import Stream
from piestream.language.model import Query
from piestream.monitoring.status import Condition, Instant, Status
from piestream.plan.columns import TimeColumn

__all__ = ["RecentRows", "stream_status"]

#: So many of the latest rows are told, and no more of a value than this.
_ROWS = 5
_LONGEST = 200
#: A result with no more rows is kept as it is until somebody asks for its last.
_SMALL = 64


class RecentRows:
    """The latest result rows of a stream, by frames that are looked into when somebody asks."""

    def __init__(self) -> None:
        #: The latest frames of rows, the very latest last.
        self.frames: tuple[pl.DataFrame, ...] = ()

    def note(self, rows: pl.DataFrame) -> None:
        """Take result rows."""
        if len(rows) > _SMALL:  # the last of them alone, without the memory of the others
            rows = pl.DataFrame(rows.tail(_ROWS).rows(), schema=rows.schema, orient="row")
        self.frames = (*self.frames[1 - _ROWS :], rows)

    def last(self) -> tuple[dict[str, Any], ...]:
        """The latest rows, the very latest last."""
        found: list[dict[str, Any]] = []
        for frame in reversed(self.frames):
            found = [*frame.tail(_ROWS - len(found)).to_dicts(), *found]
            if len(found) == _ROWS:
                break
        return tuple({name: _plain(value) for name, value in row.items()} for row in found)


def stream_status(
    query: Query,
    stream: Stream | None,
    statistics: Statistics,
    *,
    name: str,
    kind: str,
    condition: Condition = "running",
    recent: RecentRows | None = None,
) -> Status:
    """The status of a stream; None is one that has had no rows."""
    now = time.time()
    latest = watermark = None
    if stream is not None and stream.latest != INT64_MIN:
        column = stream.binding.time
        latest = instant(column, stream.latest)
        if stream.lateness is not None:
            watermark = instant(column, max(stream.latest - stream.lateness, INT64_MIN))
    return Status(
        name=name,
        kind=kind,
        condition=condition,
        query=str(query),
        numbers=asdict(statistics),
        updated=now,
        measured=now,
        process=os.getpid(),
        watermark=watermark,
        latest=latest,
        last_matches=() if recent is None else recent.last(),
    )


def instant(column: TimeColumn, ticks: int) -> Instant:
    """A time in ticks as an instant."""
    if column.dtype.is_integer():
        return Instant(str(ticks), number=ticks)
    assert column.nanoseconds_per_tick is not None
    seconds = ticks * column.nanoseconds_per_tick / 1e9
    try:
        text = str(column.as_times(pl.Series([ticks], dtype=pl.Int64))[0])
    except (OverflowError, ValueError):  # beyond the years that Python knows
        text = str(ticks)
    return Instant(text, seconds=seconds)


def _plain(value: Any) -> Any:
    """A value of a row as JSON has it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    text = value.isoformat(" ") if isinstance(value, datetime) else str(value)
    if isinstance(value, date | time_of_day) and not isinstance(value, datetime):
        text = value.isoformat()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
