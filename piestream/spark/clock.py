"""Event time: a query's ticks, Spark's timestamps and its watermark in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as spark

from piestream.compiled.constants import INT64_MAX, INT64_MIN
from piestream.plan.binding import Binding
from piestream.spark.codec.columns import as_long, quoted, text

__all__ = ["EventClock", "time_sql"]

#: Bare ticks count as milliseconds from here: Spark's watermark begins at 1970 and never lies before
#: it, but ticks may well be negative.
_BARE_TICKS_FROM = 1 << 51

#: Spark's own late filter drops what is not after its watermark, also while that stands at 1970 for
#: want of anything later. Rows are told late from on time here; the column that the filter compares
#: lies so many milliseconds later, out of its reach.
_OUT_OF_REACH = 1 << 52

#: Times lie strictly between the ends of the 64-bit range.
_WITHIN = INT64_MAX - 1


def time_sql(binding: Binding, types: dict[str, spark.DataType], within: int = _WITHIN) -> str:
    """The time of an event in ticks, in Spark SQL; fails where it is NULL or not ``within``."""
    name = binding.time.name
    ticks = as_long(quoted(name), types[name])
    missing = f"the time column {name} is NULL; every event needs a time: filter these rows out"
    if not isinstance(types[name], (spark.LongType, spark.IntegerType)):
        return f"coalesce({ticks}, {_refused(text(missing))})"
    if within == _WITHIN:
        why = (
            ", an end of the 64-bit range, which is reserved; times must lie strictly between "
            "the ends"
        )
    else:
        why = f", which is further from 0 than Spark's clock tells times apart ({within})"
        if binding.time.nanoseconds_per_tick is None:
            why += f"; say what a tick is: ORDER BY {name} UNIT ns, us, ms or s"
    beyond = f"concat({text(f'the time column {name} holds ')}, {ticks}, {text(why)})"
    return (
        f"CASE WHEN {ticks} BETWEEN -{within}L - 1L AND {within}L THEN {ticks} "
        f"WHEN {ticks} IS NULL THEN {_refused(text(missing))} ELSE {_refused(beyond)} END"
    )


def _refused(message: str) -> str:
    return f"CAST(raise_error({message}) AS BIGINT)"


@dataclass(frozen=True, slots=True)
class EventClock:
    """Turns ticks into the microseconds that cross to Python, and back.

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
    def within(self) -> int:
        """The largest tick that can cross, and about the lowest."""
        if self.fine:
            return _WITHIN
        return _BARE_TICKS_FROM - 1 if self._from else self._out_of_reach - 1

    @property
    def _out_of_reach(self) -> int:
        return _OUT_OF_REACH * 1_000_000 // self._scale

    @property
    def crossing(self) -> tuple[int, int]:
        """A tick is the column ``time``, divided by the first and less the second."""
        return (1, 0) if self.fine else (self._scale // 1_000, self._from + self._out_of_reach)

    def crossing_sql(self, ticks: str) -> str:
        """The column ``time``: microseconds out of the late filter's reach, or fine ticks."""
        if self.fine:
            return ticks
        per_tick, shift = self.crossing
        moved = f"({ticks} + {shift}L)"
        return moved if per_tick == 1 else f"({moved} * {per_tick}L)"

    def event_sql(self, crossed: str) -> str:
        """Microseconds for Spark's watermark, from the column ``time``."""
        if self.fine:
            return f"({crossed} div {1_000 // self._scale}L)"
        return f"({crossed} - {self._out_of_reach * self._scale // 1_000}L)"

    def late_sql(self, crossed: str) -> str:
        """What Spark's late filter may compare: as `event_sql`, out of its reach."""
        return f"({self.event_sql(crossed)} + {_OUT_OF_REACH * 1_000}L)" if self.fine else crossed

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
