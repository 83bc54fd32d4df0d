"""Situations found by plain Python, row by row, from what the documentation says of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import polars as pl

__all__ = ["Run", "Ties", "averages", "before_in_row", "bridged", "by_flight", "runs", "until"]


#: What becomes of events of one time.
Ties = Literal["error", "first", "last"]


@dataclass(slots=True)
class Run:
    """Rows one after the other of which something holds; without an end if they are the last."""

    start: datetime
    end: datetime | None
    last: datetime
    events: int

    def lasts(self, least: timedelta) -> bool:
        """Whether it is known to last so long."""
        return max(self.last, self.end or self.last) - self.start >= least


def by_flight(rows: pl.DataFrame, keys: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of each flight, in the order of time."""
    for part in rows.partition_by(keys, maintain_order=True):
        yield part.sort("time", maintain_order=True)


def runs(
    times: Sequence[datetime], holds: Sequence[bool | None], most: timedelta | None = None,
    now: datetime | None = None,
) -> list[Run]:  # fmt: skip
    """The longest runs of rows of which something holds; a silence that is longer than ``most`` ends one.

    ``now`` is the last time of all rows, up to which this flight may be silent too.
    """
    found: list[Run] = []
    current: Run | None = None
    before: datetime | None = None
    for time, held in zip(times, holds, strict=True):
        if current is not None and before is not None and most is not None and time - before > most:
            current.end = before + most
            current = None
        if held and current is None:
            current = Run(time, None, time, 0)
            found.append(current)
        if held and current is not None:
            current.last = time
            current.events += 1
        elif current is not None:
            current.end = time
            current = None
        before = time
    if current and before and most and now and now - before > most:
        current.end = before + most
    return found


def bridged(times: Sequence[datetime], found: Sequence[Run], longest: timedelta) -> list[Run]:
    """Runs that lie at most so far apart as one, to which the rows between them belong."""
    joined: list[Run] = []
    for run in found:
        before = joined[-1] if joined else None
        if before is not None and before.end is not None and run.start - before.end <= longest:
            events = sum(before.start <= time <= run.last for time in times)
            joined[-1] = Run(before.start, run.end, run.last, events)
        else:
            joined.append(run)
    return joined


def until(begins: Sequence[bool | None], ends: Sequence[bool | None]) -> list[bool]:
    """Of each row whether one has begun and none has ended since."""
    is_on = False
    found = []
    for begin, end in zip(begins, ends, strict=True):
        is_on = not end and (is_on or bool(begin))
        found.append(is_on)
    return found


def averages(
    times: Sequence[datetime], values: Sequence[float], length: timedelta
) -> Iterator[float]:
    """The average of the rows of that time up to each row."""
    window: deque[tuple[datetime, float]] = deque()
    for time, value in zip(times, values, strict=True):
        window.append((time, value))
        while window[0][0] <= time - length:
            window.popleft()
        yield sum(v for _, v in window) / len(window)


def before_in_row(values: Sequence[Any]) -> list[Any]:
    """The value of the row before each."""
    return [None, *values[:-1]] if values else []
