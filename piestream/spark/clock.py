"""Event time: a query's ticks, Spark's timestamps and its watermark in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as spark

from piestream.binding import Binding
from piestream.joins.layout import INT64_MAX, INT64_MIN
from piestream.spark.columns import as_long, quoted

__all__ = ["EventClock", "time_sql"]

#: Bare ticks count as milliseconds from here: Spark's watermark begins at 1970 and knows nothing
#: before it, but ticks may well be negative.
_BARE_TICKS_FROM = 1 << 52


def time_sql(binding: Binding, types: dict[str, spark.DataType]) -> str:
    """The time of an event in ticks, in Spark SQL; fails where it is NULL."""
    name = binding.time.name
    missing = (
        f"the time column {name} is NULL; every event needs a time: filter these rows out"
    ).replace("'", "")
    ticks = as_long(quoted(name), types[name])
    return f"coalesce({ticks}, CAST(raise_error('{missing}') AS BIGINT))"


@dataclass(frozen=True, slots=True)
class EventClock:
    """Turns ticks into the microseconds that Spark's late filter compares, and back.

    ``delay`` is the delay of the watermark in milliseconds: Spark's watermark and the delay
    together are the largest time that was seen before the micro-batch.
    """

    nanoseconds_per_tick: int | None  # None: bare ticks
    lateness: int  # in ticks
    delay: int = 0

    @classmethod
    def of(cls, binding: Binding, lateness: int, delay: int | None) -> EventClock:
        """The clock of a bound query; ``delay`` is that of a frame with a watermark of its own."""
        clock = cls(binding.time.nanoseconds_per_tick, lateness)
        if delay is None:
            # Spark drops what is not later than its watermark; here only what is older is late.
            delay = -(-lateness * clock._scale // 1_000_000) + 1
        return cls(clock.nanoseconds_per_tick, lateness, delay)

    @property
    def _scale(self) -> int:
        return 1_000_000 if self.nanoseconds_per_tick is None else self.nanoseconds_per_tick

    @property
    def _from(self) -> int:
        return _BARE_TICKS_FROM if self.nanoseconds_per_tick is None else 0

    @property
    def fine(self) -> bool:
        """Whether ticks are shorter than the microseconds of Spark's timestamps."""
        return self._scale < 1_000

    @property
    def crossing(self) -> tuple[int, int]:
        """A tick is the column ``time``, divided by the first and less the second."""
        return (1, 0) if self.fine else (self._scale // 1_000, self._from)

    def crossing_sql(self, ticks: str) -> str:
        """The column ``time``: microseconds, unless ticks are shorter than those."""
        per_tick, shift = self.crossing
        moved = f"({ticks} + {shift}L)" if shift else ticks
        return moved if per_tick == 1 else f"({moved} * {per_tick}L)"

    def micros_sql(self, crossed: str) -> str:
        """Microseconds from the column ``time``."""
        return f"({crossed} div {1_000 // self._scale}L)" if self.fine else crossed

    def seen(self, watermark: int) -> int:
        """The largest tick that was seen before, from Spark's watermark; 0 is none yet."""
        if watermark <= 0:
            return INT64_MIN
        return (watermark + self.delay) * 1_000_000 // self._scale - self._from

    def due(self, tick: int) -> int:
        """The first watermark of Spark at which `seen` is this tick or more."""
        return -(-(tick + self._from) * self._scale // 1_000_000) - self.delay


def bounded(tick: int) -> int:
    """A tick as a 64-bit number."""
    return max(INT64_MIN + 1, min(tick, INT64_MAX - 1))
