"""Event time: a query's ticks, Spark's timestamps, and its watermark in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as spark

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.expressions.backends import spark_text
from piestream.plan.binding import Binding
from piestream.spark.codec.rows import WireTime
from piestream.spark.codec.types import to_long_sql

__all__ = [
    "NO_EVENT_TIME",
    "NO_START",
    "WATERMARK_DELAY",
    "EventClock",
    "clamped",
    "ticks_sql",
]

#: Where Spark notes a watermark in a column's metadata.
WATERMARK_DELAY = "spark.watermarkDelayMs"

#: The errors of rows that have no time.
NO_EVENT_TIME = "the time column {name} is NULL; every event needs a time: filter these rows out"
NO_START = "{name} is NULL; every interval needs a start: filter these rows out"

#: Where tick 0 of an integer column without a unit lies on Spark's clock, in milliseconds: Spark's
#: watermark begins at 1970 and never lies before it, but ticks may well be negative.
_UNITLESS_ORIGIN = 1 << 51

#: Spark's own late filter drops what is not after its watermark, and while nothing has come the
#: watermark is 1970. Here lateness is decided by the workers, so the column that the filter
#: compares lies so many milliseconds later and passes always.
_PAST_THE_FILTER = 1 << 52

#: Times lie strictly between the ends of the 64-bit range.
MAX_TICK = INT64_MAX - 1


def ticks_sql(
    times: Sequence[tuple[str, spark.DataType]],
    nanoseconds_per_tick: int | None,
    missing: str,
    max_tick: int | None = None,
) -> str:
    """The time of a row in ticks, in Spark SQL; fails where it is NULL or too far from 0.

    It is the first of these columns that is not NULL; if all are, ``missing`` is the error, about
    the column ``{name}``.
    """
    name = times[-1][0]
    longs = [to_long_sql(spark_text.column(column), dtype) for column, dtype in times]
    ticks = longs[0] if len(longs) == 1 else f"coalesce({', '.join(longs)})"
    is_null = _error(spark_text.string(missing.replace("{name}", name)))
    if not all(isinstance(dtype, spark.IntegralType) for _, dtype in times):
        return f"coalesce({ticks}, {is_null})"
    if max_tick is None or max_tick == MAX_TICK:
        max_tick = MAX_TICK
        why = (
            ", an end of the 64-bit range, which is reserved; times must lie strictly between "
            "the ends"
        )
    else:
        why = f", which is further from 0 than Spark's clock tells times apart ({max_tick})"
        if nanoseconds_per_tick is None:
            why += f"; say what a tick is: ORDER BY {name} UNIT ns, us, ms or s"
    holds = spark_text.string(f"the time column {name} holds ")
    too_far = _error(f"concat({holds}, {ticks}, {spark_text.string(why)})")
    low, high = spark_text.literal(-max_tick - 1), spark_text.literal(max_tick)
    return (
        f"CASE WHEN {ticks} BETWEEN {low} AND {high} THEN {ticks} "
        f"WHEN {ticks} IS NULL THEN {is_null} ELSE {too_far} END"
    )


def _error(message: str) -> str:
    return f"CAST(raise_error({message}) AS BIGINT)"


@dataclass(frozen=True, slots=True)
class EventClock:
    """Converts ticks to what travels to Python as time, and Spark's watermark to ticks.

    Ticks of a microsecond or more travel as microseconds on Spark's clock, finer ones as they are.
    ``delay`` is the delay of the watermark in milliseconds: Spark's watermark and the delay
    together are the largest time that was seen before the micro-batch.
    """

    nanoseconds_per_tick: int | None  # None: an integer column without a unit
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
        """Nanoseconds in a tick; ticks without a unit count as milliseconds."""
        return 1_000_000 if self.nanoseconds_per_tick is None else self.nanoseconds_per_tick

    @property
    def _origin(self) -> int:
        return _UNITLESS_ORIGIN if self.nanoseconds_per_tick is None else 0

    @property
    def _past_the_filter(self) -> int:
        """`_PAST_THE_FILTER` in ticks."""
        return _PAST_THE_FILTER * 1_000_000 // self._scale

    @property
    def is_fine(self) -> bool:
        """Whether ticks are shorter than the microseconds of Spark's timestamps."""
        return self._scale < 1_000

    @property
    def max_tick(self) -> int:
        """The largest tick that can travel; the lowest is its negative, less one."""
        if self.is_fine:
            return MAX_TICK
        return _UNITLESS_ORIGIN - 1 if self._origin else self._past_the_filter - 1

    @property
    def wire_time(self) -> WireTime:
        """How ticks travel."""
        if self.is_fine:
            return WireTime()
        return WireTime(self._scale // 1_000, self._origin + self._past_the_filter)

    def wire_sql(self, ticks: str) -> str:
        """The wire column of these ticks: microseconds past the late filter, or fine ticks."""
        if self.is_fine:
            return ticks
        per_tick, shift = self.wire_time
        shifted = f"({ticks} + {spark_text.literal(shift)})"
        return shifted if per_tick == 1 else f"({shifted} * {spark_text.literal(per_tick)})"

    def event_time_sql(self, wire: str) -> str:
        """Microseconds for Spark's watermark, from the wire column."""
        if self.is_fine:
            return f"({wire} div {spark_text.literal(1_000 // self._scale)})"
        return f"({wire} - {spark_text.literal(self._past_the_filter * self._scale // 1_000)})"

    def filtered_sql(self, wire: str) -> str:
        """What Spark's late filter compares: the event time, past the filter."""
        if not self.is_fine:
            return wire
        return f"({self.event_time_sql(wire)} + {spark_text.literal(_PAST_THE_FILTER * 1_000)})"

    def latest_seen(self, watermark: int) -> int:
        """The largest tick that was seen before, from Spark's watermark; 0 is none yet."""
        if watermark <= 0:
            return INT64_MIN
        return (watermark + self.delay) * 1_000_000 // self._scale - self._origin

    def watermark_at(self, tick: int) -> int:
        """The first watermark of Spark at which `latest_seen` is this tick or more."""
        return -(-(tick + self._origin) * self._scale // 1_000_000) - self.delay


def clamped(tick: int) -> int:
    """The nearest tick that a time can be."""
    return max(INT64_MIN + 1, min(tick, MAX_TICK))
